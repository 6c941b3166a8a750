"""Who switches from what to what, from the utilities of a choice model before and after a change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.labels import told_apart
from countermax._core.results import AbstractResult, Row
from countermax._core.words import confidence, number, percents, span
from countermax._kernel import joint_sums
from countermax._tables.frames import Floats
from countermax.bounds import Bounds
from countermax.comparison._measuring import ANY
from countermax.couplings import GumbelMax, NestedGumbelMax
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.tables._notes import count_notes
from countermax.tables._reading import Chunk, RowCounts
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SwitchingTable(AbstractResult):
    """How many choosers go from each alternative to each other, in cells [before, after]."""

    title: str = "Which alternative does who chooses each one take after the change?"
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
                ends = () if self.interval is None else (self.interval.lower[i, j], self.interval.upper[i, j])
                found.append(Row(name, about, self.coupling, float(self.counts[i, j]), None, None, *map(float, ends)))
                found.append(Row(name, about, ANY, None, *(float(each[i, j]) for each in self.bounds)))
                found.append(Row(f"surplus({after})", about, self.coupling, float(self.surplus[i, j])))
        found += [
            Row(f"logsum {when}", "everybody", "", each)
            for when, each in zip(("before", "after"), self.logsums, strict=True)
        ]
        return found

    def summary(self) -> str:
        """How many switch, and the largest flow."""
        total = self.counts.sum()
        stay = float(np.trace(self.counts)) / total
        low, high = (1 - float(np.trace(each)) / total for each in (self.bounds.upper, self.bounds.lower))
        words = [
            f"Of {number(total, 0)} choosers {percents(1 - stay, 1 - stay)} switch under {self.coupling}; whatever "
            f"the coupling, {percents(low, high)}."
        ]
        moved = np.where(np.eye(len(self.labels), dtype=bool), -1.0, self.counts)
        i, j = np.unravel_index(int(moved.argmax()), moved.shape)
        if moved.max() > 0:
            labels = told_apart(self.labels)
            words.append(
                f"The largest flow is from {labels[i]} to {labels[j]}: {number(moved[i, j], 1)} ({ANY}: "
                f"{span(self.bounds.lower[i, j], self.bounds.upper[i, j], 1)})."
            )
        change = self.logsums[1] - self.logsums[0]
        words.append(f"The change is worth {number(change)} {self.unit} in all.")
        return " ".join(words)

    def plot(self, title: str | None = None) -> "Figure":
        """The flows."""
        told = "Before the change, and after it" if title is None else title
        return plotting.draw_flows(self.counts, told_apart(self.labels), told, self.coupling, self.bounds)

    def _details(self) -> Mapping[str, Any]:
        return {"coupling": self.coupling, "labels": self.labels, "counts": self.counts, "surplus": self.surplus}


@dataclass(eq=False)
class SwitchingSums:
    """What some choosers add up to."""

    cells: Floats
    """Weighed joint laws, their squares, and surplus: [3, before, after]."""
    limits: Floats
    """The least and the largest over all couplings, [2, before, after]."""
    logsums: Floats
    counts: RowCounts = field(default_factory=RowCounts)
    num_choosers: float = 0.0

    def merge(self, other: "SwitchingSums") -> None:
        """What other choosers of the same table add up to."""
        self.cells += other.cells
        self.limits += other.limits
        self.logsums += other.logsums
        self.counts.merge(other.counts)
        self.num_choosers += other.num_choosers


def _added_up(asked: tuple[GumbelMax | NestedGumbelMax, int], first_row: int, chunks: Iterable[Chunk]) -> SwitchingSums:
    model, size = asked
    sums = SwitchingSums(np.zeros((3, size, size)), np.zeros((2, size, size)), np.zeros(2))
    for chunk in chunks:
        assert chunk.choosers is not None
        weights = np.where(chunk.bad, 0.0, chunk.choosers.weights)
        before, after = chunk.choosers.logsums
        sums.cells += joint_sums(model, chunk.log_p, chunk.log_q, weights, after - before)
        sums.logsums += chunk.choosers.logsums @ weights
        p, q = np.exp(chunk.log_p), np.exp(chunk.log_q)
        for i in range(size):
            sums.limits[0, i] += weights @ np.maximum(p[:, i : i + 1] + q - 1, 0)
            sums.limits[1, i] += weights @ np.minimum(p[:, i : i + 1], q)
        sums.counts.add(chunk)
        sums.num_choosers += float(weights.sum())
    return sums


def table_switching(source: AbstractSource, level: float) -> SwitchingTable:
    """What all choosers add up to."""
    reader, asked = source.reader, source.question.utilities
    check_level(level)
    if asked is None or reader.model is None:
        raise InputError("`switching` needs utilities: say `utilities=Utilities(coupling)`")
    sums = source.total(_added_up, (reader.model, len(reader.labels)))
    count = sums.counts.num_rows
    if not sums.num_choosers > 0:
        raise InputError("`data` must have at least one chooser, got none")
    price = 1.0 if asked.money is None else float(asked.money)
    words = f"(...): {confidence(level)} confidence interval for the sampling of choosers."
    logsums = sums.logsums / price
    return SwitchingTable(
        labels=reader.labels.names,
        coupling=name_of(asked.coupling),
        counts=sums.cells[0],
        bounds=Bounds(*sums.limits),
        interval=_interval(sums.cells[0], sums.cells[1], count, level),
        surplus=sums.cells[2] / price,
        logsums=(float(logsums[0]), float(logsums[1])),
        unit="units of utility" if asked.money is None else "units of money",
        **vars(sums.counts),
        sample=f"{count:,} rows",
        notes=((words,) if count > 1 else ()) + tuple(count_notes(sums.counts)),
    )


def _interval(total: Floats, squares: Floats, count: int, level: float) -> Interval | None:
    """Choosers are a sample of many: the normal interval of a sum."""
    if count < 2:
        return None
    from scipy.stats import norm

    spread = norm.ppf((1 + level) / 2) * np.sqrt(np.maximum(squares - total**2 / count, 0) * count / (count - 1))
    return Interval(np.maximum(total - spread, 0), total + spread, level)
