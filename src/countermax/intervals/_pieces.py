"""Ends of intervals of limits that are the least of many linear pieces, for all pieces at once.

Where pieces are equally small, the least estimate is the luckiest one, and truths that are proposed near the estimates
share that luck: tests of them miss the upper limit of P(better) in 6 % of samples where two pieces meet, and in a third
where eight do. The errors of the pieces themselves are those of plain means.
"""

import numpy as np

from countermax.intervals._interval import Interval
from countermax.intervals._sampling import AbstractSampling, Floats


def reaching(
    interval: Interval,
    sampling: AbstractSampling,
    lower: tuple[Floats, Floats],
    upper: tuple[Floats, Floats],
    *,
    fewest: int = 2,
) -> Interval:
    """The interval of a range, as far as the errors of all pieces of its limits reach.

    Args:
        interval: Interval from tests of proposed truths.
        sampling: Sampling behind the two worlds.
        lower: Pieces `here` and `there`, [pieces, outcomes]: the least `here @ p + there @ q` is minus the lower limit.
        upper: Pieces whose least is the upper limit.
        fewest: Number of pieces that must vary; a limit with fewer is left as it is.
    """
    least, largest = (_end_of_least(sampling, *each, interval.level, fewest) for each in (lower, upper))
    return Interval(min(float(interval.lower), -least), max(float(interval.upper), largest), interval.level)


def _end_of_least(sampling: AbstractSampling, here: Floats, there: Floats, level: float, fewest: int) -> float:
    """The largest value of the least piece that data do not exclude; -inf with few pieces.

    All pieces lie below their ends with confidence `(1 + level) / 2` (Bonferroni), so the least of them does. Those
    that are clearly not the least are left out first.
    """
    from scipy.special import chdtri

    varies = (np.ptp(here, axis=1) > 0) | (np.ptp(there, axis=1) > 0)
    if varies.sum() < fewest:
        return -np.inf
    values = here @ sampling.p + there @ sampling.q
    errors = np.where(varies, sampling.errors_of(here, there), 0.0)
    reach = np.sqrt(chdtri(1, (1 - level) / varies.sum()))
    near = values - reach * errors <= (values + reach * errors).min()
    reach = np.sqrt(chdtri(1, (1 - level) / max(1, (near & varies).sum())))
    return float((values + reach * errors)[near].min())
