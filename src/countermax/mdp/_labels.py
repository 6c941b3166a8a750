"""Names of states and actions: labels, which are compared by value.

A number equals a number (2 is 2.0), a text the very same text; a text never equals a number, so a column of numbers
beside names in words is refused instead of being taken for positions.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import (
    NUMBER,
    TEXT,
    UNKNOWN,
    Labels,
    are_numbers,
    identity,
    is_missing,
    listed,
    reader,
    sorted_labels,
    whole,
)
from countermax._core.quantities import shown
from countermax._tables.frames import as_frame
from countermax.mdp._arrays import Ints, plainly

if TYPE_CHECKING:
    import pandas as pd

Names = tuple[Hashable, ...]


class Space(NamedTuple):
    """The states, or the actions: how many there are, as far as that is known, and their names."""

    size: int | None
    names: Names | None


class Coded(NamedTuple):
    """A column of labels by number; -1 where one is missing."""

    codes: Ints
    distinct: tuple[Hashable, ...]

    def places(self, names: Names) -> Ints:
        """The place of each value among the names; `UNKNOWN` where it is none of them, or missing."""
        found = Labels(names).places(self.distinct)
        return np.append(np.where(found < 0, UNKNOWN, found), UNKNOWN)[self.codes]


def coded(values: "pd.Series") -> Coded:
    """The distinct labels of a column in the order of their first row, and which of them each row has."""
    try:
        codes, distinct = as_frame(values.to_frame()).factorised(values)
    except InputError:
        row = next(row for row, value in enumerate(values) if not isinstance(value, Hashable))
        raise InputError(
            f"row {values.index[row]}: `{values.name}` must hold numbers or text, got {shown(values.iloc[row])}"
        ) from None
    return Coded(codes, tuple(distinct))


def as_names(argument: str, names: Iterable[Hashable] | None, size: int | None) -> Names | None:
    """Names that are one for each, all different and none missing."""
    if names is None:
        return None
    try:
        found = tuple(whole(each.item() if isinstance(each, np.generic) else each) for each in names)
        plain = set(map(type, found)) == {str}  # soon checked, as every resample of a log is
        distinct = len(set(found if plain else map(identity, found)))
    except TypeError as error:
        raise InputError(f"`{argument}` must be a list of names, got {shown(names)}") from error
    wanted = len(found) if size is None else size
    if len(found) != wanted or distinct != wanted or not found:
        raise InputError(
            f"`{argument}` must hold {wanted or 'at least one'} different names, got {distinct} in {len(found)}"
        )
    if not plain and any(map(is_missing, found)):
        raise InputError(f"`{argument}` must not be missing, got {listed(found)}")
    return found


def shared_names(columns: Sequence[tuple[str, "pd.Series"]]) -> Names:
    """Every label in any of the columns: numbers and what looks like one by size, then the rest by the alphabet."""
    found: dict[Hashable, Hashable] = {}
    kinds: dict[str, str] = {}
    for called, column in columns:
        try:
            read = coded(column)
        except InputError as error:
            raise InputError(f"{called}: {error}") from error
        for value in read.distinct:
            found.setdefault(identity(value), whole(value))
            kinds.setdefault(identity(value)[0], f"{listed([value])} in {called}")
    if len(kinds) > 1:
        raise InputError(
            f"names must be of one kind, got {' beside '.join(list(kinds.values())[:2])}, and a text never equals a "
            "number; write both alike"
        )
    return tuple(sorted_labels(found.values()))


def places_of(argument: str, what: str, wanted: Iterable[Hashable], names: Names) -> Ints:
    """The place of each among the names; what came as text may name a number."""
    given = list(wanted)
    found = Labels(names).places(list(map(reader(names), given)))
    if (found < 0).any():
        raise InputError(
            f"`{argument}` must name {what} ({listed(names)}), got {shown(given[int((found < 0).argmax())])}"
        )
    return found


def spoken(kind: str, index: int, names: Sequence[Hashable] | None) -> str:
    """A state or an action for readers: its name, or its index where there is none."""
    name = index if names is None else names[index]
    return f"{kind} {name}" if are_numbers([name]) else str(name)


def named(kind: str, index: int, names: Sequence[Hashable] | None) -> str:
    """A state or an action for messages: its name, and its index unless the name is a number as well."""
    name = index if names is None else names[index]
    return f"{kind} {name}" if are_numbers([name]) else f"{kind} {index} ({plainly(name)})"


def hint_about(column: str, names: Names, value: object) -> str:
    """What to do about a value that is not among the names."""
    if identity(value)[0] == NUMBER and {identity(each)[0] for each in names} == {TEXT}:
        kind = "action" if column == "action" else "state"
        return f"; a number is no name, and no position beside names: leave out `{kind}_names` if these are positions"
    return Labels(names).resemblance(value)
