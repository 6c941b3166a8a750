"""Of those with each outcome, how many would have had which: expected counts, intervals and bounds."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import plotting
from countermax._core.console import add_line, listing
from countermax._core.labels import Labels
from countermax._core.memory import check_memory
from countermax._core.results import AbstractResult, plain
from countermax._core.seeds import as_seed
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, GumbelMax, as_coupling, name_of
from countermax.intervals import Bootstrap, Interval, check_level, percentile_interval
from countermax.tables._counterfactuals import answer_rows
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._rows import Chunk, Question, RowReader
from countermax.tables.frames import Floats, as_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BYTES_OF_WEIGHTS = 6 * 4096  # of a resample, for the rows that share a random stream


@final
@dataclass(frozen=True, eq=False)
class Transitions(AbstractResult):
    """How many of those with each outcome would have had which, in cells [seen, instead]."""

    labels: tuple[Hashable, ...]
    coupling: str
    """The name of the coupling that counts are expectations under."""
    counts: Floats
    """Expected counts; each row adds up to how many had that outcome."""
    bounds: Bounds
    """The least and the largest expected count over all couplings, each cell for itself."""
    counts_interval: Interval | None
    """What other rows of the same kind would give; each row's probabilities are taken as known."""
    shares_interval: Interval | None
    """The same for `shares`."""
    num_rows: int
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
        for name, values, bounds, interval in (
            ("count", self.counts, self.bounds, self.counts_interval),
            ("share", self.shares, self.share_bounds, self.shares_interval),
        ):
            numbers = {"": values, "_lower": bounds.lower, "_upper": bounds.upper}
            if interval is not None:
                numbers |= {"_ci_lower": interval.lower, "_ci_upper": interval.upper}
            columns |= {f"{name}{suffix}": cells.ravel().tolist() for suffix, cells in numbers.items()}
        return columns

    def to_frame(self) -> Any:
        """One row for each cell: `lower` and `upper` are the bounds, `ci_lower` and `ci_upper` the interval."""
        return self.make_frame(self.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; None where nobody had the outcome."""
        return plain(
            {
                "coupling": self.coupling,
                "num_rows": self.num_rows,
                "num_left_out": self.num_left_out,
                "level": None if self.counts_interval is None else self.counts_interval.level,
                "labels": self.labels,
                "cells": self.columns(),
            }
        )

    def plot(self, title: str | None = None) -> "Figure":
        """The flows from what was seen to what would have been."""
        title = f"What was seen, and what would have been under {self.coupling}" if title is None else title
        return plotting.draw_flows(self.counts, [str(label) for label in self.labels], title)

    def __rich__(self) -> Group:
        interval = self.counts_interval
        title = f"{self.num_rows:,} rows: what was seen, and what would have been under {self.coupling}"
        headers = ["seen", "instead", "count", "share"]
        headers += [] if interval is None else [f"{100 * interval.level:g} % interval"]
        table = listing(title, [*headers, "any coupling"], left=2)
        form = "{:,.0f}" if self.num_rows >= 1000 else "{:,.1f}"
        ranges: list[Bounds | Interval] = [self.bounds] if interval is None else [interval, self.bounds]
        for row, label in enumerate(self.labels):
            for column, other in enumerate(self.labels):
                share = "" if self.seen[row] == 0 else f"{self.shares[row, column]:.1%}"
                cells = [str(label) if column == 0 else "", str(other), form.format(self.counts[row, column]), share]
                for each in ranges:
                    cells.append(" to ".join(form.format(limit[row, column]) for limit in (each.lower, each.upper)))
                add_line(table, cells, last=column == len(self.labels) - 1)
        return Group(table, Text(" ".join(self._notes())))

    def _notes(self) -> list[str]:
        """What the numbers are, and what they leave out."""
        notes = ["Any coupling: the least and the largest count that each row's probabilities allow."]
        if self.counts_interval is not None:
            notes.append("The interval says what other rows would give under the same coupling;")
            notes.append("it takes each row's probabilities as known and leaves out how well they were estimated.")
        if self.num_left_out:
            notes.append(f"{self.num_left_out:,} rows were left out.")
        return notes


def transitions(
    frame: Any,
    *,
    outcome: Any,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    normalise: bool = False,
    errors: str = "raise",
    num_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | None = None,
) -> Transitions:
    """Of those who churned, how many would have stayed, downgraded, or churned all the same.

    Counts are exact expectations under the coupling. The bootstrap interval says how much they would vary if rows were
    drawn again; it takes each row's probabilities as known and leaves out how well they were estimated. Bounds are the
    least and the largest count over all couplings that fit the data.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        outcome: The column with the outcomes seen, or an array of them.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        coupling: How the two worlds are coupled; see `counterfactuals`.
        labels: The outcomes in the order that the cells have; by default that of `factual`.
        score: A number for each outcome; only couplings that are made for a score ask for it.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: What to do with rows that cannot be answered: `raise`, or leave them out and count them (`missing`).
        num_resamples: How often rows are drawn again; 0 for no intervals.
        level: Confidence of the intervals: how much of the resamples they hold.
        seed: Seed of the resampling; the same seed gives the same intervals.
        progress: Whether to show a progress bar; by default on a terminal, if there are many rows.
    """
    reader = RowReader(as_frame(frame), Question(outcome, factual, counterfactual, labels, normalise, errors))
    tally = Tally(reader.labels, coupling, score=score, num_resamples=num_resamples, level=level, seed=seed)
    with reader.bar("transitions", progress) as bar:
        for chunk in reader.chunks(bar):
            tally.add(chunk)
    return tally.result(reader.frame.from_columns)


class Tally:
    """Adds rows up."""

    def __init__(
        self,
        labels: Labels,
        coupling: str | Path | AbstractCoupling,
        *,
        score: Any,
        num_resamples: int,
        level: float,
        seed: int,
    ):
        check_level(level)
        seed = as_seed("seed", seed)
        check_memory(
            f"{num_resamples:,} resamples of {len(labels)} outcomes",
            num_resamples * (4 * 8 * len(labels) ** 2 + _BYTES_OF_WEIGHTS),
            "lower `num_resamples` (on the command line: --resamples)",
        )
        self._labels, self._level = labels, level
        scores = None if score is None else labels.scores("score", score)
        with jax.enable_x64(True):  # scores that differ in their last digits have an order too
            self._coupling = as_coupling(coupling, len(labels), score=scores)
            self._name = name_of(coupling, score=scores)
        self._bootstrap = Bootstrap(len(labels), num_resamples, seed)
        self._sums = np.zeros((len(labels), 3 * len(labels)))
        self._num_rows = self._num_left_out = 0

    def add(self, chunk: Chunk) -> None:
        """Some rows; all calls but the last bring a whole chunk."""
        found = answer_rows(chunk, self._coupling, None, "any")
        cells = np.concatenate([found.probabilities, found.limits])
        used = ~chunk.bad
        for outcome in range(len(self._labels)):
            self._sums[outcome] += cells[:, used & (chunk.x == outcome)].sum(axis=1)
        self._bootstrap.add(chunk.x, found.probabilities, used)
        self._num_rows += int(used.sum())
        self._num_left_out += int(chunk.bad.sum())

    def result(self, make_frame: Callable[[Mapping[str, Sequence[Any]]], Any]) -> Transitions:
        """What all rows add up to."""
        size = len(self._labels)
        counts, lower, upper = self._sums[:, :size], self._sums[:, size::2], self._sums[:, size + 1 :: 2]
        samples = self._bootstrap.resamples(counts)
        return Transitions(
            labels=self._labels.values,
            coupling=self._name,
            counts=counts,
            bounds=Bounds(lower, upper),
            counts_interval=percentile_interval(samples, self._level),
            shares_interval=percentile_interval(samples / _or_nan(samples.sum(axis=2, keepdims=True)), self._level),
            num_rows=self._num_rows,
            num_left_out=self._num_left_out,
            make_frame=make_frame,
        )


def _or_nan(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)
