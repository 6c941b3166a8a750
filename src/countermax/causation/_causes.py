"""Everything that a result says, from evidence: questions, answers, intervals and notes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.quantities import as_seed
from countermax.causation._answering import Evidences, answers_to, crossed_by, intervals_of
from countermax.causation._attaining import attained
from countermax.causation._crossing import Crossing
from countermax.causation._evidence import Choosers, Evidence
from countermax.causation._limits import CHOSEN, PEOPLE, TRIAL
from countermax.causation._missing import known_part
from countermax.causation._noting import further_notes
from countermax.causation._questions import Floats, listed_names, questions_about
from countermax.causation._result import Causation
from countermax.causation._sampling import SourceSampling
from countermax.causation._sources import Strata, check_sources
from countermax.comparison import GIVEN_ORDER, order_note
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_couplings, named_couplings
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.intervals._inversion import inverted_intervals
from countermax.intervals._sampling import AbstractSampling

Couplings = Mapping[str, str | AbstractCoupling] | Sequence[str]


def answered_causes(
    names: Labels,
    evidence: Evidence,
    *,
    sampling: AbstractSampling | None,
    evidence_of: Evidences | None,
    event: list[int] | None,
    scores: Floats | None,
    at_least: int | float | None,
    gain: Floats | None,
    people: str | None,
    couplings: Couplings | None,
    arms: tuple[str, str],
    level: float = 0.95,
    seed: int = 0,
    notes: Sequence[str] = (),
    crossing: Crossing | None = None,
    strata: Strata | None = None,
    sample: str | None = None,
    order: str = GIVEN_ORDER,
    method: Callable[..., Interval] = inverted_intervals,
) -> Causation:
    """A result from evidence that has been checked.

    Args:
        names: Labels of the outcomes.
        evidence: Evidence to answer from.
        sampling: Sampling behind the evidence; None where it is known.
        evidence_of: Function from pairs of worlds of the sampling to evidence.
        event: Places of the outcomes that are the event.
        scores: Score of each outcome (larger is better).
        at_least: Gain of the score to ask about.
        gain: Worth of treating, for each pair of outcomes.
        people: People the question is about.
        couplings: Couplings to ask.
        arms: Names of the arm without the treatment and of the arm with it.
        level: Confidence of the intervals.
        seed: Seed of the draws.
        notes: Further notes for the reader.
        crossing: Halves of the people and people drawn again, by stratum: bounds are then cross-fitted.
        strata: Names of the strata, and the numbers of people in each arm and observed, by stratum.
        sample: The sample in words, where the sampling does not say it.
        order: Source of the order of the outcomes, for the couplings that depend on it.
        method: Method that finds intervals.
    """
    check_level(level)
    seed = as_seed("seed", seed)
    people = (TRIAL if evidence.choices is None else CHOSEN) if people is None else people
    if people not in PEOPLE:
        raise InputError(f"`people` must be one of {', '.join(PEOPLE)}, got {people!r}")
    if people == TRIAL and evidence.trial is None:
        raise InputError("`people` can be 'trial' only with an experiment: give `control` and `treated`")
    if event is not None:
        _check_event(names, evidence, event)
    groups = evidence.choices is not None and people == CHOSEN
    questions = questions_about(names, arms, event, scores, at_least, gain, groups)
    notes = [*notes]
    if people == TRIAL and evidence.share is None:
        left = [each.name for each in questions if each.name in ("disablement", "enablement")]
        questions = [each for each in questions if each.name not in left]
        if left:
            notes.append("Disablement and enablement need to know how many were treated: say `treated_share`.")
    if isinstance(sampling, SourceSampling) and len(sampling.sizes) == 3:
        strata = Strata(None, sampling.sizes[None])
    notes += check_sources(evidence, names, arms, strata)
    by_score: dict[str, Any] = {} if scores is None else {"score": scores, "counterfactual_score": scores}
    with jax.enable_x64(True):
        asked: Mapping[str, AbstractCoupling] = {}
        if couplings is not None:
            asked = as_couplings(couplings, len(names), **by_score) if len(couplings) else {}
        elif people == TRIAL and evidence.choices is None:
            asked = named_couplings(["gumbel-max", "inverse-cdf", "maximal", "independent"])
    crossed = None if crossing is None else crossed_by(questions, crossing, people, level)
    found = None
    if crossing is not None or sampling is not None:
        found = intervals_of(
            questions, sampling, evidence_of, people, asked,
            level=level, seed=seed, method=method, crossing=crossing, crossed=crossed,
        )  # fmt: skip
    answers = answers_to(questions, evidence, people, asked, found, crossed)
    by_name = {each.name: each for each in questions}
    known = known_part(evidence)
    if known.strata is not None:
        known = known.without_strata(known.strata.__matmul__)
    notes += [*further_notes(names, evidence, people, questions, answers), *order_note(names, asked, order)]
    return Causation(
        labels=names.names,
        arms=arms,
        event=None if event is None else tuple(names.names[place] for place in event),
        people=people,
        control=None if known.trial is None else known.trial.control,
        treated=None if known.trial is None else known.trial.treated,
        observational=None if known.choices is None else _seen_table(known.choices),
        answers=answers,
        level=None if found is None else level,
        sample=sample if sampling is None else sampling.words(),
        notes=tuple(notes),
        attain=None
        if evidence.strata is not None or evidence.unknown
        else lambda name, side, kind: attained(by_name[name], evidence, people, side, kind),
    )


def _seen_table(choices: Choosers) -> Floats:
    """[control, treated, elsewhere; outcomes]."""
    rest = np.zeros_like(choices.control)
    rest[0] = np.asarray(choices.elsewhere)
    return np.stack([choices.control, choices.treated, rest])


def _check_event(names: Labels, evidence: Evidence, event: list[int]) -> None:
    """Refuses an event that never happens, or always."""
    worlds = evidence.trial or [each / each.sum() for each in evidence.chosen[:2]]
    shares = [share for each in worlds for share in np.ravel(each[..., event].sum(axis=-1))]
    for limit, word in ((0.0, "never"), (1.0, "always")):
        if all(abs(share - limit) < 1e-15 for share in shares):
            raise InputError(
                f"`event` must happen to some and not to others, but {listed_names(names, event)} {word} happens in "
                "these data; ask about another event"
            )
