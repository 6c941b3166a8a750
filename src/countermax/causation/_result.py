"""Probabilities of causation: the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.labels import fitted, quoted, told_apart
from countermax._core.results import AbstractResult, Row
from countermax._core.words import ANY, STABLE, confidence, percent
from countermax._version import __version__
from countermax.causation._attaining import Attained, attained
from countermax.causation._limits import CHOSEN, FAMILIES, MONOTONE, TRIAL, known_part
from countermax.causation._questions import GAIN, PREVENTION, CausalQuestion, Evidence, Floats
from countermax.comparison._measuring import design_words, interval_methods
from countermax.comparison._result import in_words, width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = "rows"
ABOUT = {TRIAL: "participants", CHOSEN: "people who chose", ROWS: "rows"}
"""Words for the people that are asked about."""

_MOST_LETTERS = 24  # of an arm below the picture
_NARROW = 0.05  # bounds at which the choice of coupling hardly matters


@dataclass(frozen=True)
class TreatmentDecision:
    """Whether to treat, by the mean gain."""

    certain: str
    """`treat`, `leave` or `open`: what every coupling says."""
    by_interval: str | None
    """The same for all that the confidence interval holds."""
    least_regret: str
    """`treat` or `leave`: what loses less in the worst case."""
    regret: float
    """What that can lose at most."""
    by_coupling: Mapping[str, str]


def decide(lower: float, upper: float) -> str:
    """What is certain about a gain between two limits."""
    return "treat" if lower > 0 else "leave" if upper <= 0 else "open"


def causation_title(labels: Sequence[str], arms: tuple[str, str], event: Sequence[int] | None) -> str:
    """The question."""
    control, treated = told_apart(arms)
    if event is None:
        return f"What {treated} changes, rather than {control}"
    names = quoted([labels[place] for place in event])
    what = names[0] if len(names) == 1 else f"the event ({', '.join(names[:-1])} or {names[-1]})"
    return f"Does {treated}, rather than {control}, cause or prevent {what}?"


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Causation(AbstractResult):
    """Probabilities of causation: for each quantity bounds over families of couplings, and what single couplings say.

    Quantities of an event are `PN`, `PS`, `PNS`, `disablement`, `enablement` and `prevention`; of a score `benefit`,
    `harm` and `tie`; of a gain `gain`. Where the estimates have no bounds (nobody is asked about, or they contradict
    monotonicity), a note says so, and a row has at most its confidence interval.
    """

    title: str = ""
    labels: tuple[str, ...]
    arms: tuple[str, str]
    """What being without the treatment, and being with it, is called."""
    people: str
    """Who is asked about: units of the `trial`, people who have `chosen` their arm, or the `rows` of a table."""
    rows: tuple[Row, ...] = ()
    level: float | None
    """Confidence of the intervals; None where probabilities are taken as known."""
    sample: str = ""
    notes: tuple[str, ...] = ()
    questions: tuple[CausalQuestion, ...]
    evidence: Evidence | None = None
    """What was known; None for averages over rows."""
    individual: Any = None
    """A frame with each row's own numbers, where rows were asked about."""
    groups: Mapping[str, "Causation"] = field(default_factory=dict)
    """The same of each group that `Rows.by` divides the rows into, without `individual`."""

    @property
    def meanings(self) -> dict[str, str]:
        """Each quantity in words."""
        return {each.name: each.meaning for each in self.questions}

    @property
    def control(self) -> Floats | None:
        """P(outcome without the treatment) in the experiment; None without one."""
        return None if self._known is None or self._known.trial is None else self._known.trial.control

    @property
    def treated(self) -> Floats | None:
        """P(outcome with the treatment) in the experiment; None without one."""
        return None if self._known is None or self._known.trial is None else self._known.trial.treated

    @property
    def observational(self) -> Floats | None:
        """[control, treated, elsewhere; outcomes]: P(chose, had); None without observations."""
        choices = None if self._known is None else self._known.choices
        if choices is None:
            return None
        rest = np.zeros_like(choices.control)
        rest[0] = np.asarray(choices.elsewhere)
        return np.stack([choices.control, choices.treated, rest])

    @property
    def decision(self) -> TreatmentDecision | None:
        """Whether to treat; None where no `gain` was given."""
        rows = {each.coupling: each for each in self._own if each.quantity == GAIN}
        whole = rows.get(ANY)
        if whole is None or whole.lower is None or whole.upper is None:
            return None
        lower, upper = whole.lower, whole.upper
        treat = upper + lower > 0
        interval = None if whole.ci_lower is None else decide(whole.ci_lower, whole.ci_upper or 0.0)
        says = {name: "treat" if row.value > 0 else "leave" for name, row in rows.items() if row.value is not None}
        regret = max(0.0, -lower if treat else upper)
        return TreatmentDecision(decide(lower, upper), interval, "treat" if treat else "leave", regret, says)

    @property
    def assumptions(self) -> tuple[str, ...]:
        who = {
            TRIAL: "the two arms are comparable: randomised, or alike in all that matters. For people who chose their "
            "treatment, a trial alone says nothing about PN or PS.",
            CHOSEN: "the people asked about chose their arm themselves.",
            ROWS: "among rows with the same covariates the treatment is as good as randomised.",
        }
        found = [who[self.people]]
        if self._known is not None and self._known.choices is not None and self._known.trial is not None:
            found.append("the samples are of one population.")
        if self.level is None and self.people != ROWS:
            found.append("the probabilities are known; how well they were estimated is not included.")
        return tuple(found)

    def _summary(self) -> str:
        """What was asked, what data alone say, what a coupling adds, and whether to treat or whether that matters."""
        whole = {each.quantity: each for each in self._own if each.coupling == ANY and each.lower is not None}
        told = {name: words for name, words in self._told().items() if name in whole}
        if not told:
            return f"{self.title}\nUndefined: nobody in these data is in the group that is asked about."
        named = self.people != CHOSEN or ABOUT[CHOSEN] in self.sample
        whose = [ABOUT[CHOSEN]] * (not named) + [self.sample] * bool(self.sample)
        told_of = f" ({(', from ' if self.observational is None else ': ').join(whose)})" if whose else ""
        between = f": {self._rarer}. Whatever" if PREVENTION in told else ", whatever"
        said = "; ".join(f"{before} {_said(whole[name])}{after}" for name, (before, after) in told.items())
        lines = [self.title, f"The data alone{told_of}{between} the coupling: {said}."]
        singles = [each.coupling for each in self._own if each.shown and each.coupling not in FAMILIES]
        for coupling in [*singles, MONOTONE][:1]:
            rows = {each.quantity: each for each in self._own if each.coupling == coupling and each.shown}
            answers = [f"{name} {_said(rows[name])}" for name in told if name in rows]
            if answers:
                assumed = "monotonicity" if coupling == MONOTONE else coupling
                lines.append(f"With {assumed} assumed: {', '.join(answers)}.")
        name = max(told, key=lambda each: width(whole[each]))
        if self.decision is not None:
            lines.append(_decision_words(self.decision, self.arms))
        elif width(whole[name]) <= _NARROW:
            lines.append("The choice of coupling hardly matters here.")
        else:
            ends = _said(whole[name]._replace(ci_lower=None))
            lines.append(f"The choice of coupling matters: {name} may be anything from {ends}.")
        if self.level is not None and any("(" in _said(whole[each]) for each in told):
            lines[-1] += f" In parentheses: {confidence(self.level)} confidence intervals."
        return "\n".join(lines)

    def _told(self) -> dict[str, tuple[str, str]]:
        """The quantities of the summary, in words before and after the number: of an event one, benefit and harm."""
        found = {}
        event = PREVENTION if self._rarer else "PN"
        for name, words in self.meanings.items():
            if name == event:
                had, _, instead = words.partition(": ")[2].partition("; would ")
                found[name] = f"of those who {had},", f" would {instead} ({name})"
        if self.decision is not None:
            return found | {GAIN: ("the mean gain is", "")}
        kinds = {"benefit": (f"benefit (better with {self.arms[1]})", ""), "harm": ("harm", "")}
        return found | {name: said for name, said in kinds.items() if name in self.meanings}

    def methods(self) -> str:
        crossed = self.evidence is not None and self.evidence.strata is not None
        shown = {each.coupling for each in self._own if each.shown}
        beside = {STABLE: "counterfactually stable ones (Oberst and Sontag 2019)", MONOTONE: "monotone ones"}
        families = "".join(f", and over {words}" for kind, words in beside.items() if kind in shown)
        single = ", ".join(each for each in dict.fromkeys(row.coupling for row in self.rows) if each not in FAMILIES)
        whom = f"{ABOUT[self.people]}{f' ({self.sample})' if self.sample else ''}"
        whom = self.sample if ABOUT[self.people] in self.sample else whom
        meanings = "; ".join(f"{name} ({meaning})" for name, meaning in self.meanings.items())
        return (
            f"We asked: {self.title.removesuffix('?')}? Of {whom} we report {meanings}. Bounds are "
            f"{'taken' if crossed else 'sharp'} over all couplings that the data allow (Tian and Pearl 2000; Li "
            f"and Pearl 2024){families}.{f' Single answers assume {single}.' if single else ''} "
            f"{design_words(self.notes)}{interval_methods(self.level, crossed=crossed)}"
            f"Assumptions: {' '.join(self.assumptions)} "
            f"Software: Countermax {__version__}."
        )

    def attaining(self, quantity: str, side: str, couplings: str = ANY) -> Attained:
        """Joint laws of both outcomes under which a quantity is at its `lower` or `upper` limit.

        Args:
            quantity: Quantity, for instance `PN`.
            side: `lower` or `upper`.
            couplings: Family of couplings that it ranges over: `any coupling`, `stable couplings` or `monotone`.
        """
        if side not in ("lower", "upper") or couplings not in FAMILIES:
            raise InputError(
                f"`side` must be lower or upper and `couplings` one of {', '.join(FAMILIES)}, got {side}, {couplings}"
            )
        row = self.row(quantity, couplings, ABOUT[self.people])
        question = next(each for each in self.questions if each.name == quantity)
        if row.lower is None or self.evidence is None or self.evidence.strata is not None or self.evidence.unknown:
            raise InputError(f"no coupling is known for the {side} limit of {quantity} over {couplings}")
        return attained(question, self.evidence, self.people, side, couplings)

    def _plot(self) -> "Figure":
        """Ranges and answers of couplings, a group for each quantity, with their intervals."""
        control, treated = fitted(self.arms, _MOST_LETTERS)
        of = f"of {ABOUT[self.people]}: {treated} against {control}"
        axes = f"probability, {of}" if self.decision is None else f"probability or gain, {of}", ""
        return plotting.draw_ranges([*reversed(self._own)], [*self.meanings], self.title, axes, self.level)

    def _details(self) -> Mapping[str, Any]:
        decision = None if self.decision is None else vars(self.decision)
        own = self._named("labels", "arms", "people", "meanings", "control", "treated", "observational")
        return {**own, "decision": decision, "level": self.level}

    @property
    def _own(self) -> list[Row]:
        """The rows that are about all of them."""
        return [each for each in self.rows if each.about == ABOUT[self.people]]

    @cached_property
    def _known(self) -> Evidence | None:
        """What is known of those who have an outcome, over all strata."""
        if self.evidence is None:
            return None
        known = known_part(self.evidence)
        return known if known.strata is None else known.without_strata(known.strata.__matmul__)

    @property
    def _rarer(self) -> str:
        """That the event is rarer with the treatment, where it is: the question is then what that prevents."""
        happens = next((each.among_treated for each in self.questions if each.name == "PN"), None)
        if happens is None or self.control is None or self.treated is None:
            return ""
        without, with_it = (float(each @ happens) for each in (self.control, self.treated))
        if with_it >= without:
            return ""
        (control, treated), shares = told_apart(self.arms), (percent(with_it), percent(without))
        return f"the event is rarer with {treated} ({shares[0]}) than with {control} ({shares[1]})"


def _said(row: Row) -> str:
    """A number in a sentence: a probability in per cent, a gain as it is."""
    return row.shown.replace("\n", " ") if row.quantity == GAIN else in_words(row)


def _decision_words(decision: TreatmentDecision, arms: tuple[str, str]) -> str:
    certain = {
        "treat": f"whatever the coupling, {arms[1]} gains on average",
        "leave": f"whatever the coupling, {arms[1]} gains nothing on average",
        "open": f"the data alone do not say whether {arms[1]} gains on average",
    }[decision.certain]
    says = "" if not decision.by_coupling else "; " + ", ".join(f"{k}: {v}" for k, v in decision.by_coupling.items())
    chance = {None: "", "open": ", but the confidence interval leaves it open"}.get(
        decision.by_interval, ", and the confidence interval agrees"
    )
    chance = "" if decision.certain == "open" else chance
    return (
        f"Whom to treat: {certain}{chance}; least regret in the worst case: {decision.least_regret} (loses at most "
        f"{decision.regret:.3g}){says}."
    )
