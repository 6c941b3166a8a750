"""Of those with each outcome, how many would have had which: the result, and how it shows itself."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.labels import Labels, told_apart
from countermax._core.results import AbstractOldResult, plain
from countermax._tables.frames import Floats
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.tables._notes import left_out_notes, unchanged_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False)
class Transitions(AbstractOldResult):
    """How many of those with each outcome would have had which, in cells [seen, instead]."""

    labels: tuple[Hashable, ...]
    coupling: str
    """The name of the coupling that counts are expectations under."""
    counts: Floats
    """Expected counts; each row adds up to how many had that outcome."""
    bounds: Bounds
    """The least and the largest expected count over all couplings, each cell for itself."""
    counts_interval: Interval | None
    """What other data could have shown under the same coupling; `what_is_known` says what it leaves out."""
    shares_interval: Interval | None
    """The same for `shares`."""
    bounds_interval: Interval | None
    """Holds the whole range of `bounds`; only where the classifier was fitted again."""
    share_bounds_interval: Interval | None
    """The same for `share_bounds`."""
    what_is_known: str
    """What the intervals leave out, in words."""
    label_notes: tuple[str, ...]
    """That an order of the outcomes decides which nobody gave, and which labels look alike, where that is so."""
    num_rows: int
    num_unchanged: int
    """Rows that the change leaves as they were."""
    num_left_out: int
    """Rows without an answer, where they were to be left out."""
    make_frame: Callable[[Mapping[str, Sequence[Any]]], Any]
    """Turns columns into a frame of the library that the data came in."""

    @property
    def seen(self) -> Floats:
        """How many rows had each outcome."""
        return self.counts.sum(axis=1)

    @property
    def shares(self) -> Floats:
        """Of those with an outcome, the share that would have had another; NaN where nobody had it."""
        return self.counts / _or_nan(self.seen)[:, None]

    @property
    def share_bounds(self) -> Bounds:
        """The bounds as shares of those with the outcome."""
        return Bounds(*(limit / _or_nan(self.seen)[:, None] for limit in self.bounds))

    def columns(self) -> dict[str, list[Any]]:
        """One entry for each cell, seen outcomes first."""
        size, labels = len(self.labels), Labels(self.labels)
        words = self.labels if labels.of_one_kind else labels.names  # a column holds one type
        columns: dict[str, list[Any]] = {
            "seen": [label for label in words for _ in range(size)],
            "instead": list(words) * size,
        }
        for name, values, bounds, interval, whole in (
            ("count", self.counts, self.bounds, self.counts_interval, self.bounds_interval),
            ("share", self.shares, self.share_bounds, self.shares_interval, self.share_bounds_interval),
        ):
            numbers = {"": values, "_lower": bounds.lower, "_upper": bounds.upper}
            if interval is not None:
                numbers |= {"_ci_lower": interval.lower, "_ci_upper": interval.upper}
            if whole is not None:
                numbers |= {"_bounds_ci_lower": whole.lower, "_bounds_ci_upper": whole.upper}
            columns |= {f"{name}{suffix}": cells.ravel().tolist() for suffix, cells in numbers.items()}
        return columns

    def to_frame(self) -> Any:
        """One row for each cell.

        `lower` and `upper` are the bounds over all couplings, `ci_lower` and `ci_upper` the interval for the coupling's
        own answer, `bounds_ci_lower` and `bounds_ci_upper` the one for the whole range of couplings. In pandas and
        Arrow the coupling and the notes go with it (`attrs["countermax"]`, metadata of the schema).
        """
        return self.make_frame(self.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; None where nobody had the outcome."""
        return plain(
            {
                "coupling": self.coupling,
                "bounds": "any coupling",
                "num_rows": self.num_rows,
                "num_unchanged": self.num_unchanged,
                "num_left_out": self.num_left_out,
                "notes": self.notes,
                "level": None if self.counts_interval is None else self.counts_interval.level,
                "labels": self.labels,
                "cells": self.columns(),
            }
        )

    def plot(self, title: str | None = None) -> "Figure":
        """The flows from what was seen to what would have been; the coupling is named, whatever the title."""
        told = "What was seen, and what would have been" if title is None else title
        return plotting.draw_flows(self.counts, told_apart(self.labels), told, self.coupling, self.bounds)

    def __rich__(self) -> Group:
        interval = self.counts_interval
        title = f"{self.num_rows:,} rows: what was seen, and what would have been under {self.coupling}"
        headers = ["seen", "instead", f"under {self.coupling}"]
        headers += [] if interval is None else [f"{100 * interval.level:g} % interval"]
        headers.append("any coupling")
        ranges: list[Bounds | Interval] = [self.bounds] if interval is None else [interval, self.bounds]
        if self.bounds_interval is not None:
            headers.append(f"its {100 * self.bounds_interval.level:g} % interval")
            ranges.append(self.bounds_interval)
        table = listing(title, headers, left=2)
        form = "{:,.0f}" if self.num_rows >= 1000 else "{:,.1f}"
        labels = told_apart(self.labels)
        for row, label in enumerate(labels):
            for column, other in enumerate(labels):
                share = "" if self.seen[row] == 0 else f" ({100 * self.shares[row, column]:.0f} %)"
                count = f"{form.format(self.counts[row, column])}{share}"
                cells = [label if column == 0 else "", other, count]
                for each in ranges:
                    cells.append(" to ".join(form.format(limit[row, column]) for limit in (each.lower, each.upper)))
                add_line(table, cells, last=column == len(self.labels) - 1)
        return Group(table, Text(" ".join(self.notes)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers are, and what they leave out."""
        notes = [
            f"Counts are expectations under {self.coupling}. Any coupling: from the least to the largest count that "
            "each row's probabilities allow, what other couplings could say."
        ]
        if self.counts_interval is not None:
            notes.append("The interval: what other data could have shown under the same coupling.")
            if self.bounds_interval is not None:
                notes.append("The interval of any coupling holds that whole range.")
            notes.append(self.what_is_known)
        notes += [*self.label_notes, *unchanged_notes(self.num_unchanged), *left_out_notes(self.num_left_out)]
        return tuple(notes)


def _or_nan(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)
