"""All answers to one question about a person."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.labels import fitted, told_apart
from countermax._core.results import MOST_LINES, AbstractResult, Row, Table, tables_of
from countermax._core.words import ANY, EVERYBODY, PERSON, STABLE, confidence
from countermax._version import __version__
from countermax.bounds import Bounds
from countermax.comparison._measuring import Floats, TwoWorlds, assumed, design_words, interval_methods
from countermax.comparison._sensitivity import SensitivityCurve
from countermax.explorer._start import Start, explore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNEXPLORED = (
    "`explore` needs two arms that were counted: the explorer knows no weights, clusters, strata or missing='worst'; "
    "`write_page` shows this answer"
)
WIN = "win probability"
_MOST_DRAWN = 12  # outcomes in the picture
_MOST_TIED = 3  # outcomes that are named as the best, or the worst
_MOST_LETTERS = 24  # of an arm below it


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(AbstractResult):
    """All answers to one question: this was seen in one world; what would have happened in the other?

    Rows about `this person` are, with a score, `better`, `worse` and `same` (probabilities of a score that is higher,
    lower or the same), then `P(outcome)` for each outcome, `expected score` and `effect` (the expected score less that
    of what was seen). Rows about `everybody` are `better`, `worse`, `agreement` (how often the outcome stays the same)
    and `effect variance`. `win probability` is about two people, and no coupling is involved.
    """

    known: TwoWorlds
    """The two worlds, or arms, as they were read."""
    seen: int
    """Index of the outcome that was seen."""
    joints: Mapping[str, Floats]
    """P(X=i, Y=j) under each coupling; empty where there are too many outcomes for matrices."""
    rows: tuple[Row, ...] = ()
    level: float | None
    """Confidence of the intervals; None where the two laws were taken as known."""
    notes: tuple[str, ...] = ()
    tolerance: float
    """Largest width of the bounds at which the choice of coupling does not matter."""
    sharing: SensitivityCurve | None = None
    """The same question for all that the two worlds may share; None where nobody asked."""
    nesting: SensitivityCurve | None = None
    """The same question by how unlike outcomes of one nest are; None where nobody gave nests."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outcomes, in their order."""
        return self.known.labels.names

    @property
    def worlds(self) -> tuple[str, str]:
        """What the factual world and the other one are called."""
        return self.known.names

    @cached_property
    def p(self) -> Floats:
        """Probability of each outcome in the factual world."""
        return np.exp(self.known.log_p)

    @cached_property
    def q(self) -> Floats:
        """The same in the other world."""
        return np.exp(self.known.log_q)

    @property
    def sample(self) -> str:
        """The two arms in words; empty where the two laws were taken as known."""
        return "" if self.known.sampling is None else self.known.sampling.words

    @property
    def title(self) -> str:
        here, there = told_apart(self.worlds)
        return f"Seen under {here}: {told_apart(self.labels)[self.seen]}. What would have happened under {there}?"

    @property
    def assumptions(self) -> tuple[str, ...]:
        return assumed(self.level)

    @cached_property
    def couplings(self) -> tuple[str, ...]:
        """Names of the couplings that were asked."""
        first = f"P({self.labels[0]})"
        names = (each.coupling for each in self.rows if (each.quantity, each.about) == (first, PERSON))
        return tuple(name for name in names if name not in (ANY, STABLE))

    @cached_property
    def probabilities(self) -> dict[str, Floats]:
        """P(Y=. | X=seen) under each coupling."""
        return {name: self._ends(name, "value")[0] for name in self.couplings}

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
        if not self.couplings:
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

    def _summary(self) -> str:
        """The question, what data alone say, what a coupling adds, and whether the choice matters: a line for each."""
        here, label = self.worlds[0], repr(self.labels[self.seen])
        if not self.was_seen:
            return (
                f"{self.title}\nNobody in the sample of {here} had {label}: these data say nothing about such a "
                "person, and every probability may be anything from 0 to 1."
            )
        told = {"better": "better", "worse": "worse", "same": "the same"}
        if not self._has_score:
            others = [each for each in range(len(self.labels)) if each != self.seen]
            told = {f"P({self.labels[each]})": repr(self.labels[each]) for each in others if len(others) == 1}
            told[f"P({self.labels[self.seen]})"] = "the same"
        told = {quantity: said for quantity, said in told.items() if (quantity, PERSON) not in self._impossible}
        whose = f" ({self.sample})" if self.sample else ""
        said = {name: self._told(told, name) for name in (ANY, *self.couplings[:1])}
        shown = self.level is not None and any("(" in each for each in said.values())
        sure = f" In parentheses: {confidence(self.level or 0.0)} confidence intervals." if shown else ""
        lines = [f"The data alone{whose}, whatever the coupling: {said.pop(ANY)}."]
        lines += [f"With {name} assumed: {each}." for name, each in said.items()]
        return "\n".join((self.title, *lines, self._verdict(told) + sure + self._direction(told)))

    def _direction(self, told: Mapping[str, str]) -> str:
        """Which end of the score is good, where the answer speaks of better or worse."""
        if self.known.scores is None or not {"better", "worse"} & set(told):
            return ""
        names, score = np.array(told_apart(self.labels), object), self.known.scores[1]
        best, worst = (" and ".join(names[score == end][:_MOST_TIED]) for end in (score.max(), score.min()))
        return f" Best: {best}; worst: {worst}."

    def _told(self, quantities: Mapping[str, str], coupling: str) -> str:
        """Each quantity in words, with its probability and interval."""
        told = ((words, self._index[quantity, PERSON, coupling]) for quantity, words in quantities.items())
        return ", ".join(f"{words} {in_words(row)}" for words, row in told)

    def methods(self) -> str:
        (here, there), names = self.worlds, ", ".join(self.couplings)
        return (
            f"We asked what a person with outcome {self.labels[self.seen]!r} under {here} would have had under {there}"
            f"{f' ({self.sample})' if self.sample else ''}. Counterfactual probabilities were computed exactly"
            f"{f' under {names}' if names else ''}, with sharp bounds over all couplings of the two "
            f"{'distributions' if self.level is None else 'arms'}"
            f"{'' if self.known.unknown else ' and over counterfactually stable ones'} "
            "(Oberst and Sontag 2019; Lorberbom et al. 2021; Haugh and Singal 2022). "
            f"{''.join(each.methods() for each in self._beside.values())}"
            f"{design_words(self.known.notes)}"
            f"{interval_methods(self.level)}Assumptions: {' '.join(self.assumptions)} "
            f"Software: Countermax {__version__}."
        )

    def _plot(self) -> "Figure":
        """Dots and ranges: better, then each outcome; by every coupling, and the bounds, with their intervals."""
        shown, cut = self._likeliest, len(self.labels) > _MOST_DRAWN
        if self._has_score or not cut:  # the order of a scale is worth more
            shown = sorted(shown)
        names = {each: self._label_of[each] for each in (f"P({self.labels[place]})" for place in shown)}
        if self._has_score and ("better", PERSON) not in self._impossible:
            names = {"better": "any better outcome"} | names
        asked = [each for each in self.rows if each.about == PERSON and each.quantity in names]
        rows = [each._replace(quantity=names[each.quantity]) for each in asked]
        title = self.title
        if cut:
            title += f"\nShown: the {len(shown)} of {len(self.labels):,} outcomes that are likeliest"
        order = [*dict.fromkeys(names.values())]
        (here, there), scale = fitted(self.worlds, _MOST_LETTERS), self.known.scale
        if self._has_score:
            scale = f"best \u2190 {scale} \u2192 worst"
        axes = f"probability under {there}, given what was seen under {here}", scale
        return plotting.draw_ranges(rows[::-1], order, title, axes, self.level)

    def plot_couplings(self) -> "Figure":
        """A heatmap of each coupling's joint law, with both laws on its margins."""
        if not self.joints:
            raise InputError(f"`plot_couplings` needs joint laws, and there are none of {len(self.labels):,} outcomes")
        title = "P(row under {}, column under {})".format(*told_apart(self.worlds))
        return plotting.draw_couplings(self.joints, self.p, self.q, told_apart(self.labels), title, self.worlds)

    @property
    def _beside(self) -> Mapping[str, AbstractResult]:
        both = {"sharing": self.sharing, "nests": self.nesting}
        return {name: each for name, each in both.items() if each is not None}

    def tables(self) -> list[Table]:
        """Quantities down, couplings across: of this person, then of everybody; the win probability is a note.

        Left out is what other lines say: the expected score, which the effect says; a better or worse outcome, where
        there is none; the same score, where only what was seen has it. Of very many outcomes the likeliest are shown.
        """
        shown = {quantity: f"P({label})" for quantity, label in self._label_of.items()}
        rank, few = {f"P({self.labels[at]})": rank for rank, at in enumerate(self._likeliest)}, len(shown) <= MOST_LINES
        found = []
        for about in (PERSON, EVERYBODY):
            rows = [each for each in self.rows if each.about == about and (each.quantity, about) not in self._repeated]
            if not few:
                rows = [each for each in rows if each.quantity in rank or each.quantity not in shown]
                rows.sort(key=lambda each: rank.get(each.quantity, -1))
            rows = [each._replace(quantity=shown.get(each.quantity, each.quantity)) for each in rows]
            found += [each._replace(columns=[about, *each.columns[1:]]) for each in tables_of(rows) if rows]
        if not few:
            more = f"... {len(shown) - len(rank):,} more: see to_frame()"
            found[0].lines.append([more, *[""] * (len(found[0].columns) - 1)])
        return [*found, *(table for each in self._beside.values() for table in each.tables())]

    def explore(self, path: str | Path | None = None, *, overwrite: bool = False) -> Path:
        """Opens the explorer, set to this answer, in a browser: one page that needs nothing else, nor a network.

        Args:
            path: File (.html) to write the page to, which is then not opened; by default a temporary one.
            overwrite: Whether a file that is there may be replaced.

        Returns:
            Where the page is.
        """
        return explore(self._on_page(), path, overwrite=overwrite)

    def _on_page(self) -> Start:
        known, counted = self.known, self.known.sampling is None or bool(self.known.sampling.counts)
        if not counted or known.unknown:
            raise InputError(UNEXPLORED)
        scores = known.scores or (np.zeros(len(self.labels)),) * 2
        if not np.array_equal(*scores):
            raise InputError("`explore` needs one score for both worlds; `write_page` shows this answer")
        best = int(scores[0].argmax() if known.scores else self.bounds.width.argmax())
        return Start(
            names=told_apart(self.labels),
            worlds=self.worlds,
            numbers=(self.p, self.q) if known.sampling is None else known.sampling.counts,
            counts=known.sampling is not None,
            score=scores[0],
            seen=self.seen,
            asked=best,
            couplings=self.couplings,
            level=self.level,
        )

    def _details(self) -> Mapping[str, Any]:
        own = self._named("labels", "worlds", "p", "q", "joints", "level", "tolerance", "coupling_matters")
        curves = {"sharing": self.sharing, "nesting": self.nesting}
        found = {name: None if each is None else each.to_dict() for name, each in curves.items()}
        return {"seen": self.labels[self.seen], **own, **found}

    @cached_property
    def _likeliest(self) -> list[int]:
        """What was seen, then the likeliest outcomes by any of the couplings; by their bounds where none was asked."""
        chances = np.max([*self.probabilities.values()] or [self.bounds.upper], axis=0)
        order = np.lexsort((-self.bounds.upper, -chances, np.arange(len(chances)) != self.seen))
        return list(map(int, order[:_MOST_DRAWN]))

    @cached_property
    def _label_of(self) -> dict[str, str]:
        """The label of the outcome that a quantity is the probability of, unlike that of any other."""
        return dict(zip((f"P({each})" for each in self.labels), told_apart(self.labels), strict=True))

    @cached_property
    def _index(self) -> dict[tuple[str, str, str], Row]:
        return {(each.quantity, each.about, each.coupling): each for each in self.rows}

    def _ends(self, coupling: str, *fields: str) -> list[Floats]:
        """Numbers of the rows about each outcome."""
        rows = [self._index[f"P({label})", PERSON, coupling] for label in self.labels]
        return [np.array([getattr(each, field) for each in rows]) for field in fields]

    @property
    def _has_score(self) -> bool:
        return ("better", PERSON, ANY) in self._index

    @cached_property
    def _repeated(self) -> set[tuple[str, str]]:
        """Rows that other lines of the table say, or that follow from the score alone."""
        if self.known.scores is None:
            return set()
        same = [*np.flatnonzero(self.known.kinds(self.seen)["same"])]
        found = {("expected score", PERSON)} | self._impossible
        return found | ({("same", PERSON)} if same in ([], [self.seen]) else set())

    @cached_property
    def _impossible(self) -> set[tuple[str, str]]:
        """A better outcome, or a worse one, where the score knows none."""
        return {(name, PERSON) for name, some in self.known.kinds(self.seen).items() if not some.any()}

    def _verdict(self, told: Mapping[str, str]) -> str:
        """Whether the choice of coupling matters, for what was told or else for an outcome."""
        if not self.coupling_matters:
            return f"The choice of coupling hardly matters: data alone fix every probability within {self.slack:.2g}."
        ranges = {quantity: self._index[quantity, PERSON, ANY] for quantity in told}
        widest, row = max(ranges.items(), key=lambda each: round(width(each[1]), 9))
        least = ""
        if width(row) <= self.tolerance:
            least = " for the outcome, hardly for what is told above"
            widest = f"P({self.labels[int(self.bounds.width.argmax())]})"
            row = self._index[widest, PERSON, ANY]
        words = told.get(widest, widest)
        ends = in_words(row._replace(ci_lower=None))
        text = f"The choice of coupling matters{least}: {words} may be anything from {ends}"
        if len(self.couplings) > 1:
            says = [self._index[widest, PERSON, name].value or 0.0 for name in self.couplings]
            span = in_words(Row(widest, PERSON, "", None, min(says), max(says)))
            text += f", and the couplings compared say {span}"
        return f"{text}."


def in_words(row: Row) -> str:
    """A probability, or a range of them, in a sentence; what rounding errors leave of 0 and of 1 is not told."""
    numbers = (None if each is None else round(each, 12) for each in row[3:])
    return Row(*row[:3], *numbers).said


def width(row: Row) -> float:
    """That of the range over couplings."""
    return (row.upper or 0.0) - (row.lower or 0.0)
