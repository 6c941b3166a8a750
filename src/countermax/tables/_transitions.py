"""Of those with each outcome, how many would have had which: expected counts, intervals, bounds, and the result."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.labels import told_apart
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count, as_seed
from countermax._core.results import AbstractResult, Row, Table, tables_of
from countermax._core.words import confidence, number, percents, span
from countermax._tables.frames import Floats
from countermax.bounds import Bounds
from countermax.comparison._measuring import ANY
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._interval import Bootstrap, check_level, percentile_interval
from countermax.tables._answers import answer_rows, read_coupling
from countermax.tables._notes import count_notes, label_notes, what_is_known
from countermax.tables._reading import AbstractSums, Chunk, RowCounts
from countermax.tables._refit import Refitted, Refitting
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BYTES_OF_WEIGHTS = 6 * 4096  # of a resample, for the rows that share a random stream


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Transitions(AbstractResult):
    """How many of those with each outcome would have had which, in cells [seen, instead]."""

    title: str = "Who would have had which outcome instead?"
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
    sample: str = ""
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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
    def rows(self) -> Sequence[Row]:
        """For each outcome seen and each one instead: the expected count, and the share `P(instead)` of those seen."""
        found, labels = [], told_apart(self.labels)
        kinds = (
            ("count({})", self.counts, self.bounds, self.counts_interval, self.bounds_interval),
            ("P({})", self.shares, self.share_bounds, self.shares_interval, self.share_bounds_interval),
        )
        for seen, label in enumerate(labels):
            for quantity, values, bounds, interval, whole in kinds:
                for instead, other in enumerate(labels):
                    cell, name, about = (seen, instead), quantity.format(other), f"seen {label}"
                    found.append(Row.of(name, about, self.coupling, values, None, interval, cell))
                    found.append(Row.of(name, about, ANY, None, bounds, whole, cell))
        return found

    def tables(self) -> list[Table]:
        """The counts; shares are the same numbers, divided by how many had the outcome."""
        numbers = {f"seen {label}": count for label, count in zip(told_apart(self.labels), self.seen, strict=True)}
        counts = [each for each in self.rows if each.quantity.startswith("count(")]
        return tables_of([each._replace(about=f"{each.about} ({numbers[each.about]:,.0f})") for each in counts])

    def _summary(self) -> str:
        """How many keep their outcome, and the largest change."""
        total = max(self.num_rows, 1)
        low, high = (float(np.trace(each)) / total for each in self.bounds)
        kept = float(np.trace(self.counts)) / total
        words = [
            f"For each of {self.num_rows:,} rows: the counterfactual outcome, given the one that was seen.",
            f"Whatever the coupling, {percents(low, high)} would have kept their outcome.",
        ]
        moved = np.where(np.eye(len(self.labels), dtype=bool), -1.0, self.counts)
        seen, instead = divmod(int(moved.argmax()), len(moved))
        most = f"Under {self.coupling} {percents(kept, kept)} would have"
        if len(self.labels) > 1 and moved.max() > 0:
            labels = told_apart(self.labels)
            low, high = (each[seen, instead] for each in self.bounds)
            words.append(
                f"{most}; the most frequent change is from {labels[seen]} to {labels[instead]}: "
                f"{number(moved.max(), 1)} of {self.seen[seen]:,.0f}{self._interval_words(seen, instead)}; {ANY}: "
                f"{span(low, high, 1)}."
            )
        else:
            words.append(f"{most}.")
        return " ".join(words)

    def _interval_words(self, *cell: int) -> str:
        if self.counts_interval is None or self.num_rows < 2:
            return ""
        lower, upper, level = self.counts_interval
        return f" ({confidence(level)} confidence interval {span(lower[cell], upper[cell], 1)})"

    def _plot(self, title: str | None = None) -> "Figure":
        """The flows from what was seen to what would have been; the coupling is named, whatever the title."""
        told = "What was seen, and what would have been" if title is None else title
        return plotting.draw_flows(self.counts, told_apart(self.labels), told, self.coupling, self.bounds)

    def _details(self) -> Mapping[str, Any]:
        names = ("coupling", "labels", "counts", "num_rows", "num_unchanged", "num_left_out")
        level = None if self.counts_interval is None else self.counts_interval.level
        return self._named(*names) | {"level": level}


@dataclass(eq=False)
class TallySums(AbstractSums):
    """What some rows of a table add up to."""

    cells: Floats
    """Counts and their bounds, [seen, 3 x outcomes]."""
    bootstrap: Bootstrap
    counts: RowCounts = field(default_factory=RowCounts)


@dataclass(frozen=True, eq=False)
class _Tally:
    """Adds rows up: the coupling, and how rows are drawn again."""

    coupling: AbstractCoupling
    num_outcomes: int
    num_resamples: int
    seed: int

    def sums(self, first_row: int, chunks: Iterable[Chunk]) -> TallySums:
        """What rows from this one of the table on add up to."""
        size = self.num_outcomes
        bootstrap = Bootstrap(size, self.num_resamples, self.seed, first_row)
        sums = TallySums(np.zeros((size, 3 * size)), bootstrap)
        for chunk in chunks:
            cells = self._cells(chunk)
            sums.cells += _summed(cells, chunk, size)
            bootstrap.add(chunk.x, cells[:size], ~chunk.bad)
            sums.counts.add(chunk)
        return sums

    def measure(self, chunks: Sequence[Chunk]) -> Floats:
        """Counts and their bounds, then shares and theirs, of all rows: [2, seen, 3 x outcomes]."""
        size = self.num_outcomes
        sums = sum((_summed(self._cells(chunk), chunk, size) for chunk in chunks), np.zeros(()))
        return np.stack([sums, sums / _or_nan(sums[:, :size].sum(axis=-1, keepdims=True))])

    def _cells(self, chunk: Chunk) -> Floats:
        found = answer_rows(chunk, self.coupling, None, "any")
        return np.concatenate([found.probabilities, found.limits])


def table_transitions(
    source: AbstractSource,
    refitting: Refitting | None,
    given: str | Path | AbstractCoupling,
    num_resamples: int,
    level: float,
    seed: int,
) -> Transitions:
    """What all rows add up to; with `refitting`, intervals are those of the refits."""
    reader, labels = source.reader, source.reader.labels
    check_level(level)
    size, num_resamples = len(labels), as_count("`num_resamples`", num_resamples, least=0)
    needed = num_resamples * (4 * 8 * size**2 + _BYTES_OF_WEIGHTS)
    check_memory(f"{num_resamples:,} resamples of {size} outcomes", needed, "lower `num_resamples`")
    coupling, name = read_coupling(reader, given)
    tally = _Tally(coupling, size, num_resamples, as_seed("seed", seed))
    sums = source.total(_Tally.sums, tally)
    counts, lower, upper = _parts(sums.cells, size)
    whole: list[Interval | None] = [None, None]
    if refitting is None:
        samples = sums.bootstrap.resamples(counts)
        of_counts = percentile_interval(samples, level)
        of_shares = percentile_interval(samples / _or_nan(samples.sum(axis=-1, keepdims=True)), level)
    else:
        refitted = Refitted(reader, refitting, tally.measure, refitting.settings, by_row=False)
        found = refitted.limits(0.0, np.array([counts.sum(), 1.0])[:, None, None])
        low, high = ([_parts(each, size) for each in limits] for limits in found)
        of_counts, of_shares = (Interval(low[place][0], high[place][0], level) for place in (0, 1))
        whole = [Interval(low[place][1], high[place][2], level) for place in (0, 1)]
    notes = label_notes(labels, reader.order, [coupling], np.rint(counts.sum(axis=1)).astype(np.int64))
    if of_counts is not None:
        of_any = "" if whole[0] is None else f", of '{ANY}' for that whole range"
        notes = [f"(...): {confidence(level)} bootstrap confidence interval{of_any}.", *notes]
    return Transitions(
        labels=labels.values,
        coupling=name,
        counts=counts,
        bounds=Bounds(lower, upper),
        counts_interval=of_counts,
        shares_interval=of_shares,
        bounds_interval=whole[0],
        share_bounds_interval=whole[1],
        **vars(sums.counts),
        sample=f"{sums.counts.num_rows:,} rows",
        assumptions=(what_is_known(reader, refitting),),
        notes=(*notes, *count_notes(sums.counts)),
    )


def _summed(cells: Floats, chunk: Chunk, size: int) -> Floats:
    """The numbers of rows with each outcome, added up, [seen, numbers]."""
    weight = np.where(chunk.bad, 0.0, chunk.weight)
    cells = np.where(chunk.bad, 0.0, cells)
    return np.stack([cells @ np.where(chunk.x == outcome, weight, 0.0) for outcome in range(size)])


def _parts(sums: Floats, size: int) -> tuple[Floats, Floats, Floats]:
    """The numbers under the coupling, and the least and the largest of all couplings."""
    return sums[:, :size], sums[:, size::2], sums[:, size + 1 :: 2]


def _or_nan(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)
