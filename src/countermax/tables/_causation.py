"""Probabilities of causation from raw data: two arms of a trial, people who chose, strata, clusters, weights."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax._core.seeds import as_seed
from countermax.causation import Causation, Evidence, answered_causes, as_event, as_gain, probabilities_of_causation
from countermax.couplings import AbstractCoupling
from countermax.intervals import AbstractSampling, CountSampling
from countermax.tables._arms import design_notes, resampled, totals_of
from countermax.tables._crossing import crossed_bounds, merged_strata, whole_law
from countermax.tables._people import People, read_frame, read_people
from countermax.tables.frames import AbstractFrame, Floats

THIN_RULES = ("refuse", "merge")
_NUM_RESAMPLES = 400


def causation_of_arms(
    data: Any,
    *,
    outcome: Hashable,
    arm: Hashable,
    control: Hashable = None,
    treated: Hashable = None,
    event: Any = None,
    score: Any = None,
    at_least: int | float | None = None,
    gain: Any = None,
    labels: Sequence[Hashable] | None = None,
    observational: Any = None,
    people: str | None = None,
    weights: Hashable | None = None,
    clusters: Hashable | None = None,
    strata: Hashable | None = None,
    thin: str = "refuse",
    missing: str = "refuse",
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    level: float = 0.95,
    num_resamples: int = _NUM_RESAMPLES,
    seed: int = 0,
    progress: bool | None = None,
) -> Causation:
    """What the treatment of a trial causes: necessity, sufficiency, benefit, harm, each with bounds and intervals.

    Args:
        data: A frame of pandas, polars or Arrow, or a file (CSV, JSON lines, Parquet): one row for each person.
        outcome: Column with the outcomes. An ordered category is their order, and its ranks are the default score.
        arm: Column with the arms.
        control: Arm without the treatment; may be left out where there are two arms and `treated` is given.
        treated: Arm with the treatment; both may be left out where arms are 0 and 1, or false and true.
        event: Outcome, or list of outcomes, that is the event.
        score: How good each outcome is, by label or in the order of the labels.
        at_least: Gain of the score; adds the share of those who gain as much.
        gain: What it is worth to treat somebody with each pair (without, with) of outcomes.
        labels: Outcomes in their order; by default the categories, else all values found, sorted.
        observational: A second frame or file with the same columns, of people who chose their arm.
        people: Who is asked about: units of the `trial`, or people who have `chosen`.
        weights: Column with the weight of each person.
        clusters: Column that names who was sampled, or treated, together.
        strata: Column within which bounds are taken, and over which they are averaged: tighter, and cross-fitted.
        thin: What to do about strata with fewer than 20 people in an arm: `refuse` them, or `merge` them.
        missing: What to do about people without an outcome: `refuse` them, or `drop` them.
        couplings: Couplings to ask, by name; by default the library's own.
        level: Confidence of the intervals.
        num_resamples: Number of resamples with weights or clusters.
        seed: Seed of the draws behind the intervals, and of the folds.
        progress: Whether to show a bar while resampling.
    """
    for name, value, rules in (("missing", missing, ("refuse", "drop")), ("thin", thin, THIN_RULES)):
        if value not in rules:
            raise InputError(f"`{name}` must be one of {', '.join(rules)}, got {value!r}")
    seed = as_seed("seed", seed)
    asked = {"outcome": outcome, "arm": arm, "clusters": clusters, "strata": strata, "weights": weights}
    frame = read_frame(data, {name: column for name, column in asked.items() if column is not None})
    control, treated = _two_arms(frame, arm, control, treated)
    found = read_people(frame, asked, (control, treated), labels, missing)
    names, arms = found.labels, (str(control), str(treated))
    if score is None and found.is_ordered:
        score = np.arange(len(names))
    common: dict[str, Any] = {"people": people, "couplings": couplings, "arms": arms, "level": level, "seed": seed}
    if observational is not None:
        extra = [name for name in ("weights", "clusters", "strata") if asked[name] is not None]
        if extra:
            raise InputError(f"`{extra[0]}` must be left out with `observational`: two samples are counted as they are")
        totals = totals_of(found, np.ones(len(found.outcome)), len(names))
        return probabilities_of_causation(
            *totals[:, 0],
            event=event, score=score, at_least=at_least, gain=gain, labels=names.values, counts=True,
            observational=_choices(observational, asked, (control, treated), names.values, missing), **common,
        )  # fmt: skip
    notes = list(found.notes)
    if strata is not None:
        found, merged = merged_strata(found, thin)
        notes += [*merged, f"Bounds are averages over the strata of column {strata!r}, cross-fitted."]
    totals = totals_of(found, np.ones(len(found.outcome)), len(names))
    share = float(totals[1].sum() / totals.sum())
    sampling: AbstractSampling
    if weights is None and clusters is None:
        sampling = CountSampling(totals[0].ravel(), totals[1].ravel(), arms)
    else:
        sampling = resampled(found, totals, whole_law, num_resamples, seed, progress, arms)
        notes += design_notes(found, asked)
    evidence_of = _stratified(len(found.strata), len(names), share) if strata is not None else _plain(share)
    crossed = None if strata is None else crossed_bounds(found, len(names), share, seed)
    return answered_causes(
        names,
        evidence_of(sampling.p, sampling.q),
        sampling=sampling,
        evidence_of=evidence_of,
        event=None if event is None else as_event(names, event),
        scores=None if score is None else names.scores("score", score),
        at_least=at_least,
        gain=None if gain is None else as_gain(names, gain),
        notes=notes,
        crossed=crossed,
        **common,
    )


def _plain(share: float) -> Callable[[Floats, Floats], Evidence]:
    return lambda p, q: Evidence(p, q, None, None, None, share)


def _stratified(num_strata: int, size: int, share: float) -> Callable[[Floats, Floats], Evidence]:
    """What laws of stratum and outcome in both arms say; a stratum that an arm lacks takes the other's outcomes."""

    def evidence(p: Floats, q: Floats) -> Evidence:
        cells = [each.reshape(*each.shape[:-1], num_strata, size) for each in (p, q)]
        strata = [each.sum(axis=-1, keepdims=True) for each in cells]
        laws = []
        for own, other in ((0, 1), (1, 0)):
            mass = np.where(strata[own] > 0, cells[own], cells[other])
            total = mass.sum(axis=-1, keepdims=True)
            laws.append(np.where(total > 0, mass, 1 / size) / np.where(total > 0, total, 1))
        weight = (1 - share) * strata[0][..., 0] + share * strata[1][..., 0]
        return Evidence(laws[0], laws[1], None, None, None, share, weight)

    return evidence


