"""What rows add up to: all of them, and those with each value of a column."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import shown, sorted_labels
from countermax._core.results import AbstractResult, Row
from countermax._core.words import EVERYBODY
from countermax._tables.frames import Flags, Floats
from countermax.tables._reading import Chunk, RowCounts

_MOST_GROUPS = 200


class SumsOfRows(Protocol):
    """Numbers that are added up over rows, chunk by chunk, and merged with those of other rows."""

    counts: RowCounts

    def add(self, chunk: Chunk, numbers: Any, among: Flags) -> None:
        """Adds some of a chunk's rows, of all of which there are numbers."""
        ...

    def merge(self, other: Any) -> None:
        """Adds what other rows of the same table add up to."""
        ...


S = TypeVar("S", bound=SumsOfRows)
S_co = TypeVar("S_co", bound=SumsOfRows, covariant=True)
R = TypeVar("R", bound=AbstractResult)


class Adding(Protocol[S_co]):
    """What is to be added up."""

    def begin(self, first_row: int) -> S_co:
        """Sums of no rows, before this one of the table."""
        ...

    def measure(self, chunk: Chunk) -> Any:
        """Numbers of a chunk's rows."""
        ...


@dataclass(eq=False)
class Totals(Generic[S]):
    """Sums over all rows, and over those with each value of the column that they are divided by."""

    whole: S
    groups: dict[str, S] = field(default_factory=dict)

    def merge(self, other: "Totals[S]") -> None:
        """Adds what other rows of the same table add up to."""
        self.whole.merge(other.whole)
        for value, sums in other.groups.items():
            if value in self.groups:
                self.groups[value].merge(sums)
            else:
                self.groups[value] = copy.deepcopy(sums)
        _check_number(self.groups)

    @property
    def values(self) -> list[str]:
        """The groups that have an answer, in their order."""
        return sorted_labels(value for value, sums in self.groups.items() if sums.counts.num_rows)

    def each(self, of: Callable[[S], Floats], values: Sequence[str] | None = None) -> Floats:
        """Numbers of the whole, then of groups in order, along the last axis; NaN where one has none."""
        found = [whole := of(self.whole)]
        for value in self.values if values is None else values:
            sums = self.groups.get(value)
            found.append(of(sums) if sums is not None and sums.counts.num_rows else np.full_like(whole, np.nan))
        return np.stack(found, axis=-1)

    def result(self, by: str | None, of: Callable[[S, int, Mapping[str, R]], R]) -> R:
        """The result of all rows: of their sums, their place along the last axis of `each`, and results of groups."""
        named = ((f"{by} = {value}" if value else f"{by} missing", value) for value in self.values)
        groups = {name: of(self.groups[value], place, {}) for place, (name, value) in enumerate(named, 1)}
        return of(self.whole, 0, groups)


def added_up(adding: Adding[S], first_row: int, chunks: Iterable[Chunk]) -> Totals[S]:
    """What rows from this one of the table on add up to."""
    totals = Totals(adding.begin(first_row))
    for chunk in chunks:
        numbers = adding.measure(chunk)
        totals.whole.add(chunk, numbers, np.ones(len(chunk.x), bool))
        for value, among in chunk.groups():
            if value not in totals.groups:
                totals.groups[value] = adding.begin(first_row)
            totals.groups[value].add(chunk, numbers, among)
        _check_number(totals.groups)
    return totals


def rows_of(groups: Mapping[str, AbstractResult]) -> Iterator[Row]:
    """The rows of each group's result, which say whom they are about."""
    for name, result in groups.items():
        for row in result.rows:
            yield row._replace(about=name if row.about in (EVERYBODY, "rows") else f"{name}, {row.about}")


def _check_number(groups: Mapping[str, Any]) -> None:
    if len(groups) > _MOST_GROUPS:
        some = ", ".join(map(shown, list(groups)[:3]))
        raise InputError(f"`by` must name a column with at most {_MOST_GROUPS} values, got more: {some}, ...")
