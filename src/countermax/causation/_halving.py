"""Intervals of what couplings say within strata, from halves of the people and people who were drawn again.

Where worlds are equal an answer has a kink: with no effect, the share of those who fare better is 0, and every estimate
of it is larger. Over many strata that luck adds up, while errors average out, so that truths near the estimates do not
come back to the truth. But half of the people are luckier than all of them, and by how much tells the rest: luck at a
kink falls with the root of the number of people, any other with the number itself. And where the data of a stratum do
not exclude that the treatment does nothing there, the interval reaches the answer for that.
"""

from collections.abc import Mapping

import numpy as np

from countermax.causation._crossing import Crossing
from countermax.causation._evidence import Arms, Evidence
from countermax.causation._questions import Floats
from countermax.intervals import Interval

_LUCK_AT_KINKS = 1 / (np.sqrt(2) - 1)  # luck of all people, in what half of them have more
_DOUBT, _MOST_DOUBT = 1 / 2, 1 / 3  # error of luck: this part of itself, at most this part of the reach
_FEWEST_KNOWN = 0.5  # share of the draws in which somebody must be asked about


def halved_intervals(
    found: Mapping[str, float],
    halves: Mapping[str, Floats],
    again: Mapping[str, Floats],
    without: Mapping[str, float],
    ends: tuple[float, float],
    level: float,
    freedom: float,
) -> dict[str, Interval]:
    """The interval of each answer, whether its luck is that at a kink or there is none.

    It holds as many standard errors as a normal number would need, the percentiles of the draws, and their reflection.

    Args:
        found: Answers of all people, by coupling; NaN where nobody is asked about.
        halves: Answers of halves of them.
        again: Answers of people who were drawn again.
        without: Answers of all people, if the treatment did nothing wherever that is possible.
        ends: The least and the largest answer there is.
        level: Confidence.
        freedom: Number of independent units, less those that are used up.
    """
    from scipy.special import ndtri, stdtrit

    result = {}
    for name, value in found.items():
        half, drawn = (each[name][~np.isnan(each[name])] for each in (halves, again))
        if value != value or len(half) < 2 or len(drawn) < _FEWEST_KNOWN * len(again[name]):
            result[name] = Interval(*ends, level)
            continue
        few = float(stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2))
        deviation = drawn - drawn.mean()
        below, above = np.quantile(deviation, [(1 - level) / 2, (1 + level) / 2])
        reach = few * float(max(-below, above, ndtri((1 + level) / 2) * deviation.std(ddof=1)))
        luck = _LUCK_AT_KINKS * float(half.mean() - value)
        lucks = [0.0, luck + float(np.sign(luck)) * min(_DOUBT * abs(luck), _MOST_DOUBT * reach)]
        lucks += [value - without[name]] if without[name] == without[name] else []
        lower, upper = np.clip([value - max(lucks) - reach, value - min(lucks) + reach], *ends).tolist()
        result[name] = Interval(lower, upper, level)
    return result


def without_effects(crossing: Crossing, level: float) -> Evidence:
    """What all people say, with one law for both arms of every stratum whose data do not exclude that.

    Args:
        crossing: The estimates, of a trial alone.
        level: Confidence; each side of an interval may err where it is wrongly excluded in some stratum.
    """
    from scipy.special import ndtri

    whole, again = crossing.whole, crossing.again
    gap, drawn = whole.arms.treated - whole.arms.control, again.arms.treated - again.arms.control
    reach = -ndtri((1 - level) / 4 / gap.size)
    same = (np.abs(gap) <= reach * drawn.std(axis=0, ddof=1) + 1e-12).all(axis=-1, keepdims=True)
    share = 0.5 if whole.share is None else whole.share
    common = (1 - share) * whole.arms.control + share * whole.arms.treated
    return whole._replace(trial=Arms(*(np.where(same, common, each) for each in whole.arms)))
