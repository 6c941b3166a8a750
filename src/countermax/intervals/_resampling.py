"""Resampled counts in one pass over the rows of a table, in bounded memory: what bootstrap intervals are made of."""

from functools import cache
from math import exp, factorial

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.quantities import as_count
from countermax._core.seeds import as_seed

BLOCK_ROWS = 4096  # rows that share a random stream, so that results do not depend on how rows are cut into chunks

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_LEVELS = 2**16
# Products of this size stay on one thread. Larger ones are divided among all cores, whose threads then wait for each
# other: on a busy machine that is thirty times slower.
_PRODUCT = 2**18
_MOST_NUMBERS = 2**27  # in all resamples together

_Piece = tuple[Codes, Floats, NDArray[np.bool_]]
"""Outcomes, probabilities, and which rows count, of rows that follow each other within a block."""


@cache
def _poisson() -> NDArray[np.float32]:
    """Poisson(1) weights by a 16-bit random number: ten times as fast as drawing them."""
    edges = np.cumsum([exp(-1) / factorial(weight) for weight in range(9)])
    return np.searchsorted(edges, (np.arange(_LEVELS) + 0.5) / _LEVELS).astype(np.float32)


class Bootstrap:
    """Counts of how many rows of each outcome would have had which, had the rows been drawn again.

    In each resample a row counts Poisson(1) times, independently of all others, and counts are rescaled to the number
    of rows: for more than a handful of rows that is drawing rows with replacement, but it needs one pass. How often a
    row counts depends on its position in the table only, so that parts of a table can be resampled anywhere and merged.
    """

    def __init__(self, num_outcomes: int, num_resamples: int, seed: int, first_row: int = 0):
        """Begins without rows.

        Args:
            num_outcomes: Number of outcomes.
            num_resamples: Number of times that rows are drawn again; 0 for never.
            seed: Seed of the resampling.
            first_row: Position in the table of the first row that will be added.
        """
        seed = as_seed("seed", seed)
        num_resamples = as_count("`num_resamples` (on the command line: --resamples)", num_resamples, least=0)
        if num_resamples == 1:
            raise InputError(
                "`num_resamples` (on the command line: --resamples) must be at least 2, or 0 for no intervals, got 1"
            )
        most = _MOST_NUMBERS // num_outcomes**2
        if num_resamples > most:
            raise InputError(
                f"`num_resamples` must be at most {most} for {num_outcomes} outcomes, got {num_resamples}: the "
                "resamples would not fit into memory"
            )
        self._counts = np.zeros((num_resamples, num_outcomes, num_outcomes))
        self._seed, self._next_row, self._rows = seed, first_row, 0
        self._pieces: dict[int, dict[int, _Piece]] = {}  # of blocks that are not whole yet, by block and place in it

    def add(self, x: Codes, probs: Floats, used: NDArray[np.bool_]) -> None:
        """The next rows.

        Args:
            x: The outcomes seen.
            probs: Counterfactual probabilities, [outcomes, rows].
            used: [rows]: whether the row counts at all.
        """
        if not len(self._counts):
            return
        start, stop = 0, len(x)
        while start < stop:
            block, place = divmod(self._next_row, BLOCK_ROWS)
            end = min(stop, start + BLOCK_ROWS - place)
            self._add_piece(block, place, (x[start:end], probs[:, start:end], used[start:end]))
            self._next_row += end - start
            start = end

    def merge(self, other: "Bootstrap") -> None:
        """What was counted of other rows of the same table."""
        self._counts += other._counts
        self._rows += other._rows
        for block, pieces in other._pieces.items():
            for place, piece in pieces.items():
                self._add_piece(block, place, piece)

    def resamples(self, counts: Floats) -> Floats:
        """All resampled counts, [resamples, seen, instead]; where no row was drawn, the original `counts`."""
        for block in sorted(self._pieces):  # the last one
            self._draw(block)
        total = self._counts.sum(axis=(1, 2), keepdims=True)  # a row's probabilities add up to its weight
        return np.where(total > 0, self._counts * (self._rows / np.where(total > 0, total, 1)), counts)

    def _add_piece(self, block: int, place: int, piece: _Piece) -> None:
        whole = len(piece[0]) == BLOCK_ROWS
        pieces = self._pieces.setdefault(block, {})
        pieces[place] = piece if whole else (piece[0].copy(), piece[1].copy(), piece[2].copy())
        if sum(len(x) for x, _, _ in pieces.values()) == BLOCK_ROWS:
            self._draw(block)

    def _draw(self, number: int) -> None:
        """Draws the rows of a block again, all of which are there."""
        pieces = self._pieces.pop(number)
        in_order = [pieces[place] for place in sorted(pieces)]
        x, probs, used = (np.concatenate(each, axis=-1) for each in zip(*in_order, strict=True))
        num_resamples, num_outcomes, _ = self._counts.shape
        block = np.flatnonzero(used)
        block = block[np.argsort(x[block], kind="stable")]
        ends = np.searchsorted(x[block], np.arange(num_outcomes + 1))
        stream = np.random.Generator(np.random.SFC64([self._seed, number]))
        bits = stream.integers(0, _LEVELS, (num_resamples, len(block)), dtype=np.uint16)
        weights = _poisson()[bits]
        for outcome, (first, last) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
            rows = probs[:, block[first:last]].T.astype(np.float32)
            step = max(1, _PRODUCT // max(1, rows.size))
            for some in range(0, num_resamples if len(rows) else 0, step):
                self._counts[some : some + step, outcome] += weights[some : some + step, first:last] @ rows
        self._rows += len(block)
