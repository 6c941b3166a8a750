"""Class labels: which outcome a value means, in whatever type it is written.

The same class is a word in the name of a column, a string, boolean or integer in the data, and something of NumPy's in
a classifier. So labels are compared by what they look like when written down. One question and a whole table follow
this one rule.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError

MISSING, UNKNOWN = -1, -2  # in place of an outcome's index
_NOTHING = ("None", "nan", "<NA>", "NaT")
_MOST_NAMED = 10  # labels in an error message


def text_of(value: object) -> str:
    """A label as it would be written down: 3.0 is 3, and true is True."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Real) and float(value).is_integer():
        return str(int(float(value))) if isinstance(value, float) else str(value)
    text = str(value)
    return text.capitalize() if text.lower() in ("true", "false") else text


def listed(values: Iterable[object]) -> str:
    """Some of the values, for a message."""
    texts = [repr(value.item() if isinstance(value, np.generic) else value) for value in values]
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Labels:
    """The outcomes in their order; an outcome's index is its place here."""

    values: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("`labels` must name at least one outcome, got none")
        if any(not isinstance(value, str) and str(value) in _NOTHING for value in self.values):
            raise InputError(f"`labels` must not be missing, got {listed(self.values)}")
        texts = [text_of(value) for value in self.values]
        if len(set(texts)) != len(texts):
            twice = next(text for text in texts if texts.count(text) > 1)
            raise InputError(f"`labels` must differ from each other, got {twice!r} more than once")

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The labels as they are compared."""
        return tuple(text_of(value) for value in self.values)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The labels as they appear in the names of columns."""
        return tuple(str(value.item() if isinstance(value, np.generic) else value) for value in self.values)

    def place_of(self, argument: str, value: object) -> int:
        """The index of one value among the labels, which must be there."""
        place = int(self.places([value])[0])
        if place == UNKNOWN:
            raise InputError(f"`{argument}` must be one of the labels {listed(self.values)}, got {listed([value])}")
        return place

    def refuse(self, taken: Sequence[str], what: str) -> None:
        """Refuses labels that mean something else."""
        found = next((name for name in self.names if name in taken), None)
        if found is not None:
            raise InputError(f"`labels` must not be {', '.join(taken)}, which are {what}, got {found!r}")

    def places(self, values: Sequence[object]) -> NDArray[np.int64]:
        """The index of each value among the labels; `UNKNOWN` where it is none of them."""
        index = {text: place for place, text in enumerate(self.texts)}
        return np.fromiter((index.get(text_of(value), UNKNOWN) for value in values), np.int64, len(values))

    def order_of(self, name: str, others: Sequence[Hashable]) -> NDArray[np.int64]:
        """Where each label is among the others, which must be the same labels in any order."""
        other = Labels(tuple(others))
        missing = [value for value, text in zip(self.values, self.texts, strict=True) if text not in other.texts]
        extra = [value for value, text in zip(other.values, other.texts, strict=True) if text not in self.texts]
        if missing or extra:
            differences = [f"{listed(missing)} not in it"] * bool(missing) + [f"{listed(extra)} too many"] * bool(extra)
            raise InputError(
                f"`{name}` must have one probability for each of the labels {listed(self.values)}, got "
                f"{' and '.join(differences)}; give an outcome that cannot happen there the probability 0"
            )
        return other.places(self.values)

    def scores(self, name: str, given: Any) -> NDArray[np.float64]:
        """One number for each label: from a mapping by label, or from a sequence in the order of the labels."""
        if isinstance(given, dict) or hasattr(given, "keys"):
            values = list(given.keys())
            order = self.places(values)
            if (order == UNKNOWN).any() or len(set(order.tolist())) != len(self):
                raise InputError(f"`{name}` must have a number for each of {listed(self.values)}, got {listed(values)}")
            given = [given[values[place]] for place in np.argsort(order)]
        try:
            array = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"`{name}` must hold numbers, got {given!r}") from error
        if array.shape != (len(self),):
            raise InputError(f"`{name}` must have one number for each of {len(self)} labels, got shape {array.shape}")
        if not (np.abs(array) <= 1e100).all():
            raise InputError(f"`{name}` must hold finite numbers within 1e100, got {array.tolist()}")
        return array
