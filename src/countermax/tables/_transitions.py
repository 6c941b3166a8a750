"""Of those with each outcome, how many would have had which: expected counts, intervals, bounds, and the result."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.labels import told_apart
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax._core.results import AbstractResult, Row, Table, shortened_table, tables_of
from countermax._core.words import ANY, EVERYBODY, confidence, count_digits, number, percent, percents, span
from countermax._kernel import ClosedForm
from countermax._tables.frames import Flags, Floats
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._interval import Bootstrap, check_level, percentile_interval
from countermax.tables._answers import answer_rows, read_coupling
from countermax.tables._groups import added_up, rows_of
from countermax.tables._notes import calibration_note, count_notes, label_notes, unweighted_note, what_is_known
from countermax.tables._reading import AbstractSums, Chunk, RowCounts
from countermax.tables._refit import Refitted, Refitting
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BYTES_OF_WEIGHTS = 6 * 4096  # of a resample, for the rows that share a random stream
_MOST_TOLD = 6  # groups in a summary


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
    interval: Interval | None
    """Confidence interval of the shares, and in a last row of everybody's; None without resamples."""
    whole_interval: Interval | None
    """Confidence interval of their whole range over all couplings; only with `refit`."""
    groups: Mapping[str, "Transitions"] = field(default_factory=dict)
    """The same of each group that `Rows.by` divides the rows into."""
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
    def shares_interval(self) -> Interval | None:
        """Confidence interval of `shares`."""
        return _shortened(self.interval)

    @property
    def share_bounds_interval(self) -> Interval | None:
        """Confidence interval of the whole range `share_bounds`."""
        return _shortened(self.whole_interval)

    @property
    def counts_interval(self) -> Interval | None:
        """Confidence interval of `counts`, of as many with each outcome as were seen."""
        return _scaled(self.interval, self.seen)

    @property
    def bounds_interval(self) -> Interval | None:
        """Confidence interval of the whole range `bounds`, of as many with each outcome as were seen."""
        return _scaled(self.whole_interval, self.seen)

    @property
    def rows(self) -> Sequence[Row]:
        """For each outcome seen, then for everybody: the count of each outcome instead, and its share `P(instead)`."""
        found, labels = [], told_apart(self.labels)
        counts, lower, upper = (_with_total(each) for each in (self.counts, *self.bounds))
        seen = _with_total(self.seen)
        whose, scaled = _or_nan(seen)[:, None], partial(_scaled, numbers=seen)
        kinds = (
            ("count({})", counts, Bounds(lower, upper), scaled(self.interval), scaled(self.whole_interval)),
            ("P({})", counts / whose, Bounds(lower / whose, upper / whose), self.interval, self.whole_interval),
        )
        for place, about in enumerate([*(f"seen {label}" for label in labels), EVERYBODY]):
            for quantity, values, limits, interval, whole in kinds:
                for instead, other in enumerate(labels):
                    cell, name = (place, instead), quantity.format(other)
                    found.append(Row.of(name, about, self.coupling, values, None, interval, cell))
                    found.append(Row.of(name, about, ANY, None, limits, whole, cell))
        return [*found, *rows_of(self.groups)]

    def tables(self) -> list[Table]:
        """The counts, and those of each group; shares are the same numbers, divided by how many had the outcome."""
        labels = told_apart(self.labels)
        heads = {f"seen {label}": count for label, count in zip(labels, self.seen, strict=True)}
        heads[EVERYBODY] = self.seen.sum()
        own = [each for each in self.rows if each.quantity.startswith("count(") and each.about in heads]
        found = tables_of([each._replace(about=f"{each.about} ({heads[each.about]:,.0f})") for each in own])
        digits = count_digits(*(cell for each in self.groups.values() for cell in _with_total(each.counts).flat))
        lines = [
            [name, f"{about} ({sum(cells):,.0f})", *(number(cell, digits) for cell in cells)]
            for name, each in self.groups.items()
            for about, cells in zip(heads, _with_total(each.counts).tolist(), strict=True)
        ]
        if lines:
            counts = [f"count({label})" for label in labels]
            found.append(shortened_table(Table([f"under {self.coupling}", "about", *counts], lines, 2)))
        return found

    @property
    def _kept(self) -> tuple[float, float, float]:
        """The share that would have kept their outcome: under the coupling, and at least and at most."""
        kept, low, high = (float(np.trace(each)) / self.num_rows for each in (self.counts, *self.bounds))
        return kept, low, high

    def _summary(self) -> str:
        """How many keep their outcome, the largest change, and how many of each group keep theirs."""
        kept, low, high = self._kept
        words = [
            f"For each of {self.num_rows:,} rows: the counterfactual outcome, given the one that was seen.",
            f"Whatever the coupling, {percents(low, high)} would have kept their outcome.",
        ]
        moved = np.where(np.eye(len(self.labels), dtype=bool), -1.0, self.counts)
        seen, instead = divmod(int(moved.argmax()), len(moved))
        most = f"Under {self.coupling} {percent(kept)} would have"
        if len(self.labels) > 1 and moved.max() > 0:
            labels = told_apart(self.labels)
            low, high = (each[seen, instead] for each in self.bounds)
            words.append(
                f"{most}; the most frequent change is from {labels[seen]} to {labels[instead]}: "
                f"an expected {number(moved.max(), 1)} of {self.seen[seen]:,.0f}"
                f"{self._interval_words(seen, instead)}; {ANY}: {span(low, high, 1)}."
            )
        else:
            words.append(f"{most}.")
        told = [f"{name}: {percent(each._kept[0])} ({percents(*each._kept[1:])})" for name, each in self.groups.items()]
        if told:
            more = f", and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
            words.append(f"Kept by group, in parentheses whatever the coupling: {'; '.join(told[:_MOST_TOLD])}{more}.")
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
    expected: Floats
    """How many had each outcome, how many the factual world expects, and the variance of that number."""
    counts: RowCounts = field(default_factory=RowCounts)

    def add(self, chunk: Chunk, cells: Floats, among: Flags) -> None:
        size, used = len(self.cells), among & ~chunk.bad
        some = slice(None) if used.all() else used
        x, p = chunk.x[some], (np.exp(chunk.log_p) if chunk.p.are_logs else chunk.p.values)[some]
        numbers, weight = cells[:, some], chunk.weight[some]
        self.cells += np.stack([numbers @ np.where(x == outcome, weight, 0.0) for outcome in range(size)])
        expected = p.sum(axis=0)
        self.expected += [np.bincount(x, minlength=size), expected, expected - np.einsum("ij,ij->j", p, p)]
        self.bootstrap.add(chunk.x, cells[:size], used)
        self.counts.add(chunk, among)


