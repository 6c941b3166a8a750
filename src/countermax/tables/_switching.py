"""Who switches from what to what, from the utilities of a choice model before and after a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.labels import told_apart
from countermax._core.results import AbstractResult, Row, Table, shortened_table
from countermax._core.words import ANY, EVERYBODY, WARNING, confidence, number, percent, percents
from countermax._kernel import joint_sums
from countermax._tables.frames import Flags, Floats
from countermax.bounds import Bounds
from countermax.couplings import GumbelMax, NestedGumbelMax
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.tables._groups import rows_of
from countermax.tables._notes import count_notes
from countermax.tables._reading import AbstractSums, Chunk, RowCounts
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ACROSS = 8  # alternatives of a printed table from each to each; of more, only their demand is printed
_MOST_FLOWS = 12
_PROBABILITIES = (
    f"{WARNING}every row is non-negative and sums to 1 in both worlds, as probabilities do. Utilities are expected "
    "here, for instance logarithms of probabilities; of probabilities ask `transitions`."
)
_ROUNDING = 1e-12  # of all choosers: what ties of gains leave where nobody goes


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SwitchingTable(AbstractResult):
    """How many choosers go from each alternative to each other, in cells [before, after]."""

    title: str = "Who switches from what to what after the change?"
    labels: tuple[str, ...]
    coupling: str
    counts: Floats
    """Expected numbers of choosers; rows add up to the model's demand before, columns to that after."""
    bounds: Bounds
    """The least and the largest number over all couplings of each chooser's two choices, each cell for itself."""
    interval: Interval | None
    """Confidence interval of `counts` for the sampling of choosers; None for a single one."""
    surplus: Floats
    """Total rise of the best utility of those in each cell; all cells add up to the change of the logsums."""
    logsums: tuple[float, float]
    """The sum over choosers of their logsums, before and after."""
    unit: str
    """What surplus and logsums are measured in."""
    groups: Mapping[str, "SwitchingTable"] = field(default_factory=dict)
    """The same of each group that `Rows.by` divides the rows into."""
    num_rows: int
    num_unchanged: int
    num_left_out: int

    sample: str = ""
    assumptions: tuple[str, ...] = (
        "The model's probabilities are true, and what it does not observe about a chooser stays the same.",
    )
    notes: tuple[str, ...] = ()

    @property
    def mean_surplus(self) -> Floats:
        """By how much the best utility of a chooser in each cell rises; NaN where there is none."""
        return self.surplus / np.where(self.counts > 0, self.counts, np.nan)

    @property
    def rows(self) -> Sequence[Row]:
        """For each pair of alternatives: the number, its bounds, and the surplus."""
        found, labels = [], told_apart(self.labels)
        for i, before in enumerate(labels):
            for j, after in enumerate(labels):
                name, about = f"count({after})", f"before {before}"
                found.append(Row.of(name, about, self.coupling, self.counts, None, self.interval, (i, j)))
                found.append(Row.of(name, about, ANY, None, self.bounds, None, (i, j)))
                found.append(Row.of(f"surplus({after})", about, self.coupling, self.surplus, at=(i, j)))
        found += [
            Row(f"logsum {when}", EVERYBODY, "", each)
            for when, each in zip(("before", "after"), self.logsums, strict=True)
        ]
        return [*found, *rows_of(self.groups)]

    def _summary(self) -> str:
        """How many switch, and what the change is worth."""
        total = self.counts.sum()
        stay = float(np.trace(self.counts)) / total
        low, high = (1 - float(np.trace(each)) / total for each in (self.bounds.upper, self.bounds.lower))
        change = self.logsums[1] - self.logsums[0]
        return (
            f"Of {total:,.0f} choosers {percent(1 - stay)} switch under {self.coupling}; whatever the "
            f"coupling, {percents(low, high)}. In all, the change is worth {number(change)} {self.unit}."
        )

    def tables(self) -> list[Table]:
        """Who goes from what to what, or of many alternatives the demand; then the largest flows."""
        labels, told, counts = told_apart(self.labels), self._told, self.counts
        before, after = counts.sum(axis=1), counts.sum(axis=0)
        if len(labels) <= _MOST_ACROSS:
            lines = [[label, *map(told, row), told(row.sum())] for label, row in zip(labels, counts, strict=True)]
            lines.append(["after", *map(told, after), told(after.sum())])
            whole = Table(["from, to", *labels, "before"], lines)
        else:
            numbers = zip(before, after, np.diag(counts), strict=True)
            lines = [[label, *map(told, each)] for label, each in zip(labels, numbers, strict=True)]
            whole = Table(["alternative", "before", "after", "in both"], lines)
        moved = np.where(np.eye(len(labels), dtype=bool), 0.0, counts)
        count = int((moved > _ROUNDING * counts.sum()).sum())
        order = np.argsort(-moved, axis=None, kind="stable")[:count]
        flows = []
        for i, j in zip(*np.unravel_index(order[:_MOST_FLOWS], moved.shape), strict=True):
            shown, low, high = (told(each[i, j]) for each in (moved, *self.bounds))
            if self.interval is not None:
                shown += f" ({told(self.interval.lower[i, j])} to {told(self.interval.upper[i, j])})"
            flows.append([labels[i], labels[j], shown, f"{low} to {high}", number(self.mean_surplus[i, j])])
        if len(order) > len(flows):
            flows.append([f"... {len(order) - len(flows)} more: see to_frame()", *[""] * 4])
        tables = [whole, Table(["from", "to", self.coupling, ANY, "surplus of each"], flows, 2)]
        demand = [
            [name, *(f"{told(each.counts[i].sum())} to {told(each.counts[:, i].sum())}" for i in range(len(labels)))]
            for name, each in self.groups.items()
        ]
        return [*tables, shortened_table(Table(["demand before and after", *labels], demand))] if demand else tables

    def _told(self, value: float) -> str:
        """A number of choosers: whole where they are many."""
        total = self.counts.sum()
        return f"{value:z,.{0 if total >= 1000 else 1 if total >= 10 else 3}f}"

    def _plot(self, title: str | None = None) -> "Figure":
        """The flows."""
        told = "Before the change, and after it" if title is None else title
        return plotting.draw_flows(self.counts, told_apart(self.labels), told, self.coupling, self.bounds, "before")

    def _details(self) -> Mapping[str, Any]:
        return self._named("coupling", "labels", "counts", "surplus")


