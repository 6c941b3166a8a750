"""Resampled counts in one pass over the rows of a table, in bounded memory: what bootstrap intervals are made of."""

from math import exp, factorial

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.seeds import as_seed

BLOCK_ROWS = 4096  # rows that share a random stream, so that results do not depend on how rows are cut into chunks

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_LEVELS = 2**16
# Products of this size stay on one thread. Larger ones are divided among all cores, whose threads then wait for each
# other: on a busy machine that is thirty times slower.
_PRODUCT = 2**18
_MOST_NUMBERS = 2**27  # in all resamples together


def _poisson() -> NDArray[np.float32]:
    """Poisson(1) weights by a 16-bit random number: ten times as fast as drawing them."""
    edges = np.cumsum([exp(-1) / factorial(weight) for weight in range(9)])
    return np.searchsorted(edges, (np.arange(_LEVELS) + 0.5) / _LEVELS).astype(np.float32)


class Bootstrap:
    """Counts of how many rows of each outcome would have had which, had the rows been drawn again.

    In each resample a row counts Poisson(1) times, independently of all others, and counts are rescaled to the number
    of rows: for more than a handful of rows that is drawing rows with replacement, but it needs one pass.
    """

    def __init__(self, num_outcomes: int, num_resamples: int, seed: int):
        """Begins without rows.

        Args:
            num_outcomes: Number of outcomes.
            num_resamples: Number of times that rows are drawn again; 0 for never.
            seed: Seed of the resampling.
        """
        seed = as_seed("seed", seed)
        if num_resamples < 0 or num_resamples == 1:
            raise InputError(
                f"`num_resamples` (on the command line: --resamples) must be at least 2, or 0 for no intervals, "
                f"got {num_resamples}"
            )
        most = _MOST_NUMBERS // num_outcomes**2
        if num_resamples > most:
            raise InputError(
                f"`num_resamples` must be at most {most} for {num_outcomes} outcomes, got {num_resamples}: the "
                "resamples would not fit into memory"
            )
        self._counts = np.zeros((num_resamples, num_outcomes, num_outcomes))
        self._weights = _poisson()
        self._seed, self._block, self._rows = seed, 0, 0

    def add(self, x: Codes, probs: Floats, used: NDArray[np.bool_]) -> None:
        """Rows, in order; every call but the last must bring whole blocks.

        Args:
            x: The outcomes seen.
            probs: Counterfactual probabilities, [outcomes, rows].
            used: [rows]: whether the row counts at all.
        """
        num_resamples, num_outcomes, _ = self._counts.shape
        for start in range(0, len(x) if num_resamples else 0, BLOCK_ROWS):
            block = start + np.flatnonzero(used[start : start + BLOCK_ROWS])
            block = block[np.argsort(x[block], kind="stable")]
            ends = np.searchsorted(x[block], np.arange(num_outcomes + 1))
            stream = np.random.Generator(np.random.SFC64([self._seed, self._block]))
            self._block += 1
            bits = stream.integers(0, _LEVELS, (num_resamples, len(block)), dtype=np.uint16)
            weights = self._weights[bits]
            for outcome, (first, last) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
                rows = probs[:, block[first:last]].T.astype(np.float32)
                step = max(1, _PRODUCT // max(1, rows.size))
                for some in range(0, num_resamples if len(rows) else 0, step):
                    self._counts[some : some + step, outcome] += weights[some : some + step, first:last] @ rows
            self._rows += len(block)

    def resamples(self, counts: Floats) -> Floats:
        """All resampled counts, [resamples, seen, instead]; where no row was drawn, the original `counts`."""
        total = self._counts.sum(axis=(1, 2), keepdims=True)  # a row's probabilities add up to its weight
        return np.where(total > 0, self._counts * (self._rows / np.where(total > 0, total, 1)), counts)