def _two_arms(frame: AbstractFrame, arm: Hashable, control: Hashable, treated: Hashable) -> tuple[Hashable, Hashable]:
    """The two arms, as far as they can be told without being named."""
    if control is not None and treated is not None:
        return control, treated
    _, values = frame.factorised(frame.column("arm", arm))
    plain = {str(value).lower(): value for value in values}
    for pair in (("0", "1"), ("false", "true"), ("0.0", "1.0")):
        if control is None and treated is None and set(plain) == set(pair):
            return plain[pair[0]], plain[pair[1]]
    if len(values) == 2 and (control is not None or treated is not None):
        given = str(treated if control is None else control)
        other = [value for value in values if str(value) != given]
        if len(other) == 1:
            return (other[0], treated) if control is None else (control, other[0])
    raise InputError(
        f"`control` and `treated` must say which arms of column {arm!r} are compared; they are {listed(values)}"
    )


def _choices(
    data: Any, asked: Mapping[str, Any], arms: tuple[Hashable, Hashable], labels: Sequence[Any], missing: str
) -> dict[str, Floats]:
    """How many chose each arm, or another one, by outcome."""
    frame = read_frame(data, {name: asked[name] for name in ("outcome", "arm")})
    some: People = read_people(frame, {**asked, "weights": None}, arms, labels, missing)
    totals = totals_of(some, np.ones(len(some.outcome)), len(labels))[:, 0]
    elsewhere = np.zeros(len(labels))
    elsewhere[0] = max(frame.num_rows - len(some.outcome), 0) if missing == "refuse" else 0
    return {"control": totals[0], "treated": totals[1], "elsewhere": elsewhere}
