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
from countermax._version import __version__
from countermax.bounds import Bounds
from countermax.comparison._measuring import ANY, STABLE, Floats, assumed, interval_methods
from countermax.comparison._sharing import SharingCurve
from countermax.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERSON, EVERYBODY = "this person", "everybody"
WIN = "win probability"
_MOST_DRAWN = 12  # outcomes in the picture


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
        if not self.joints:
            return 0.0
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
        if ("better", PERSON, ANY) in self._index:
            told = {"better": "better", "worse": "worse", "same": "the same"}
        else:
            told = {f"P({self.labels[widest]})": repr(self.labels[widest])}
        known = "two laws" if self.level is None else "two arms"
        data = f"Whatever the coupling, the {known} alone say: {self._told(told, ANY)}."
        adds = [f"Under {name}: {self._told(told, name)}." for name in [*self.joints][:1]]
        sure = [] if self.level is None else [f"In parentheses: {confidence(self.level)} confidence intervals."]
        return " ".join((asked, data, *adds, *sure, self._verdict(widest)))

    def _told(self, quantities: Mapping[str, str], coupling: str) -> str:
        """Each quantity in words, with its probability and interval."""
        told = []
        for quantity, words in quantities.items():
            row = self._index[quantity, PERSON, coupling]
            shown = percent(row.value) if row.lower is None else percents(row.lower, row.upper)
            interval = "" if row.ci_lower is None else percents(row.ci_lower, row.ci_upper)
            told.append(f"{words} {shown}" + (f" ({interval})" if interval not in ("", shown) else ""))
        return ", ".join(told)

    def methods(self) -> str:
        """A paragraph for a paper: what was computed, how, on what assumptions, with references."""
        (here, there), names = self.worlds, ", ".join(self.joints)
        return (
            f"We asked what a person with outcome {self.labels[self.seen]!r} under {here} would have had under {there}"
            f"{f' ({self.sample})' if self.sample else ''}. Counterfactual probabilities were computed exactly"
            f"{f' under {names}' if names else ''}, with sharp bounds over all couplings of the two laws and over "
            "counterfactually stable ones (Oberst and Sontag 2019; Lorberbom et al. 2021; Haugh and Singal 2022). "
            f"{interval_methods(self.level)}Assumptions: {' '.join(self.assumptions)} "
            f"Software: Countermax {__version__}."
        )

    def plot(self) -> "Figure":
        """Dots and ranges for each outcome: every coupling's probability, and the bounds, with their intervals."""
        shown = sorted(np.argsort(-self.bounds.upper, kind="stable")[:_MOST_DRAWN].tolist())
        names = dict(zip((f"P({each})" for each in self.labels), told_apart(self.labels), strict=True))
        wanted = {f"P({self.labels[place]})" for place in shown}
        rows = [each for each in reversed(self.rows) if each.about == PERSON and each.quantity in wanted]
        order = dict.fromkeys(each.quantity for each in self.rows if each.quantity in wanted)
        title = self.title
        if len(shown) < len(self.labels):
            title += f"\nShown: the {len(shown)} of {len(self.labels)} outcomes that could be likeliest"
        rows = [each._replace(quantity=names[each.quantity]) for each in rows]
        return plotting.draw_ranges(
            rows, [names[each] for each in order], title, "probability, given what was seen", self.level
        )

    def plot_couplings(self) -> "Figure":
        """A heatmap of each coupling's joint law, with both laws on its margins."""
        here, there = self.worlds
        return plotting.draw_couplings(
            self.joints,
            self.p,
            self.q,
            told_apart(self.labels),
            f"P(row under {here}, column under {there})",
            self.worlds,
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
