"""Index codings: what the number of a state or an action means, and back."""

from dataclasses import dataclass
from typing import final

import numpy as np

from countermax._core.errors import InputError
from countermax.mdp._arrays import Ints, Values, as_indices
from studies.processes.sepsis._constants import (
    ANTIBIOTIC,
    BLOOD_PRESSURE,
    GLUCOSE,
    HEART_RATE,
    LEVELS,
    OXYGEN,
    VASOPRESSOR,
    VENTILATION,
)

DIABETIC = "diabetic"


@final
@dataclass(frozen=True)
class Coding:
    """A mixed-radix number: the first variable is the most significant."""

    variables: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many indices there are."""
        return int(np.prod(self.sizes))

    def index(self, values: Values) -> Ints:
        """The index of each row of values, one value for each variable along the last axis."""
        array = np.asarray(values)
        if array.shape[-1:] != (len(self.sizes),):
            raise InputError(f"`values` must end in one of each: {', '.join(self.variables)}; got shape {array.shape}")
        columns = [
            as_indices(name, array[..., place], size)
            for place, (name, size) in enumerate(zip(self.variables, self.sizes, strict=True))
        ]
        return np.asarray(np.ravel_multi_index(columns, self.sizes), np.int64)

    def values(self, index: Values) -> Ints:
        """What each index means, one value for each variable along a new last axis."""
        return np.stack(np.unravel_index(as_indices("index", index, self.count), self.sizes), axis=-1).astype(np.int64)

    def all_values(self) -> Ints:
        """What every index means, one row for each."""
        return self.values(np.arange(self.count))

    def column(self, variable: str) -> Ints:
        """The value of one variable in every index."""
        return self.all_values()[:, self.variables.index(variable)]


VITALS = tuple(LEVELS)
FLAGS = (ANTIBIOTIC, VASOPRESSOR, VENTILATION)
"""The treatments in force, in the order of the state; actions have another order."""

_VITAL_SIZES = tuple(len(levels) for levels in LEVELS.values())

OBSERVED = Coding((*VITALS, *FLAGS), (*_VITAL_SIZES, 2, 2, 2))
"""What a clinician sees: 720 states."""
FULL = Coding((DIABETIC, *OBSERVED.variables), (2, *OBSERVED.sizes))
"""With diabetes, which stays hidden: 1440 states."""
PROJECTED = Coding((HEART_RATE, BLOOD_PRESSURE, OXYGEN, *FLAGS), (3, 3, 2, 2, 2, 2))
"""Without glucose and diabetes: 144 states."""
ACTIONS = Coding((ANTIBIOTIC, VENTILATION, VASOPRESSOR), (2, 2, 2))
"""What is given in a step: 8 actions. Note the order, which is not that of the state."""


def projected(observed: Values) -> Ints:
    """The projected index of each observed one: glucose is dropped."""
    kept = [place for place, name in enumerate(OBSERVED.variables) if name != GLUCOSE]
    return PROJECTED.index(OBSERVED.values(observed)[..., kept])
