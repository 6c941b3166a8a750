"""People in two arms, what is asked about them, and how they were sampled."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, Never, final

import numpy as np
from rich.text import Text

from countermax._core.errors import InputError
from countermax._core.labels import Labels, listed, name_of
from countermax._core.quantities import as_amount, as_choice
from countermax._core.types import Labelled, Numbers
from countermax._core.words import WARNING
from countermax._tables.files import read_frame
from countermax._tables.frames import Floats
from countermax.causation import Causation
from countermax.causation._answering import Known, Strata, causes_of
from countermax.causation._limits import TRIAL
from countermax.causation._questions import Arms
from countermax.causation._sampling import of_two_arms, two_sources
from countermax.comparison import Comparison
from countermax.comparison._asking import Couplings, compare_worlds, score_words
from countermax.comparison._measuring import GIVEN_ORDER, TwoWorlds
from countermax.intervals._sampling import Sampling, as_counts, of_counts
from countermax.trial._people import (
    MISSING_RULES,
    People,
    count_clusters,
    design_notes,
    read_people,
    scale_notes,
    two_arms,
)
from countermax.trial._strata import (
    POPULATIONS,
    THIN_RULES,
    cells_of,
    crossing_of,
    merged_strata,
    people_words,
    sizes_of,
    standardised,
    thin_notes,
)
from countermax.trial._worlds import Given, numbers_words, read_score, with_best


@final
@dataclass(frozen=True)
class Design:
    """How people were sampled: with weights, in clusters, in strata.

    Args:
        weights: Column with the weight of each person.
        clusters: Column that names who was sampled, or treated, together; in a crossover, the people themselves.
        strata: Column with strata, or a list of columns (on a command line with commas). A comparison is standardised
            over them; causes are bounded within them and averaged, with cross-fitting, which is tighter.
        population: Population whose strata count in a comparison: `both` arms, the `control` or the `treated` one.
        thin: Treatment of strata with fewer than 10 people in an arm, where causes are asked: `refuse` them, or
            `merge` them with their neighbours in order.
    """

    weights: Hashable | None = None
    clusters: Hashable | None = None
    strata: Hashable | Sequence[Hashable] | None = None
    population: str = "both"
    thin: str = "refuse"

    def __post_init__(self) -> None:
        for name, rules in (("population", POPULATIONS), ("thin", THIN_RULES)):
            as_choice(f"`{name}`", getattr(self, name), rules)

    @property
    def is_plain(self) -> bool:
        """Whether people are independent and count the same."""
        return self.weights is None and self.clusters is None

    @property
    def _strata_words(self) -> str:
        """The column of the strata, or the columns, in a sentence."""
        several = self.strata if isinstance(self.strata, list | tuple) else [self.strata]
        return f"column{'s' * (len(several) > 1)} {listed(several)}"


@dataclass(frozen=True, eq=False)
class _Held:
    """What a trial holds."""

    labels: Labels
    arm_labels: Labels
    arms: tuple[str, str]
    score: Floats | None
    design: Design
    totals: Floats | None
    """[arms, strata, outcomes]: weights of people; the last outcome is the missing one, where some are missing."""
    chosen: Floats | None
    """[3, outcomes] of those who chose the control, the treatment or something else."""
    samples: tuple[People, ...] = ()
    """People of the trial, and people who chose; none where only counts are known."""
    notes: tuple[str, ...] = ()
    notes_of_choosers: tuple[str, ...] = ()
    order: str | None = GIVEN_ORDER
    scale: str = "outcome"

    @property
    def unknown(self) -> bool:
        """Whether outcomes of the trial are missing, and may have been any."""
        return bool(self.samples) and self.samples[0].some_missing

    @property
    def some_unknown(self) -> bool:
        """The same of the trial or of those who chose."""
        return any(each.some_missing for each in self.samples)

    @property
    def scores(self) -> tuple[Floats, Floats] | None:
        """The score in both worlds."""
        return None if self.score is None else (self.score, self.score)

    def sizes(self) -> list[int]:
        """Number of people in the control arm and in the treated one."""
        if self.samples:
            return [int((self.samples[0].arm == side).sum()) for side in (0, 1)]
        return [] if self.totals is None else [int(each.sum()) for each in self.totals]


@final
class Trial:
    """People in two arms, of whom each had one outcome: read and checked once, to be asked many things.

    Every number of an answer has a confidence interval for the sampling of the people.
    """

    def __init__(
        self,
        data: Any,
        *,
        outcome: Hashable,
        arm: Hashable,
        control: Hashable = None,
        treated: Hashable = None,
        labels: Sequence[Hashable] | None = None,
        score: Any = None,
        best: Hashable = None,
        design: Design | None = None,
        missing: str = "refuse",
        observational: Any = None,
        **others: Never,
    ):
        """Reads and checks the people.

        Args:
            data: Frame of pandas, polars or Arrow, or file (CSV, JSON lines, Parquet), with one row for each person.
            outcome: Column with the outcomes. An ordered category is their order, and its ranks are the default score.
            arm: Column with the arms, as assigned or as received.
            control: Arm without the treatment; not needed where there are two arms and `treated` is given.
            treated: Arm with the treatment; neither is needed where arms are 0 and 1, or false and true.
            labels: Outcomes in their order; by default the categories, else all values found, sorted.
            score: Score of each outcome (higher is better), by label; a list needs `labels` or an ordered category.
            best: Best outcome: the good end of the order of the outcomes, whose ranks are then the score; it must
                agree with a score that is given.
            design: Weights, clusters and strata; by default people are independent and count the same.
            missing: Treatment of people without an outcome: `refuse` them; `worst`: bounds hold whatever they had;
                `drop` them, which assumes that they are like the others.
            observational: Second frame or file with the same columns, of people who chose their arm; for causes.
            **others: None; arguments of `Design` are told from those that nobody knows.
        """
        for name in others:
            if name in {each.name for each in fields(Design)}:
                raise InputError(f"`{name}` belongs to the design: say design=Design({name}={others[name]!r})")
            raise TypeError(f"Trial has no argument {name!r}")
        as_choice("`missing`", missing, MISSING_RULES)
        if design is not None and not isinstance(design, Design):
            raise InputError(f"`design` must be a Design(weights=..., clusters=..., strata=...), got {design!r}")
        design = Design() if design is None else design
        asked = {"outcome": outcome, "arm": arm}
        asked |= {name: getattr(design, name) for name in ("clusters", "strata", "weights")}
        columns: dict[str, Hashable] = {}
        for name, column in asked.items():
            several = column if isinstance(column, list | tuple) else [] if column is None else [column]
            columns |= {f"{name}{place or ''}": each for place, each in enumerate(several)}
        frame = read_frame(data, columns)
        control, treated = two_arms(frame, arm, control, treated)
        people = read_people(frame, asked, (control, treated), labels, missing)
        names, ordered = people.labels, people.is_ordered or labels is not None
        scores: Floats | None = None
        if score is not None:
            ordered |= best is not None and people.order is not None  # numbers from first to last, of which one is best
            scores = read_score(names, "score", score, ordered=ordered)
        elif people.is_ordered and best is None:
            scores = np.arange(len(names), dtype=np.float64)
        scores = with_best(names, scores, best, ordered=people.order is not None)
        if scores is not None and people.order is None:  # better than that of the alphabet
            people, scores = people.from_worst_to_best(scores), np.sort(scores)
            names = people.labels
        notes = [*people.notes, *scale_notes(outcome, names, scores, len(people.arm))]
        samples, arms = [people], (name_of(control), name_of(treated))
        if not design.is_plain or design.strata is not None:
            notes += design_notes(people, asked, arms)
        of_others: list[str] = []
        if observational is not None:
            choosers = read_frame(observational, columns)
            seen = read_people(choosers, asked, (control, treated), names.values, missing, elsewhere=True)
            of_others = [f"Of those who chose: {each}" for each in seen.notes if "no outcome" in each]
            if design.clusters is not None:
                count_clusters(seen.cluster, "the sample of those who chose", design.clusters)
            samples.append(seen)
        totals = [
            cells_of(each, np.ones(len(each.outcome)), len(names) + each.some_missing, 2 + place)
            for place, each in enumerate(samples)
        ]
        self._held = _Held(
            labels=names,
            arm_labels=Labels((control, treated), untyped=frame.untyped),
            arms=arms,
            score=scores,
            design=design,
            totals=totals[0],
            chosen=totals[1].sum(axis=1) if len(samples) > 1 else None,
            samples=tuple(samples),
            notes=tuple(notes),
            notes_of_choosers=tuple(of_others),
            order=people.order,
            scale=str(outcome),
        )

    @classmethod
    def from_counts(
        cls,
        control: Numbers | Labelled | None,
        treated: Numbers | Labelled | None,
        *,
        labels: Sequence[Hashable] | None = None,
        score: Any = None,
        best: Hashable = None,
        names: tuple[str, str] = ("control", "treated"),
        observational: Mapping[str, Any] | None = None,
    ) -> "Trial":
        """A trial of which only the counts are known.

        Args:
            control: Number of people with each outcome in the control arm, by label or in the order of `labels`; None
                where people were only observed.
            treated: The same in the treated arm.
            labels: Names of the outcomes, in their order; by default those that the counts bring along.
            score: Score of each outcome (higher is better), by label; a list is in the order of the outcomes.
            best: Best outcome: the good end of the order of the outcomes, whose ranks are then the score.
            names: Names of the two arms.
            observational: Counts of people who chose, by arm (`names`, `elsewhere`) and then by outcome; for causes.
        """
        given = Given(control, treated, observational, labels, names, ("control", "treated"))
        numbers = {name: np.asarray(each, np.float64) for name, each in given.numbers.items()}
        for name, each in numbers.items():
            if np.isnan(each).any():
                raise InputError(f"`{name}` must not contain NaN: number {int(np.isnan(each).argmax()) + 1} is one")
            if name in ("control", "treated") or each.any():
                as_counts(f"`{name}`", each)
        scores = None if score is None else given.score("score", score)
        trial = cls.__new__(cls)
        trial._held = _Held(
            labels=given.labels,
            arm_labels=Labels(given.names),
            arms=given.names,
            score=with_best(given.labels, scores, best, ordered=given.ordered),
            design=Design(),
            totals=None if control is None else np.stack([numbers["control"], numbers["treated"]])[:, None],
            chosen=None if observational is None else given.observed(),
        )
        return trial

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outcomes, in their order."""
        return self._held.labels.names

    @property
    def arms(self) -> tuple[str, str]:
        """Names of the control arm and of the treated one."""
        return self._held.arms

    @property
    def score(self) -> Floats | None:
        """Score of each outcome (higher is better); None without one."""
        return self._held.score

    @property
    def design(self) -> Design:
        """How people were sampled."""
        return self._held.design

    def compare(
        self,
        seen: Hashable,
        *,
        under: Hashable = None,
        couplings: Couplings | None = None,
        tolerance: int | float = 0.05,
        sharing: bool = False,
        nests: Mapping[str, Any] | None = None,
        level: float = 0.95,
    ) -> Comparison:
        """Asks every coupling about one person: this was seen in one arm; what would have happened in the other?

        Args:
            seen: Outcome that the person had.
            under: Arm that the person was in; by default the control arm.
            couplings: Couplings to ask, by name, or `all`; by default Gumbel-max.
            tolerance: Largest width of the bounds at which the choice of coupling does not matter.
            sharing: Whether to ask also how much the two worlds must share for the answer to turn.
            nests: Nests of outcomes that are alike, as of `NestedGumbelMax`, to ask also how unlike those of one nest
                must be for the answer to turn.
            level: Confidence of the intervals.
        """
        worlds = self._two_worlds(under)
        return compare_worlds(
            worlds, seen, couplings=couplings, tolerance=tolerance, sharing=sharing, nests=nests, level=level
        )

    def causes(
        self,
        event: Any = None,
        *,
        at_least: int | float | None = None,
        gain: Any = None,
        people: str | None = None,
        treated_share: float | None = None,
        couplings: Couplings | None = None,
        level: float = 0.95,
    ) -> Causation:
        """What the treatment causes: necessity, sufficiency, benefit and harm, each with bounds and intervals.

        Args:
            event: Outcome, or list of outcomes, that is the event: adds PN, PS, PNS, disablement, enablement
                and prevention.
            at_least: Gain of the score; adds the share of those who gain as much.
            gain: Worth of treating somebody with each pair (without, with) of outcomes, as a matrix or by pair: adds
                the mean gain and the decision whom to treat.
            people: People the question is about: participants of the `trial`, or people who have `chosen`; by default
                the latter where there are observations.
            treated_share: Share of the treated in the trial, for disablement and enablement, if its design says so; by
                default that of its people.
            couplings: Couplings to ask, by name, `all`, or an empty list for none; by default Gumbel-max, and none for
                people who chose or within strata, where single couplings' values are biased.
            level: Confidence of the intervals.
        """
        share = None if treated_share is None else as_amount("`treated_share`", treated_share, above=0.0, most=1.0)
        if self.design.population != "both":
            raise InputError(
                "`population` standardises comparisons; causes are those of everybody in the trial, or of `people` who "
                "chose: leave it out"
            )
        known = self._known(people, share)
        if couplings and self._held.chosen is not None and known.crossing is not None:
            raise InputError(
                "`couplings` must be left out with `observational` and strata, weights, clusters or missing outcomes: "
                "there are bounds only"
            )
        return causes_of(known, event, at_least=at_least, gain=gain, people=people, couplings=couplings, level=level)

    def __repr__(self) -> str:
        held, (control, treated) = self._held, self.arms
        lines = [f"Trial of {treated} against {control}"]
        if held.totals is not None:
            sizes = held.sizes()
            lines[0] += f": {sizes[1]:,} and {sizes[0]:,} people"
            weighted = "" if self.design.weights is None else " (weighted)"
            for name, each in zip(self.arms, held.totals.sum(axis=1), strict=True):
                lost = f", {each[-1]:.4g} without an outcome" if held.unknown else ""
                lines.append(f"  {name}: {numbers_words(self.labels, each[: len(self.labels)])}{lost}{weighted}")
        if held.chosen is not None:
            number = int(held.chosen.sum()) if not held.samples else len(held.samples[1].arm)
            lines.append(f"  observed: {number:,} people who chose their arm")
        left_out = held.samples[0].left_out if held.samples else ""
        lines += [f"  left out: {left_out}"] * bool(left_out)
        lines.append(f"  {score_words(self.labels, held.scores)}")
        named = {name: getattr(self.design, name) for name in ("weights", "clusters", "strata")}
        used = [f"{name} {column!r}" for name, column in named.items() if column is not None]
        lines.append(f"  design: {', '.join(used) or 'independent people of equal weight'}")
        return "\n".join([*lines, *(f"  {each}" for each in held.notes if each.startswith(WARNING))])

    def __rich__(self) -> Text:
        return Text(repr(self))

    @property
    def _has_strata(self) -> bool:
        """Whether people are in more than one stratum."""
        return any(len(each.strata) > 1 for each in self._held.samples)

    def _sampling(self, first: int) -> Sampling:
        """How the two arms were estimated, the control (0) or the treated (1) first."""
        held = self._held
        assert held.totals is not None
        if held.samples and not (self.design.is_plain and self.design.strata is None):
            return standardised(held.samples[0], held.totals, self.arms, self.design.population, first)
        counts = held.totals[:, 0]
        return of_counts([counts[first], counts[1 - first]], people_words(held.sizes(), self.arms, first))

    def _two_worlds(self, under: Hashable) -> TwoWorlds:
        """The two arms as worlds, the one in which the person was first."""
        held, design = self._held, self.design
        if held.totals is None:
            raise InputError("`compare` needs both arms of an experiment: give `control` and `treated`")
        first = 0 if under is None else int(held.arm_labels.places([under])[0])
        if first < 0:
            arms = listed(held.arm_labels.values)
            raise InputError(f"`under` must be one of the two arms {arms}, got {listed([under])}")
        sampling, notes = self._sampling(first), list(held.notes)
        if design.strata is not None:
            whose = {"both": "both arms", "control": self.arms[0], "treated": self.arms[1]}[design.population]
            notes.append(
                f"Standardised over {design._strata_words} to the people of {whose}. Couplings and bounds are of the "
                "standardised arms; those within strata can differ, and bounds there can be narrower (`causes`)."
            )
            notes += thin_notes(held.samples[0])
        with np.errstate(divide="ignore"):
            log_p, log_q = map(np.log, sampling.split())
        return TwoWorlds(
            labels=held.labels,
            names=(self.arms[first], self.arms[1 - first]),
            log_p=log_p,
            log_q=log_q,
            scores=held.scores,
            sampling=sampling,
            unknown=held.unknown,
            order=held.order,
            notes=tuple(notes),
            scale=held.scale,
        )

    @cached_property
    def _stratified(self) -> tuple[Sequence[People], list[str]]:
        """People in strata with enough of them, and what to say about that."""
        held, design = self._held, self.design
        samples, notes = list(held.samples), ["Bounds are cross-fitted."]
        if design.strata is not None:
            samples, merged = merged_strata(samples, design.thin)
            notes = [*merged, f"Bounds are averages over the strata of {design._strata_words}, cross-fitted."]
        return samples, notes

    def _known(self, people: str | None, treated_share: float | None) -> Known:
        """What is known, for people of the trial or people who chose."""
        held, design = self._held, self.design
        notes = [*held.notes, *held.notes_of_choosers]
        share = treated_share
        if share is None and held.totals is not None:
            share = float(held.totals[1].sum() / held.totals.sum())
        known = partial(Known, held.labels, held.arms, scores=held.scores, order=held.order)
        if held.chosen is not None and design.is_plain and not self._has_strata and not held.some_unknown:
            trial = None if held.totals is None else Arms(held.totals[0, 0], held.totals[1, 0])
            sampling, evidence_of = two_sources(trial, held.chosen, share, held.arms)
            strata = None if trial is None else Strata(("",), sampling.sizes[None])
            evidence = evidence_of(sampling.laws)
            return known(evidence, sampling=sampling, evidence_of=evidence_of, strata=strata, notes=tuple(notes))
        assert held.totals is not None
        assert share is not None
        if not self._has_strata and held.chosen is None:
            # With weights the share of the treated is an estimate, whose error is in no interval.
            estimated = treated_share is None and any(np.ptp(each.weight) > 0 for each in held.samples)
            evidence_of = of_two_arms(None if estimated else share, unknown=held.unknown)
            sampling = self._sampling(0)
            return known(evidence_of(sampling.laws), sampling=sampling, evidence_of=evidence_of, notes=tuple(notes))
        samples, said = self._stratified
        size, of_trial = len(held.labels) + held.some_unknown, held.chosen is None or people == TRIAL
        crossing = crossing_of(samples, size, share, of_trial=of_trial)
        sample = people_words(held.sizes(), held.arms)
        if len(samples) > 1:
            sample += f", and {len(samples[1].arm):,} who chose"
        strata = Strata(samples[0].strata, sizes_of(samples))
        return known(crossing.whole, crossing=crossing, strata=strata, sample=sample, notes=(*notes, *said))
