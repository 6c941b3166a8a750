"""What every library's frames can do, so that nothing else has to know which library it is."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import Labels, listed

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Block = tuple[Sequence[str], Floats]
"""Names, and one row of numbers for each of them."""


Where = Callable[[int], str]
"""What a message says of a row's place behind its position: a file, a row group."""


class AbstractFrame(ABC):
    """A frame, or some of its rows."""

    def __init__(self, native: Any, first_row: int = 0, where: Where | None = None):
        """Wraps a frame.

        Args:
            native: The frame of the library.
            first_row: Position of its first row in the table that it is a part of; messages count from there.
            where: Function that says which table that is, for a position in it; None where there is only one.
        """
        self.native = native
        self.first_row = first_row
        self.where = where
        self._count = Counter(self.columns)

    @property
    @abstractmethod
    def columns(self) -> list[Hashable]:
        """The names of the columns."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> "AbstractFrame":
        """Some of the rows."""

    @abstractmethod
    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        """A column as indices into its distinct values; a missing one has the index -1."""

    @abstractmethod
    def kind_of(self, values: Any) -> str | None:
        """What a column's type says of its values (`countermax._core.labels.TEXT`, ...); None where it says nothing."""

    @abstractmethod
    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The categories that a column's type lists, in their order, and whether it says that this is an order."""

    @abstractmethod
    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        """A column of labels, in the type of the column `like`; missing where the code is negative."""

    @abstractmethod
    def for_classifiers(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> "AbstractFrame":
        """These rows in a library whose frames classifiers read, with the columns `names` at least.

        Args:
            names: Columns that the classifier reads.
            change: New values of some of them, by name.
        """

    @abstractmethod
    def features(self, names: Sequence[Hashable] | None, change: Mapping[str, Any]) -> Any:
        """Some of the columns as a frame of this library, with others in place of those in `change`."""

    @abstractmethod
    def made(self, pieces: Sequence[Block | tuple[str, Any]], *, extend: bool) -> Any:
        """A frame of this library from blocks of numbers and single columns, behind this frame's own or alone."""

    @staticmethod
    @abstractmethod
    def from_columns(columns: Mapping[str, Sequence[Any]]) -> Any:
        """A new frame of this library."""

    @staticmethod
    @abstractmethod
    def noted(native: Any, notes: Mapping[str, Any]) -> Any:
        """A frame of this library with notes about all of it, where the library has a place for them."""

    @abstractmethod
    def texts(self, values: Sequence[str | None]) -> Any:
        """A column of text."""

    @abstractmethod
    def flags(self, values: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Any:
        """A column of booleans, some of them missing."""

    @abstractmethod
    def _numbers(self, name: Hashable) -> Floats | None:
        """A column as numbers, NaN where one is missing; None if it does not hold numbers."""

    @abstractmethod
    def _column(self, name: Hashable) -> Any: ...

    @abstractmethod
    def _own(self, argument: str, values: Any) -> Any: ...

    @abstractmethod
    def _index_of(self, row: int) -> str | None:
        """What the frame itself calls a row; None where it only counts them."""

    def column(self, argument: str, name: Hashable) -> Any:
        """A column by its name, which must be there."""
        if self._count[name]:
            return self._column(name)
        raise InputError(f"`{argument}` must name a column, got {name!r}; the columns are {listed(self.columns)}")

    def check_names(self) -> None:
        """Refuses a frame with two columns of one name: nobody could say which of them is meant."""
        twice = [name for name, count in self._count.items() if count > 1]
        if twice:
            raise InputError(f"`frame` must have each column once, but has {listed(twice)} twice; rename one of them")

    def own(self, argument: str, values: Any) -> Any:
        """An array or column of values that has one for each row, as a column of this library."""
        column = self._own(argument, values)
        if len(column) != self.num_rows:
            raise InputError(f"`{argument}` must have one value for each of {self.num_rows} rows, got {len(column)}")
        return column

    def numbers(self, argument: str, names: Sequence[Hashable]) -> Floats:
        """Columns of numbers side by side; NaN where one is missing."""
        result = np.empty((self.num_rows, len(names)))
        for place, name in enumerate(names):
            column = self.column(argument, name)
            numbers = self._numbers(name)
            if numbers is None:
                kind = getattr(column, "dtype", None) or getattr(column, "type", None)
                raise InputError(f"`{argument}` must name columns of numbers, but column {name!r} holds {kind}")
            result[:, place] = numbers
        return result

    def row_name(self, row: int) -> str:
        """How a message calls a row."""
        index = self._index_of(row)
        place = "" if self.where is None else f" of {self.where(self.first_row + row)}"
        return f"row {self.first_row + row} (counted from 0{'' if index is None else f', index {index}'}){place}"


def check_new_names(present: Collection[Hashable], names: Sequence[str], hint: str) -> None:
    """Refuses names that are there already, or that would be there twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    taken = [name for name in names if name in present]
    if twice or taken:
        where = "twice" if twice else "over one that is there"
        raise InputError(f"the column {(twice or taken)[0]!r} would be written {where}; {hint}")


def same_labels(labels: Labels, values: Sequence[Any]) -> bool:
    """Whether values that were put into a column's type are still the labels."""
    return bool((labels.places(values) == np.arange(len(labels))).all())


def with_whole_numbers(labels: Labels) -> list[Any]:
    """The labels, whole numbers among them as integers: columns of any type of number take those."""
    return [int(value) if isinstance(value, float) and value.is_integer() else value for value in labels.values]
