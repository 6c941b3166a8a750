"""Intervals of who is better off, over any coupling: many thresholds of the score can be equally good at once."""

import numpy as np
from numpy.typing import NDArray

from countermax.bounds import largest_worth
from countermax.intervals import Interval
from countermax.intervals._inversion import reaching
from countermax.intervals._sampling import AbstractSampling

Floats = NDArray[np.float64]


def better_reaching(
    interval: Interval, sampling: AbstractSampling, here: Floats, there: Floats, some_unknown: bool
) -> Interval:
    """The interval of who is better off, as far as the errors of all thresholds reach.

    Args:
        interval: Interval from tests of proposed truths.
        sampling: Sampling behind the two worlds.
        here: Score of each outcome in the factual world.
        there: Score of each outcome in the other world.
        some_unknown: Whether the last entry of both worlds is for people whose outcome is not known.
    """
    pieces = []
    for sign, (first, second) in ((-1, (np.max, np.min)), (1, (np.min, np.max))):
        rows, columns = here, there
        if some_unknown:  # the last entry of both worlds may be anything, so the worst
            rows, columns = np.append(here, first(here)), np.append(there, second(there))
        pieces.append(largest_worth(sign * (columns[None, :] > rows[:, None]).astype(np.float64)))
    return reaching(interval, sampling, pieces[0], pieces[1])
