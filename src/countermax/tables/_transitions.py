"""Of those with each outcome, how many would have had which: expected counts, intervals, bounds, and the result."""

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np

from countermax import _plotting as plotting
from countermax._core.labels import told_apart
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count, as_seed
from countermax._core.results import AbstractResult, Row
from countermax._core.words import confidence, number, percents, span
from countermax._tables.frames import Floats
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_coupling, name_of
from countermax.intervals import Interval
from countermax.intervals._interval import Bootstrap, check_level, percentile_interval
from countermax.tables._answers import answer_rows
from countermax.tables._notes import (
    label_notes,
    left_out_notes,
    refit_notes,
    shown_name,
    unchanged_notes,
    what_is_known,
)
from countermax.tables._reading import Chunk, RowReader
from countermax.tables._refit import Refitted, Refitting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANY = "any coupling"
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
    """Confidence interval of `counts`; None without resamples."""
    shares_interval: Interval | None
    bounds_interval: Interval | None
    """Confidence interval of the whole range `bounds`; only with `refit`."""
    share_bounds_interval: Interval | None
    num_rows: int
    num_unchanged: int
    num_left_out: int
    known: str
    """What is taken as known, or how the classifier was refitted."""
    label_notes: tuple[str, ...]

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

    @property
    def title(self) -> str:
        """The question."""
        return "Which outcome would those with each outcome have had in the counterfactual world?"

    @property
    def sample(self) -> str:
        """How many rows."""
        return f"{self.num_rows:,} rows"

    @property
    def rows(self) -> Sequence[Row]:
        """For each outcome seen and each one instead: the expected count, and the share `P(instead)` of those seen."""
        return list(self._rows())

    def _rows(self) -> Iterator[Row]:
        labels = told_apart(self.labels)
        kinds = (
            ("count({})", self.counts, self.bounds, self.counts_interval, self.bounds_interval),
            ("P({})", self.shares, self.share_bounds, self.shares_interval, self.share_bounds_interval),
        )
        for seen, label in enumerate(labels):
            for quantity, values, bounds, interval, whole in kinds:
                for instead, other in enumerate(labels):
                    cell, name, about = (seen, instead), quantity.format(other), f"seen {label}"
                    yield Row(name, about, self.coupling, float(values[cell]), None, None, *_at(interval, cell))
                    lower, upper = (float(each[cell]) for each in bounds)
                    yield Row(name, about, ANY, None, lower, upper, *_at(whole, cell))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken as known."""
        return (self.known,)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the intervals are, how labels are read, and which rows are unchanged or left out."""
        notes = []
        if self.counts_interval is not None:
            level = confidence(self.counts_interval.level)
            notes.append(f"(...): {level} bootstrap confidence interval, of '{ANY}' for that whole range.")
        notes += [*self.label_notes, *unchanged_notes(self.num_unchanged), *left_out_notes(self.num_left_out)]
        return tuple(notes)

    def summary(self) -> str:
        """How many keep their outcome, and the largest change."""
        total = max(self.num_rows, 1)
        low, high = (float(np.trace(each)) / total for each in self.bounds)
        kept = float(np.trace(self.counts)) / total
        words = [
            f"For each of {self.num_rows:,} rows: the counterfactual outcome, given the one that was seen.",
            f"Whatever the coupling, {percents(low, high)} would have kept their outcome.",
        ]
        moved = np.where(np.eye(len(self.labels), dtype=bool), -1.0, self.counts)
        seen, instead = np.unravel_index(int(moved.argmax()), moved.shape)
        most = f"Under {self.coupling} {percents(kept, kept)} would have"
        if len(self.labels) > 1 and moved.max() > 0:
            labels = told_apart(self.labels)
            low, high = (each[seen, instead] for each in self.bounds)
            words.append(
                f"{most}; the most frequent change is from {labels[seen]} to {labels[instead]}: "
                f"{number(moved.max(), 1)} of {number(self.seen[seen], 0)} ({ANY}: {span(low, high, 1)})."
            )
        else:
            words.append(f"{most}.")
        return " ".join(words)

    def plot(self, title: str | None = None) -> "Figure":
        """The flows from what was seen to what would have been; the coupling is named, whatever the title."""
        told = "What was seen, and what would have been" if title is None else title
        return plotting.draw_flows(self.counts, told_apart(self.labels), told, self.coupling, self.bounds)

    def _details(self) -> Mapping[str, Any]:
        return {
            "coupling": self.coupling,
            "labels": self.labels,
            "counts": self.counts,
            "num_rows": self.num_rows,
            "num_unchanged": self.num_unchanged,
            "num_left_out": self.num_left_out,
            "level": None if self.counts_interval is None else self.counts_interval.level,
        }


@dataclass(eq=False)
class TallySums:
    """What some rows of a table add up to."""

    cells: Floats
    """Counts and their bounds, [seen, 3 x outcomes]."""
    bootstrap: Bootstrap
    num_rows: int = 0
    num_left_out: int = 0
    num_unchanged: int = 0

    def merge(self, other: "TallySums") -> None:
        """What other rows of the same table add up to."""
        self.cells += other.cells
        self.bootstrap.merge(other.bootstrap)
        self.num_rows += other.num_rows
        self.num_left_out += other.num_left_out
        self.num_unchanged += other.num_unchanged