@dataclass(eq=False)
class SwitchingSums(AbstractSums):
    """What some choosers add up to."""

    cells: Floats
    """Weighed joint laws, their squares, and surplus: [3, before, after]."""
    limits: Floats
    """The least and the largest over all couplings, [2, before, after]."""
    logsums: Floats
    probabilities: int = 0
    """How many rows look like probabilities in both worlds."""
    counts: RowCounts = field(default_factory=RowCounts)
    num_choosers: float = 0.0

    def add(self, chunk: Chunk, numbers: GumbelMax | NestedGumbelMax, among: Flags) -> None:
        assert chunk.choosers is not None
        used = np.flatnonzero(among & ~chunk.bad)
        weights, logsums, kept = chunk.choosers.weights[used], chunk.choosers.logsums[:, used], chunk.kept[used]
        log_p = chunk.log_p[used]
        log_q = np.where(kept[:, None], log_p, chunk.log_q[used])
        logsums = np.stack([logsums[0], np.where(kept, *logsums)])
        self.cells += joint_sums(numbers, log_p, log_q, weights, logsums[1] - logsums[0])
        self.logsums += logsums @ weights
        p, q, moving = np.exp(log_p), np.exp(log_q), np.where(kept, 0.0, weights)
        for i in range(p.shape[1]):
            self.limits[0, i] += moving @ np.maximum(p[:, i : i + 1] + q - 1, 0)
            self.limits[1, i] += moving @ np.minimum(p[:, i : i + 1], q)
        self.limits += np.diag((weights - moving) @ p)  # who is not affected stays, whatever the coupling
        self.probabilities += int(chunk.choosers.like_probabilities[used].sum())
        self.counts.add(chunk, among)
        self.num_choosers += float(weights.sum())


@dataclass(frozen=True, eq=False)
class _Switches:
    """Adds choosers up."""

    model: GumbelMax | NestedGumbelMax
    size: int

    def begin(self, first_row: int) -> SwitchingSums:
        return SwitchingSums(np.zeros((3, self.size, self.size)), np.zeros((2, self.size, self.size)), np.zeros(2))

    def measure(self, chunk: Chunk) -> GumbelMax | NestedGumbelMax:
        """The model: sums are taken without numbers of single rows."""
        return self.model


def table_switching(source: AbstractSource, level: float) -> SwitchingTable:
    """What all choosers add up to."""
    reader, asked = source.reader, source.question.utilities
    check_level(level)
    if asked is None or reader.model is None:
        raise InputError("`switching` needs utilities: say `utilities=Utilities(coupling)`")
    totals = source.total(_Switches(reader.model, len(reader.labels)))
    if not totals.whole.num_choosers > 0:
        raise InputError("`data` must have at least one chooser, got none")
    price = 1.0 if asked.money is None else float(asked.money)
    unit = "units of utility" if asked.money is None else "units of money"
    words = (
        f"Surplus: by how much the best utility of a chooser rises, in {unit}.",
        f"(...): {confidence(level)} confidence interval for the sampling of choosers.",
    )
    name = name_of(asked.coupling)

    def result(sums: SwitchingSums, _: int, groups: Mapping[str, SwitchingTable]) -> SwitchingTable:
        count, logsums = sums.counts.num_rows, sums.logsums / price
        doubt = [_PROBABILITIES] if sums.probabilities == count else []
        return SwitchingTable(
            labels=reader.labels.names,
            coupling=name,
            counts=sums.cells[0],
            bounds=Bounds(*sums.limits),
            interval=_interval(sums.cells[0], sums.cells[1], count, level),
            surplus=sums.cells[2] / price,
            logsums=(float(logsums[0]), float(logsums[1])),
            unit=unit,
            groups=groups,
            **sums.counts.shown,
            sample=f"{count:,} rows" if count > 1 else "one row",
            notes=(*doubt, *words[: 1 + (count > 1)], *count_notes(sums.counts)),
        )

    return totals.result(source.question.by, result)


def _interval(total: Floats, squares: Floats, count: int, level: float) -> Interval | None:
    """Choosers are a sample of many: the normal interval of a sum."""
    if count < 2:
        return None
    from scipy.special import ndtri

    spread = ndtri((1 + level) / 2) * np.sqrt(np.maximum(squares - total**2 / count, 0) * count / (count - 1))
    return Interval(np.maximum(total - spread, 0), total + spread, level)
