"""The question itself, from numbers: probabilities or counts, of an experiment, of observations, or of both."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from countermax._core.checks import log_probs_from
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.quantities import as_amount
from countermax._core.types import Labelled, Numbers
from countermax.causation._answering import Evidences
from countermax.causation._causes import Couplings, answered_causes
from countermax.causation._evidence import Arms, Choosers, Evidence
from countermax.causation._questions import Floats, as_event, as_gain
from countermax.causation._result import Causation
from countermax.causation._sampling import SourceSampling
from countermax.comparison import in_order, own_labels
from countermax.intervals._sampling import AbstractSampling, CountSampling

_GROUPS = ("control", "treated", "elsewhere")
_MOST_COUNTED = 2**50  # people with one outcome; a few such numbers are added up without rounding


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
    given |= {source_name(name): each for name, each in (observational or {}).items()}
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
    return causes_of_numbers(
        names, numbers, counts=counts, normalise=normalise, treated_share=treated_share, event=event, score=score,
        at_least=at_least, gain=gain, people=people, couplings=couplings, arms=arms, level=level, seed=seed,
    )  # fmt: skip


def causes_of_numbers(
    names: Labels,
    numbers: Mapping[str, Floats],
    *,
    counts: bool,
    normalise: bool,
    treated_share: float | None,
    event: Any,
    score: Any,
    gain: Any,
    arms: tuple[str, str],
    **asked: Any,
) -> Causation:
    """`probabilities_of_causation` of numbers that are in the order of the labels.

    Args:
        names: Labels of the outcomes.
        numbers: Probabilities or counts by source: `control`, `treated`, `observational['control']` and so on.
        counts: Whether numbers count people.
        normalise: Whether to rescale numbers to sum to one.
        treated_share: Share of the treated in the trial.
        event: Outcome, or list of outcomes, that is the event.
        score: Score of each outcome.
        gain: Worth of treating somebody with each pair of outcomes.
        arms: Names of the arm without the treatment and of the arm with it.
        asked: Further arguments of `answered_causes`.
    """
    rescaled = normalise or counts
    given = Arms(numbers["control"], numbers["treated"]) if "control" in numbers else None
    observed = None
    if any(name not in _GROUPS for name in numbers):
        observed = np.stack([numbers.get(source_name(name), np.zeros(len(names))) for name in _GROUPS])
    trial = choices = None
    if given is not None:
        laws = [np.exp(log_probs_from(name, numbers[name], normalise=rescaled)) for name in _GROUPS[:2]]
        trial = Arms(laws[0], laws[1])
    if observed is not None:
        seen = np.exp(log_probs_from("observational", observed.ravel(), normalise=rescaled)).reshape(observed.shape)
        for name, share in zip(_GROUPS[:2], seen.sum(axis=1), strict=False):
            if share <= 0:
                raise InputError(f"`observational` must have people who chose {name!r}, got none")
        choices = Choosers(seen[0], seen[1], np.asarray(seen[2].sum()))
    if treated_share is not None:
        treated_share = as_amount("`treated_share`", treated_share, above=0.0, most=1.0)
    sampling: AbstractSampling | None = None
    evidence_of: Evidences | None = None
    if counts:
        for name, each in numbers.items():
            wrong = each[(each != np.round(each)) | (each >= _MOST_COUNTED)]
            if len(wrong):
                raise InputError(f"`{name}` must hold counts, whole numbers from 0 on, got {wrong[0]:g}")
        if treated_share is None and given is not None:
            treated_share = float(given.treated.sum() / (given.control.sum() + given.treated.sum()))
        if observed is not None:
            sampling = SourceSampling(given, observed)
            evidence_of = sampling.evidence_with(treated_share)
        elif given is not None:
            sampling, evidence_of = CountSampling(*given, arms), of_two_arms(treated_share)
    return answered_causes(
        names,
        Evidence(trial, choices, treated_share),
        sampling=sampling,
        evidence_of=evidence_of,
        event=None if event is None else as_event(names, event),
        scores=None if score is None else names.scores("score", score),
        gain=None if gain is None else as_gain(names, gain),
        arms=arms,
        **asked,
    )


def source_name(group: str) -> str:
    """What messages call the numbers of people who chose an arm."""
    return f"observational[{group!r}]"


def of_two_arms(share: float | None, *, unknown: bool = False) -> Evidences:
    """What pairs of worlds say that are the two arms of a trial, of whom a share was treated."""

    def evidence(p: Floats, q: Floats) -> Evidence:
        return Evidence(Arms(p, q), None, share, unknown=unknown)

    return evidence
