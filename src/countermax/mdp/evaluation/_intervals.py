"""Intervals from resampled episodes."""

from collections.abc import Sequence

import numpy as np

from countermax.intervals import Interval


def resampled_interval(
    value: float | None, resampled: Sequence[float | None], level: float
) -> tuple[Interval | None, str | None]:
    """The interval, or None and, where there are resamples, why.

    Args:
        value: The estimate.
        resampled: The same in each resample; None where it has no value.
        level: The confidence.
    """
    drawn = np.array([each for each in resampled if each is not None])
    missing = len(resampled) - len(drawn)
    if not resampled or value is None:
        return None, None
    if missing > (1 - level) / 2 * len(resampled):
        return None, f"no interval: in {missing} of {len(resampled)} resamples no episode has any weight"
    lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    return Interval(float(lower), float(upper), level), None
