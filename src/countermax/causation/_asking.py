"""The question itself, from numbers: probabilities or counts, of an experiment, of observations, or of both."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from countermax._core.checks import log_probs_from
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.quantities import as_amount
from countermax._core.seeds import as_seed
from countermax._core.types import Labelled, Numbers
from countermax.causation._answering import Evidences, answers_to, crossed_by, intervals_of
from countermax.causation._attaining import attained
from countermax.causation._crossing import Crossing
from countermax.causation._evidence import Evidence
from countermax.causation._limits import CHOSEN, PEOPLE, TRIAL
from countermax.causation._missing import known_part
from countermax.causation._noting import further_notes
from countermax.causation._questions import Floats, as_event, as_gain, listed_names, questions_about
from countermax.causation._result import Causation
from countermax.causation._sampling import SourceSampling
from countermax.causation._sources import Strata, check_sources
from countermax.comparison import in_order, own_labels
from countermax.couplings import AbstractCoupling, as_couplings, named_couplings
from countermax.intervals import AbstractSampling, CountSampling, Interval, check_level, inverted_intervals

Couplings = Mapping[str, str | AbstractCoupling] | Sequence[str]

_GROUPS = ("control", "treated", "elsewhere")


def probabilities_of_causation(
    control: Numbers | Labelled | None = None,
    treated: Numbers | Labelled | None = None,
    *,
    event: Any = None,
    score: Any = None,
    at_least: int | float | None = None,
    gain: Any = None,
    observational: Mapping[str, Any] | None = None,
    people: str | None = None,
    treated_share: float | None = None,
    labels: Sequence[Hashable] | None = None,
    arms: tuple[str, str] = ("control", "treated"),
    counts: bool = False,
    normalise: bool = False,
    couplings: Couplings | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Causation:
    """What the treatment causes: necessity, sufficiency, benefit, harm; sharp bounds, and what couplings say.

    Args:
        control: Experiment: probabilities (or counts) of the outcomes without the treatment.
        treated: Experiment: the same with the treatment.
        event: Outcome, or list of outcomes, that is the event: adds PN, PS, PNS, disablement and enablement.
        score: Score of each outcome (larger is better), by label or in order: adds benefit, harm and tie.
        at_least: Gain of the score; adds the share of those who gain as much.
        gain: Worth of treating somebody with each pair (without, with) of outcomes, as a matrix or by pair: adds the
            mean gain and the decision whom to treat.
        observational: Numbers of people who chose, by `control`, `treated` and `elsewhere` and then by outcome, which
            together sum to one (or count people).
        people: People the question is about: units of the `trial`, or people who have `chosen`; by default the latter
            where there are observations.
        treated_share: Share of the treated in the trial, for disablement and enablement; counts have their own.
        labels: Names of the outcomes, in their order; by default those that the numbers bring along.
        arms: Names of the arm without the treatment and of the arm with it.
        counts: Whether numbers count people: answers then have intervals.
        normalise: Whether to rescale numbers to sum to one.
        couplings: Couplings to ask, by name, or an empty list for none; by default the library's own, and none for
            people who chose.
        level: Confidence of the intervals.
        seed: Seed of the draws behind them.
    """
    if counts and normalise:
        raise InputError("`counts` need no `normalise`; say what the numbers are, once")
    if (control is None) != (treated is None):
        raise InputError("an experiment has two arms: give both `control` and `treated`, or neither")
    if control is None and observational is None:
        raise InputError("say what is known: `control` and `treated` of an experiment, `observational`, or all of them")
    if observational is not None:
        odd = [each for each in observational if each not in _GROUPS]
        if odd or not {"control", "treated"} <= set(observational):
            raise InputError(
                "`observational` must have numbers for 'control' and 'treated', and may have some for 'elsewhere'; got "
                f"{', '.join(map(repr, observational)) or 'nothing'}"
            )
    given = {"control": control, "treated": treated}
    given |= {f"observational[{name!r}]": each for name, each in (observational or {}).items()}
    own = {name: own_labels(each) for name, each in given.items() if each is not None}
    if labels is None:
        labels = next((each for each in own.values() if each is not None), None)
    elif isinstance(labels, str):
        raise InputError(f"`labels` must be a list of names, got the text {labels!r}")
    listed = None if labels is None else Labels(tuple(labels))
    numbers = {name: np.asarray(in_order(listed, name, given[name], own[name]), np.float64) for name in own}
    size = next(iter(numbers.values())).size
    names = listed or Labels(tuple(range(size)))
    for name, each in numbers.items():
        if each.shape != (len(names),):
            raise InputError(f"`{name}` must have a number for each of {len(names)} outcomes, got shape {each.shape}")
    trial = None
    if control is not None:
        trial = [np.exp(log_probs_from(name, numbers[name], normalise=normalise or counts)) for name in _GROUPS[:2]]
    seen = None
    if observational is not None:
        seen = np.stack([numbers.get(f"observational[{name!r}]", np.zeros(len(names))) for name in _GROUPS])
        seen = np.exp(log_probs_from("observational", seen.ravel(), normalise=normalise or counts)).reshape(seen.shape)
        for name, share in zip(_GROUPS[:2], seen.sum(axis=1), strict=False):
            if share <= 0:
                raise InputError(f"`observational` must have people who chose {name!r}, got none")
    sampling: AbstractSampling | None = None
    evidence_of: Evidences | None = None
    if treated_share is not None:
        treated_share = as_amount("`treated_share`", treated_share, above=0.0, most=1.0)
    if counts and seen is None:
        arms_counts = CountSampling(numbers["control"], numbers["treated"], arms)
        treated_share = 1 - arms_counts.weight if treated_share is None else treated_share
        sampling = arms_counts
        evidence_of = of_two_arms(treated_share)
    elif counts:
        observed = np.stack([numbers.get(f"observational[{name!r}]", np.zeros(len(names))) for name in _GROUPS])
        sources = SourceSampling(numbers.get("control"), numbers.get("treated"), observed)
        if treated_share is None and trial is not None:
            treated_share = float(numbers["treated"].sum() / (numbers["control"].sum() + numbers["treated"].sum()))
        sampling = sources
        evidence_of = sources.evidence_with(treated_share)
    first, second = (None, None) if trial is None else trial
    chose = (None, None, None) if seen is None else (seen[0], seen[1], np.asarray(seen[2].sum()))
    return answered_causes(
        names,
        Evidence(first, second, chose[0], chose[1], chose[2], treated_share),
        sampling=sampling,
        evidence_of=evidence_of,
        event=None if event is None else as_event(names, event),
        scores=None if score is None else names.scores("score", score),
        at_least=at_least,
        gain=None if gain is None else as_gain(names, gain),
        people=people,
        couplings=couplings,
        arms=arms,
        level=level,
        seed=seed,
    )


def of_two_arms(share: float | None, *, unknown: bool = False) -> Evidences:
    """What pairs of worlds say that are the two arms of a trial, of whom a share was treated."""

    def evidence(p: Floats, q: Floats) -> Evidence:
        return Evidence(p, q, None, None, None, share, unknown=unknown)

    return evidence


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
    method: Callable[..., Interval] = inverted_intervals,
) -> Causation:
    """`probabilities_of_causation` for numbers that have been checked.

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
        method: Method that finds intervals.
    """
    check_level(level)
    seed = as_seed("seed", seed)
    people = (CHOSEN if evidence.has_choices else TRIAL) if people is None else people
    if people not in PEOPLE:
        raise InputError(f"`people` must be one of {', '.join(PEOPLE)}, got {people!r}")
    if people == TRIAL and not evidence.has_trial:
        raise InputError("`people` can be 'trial' only with an experiment: give `control` and `treated`")
    if event is not None:
        _check_event(names, evidence, event)
    questions = questions_about(names, arms, event, scores, at_least, gain, evidence.has_choices and people == CHOSEN)
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
        elif people == TRIAL and not evidence.has_choices:
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
    notes += further_notes(names, evidence, people, questions, answers)
    return Causation(
        labels=names.names,
        arms=arms,
        event=None if event is None else tuple(names.names[place] for place in event),
        people=people,
        control=_overall(known_part(evidence).control, evidence.strata),
        treated=_overall(known_part(evidence).treated, evidence.strata),
        observational=None if not evidence.has_choices else _seen_table(evidence),
        answers=answers,
        level=None if found is None else level,
        sample=sample if sampling is None else sampling.words(),
        notes=tuple(notes),
        attain=None
        if evidence.strata is not None or evidence.unknown
        else lambda name, side, kind: attained(by_name[name], evidence, people, side, kind),
    )


def _overall(world: Floats | None, strata: Floats | None) -> Floats | None:
    return world if world is None or strata is None else np.asarray(strata @ world)


def _seen_table(evidence: Evidence) -> Floats:
    evidence = known_part(evidence)
    whole = evidence if evidence.strata is None else evidence.without_strata(evidence.strata.__matmul__)
    assert whole.seen_control is not None
    assert whole.seen_treated is not None
    rest = np.zeros_like(whole.seen_control)
    rest[0] = np.asarray(whole.elsewhere)
    return np.stack([whole.seen_control, whole.seen_treated, rest])


def _check_event(names: Labels, evidence: Evidence, event: list[int]) -> None:
    """Refuses an event that never happens, or always."""
    worlds = [each for each in (evidence.control, evidence.treated) if each is not None]
    if not worlds:
        worlds = [each / each.sum() for each in (evidence.seen_control, evidence.seen_treated) if each is not None]
    shares = [share for each in worlds for share in np.ravel(each[..., event].sum(axis=-1))]
    for limit, word in ((0.0, "never"), (1.0, "always")):
        if all(abs(share - limit) < 1e-15 for share in shares):
            raise InputError(
                f"`event` must happen to some and not to others, but {listed_names(names, event)} {word} happens in "
                "these data; ask about another event"
            )
