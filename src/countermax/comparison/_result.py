"""All answers to one question about a person."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.labels import told_apart
from countermax._core.results import AbstractResult, Row, Table, tables_of
from countermax._core.words import confidence, percent, percents
from countermax.bounds import Bounds
from countermax.comparison._measuring import ANY, STABLE, Floats, assumed
from countermax.comparison._sharing import SharingCurve
from countermax.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERSON, EVERYBODY = "this person", "everybody"
WIN = "win probability"


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(AbstractResult):
    """All answers to one question: this was seen in one world; what would have happened in the other?

    Rows about `this person` are `P(outcome)` for each outcome, and with a score `expected score`, `effect` (the
    expected score less that of what was seen), `better`, `worse` and `same` (probabilities of a score that is higher,
    lower or the same). Rows about `everybody` are `better`, `worse`, `agreement` (how often the outcome stays the same)
    and `effect variance`. `win probability` is about two people, and no coupling is involved.
    """

    labels: tuple[str, ...]
    seen: int
    """Index of the outcome that was seen."""
    worlds: tuple[str, str]
    """What the factual world and the other one are called."""
    p: Floats
    q: Floats
    joints: Mapping[str, Floats]
    """P(X=i, Y=j) under each coupling."""
    rows: tuple[Row, ...] = ()
    level: float | None
    """Confidence of the intervals; None where the two laws were taken as known."""
    sample: str = ""
    notes: tuple[str, ...] = ()
    tolerance: float
    """Largest width of the bounds at which the choice of coupling does not matter."""
    sharing: SharingCurve | None = None
    """The same question for all that the two worlds may share; None where nobody asked."""

    @property
    def title(self) -> str:
        """The question."""
        here, there = self.worlds
        return f"Seen under {here}: {told_apart(self.labels)[self.seen]}. What would have happened under {there}?"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take as given."""
        return assumed(self.level)

    @cached_property
    def probabilities(self) -> dict[str, Floats]:
        """P(Y=. | X=seen) under each coupling."""
        return {name: self._ends(name, "value")[0] for name in self.joints}

    @cached_property
    def bounds(self) -> Bounds:
        """On P(Y=j | X=seen), over all couplings."""
        return Bounds(*self._ends(ANY, "lower", "upper"))

    @cached_property
    def stable_bounds(self) -> Bounds:
        """The same over counterfactually stable couplings."""
        return Bounds(*self._ends(STABLE, "lower", "upper"))

    @property
    def slack(self) -> float:
        """The widest bounds that data leave for the probability of an outcome."""
        return float(self.bounds.width.max())

    @property
    def disagreement(self) -> float:
        """The largest difference between two of the compared couplings about the probability of an outcome."""
        rows = np.stack([*self.probabilities.values()])
        return float((rows.max(axis=0) - rows.min(axis=0)).max())

    @property
    def was_seen(self) -> bool:
        """Whether anybody in the factual world had the outcome that the question is about."""
        return bool(self.p[self.seen] > 0)

    @property
    def coupling_matters(self) -> bool:
        """Whether the two laws alone leave the answer open by more than the tolerance."""
        return not self.was_seen or self.slack > self.tolerance

    def summary(self) -> str:
        """What was asked, what data alone say, what a coupling adds, and whether the choice matters."""
        here, there = self.worlds
        label = repr(self.labels[self.seen])
        whose = f" ({self.sample})" if self.sample else ""
        asked = f"Asked: what a person who had {label} under {here} would have had under {there}{whose}."
        if not self.was_seen:
            return (
                f"{asked} Nobody in the sample of {here} had {label}: these data say nothing about such a person, and "
                "every probability may be anything from 0 to 1."
            )
        widest = int(self.bounds.width.argmax())
        scored = ("better", PERSON, ANY) in self._index
        quantity = "better" if scored else f"P({self.labels[widest]})"
        words = "of doing better" if scored else f"of {self.labels[widest]!r}"
        whole, name = self._index[quantity, PERSON, ANY], next(iter(self.joints))
        known = "Whatever the coupling, " if self.level is None else "The two arms alone say, whatever the coupling: "
        data = f"{known}the probability {words} is {percents(whole.lower, whole.upper)}{self._ci(whole)}."
        one = self._index[quantity, PERSON, name]
        adds = f"Under {name} it is {percent(one.value)}{self._ci(one)}."
        return " ".join((asked, data, adds, self._verdict(widest)))

    def plot(self) -> "Figure":
        """Bars of the counterfactual probabilities, with the bounds as whiskers; both with their intervals."""
        known = self.level is None
        return plotting.draw_answers(
            self.probabilities,
            told_apart(self.labels),
            self.bounds,
            self.stable_bounds,
            self.title,
            intervals=None if known else {name: self._interval(name) for name in self.joints},
            bounds_intervals=None if known else (self._interval(ANY), self._interval(STABLE)),
        )

    def plot_couplings(self) -> "Figure":
        """A heatmap of each coupling's joint law, with both laws on its margins."""
        return plotting.draw_couplings(
            self.joints, self.p, self.q, told_apart(self.labels), "P(row seen, column in the other world)"
        )

    def tables(self) -> list[Table]:
        """Quantities down, couplings across; the win probability is a sentence below."""
        shown = dict(zip((f"P({each})" for each in self.labels), told_apart(self.labels), strict=True))
        rows = [
            each._replace(quantity=f"P({shown[each.quantity]})") if each.quantity in shown else each
            for each in self.rows
            if each.quantity != WIN
        ]
        return [*tables_of(rows), *([] if self.sharing is None else self.sharing.tables())]

    def _details(self) -> Mapping[str, Any]:
        return {
            "seen": self.labels[self.seen],
            "labels": self.labels,
            "worlds": self.worlds,
            "p": self.p,
            "q": self.q,
            "joints": self.joints,
            "level": self.level,
            "tolerance": self.tolerance,
            "coupling_matters": self.coupling_matters,
            "sharing": None if self.sharing is None else self.sharing.to_dict(),
        }

    @cached_property
    def _index(self) -> dict[tuple[str, str, str], Row]:
        return {(each.quantity, each.about, each.coupling): each for each in self.rows}

    def _ends(self, coupling: str, *fields: str) -> list[Floats]:
        """Numbers of the rows about each outcome."""
        rows = [self._index[f"P({label})", PERSON, coupling] for label in self.labels]
        return [np.array([getattr(each, field) for each in rows]) for field in fields]

    def _interval(self, name: str) -> Interval:
        lower, upper = self._ends(name, "ci_lower", "ci_upper")
        return Interval(lower, upper, self.level or 0.0)

    def _ci(self, row: Row) -> str:
        if row.ci_lower is None or self.level is None:
            return ""
        return f" ({confidence(self.level)} confidence interval {percents(row.ci_lower, row.ci_upper)})"

    def _verdict(self, widest: int) -> str:
        known = "two laws" if self.level is None else "two arms"
        if not self.coupling_matters:
            text = f"The choice of coupling hardly matters here: the {known} alone fix every probability within"
            return f"{text} {self.slack:.2g}."
        low, high = self.bounds.lower[widest], self.bounds.upper[widest]
        text = f"The choice of coupling matters here: P({self.labels[widest]}) may be {percents(low, high)}"
        if len(self.joints) > 1:
            text += f", and the couplings compared differ by up to {self.disagreement:.2f}"
        return f"{text}."
