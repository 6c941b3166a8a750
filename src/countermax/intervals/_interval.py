"""Confidence intervals, and the errors of means."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.quantities import shown


class Interval(NamedTuple):
    """What other data of the same kind would give, with the stated confidence: sampling, not the choice of coupling.

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
        """What of it lies in another one; the nearest end of that one, where nothing does.

        Args:
            whole: Interval of something of which this is a part: what holds for all couplings holds for some of them.
        """
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


def check_level(level: int | float, most: float = 1.0) -> None:
    """Refuses a confidence that is none, or more than a method can give."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise InputError(f"`level` must lie between 0 and 1, got {shown(level)}")
    if level > most:
        raise InputError(f"`level` (on the command line: --level) must be at most {most:g} here, got {shown(level)}")


def standard_error(sample: NDArray[np.floating]) -> float | None:
    """The standard error of the mean of independent numbers; None for fewer than two."""
    return None if len(sample) < 2 else float(sample.std(ddof=1) / np.sqrt(len(sample)))


def ratio_error(sample: NDArray[np.floating], reference: NDArray[np.floating]) -> float | None:
    """The standard error of `mean(sample) / mean(reference)` for paired numbers; None for fewer than two pairs.

    By the delta method: where a pair's two numbers rise and fall together the ratio is known far better than either.
    """
    whole = reference.mean()
    return standard_error((sample - sample.mean() / whole * reference) / whole)
