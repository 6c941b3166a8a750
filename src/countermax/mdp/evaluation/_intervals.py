"""Intervals from resampled episodes, long enough for the few episodes that an estimate may rest on."""

from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.special import ndtri, stdtrit

from countermax.intervals import Interval
from countermax.mdp._arrays import Ints


def resamples_of(key: PRNGKeyArray, count: int, num_resamples: int) -> Iterator[Ints]:
    """Positions of the episodes of each resample, drawn with replacement.

    Args:
        key: Random key; consumed once.
        count: Number of episodes.
        num_resamples: Number of resamples.
    """
    seed = np.asarray(jax.random.bits(key, (4,)))
    for resample in range(num_resamples):
        yield np.random.default_rng([*seed, resample]).integers(0, count, count)


def resampled_interval(
    value: float | None, resampled: Sequence[float | None], level: float, size: float
) -> tuple[Interval | None, str | None]:
    """The interval, or None and, where there are resamples, why.

    On either side it reaches to the percentile of the resamples (by rank among one more than there are, so that a
    hundred suffice) or as far as their spread says, whichever is longer: percentiles miss the long tail that a small
    sample has not shown yet. Both are lengthened as Student's distribution is beside the normal one, for as many
    episodes as the estimate rests on.

    Args:
        value: The estimate.
        resampled: The same in each resample; None where it has no value.
        level: The confidence.
        size: Number of episodes of equal weight that the estimate rests on.
    """
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
