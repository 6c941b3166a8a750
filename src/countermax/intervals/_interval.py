"""Confidence intervals from resamples, the bootstrap of a table's rows, and standard errors."""

from collections.abc import Sequence
from functools import cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.quantities import as_count, as_seed, shown

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

BLOCK_ROWS = 4096  # rows that share a random stream, so that results do not depend on how rows are cut into chunks
_LEVELS = 2**16
# Products of this size stay on one thread. Larger ones are divided among all cores, whose threads then wait for each
# other: on a busy machine that is thirty times slower.
_PRODUCT = 2**18
_MOST_NUMBERS = 2**27  # in all resamples together
_CAUTION = 0.6  # of the error that is allowed goes to percentiles: refits are few, and vary less than truths do

_Piece = tuple[Codes, Floats, NDArray[np.bool_]]
"""Outcomes, probabilities, and which rows count, of rows that follow each other within a block."""


class Interval(NamedTuple):
    """A confidence interval: sampling uncertainty, not the choice of coupling.

    How far the answer depends on the coupling is another question, and `Bounds` another type.
    """

    lower: Any
    """One number, or an array with one for each answer."""
    upper: Any
    level: float
    """The confidence, between 0 and 1."""

    @property
    def width(self) -> Any:
        """How far the answer may move."""
        return self.upper - self.lower

    def within(self, whole: "Interval") -> "Interval":
        """What of it lies in another one, of something of which this is a part; its nearest end, where nothing does."""
        lower, upper = (np.clip(each, whole.lower, whole.upper) for each in (self.lower, self.upper))
        return Interval(lower, upper, self.level)


def percentile_interval(samples: NDArray[np.floating], level: float) -> Interval | None:
    """The middle `level` of resampled answers, along the first axis; None where there are none.

    Resamples in which an answer is not defined (NaN) do not count for it.
    """
    check_level(level)
    if not len(samples):
        return None
    tails = [(1 - level) / 2, (1 + level) / 2]
    known = ~np.isnan(samples).all(axis=0)
    limits = np.full((2, *samples.shape[1:]), np.nan)
    drawn = samples[:, known]
    quantile = np.nanquantile if np.isnan(drawn).any() else np.quantile  # the former goes column by column
    limits[:, known] = quantile(drawn, tails, axis=0)
    return Interval(limits[0], limits[1], level)


def student_interval(
    value: float | None, resampled: Sequence[float | None], level: float, size: float
) -> tuple[Interval | None, str | None]:
    """The interval of an estimate from its bootstrap resamples, lengthened for small samples; or None, and why.

    On either side it reaches to the percentile of the resamples (by rank among one more than there are, so that a
    hundred suffice) or as far as their spread says, whichever is longer: percentiles miss the long tail that a small
    sample has not shown yet. Both are lengthened as Student's distribution is beside the normal one, for the effective
    sample `size`. A resample is None where the estimate has no value.
    """
    from scipy.special import ndtri, stdtrit

    drawn = np.array([each for each in resampled if each is not None])
    missing = len(resampled) - len(drawn)
    if not resampled or value is None:
        return None, None
    if missing > (1 - level) / 2 * len(resampled):
        return None, f"no interval: in {missing} of {len(resampled)} resamples no episode has any weight"
    tail, freedom = (1 - level) / 2, max(size - 1, 1.0)
    longer = stdtrit(freedom, tail) / ndtri(tail) * np.sqrt(1 + 1 / freedom)
    spread = -stdtrit(len(drawn) - 1, tail) * float(drawn.std(ddof=1)) if len(drawn) > 1 else 0.0
    least, most = np.quantile(drawn, [tail, 1 - tail], method="weibull")
    lower, upper = value - longer * max(value - least, spread), value + longer * max(most - value, spread)
    return Interval(float(lower), float(upper), level), None


