"""Of those with each outcome, how many would have had which: expected counts, intervals and bounds."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from countermax import plotting
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.progress import ProgressBar
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.intervals import Bootstrap, percentile_interval
from countermax.tables._counterfactuals import Answers
from countermax.tables._probabilities import Given
from countermax.tables._rows import CHUNK_ROWS, Questions, Reader
from countermax.tables.frames import Floats, as_frame

Ends = tuple[Floats, Floats]
"""The lower and the upper ends of intervals, one for each cell of a table."""


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """Cells [seen, instead]. Print it with rich, or take `to_frame`, `to_json` and `plot`."""

    labels: tuple[Hashable, ...]
    counts: Floats
    """Expected counts under the mechanism; each row adds up to how many had that outcome."""
    counts_interval: Ends | None
    """What rows drawn anew would give: the bootstrap interval of the counts."""
    shares_interval: Ends | None
    """The same for `shares`."""
    bounds: Ends
    """The least and the largest expected count over all mechanisms, each cell for itself."""
    level: float
    num_rows: int
    num_left_out: int
    """Rows without an answer, where they were to be left out."""
    make_frame: Any
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
    def share_bounds(self) -> Ends:
        """The bounds as shares of those with the outcome."""
        lower, upper = self.bounds
        return lower / _or_nan(self.seen)[:, None], upper / _or_nan(self.seen)[:, None]

    def columns(self) -> dict[str, list[Any]]:
        """One entry for each cell, seen outcomes first."""
        size = len(self.labels)
        columns: dict[str, list[Any]] = {
            "seen": [label for label in self.labels for _ in range(size)],
            "instead": list(self.labels) * size,
        }
        for name, values, bounds, ends in (
            ("count", self.counts, self.bounds, self.counts_interval),
            ("share", self.shares, self.share_bounds, self.shares_interval),
        ):
            columns[name] = values.ravel().tolist()
            if ends is not None:
                columns |= {f"{name}_low": ends[0].ravel().tolist(), f"{name}_high": ends[1].ravel().tolist()}
            columns |= {f"{name}_lower": bounds[0].ravel().tolist(), f"{name}_upper": bounds[1].ravel().tolist()}
        return columns

    def to_frame(self) -> Any:
        """One row for each cell: `low` and `high` end the bootstrap interval, `lower` and `upper` the bounds."""
        return self.make_frame(self.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; None where nobody had the outcome."""
        columns = {
            name: [None if isinstance(value, float) and np.isnan(value) else value for value in values]
            for name, values in self.columns().items()
        }
        about = {"num_rows": self.num_rows, "num_left_out": self.num_left_out, "level": self.level}
        return {**about, "labels": list(self.labels), "cells": columns}

    def to_json(self, indent: int | None = 2) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, default=str)

    def plot(self, title: str = "What was seen, and what would have happened instead") -> Figure:
        """The flows from what was seen to what would have been."""
        return plotting.draw_flows(self.counts, [str(label) for label in self.labels], title)

    def __rich__(self) -> Group:
        table = Table(title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.title = Text(f"{self.num_rows:,} rows: what was seen, and what would have been")
        headers = ["seen", "instead", "count", "share"]
        headers += [f"{100 * self.level:g} % interval"] if self.counts_interval else []
        for place, header in enumerate([*headers, "any mechanism"]):
            table.add_column(header, justify="left" if place < 2 else "right", no_wrap=place > 1)
        form = "{:,.0f}" if self.num_rows >= 1000 else "{:,.1f}"
        for row, label in enumerate(self.labels):
            for column, other in enumerate(self.labels):
                share = "" if self.seen[row] == 0 else f"{self.shares[row, column]:.1%}"
                cells = [form.format(self.counts[row, column]), share]
                for ends in (self.counts_interval, self.bounds):
                    cells += [] if ends is None else [" to ".join(form.format(end[row, column]) for end in ends)]
                seen = str(label) if column == 0 else ""
                table.add_row(Text(seen), Text(str(other)), *cells, end_section=column == len(self.labels) - 1)
        left_out = f"{self.num_left_out:,} rows were left out.\n" if self.num_left_out else ""
        return Group(table, Text(left_out, end=""))


def transition_table(
    frame: Any,
    *,
    outcome: Any,
    factual: Given,
    counterfactual: Given,
    mechanism: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    normalise: bool = False,
    errors: str = "raise",
    num_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | None = None,
) -> TransitionTable:
    """Of those who churned, how many would have stayed, downgraded, or churned all the same.

    Counts are exact expectations under the mechanism. The bootstrap says how much they would vary if rows were drawn
    anew; it takes the probabilities of each row as they are and knows nothing of how well they were estimated. Bounds
    are the least and the largest count over all mechanisms that fit the data.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        outcome: The column with the outcomes seen, or an array of them.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        mechanism: How the two worlds hang together; see `counterfactuals`.
        labels: The outcomes in the order that the table has; by default that of `factual`.
        score: A number for each outcome; only `inverse-cdf-by-score` asks for it.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: What to do with rows that cannot be answered: `raise`, or leave them out and count them (`missing`).
        num_resamples: How often rows are drawn anew; 0 for no intervals.
        level: How much of the resamples the intervals hold.
        seed: Of the resampling; the same seed gives the same intervals.
        progress: Whether to show a progress bar; by default on a terminal, if there are many rows.
    """
    asked = as_frame(frame)
    reader = Reader(asked, outcome, factual, counterfactual, labels=labels, normalise=normalise, errors=errors)
    tally = Tally(reader.labels, mechanism, score=score, num_resamples=num_resamples, level=level, seed=seed)
    shown = False if asked.num_rows <= CHUNK_ROWS else progress
    with ProgressBar("transitions", asked.num_rows, shown, unit="rows") as bar:
        for start, stop, questions in reader.chunks():
            tally.add(questions)
            bar.advance(stop - start)
    return tally.table(asked.from_columns)


class Tally:
    """Adds rows up."""

    def __init__(
        self,
        labels: Labels,
        mechanism: str | Path | AbstractCoupling,
        *,
        score: Any,
        num_resamples: int,
        level: float,
        seed: int,
    ):
        if not 0 < level < 1:
            raise InputError(f"`level` must lie between 0 and 1, got {level}")
        self._answers = Answers(labels, mechanism, score=score, bounds="any")
        self._labels, self._level = labels, level
        self._bootstrap = Bootstrap(len(labels), num_resamples, seed)
        self._sums = np.zeros((len(labels), 3 * len(labels)))
        self._num_rows = self._num_left_out = 0

    def add(self, questions: Questions) -> None:
        """Some rows; all calls but the last bring a whole chunk."""
        size = len(self._labels)
        numbers, _, _ = self._answers.rows(questions)
        used = ~questions.bad
        cells = np.concatenate([numbers[:size], numbers[-2 * size :]])
        for outcome in range(size):
            self._sums[outcome] += cells[:, used & (questions.x == outcome)].sum(axis=1)
        self._bootstrap.add(questions.x, cells[:size], used)
        self._num_rows += int(used.sum())
        self._num_left_out += int(questions.bad.sum())

    def table(self, make_frame: Any) -> TransitionTable:
        """The result."""
        size = len(self._labels)
        counts = self._sums[:, :size]
        samples = self._bootstrap.resamples(counts)
        totals = samples.sum(axis=2, keepdims=True)
        # Where a resample has nobody with an outcome there is no share; the whole table's stands in for it.
        shares = np.where(totals > 0, samples, counts) / _or_nan(np.where(totals > 0, totals, counts.sum(1)[:, None]))
        return TransitionTable(
            labels=self._labels.values,
            counts=counts,
            counts_interval=_ends(percentile_interval(samples, self._level)),
            shares_interval=_ends(percentile_interval(shares, self._level)),
            bounds=(self._sums[:, size::2], self._sums[:, size + 1 :: 2]),
            level=self._level,
            num_rows=self._num_rows,
            num_left_out=self._num_left_out,
            make_frame=make_frame,
        )


def _or_nan(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)


def _ends(found: Any) -> Ends | None:
    return None if found is None else (found.lower, found.upper)
