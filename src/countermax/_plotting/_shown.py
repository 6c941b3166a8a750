"""What pictures of episodes show; without matplotlib, so that results can hold it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

FEW_VISITS = 5
"""What rests on fewer visits than this is marked."""


class Effects(NamedTuple):
    """Effects of changes, one line for each name; arrays have a number for each."""

    names: Sequence[str]
    by_coupling: Mapping[str, Floats]
    bounds: tuple[Floats, Floats]
    """Over all couplings: lower, upper."""
    limits: tuple[Floats, Floats, float] | None = None
    """Those of the bounds over models drawn from the posterior, with their level."""
    below: Sequence[str] | None = None
    """Words below each name."""
    visits: Sequence[int | None] = ()
    """How many visits are behind each."""


class Features(NamedTuple):
    """What is followed over time."""

    names: tuple[str, ...]
    observed: Floats
    """As logged, [time, feature], up to the end of the episode or of what was asked for."""
    counterfactual: Mapping[str, Floats]
    """By coupling: probabilities, or means, under the other policy, [time, feature]."""
    bounds: tuple[Floats, Floats]
    """The same over all couplings: lower, upper."""
    step_name: str = "step"
    """What a step is called, for instance a day."""
    clock: tuple[float, float] = (0.0, 1.0)
    """When the first step is, and how long each takes, in that unit."""


class Care(NamedTuple):
    """What actions are made of, and how much of it there was; arrays are [step, treatment]."""

    names: tuple[str, ...]
    graded: tuple[bool, ...]
    """Which of these come in levels."""
    given: Floats
    """How much of each was given at each step: its level, or 1."""
    wanted: Floats
    """How likely the other policy is to give any of each, by the first coupling."""
    wanted_levels: Floats
    """How much of each it gives on average while the episode lasts."""