@dataclass(frozen=True, eq=False)
class _Tally:
    """Adds rows up: the coupling, and how rows are drawn again."""

    coupling: AbstractCoupling | ClosedForm
    num_outcomes: int
    num_resamples: int
    seed: int

    def begin(self, first_row: int) -> TallySums:
        size = self.num_outcomes
        bootstrap = Bootstrap(size, self.num_resamples, self.seed, first_row)
        return TallySums(np.zeros((size, 3 * size)), bootstrap, np.zeros((3, size)))

    def measure(self, chunk: Chunk) -> Floats:
        """Counterfactual probabilities and their bounds, [3 x outcomes, rows]."""
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
    cells = 8.0 * size**2
    check_memory(f"counts from {size:,} outcomes to each other", 12 * cells, "ask `counterfactuals`, which are rows")
    needed = num_resamples * (4 * cells + _BYTES_OF_WEIGHTS)
    check_memory(f"{num_resamples:,} resamples of {size} outcomes", needed, "lower `num_resamples`")
    coupling, name = read_coupling(reader, given)
    tally = _Tally(coupling, size, num_resamples, seed)
    totals = source.total(tally)
    limits = None
    if refitting is not None:
        quick = replace(tally, num_resamples=0)
        seen = totals.each(lambda sums: sums.cells[:, :size].sum(axis=1)).T

        def measure(chunks: Sequence[Chunk]) -> Floats:
            cells = added_up(quick, 0, chunks).each(lambda sums: sums.cells, totals.values)
            return np.moveaxis(_shares(np.moveaxis(cells, -1, 0), seen), 0, -1)

        limits = Refitted(reader, refitting, measure, refitting.settings, totals.values).limits(0.0, 1.0)

    def result(sums: TallySums, place: int, groups: Mapping[str, Transitions]) -> Transitions:
        counts, lower, upper = _parts(sums.cells, size)
        interval = whole = None
        if limits is None:
            interval = percentile_interval(_shares(sums.bootstrap.resamples(), counts.sum(axis=1)), level)
        else:
            low, high = (_parts(each[..., place], size) for each in limits)
            interval, whole = Interval(low[0], high[0], level), Interval(low[1], high[2], level)
        notes = label_notes(reader, [coupling], np.rint(counts.sum(axis=1)).astype(np.int64))
        notes += unweighted_note(reader)
        if interval is not None:
            of_any = "" if whole is None else f", of '{ANY}' for that whole range"
            notes = [f"(...): {confidence(level)} bootstrap confidence interval{of_any}.", *notes]
        return Transitions(
            labels=labels.values,
            coupling=name,
            counts=counts,
            bounds=Bounds(lower, upper),
            interval=interval,
            whole_interval=whole,
            groups=groups,
            **sums.counts.shown,
            sample=f"{sums.counts.num_rows:,} rows",
            assumptions=(what_is_known(reader, refitting),),
            notes=(*calibration_note(labels.values, *sums.expected), *notes, *count_notes(sums.counts)),
        )

    return totals.result(source.question.by, result)


def _shares(cells: Floats, seen: Floats) -> Floats:
    """Numbers as shares of those with each outcome, [.., seen, numbers], and in a last row of everybody.

    Whatever was drawn, everybody is as many with each outcome as were `seen`.
    """
    shares = cells / _or_nan(cells[..., : seen.shape[-1]].sum(axis=-1, keepdims=True))
    whose = np.where(np.isnan(shares), 0.0, seen[..., None])
    everybody = np.nansum(shares * whose, axis=-2, keepdims=True) / _or_nan(whose.sum(axis=-2, keepdims=True))
    return np.concatenate([shares, everybody], axis=-2)


def _with_total(cells: Floats) -> Floats:
    return np.concatenate([cells, cells.sum(axis=0, keepdims=True)])


def _shortened(interval: Interval | None) -> Interval | None:
    """Without the row of everybody."""
    return None if interval is None else Interval(interval.lower[:-1], interval.upper[:-1], interval.level)


def _scaled(interval: Interval | None, numbers: Floats) -> Interval | None:
    """The interval of shares as that of so many people, in each row; of nobody, none."""
    if interval is None:
        return None
    lower, upper = (
        np.where(numbers[:, None] > 0, each[: len(numbers)] * numbers[:, None], 0.0) for each in interval[:2]
    )
    return Interval(lower, upper, interval.level)


def _parts(sums: Floats, size: int) -> tuple[Floats, Floats, Floats]:
    """The numbers under the coupling, and the least and the largest of all couplings."""
    return sums[:, :size], sums[:, size::2], sums[:, size + 1 :: 2]


def _or_nan(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)
