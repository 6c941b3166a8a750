"""Samples of a truth, and what is asked about them."""

from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax._core.labels import Labels
from countermax.causation import Arms, Causation, Choosers, Evidence, answered_causes
from countermax.tables import causation_of_arms
from studies.causes._truths import LEVEL, CausalTruth

Floats = NDArray[np.float64]
Spans = dict[str, tuple[float, float]]
"""Least and largest, by kind and name of a number."""

_ONE = "one coupling"
_FIELDS = {"any coupling": "bounds", "stable": "stable_bounds", "monotone": "monotone_bounds"}
KINDS = (*_FIELDS, _ONE)
"""Of numbers: ranges over couplings, and answers of single ones."""


def spans_of(result: Causation, what: str) -> Spans:
    """All ranges and answers of a result, or their intervals.

    Args:
        result: A result.
        what: Whether its numbers are the `truth`, or to be told by their `intervals`.
    """
    found = {}
    for answer in result.answers:
        source: Any = answer if what == "truth" else answer.intervals
        for kind, field in _FIELDS.items():
            span = getattr(source, field)
            if span is not None:
                found[f"{kind}: {answer.name}"] = (float(span.lower), float(span.upper))
        for name, said in source.by_coupling.items():
            lower, upper = (said, said) if what == "truth" else said[:2]
            found[f"{_ONE}: {answer.name}, {name}"] = (float(lower), float(upper))
    return found


def known_causes(truth: CausalTruth) -> Causation:
    """The true ranges."""
    control, treated = (np.array(each) for each in (truth.control, truth.treated))
    strata, size = control.shape
    unknown = truth.missing == "worst"
    choices = None
    if truth.choices is not None:
        chose = np.array(truth.choices)
        choices = Choosers(chose[:, :size], chose[:, size : 2 * size], chose[:, 2 * size :].sum(axis=1))
    if unknown:
        control, treated = _with_lost(truth, control, treated)
        if choices is not None:
            chose_control, chose_treated = _with_lost(truth, *choices[:2])
            choices = Choosers(chose_control, chose_treated, choices.elsewhere)
    weight = np.full(strata, 1 / strata)
    if truth.mix is not None and truth.people != "trial":
        weight = np.array(truth.mix)
    evidence = Evidence(Arms(control, treated), choices, 0.5, weight, unknown)
    if strata == 1:
        evidence = evidence.without_strata(itemgetter(0))
    return answered_causes(
        Labels(tuple(range(size))),
        evidence,
        sampling=None,
        evidence_of=None,
        event=list(truth.event),
        scores=np.arange(size, dtype=np.float64),
        at_least=None,
        gain=None,
        people=truth.people,
        couplings=truth.couplings,
        arms=("0", "1"),
    )


def _with_lost(truth: CausalTruth, *arms: Floats) -> list[Floats]:
    """Laws of outcomes in both arms, with one more for missing ones."""
    found = []
    for laws, lost in zip(arms, truth.lost or (), strict=True):
        gone = laws * np.array(lost)
        found.append(np.concatenate([laws - gone, gone.sum(axis=1, keepdims=True)], axis=1))
    return found


def sampled_causes(truth: CausalTruth, stream: np.random.Generator, seed: int) -> Causation:
    """A result of one sample."""
    size, strata = len(truth.control[0]), len(truth.control)
    frames = []
    for arm, worlds in enumerate((truth.control, truth.treated)):
        people = _people(truth, truth.size, np.array(worlds), None, stream)
        frames.append(_losing(truth, people | {"arm": np.full(len(people["outcome"]), arm)}, stream))
    pandas, seen = import_pandas(), None
    if truth.choices is not None:
        people = _people(truth, 2 * truth.size, np.array(truth.choices), truth.mix, stream)
        cells = people["outcome"]
        people = _losing(truth, people | {"arm": cells // size, "outcome": cells % size}, stream)
        seen = pandas.DataFrame(people)
    design: dict[str, Any] = {} if truth.tilt is None else {"weights": "weight", "clusters": "cluster"}
    if strata > 1:
        design |= {"strata": "stratum", "thin": "merge"}
    return causation_of_arms(
        pandas.concat([pandas.DataFrame(each) for each in frames]), observational=seen,
        outcome="outcome", arm="arm", labels=range(size), seed=seed, level=LEVEL, progress=False,
        couplings=truth.couplings, event=list(truth.event), score=list(range(size)), people=truth.people,
        missing=truth.missing, **design,
    )  # fmt: skip


def _losing(truth: CausalTruth, people: dict[str, Any], stream: np.random.Generator) -> dict[str, Any]:
    """The same people, some without their outcomes."""
    if truth.lost is None:
        return people
    gone = stream.random(len(people["outcome"])) < np.array(truth.lost)[people["arm"], people["outcome"]]
    return people | {"outcome": np.where(gone, np.nan, people["outcome"])}


def _people(
    truth: CausalTruth, number: int, laws: Floats, mix: tuple[float, ...] | None, stream: np.random.Generator
) -> dict[str, Any]:
    """People of one sample: stratum, outcome, cluster and weight.

    Args:
        truth: Truth that people are drawn from.
        number: Number of people.
        laws: [strata, outcomes]: what they have.
        mix: Shares of the strata; by default they are equal.
        stream: Source of randomness.
    """
    each = max(truth.cluster, 1)
    cluster = np.repeat(np.arange(number // each), each) + stream.integers(2**40) * number
    stratum = stream.choice(len(laws), len(cluster), p=mix)
    kind = np.repeat(stream.random(number // each) < 1 / 3, each)
    shift = np.zeros(laws.shape[1]) if truth.tilt is None else np.resize(truth.tilt, laws.shape[1])
    if laws.shape[1] > len(truth.control[0]):
        shift /= 2
    law = laws[stratum] + np.where(kind, 1, -1)[:, None] * shift
    outcome = (stream.random(len(law))[:, None] > law.cumsum(axis=1)).sum(axis=1).clip(0, law.shape[1] - 1)
    return {"stratum": stratum, "outcome": outcome, "cluster": cluster, "weight": np.where(kind, 1.5, 0.75)}