class Tally:
    """Adds rows up."""

    def __init__(
        self,
        reader: RowReader,
        coupling: str | Path | AbstractCoupling,
        *,
        num_resamples: int,
        level: float,
        seed: int,
        refitting: Refitting | None = None,
    ):
        check_level(level)
        labels, score = reader.labels, reader.question.score
        num_resamples = as_count("`num_resamples`", num_resamples, least=0)
        check_memory(
            f"{num_resamples:,} resamples of {len(labels)} outcomes",
            num_resamples * (4 * 8 * len(labels) ** 2 + _BYTES_OF_WEIGHTS),
            "lower `num_resamples`",
        )
        self._labels, self._level, self._order = labels, level, reader.order
        scores = reader.ranks if score is None else labels.scores("score", score)
        with jax.enable_x64(True):  # scores that differ in their last digits have an order too
            self._coupling = as_coupling(coupling, len(labels), score=scores)
            self._name = shown_name(name_of(coupling, score=scores))
        self._num_resamples, self._seed = num_resamples, as_seed("seed", seed)
        self.sums = self._empty(0)
        self._known = what_is_known(reader) if refitting is None else refit_notes(refitting.unweighted)

    def tallied(self, first_row: int, chunks: Iterator[Chunk]) -> TallySums:
        """What rows from this one of the table on add up to."""
        own = copy.copy(self)
        own.sums = self._empty(first_row)
        for chunk in chunks:
            own._add(chunk)
        return own.sums

    def _add(self, chunk: Chunk) -> None:
        found = self._cells(chunk)
        self.sums.cells += _summed(found, chunk, len(self._labels))
        self.sums.bootstrap.add(chunk.x, found[: len(self._labels)], ~chunk.bad)
        self.sums.num_rows += int((~chunk.bad).sum())
        self.sums.num_left_out += int(chunk.bad.sum())
        self.sums.num_unchanged += int(chunk.kept.sum())

    def _empty(self, first_row: int) -> TallySums:
        size = len(self._labels)
        bootstrap = Bootstrap(size, self._num_resamples, self._seed, first_row)
        return TallySums(np.zeros((size, 3 * size)), bootstrap)

    def measure(self, chunks: Sequence[Chunk]) -> Floats:
        """Counts and their bounds, then shares and theirs, of all rows: [2, seen, 3 x outcomes]."""
        sums = sum((_summed(self._cells(chunk), chunk, len(self._labels)) for chunk in chunks), np.zeros(()))
        return np.stack([sums, sums / _or_nan(sums[:, : len(self._labels)].sum(axis=-1, keepdims=True))])

    def _cells(self, chunk: Chunk) -> Floats:
        found = answer_rows(chunk, self._coupling, None, "any")
        return np.concatenate([found.probabilities, found.limits])

    def result(self, refitted: Refitted | None = None) -> Transitions:
        """What all rows add up to."""
        size = len(self._labels)
        counts, lower, upper = _parts(self.sums.cells, size)
        whole: list[Interval | None] = [None, None]
        if refitted is None:
            samples = self.sums.bootstrap.resamples(counts)
            of_counts = percentile_interval(samples, self._level)
            of_shares = percentile_interval(samples / _or_nan(samples.sum(axis=-1, keepdims=True)), self._level)
        else:
            found = refitted.limits(0.0, np.array([counts.sum(), 1.0])[:, None, None])
            low, high = ([_parts(each, size) for each in limits] for limits in found)
            of_counts, of_shares = (Interval(low[place][0], high[place][0], self._level) for place in (0, 1))
            whole = [Interval(low[place][1], high[place][2], self._level) for place in (0, 1)]
        seen = np.rint(counts.sum(axis=1)).astype(np.int64)
        return Transitions(
            labels=self._labels.values,
            coupling=self._name,
            counts=counts,
            bounds=Bounds(lower, upper),
            counts_interval=of_counts,
            shares_interval=of_shares,
            bounds_interval=whole[0],
            share_bounds_interval=whole[1],
            num_rows=self.sums.num_rows,
            num_unchanged=self.sums.num_unchanged,
            num_left_out=self.sums.num_left_out,
            known=self._known,
            label_notes=tuple(label_notes(self._labels, self._order, [self._coupling], seen)),
        )


def _summed(cells: Floats, chunk: Chunk, size: int) -> Floats:
    """The numbers of rows with each outcome, added up, [seen, numbers]."""
    weight = np.where(chunk.bad, 0.0, chunk.weight)
    cells = np.where(chunk.bad, 0.0, cells)
    return np.stack([cells @ np.where(chunk.x == outcome, weight, 0.0) for outcome in range(size)])


def _parts(sums: Floats, size: int) -> tuple[Floats, Floats, Floats]:
    """The numbers under the coupling, and the least and the largest of all couplings."""
    return sums[:, :size], sums[:, size::2], sums[:, size + 1 :: 2]


def _at(interval: Interval | None, cell: tuple[int, int]) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (float(interval.lower[cell]), float(interval.upper[cell]))


def _or_nan(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)