def reflected_limits(
    found: Floats, again: Floats, level: float, floor: Any = -np.inf, ceiling: Any = np.inf
) -> tuple[Floats, Floats]:
    """Limits of estimates from refits: percentiles, their reflection about the estimate, and normal errors.

    Refits are along the first axis; NaN counts as the least value there is (`floor`) below, the largest above.
    """
    from scipy.special import ndtri

    tail = _CAUTION * (1 - level) / 2
    spread = -ndtri((1 - level) / 2) * _spread(again)
    unknown = np.isnan(again)
    below = np.quantile(np.where(unknown, floor, again), tail, axis=0, method="lower")
    above = np.quantile(np.where(unknown, ceiling, again), 1 - tail, axis=0, method="higher")
    with np.errstate(invalid="ignore"):
        lower = np.fmin(np.fmin(below, 2 * found - above), found - spread)
        upper = np.fmax(np.fmax(above, 2 * found - below), found + spread)
    return lower, upper


def _spread(again: Floats) -> Floats:
    """The standard deviation over refits; zero where a number is known in none or one of them."""
    known = ~np.isnan(again)
    count = known.sum(axis=0)
    middle = np.where(known, again, 0).sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(known, again - middle, 0) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(squares / np.maximum(count - 1, 1)))


def check_level(level: int | float) -> None:
    """Refuses a confidence that is none."""
    if not isinstance(level, Real) or not 0 < level < 1:
        hint = f"; say {level / 100:g}" if isinstance(level, Real) and 1 < level < 100 else ""
        raise InputError(f"`level` must lie between 0 and 1, got {shown(level)}{hint}")


def standard_error(sample: NDArray[np.floating]) -> float | None:
    """The standard error of the mean of independent numbers; None for fewer than two."""
    return None if len(sample) < 2 else float(sample.std(ddof=1) / np.sqrt(len(sample)))


def ratio_error(sample: NDArray[np.floating], reference: NDArray[np.floating]) -> float | None:
    """The standard error of `mean(sample) / mean(reference)` for paired numbers; None for fewer than two pairs.

    By the delta method: where a pair's two numbers rise and fall together the ratio is known far better than either.
    """
    whole = reference.mean()
    return standard_error((sample - sample.mean() / whole * reference) / whole)


@cache
def _poisson() -> NDArray[np.float32]:
    """Poisson(1) weights by a 16-bit random number: ten times as fast as drawing them."""
    from scipy.special import pdtr

    return np.searchsorted(pdtr(np.arange(9), 1.0), (np.arange(_LEVELS) + 0.5) / _LEVELS).astype(np.float32)


class Bootstrap:
    """Counts of how many rows of each outcome would have had which, had the rows been drawn again.

    In each resample a row counts Poisson(1) times, independently of all others. For shares of those with one outcome,
    if they are more than a handful, that is drawing them with replacement, but it needs one pass. How often a row
    counts depends on its position in the table only, so that parts can be resampled anywhere and merged.
    """

    def __init__(self, num_outcomes: int, num_resamples: int, seed: int, first_row: int = 0):
        """Begins without rows."""
        seed = as_seed("seed", seed)
        num_resamples = as_count("`num_resamples`", num_resamples, least=0)
        if num_resamples == 1:
            raise InputError("`num_resamples` must be at least 2, or 0 for no intervals, got 1")
        most = _MOST_NUMBERS // num_outcomes**2
        if num_resamples > most:
            raise InputError(
                f"`num_resamples` must be at most {most} for {num_outcomes} outcomes, got {num_resamples}: the "
                "resamples would not fit into memory"
            )
        self._counts = np.zeros((num_resamples, num_outcomes, num_outcomes))
        self._seed, self._next_row = seed, first_row
        self._pieces: dict[int, dict[int, _Piece]] = {}  # of blocks that are not whole yet, by block and place in it

    def add(self, x: Codes, probs: Floats, used: NDArray[np.bool_]) -> None:
        """The next rows: outcomes seen, counterfactual probabilities [outcomes, rows], and whether a row counts."""
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
        for block, pieces in other._pieces.items():
            for place, piece in pieces.items():
                self._add_piece(block, place, piece)

    def resamples(self) -> Floats:
        """All resampled counts, [resamples, seen, instead]; how many were seen differs too."""
        for block in sorted(self._pieces):  # the last one
            self._draw(block)
        return self._counts

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
