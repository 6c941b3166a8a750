"""Probabilities of causation from raw data: two arms of a trial, people who chose, strata, clusters, weights."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax._core.quantities import FEWEST_RESAMPLES, as_amount, as_count, as_seed
from countermax._tables.files import read_frame
from countermax._tables.frames import AbstractFrame
from countermax.causation import (
    Causation,
    Strata,
    answered_causes,
    as_event,
    as_gain,
    causes_of_numbers,
    of_two_arms,
    source_name,
)
from countermax.couplings import AbstractCoupling
from countermax.intervals._sampling import AbstractSampling, CountSampling
from countermax.tables._arms import MISSING_RULES, resampled
from countermax.tables._crossing import cells_of, crossing_of, merged_strata, sizes_of, whole_law
from countermax.tables._design import count_clusters, design_notes
from countermax.tables._people import People, read_people, with_others

THIN_RULES = ("refuse", "merge")
_NUM_RESAMPLES = 400
_CALLED = ("control", "treated")


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
    treated_share: float | None = None,
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
        score: Score of each outcome (larger is better), by label or in the order of the labels.
        at_least: Gain of the score; adds the share of those who gain as much.
        gain: Worth of treating somebody with each pair (without, with) of outcomes.
        labels: Outcomes in their order; by default the categories, else all values found, sorted.
        observational: A second frame or file with the same columns, of people who chose their arm.
        people: People the question is about: units of the `trial`, or people who have `chosen`.
        treated_share: Share of the treated in the trial, for disablement and enablement, if its design says so; by
            default that of its people.
        weights: Column with the weight of each person.
        clusters: Column that names who was sampled, or treated, together.
        strata: Column within which bounds are taken, and over which they are averaged: tighter, and cross-fitted.
        thin: Treatment of strata with fewer than 20 people in an arm: `refuse` them, or `merge` them.
        missing: Treatment of people without an outcome: `refuse` them, let them have had the `worst` for every bound
            (any outcome, that is), or `drop` them, which takes them for people like the others.
        couplings: Couplings to ask, by name, or an empty list for none; by default the library's own.
        level: Confidence of the intervals.
        num_resamples: Number of resamples with weights or clusters.
        seed: Seed of the draws behind the intervals, and of the folds.
        progress: Whether to show a bar while resampling.
    """
    for name, value, rules in (("missing", missing, MISSING_RULES), ("thin", thin, THIN_RULES)):
        if value not in rules:
            raise InputError(f"`{name}` must be one of {', '.join(rules)}, got {value!r}")
    seed = as_seed("seed", seed)
    num_resamples = as_count("`num_resamples`", num_resamples, least=FEWEST_RESAMPLES)
    if treated_share is not None:
        treated_share = as_amount("`treated_share`", treated_share, above=0.0, most=1.0)
    asked = {"outcome": outcome, "arm": arm, "clusters": clusters, "strata": strata, "weights": weights}
    frame = read_frame(data, {name: column for name, column in asked.items() if column is not None})
    control, treated = _two_arms(frame, arm, control, treated)
    found = read_people(frame, asked, (control, treated), labels, missing, _CALLED)
    names, arms = found.labels, (str(control), str(treated))
    if score is None and found.is_ordered:
        score = np.arange(len(names))
    common: dict[str, Any] = {"people": people, "couplings": couplings, "arms": arms, "level": level, "seed": seed}
    common |= {"order": found.order}
    about: dict[str, Any] = {"event": event, "score": score, "at_least": at_least, "gain": gain}
    plain, notes, samples = weights is None and clusters is None, list(found.notes), [found]
    if observational is not None:
        samples.append(_choosers(observational, asked, (control, treated), names.values, missing))
    unknown = any(bool((each.outcome < 0).any()) for each in samples)
    if observational is not None:
        notes += [f"Of those who chose: {each}" for each in samples[1].notes if "no outcome" in each]
        if plain and strata is None and not unknown:
            trial, seen = (
                cells_of(each, np.ones(len(each.outcome)), len(names), place + 2)[:, 0]
                for place, each in enumerate(samples)
            )
            numbers = dict(zip(("control", "treated"), trial, strict=False))
            numbers |= zip(map(source_name, ("control", "treated", "elsewhere")), seen, strict=True)
            return causes_of_numbers(
                names, numbers, counts=True, normalise=False, treated_share=treated_share, notes=notes,
                **about, **common,
            )  # fmt: skip
        if couplings:
            raise InputError(
                "`couplings` must be left out with `observational` and strata, weights, clusters or missing outcomes: "
                "there are bounds only"
            )
    size = len(names) + unknown
    crossing = strata is not None or observational is not None
    if strata is not None:
        samples, merged = merged_strata(samples, thin)
        notes += [*merged, f"Bounds are averages over the strata of column {strata!r}, cross-fitted."]
    elif crossing:
        notes.append("Bounds are cross-fitted.")
    found = samples[0]
    totals = cells_of(found, np.ones(len(found.outcome)), size, 2)
    share = float(totals[1].sum() / totals.sum()) if treated_share is None else treated_share
    sampling: AbstractSampling | None = None
    crossed, evidences = None, of_two_arms(share, unknown=unknown)
    if not plain:
        notes += design_notes(found, asked, arms)
        if clusters is not None and len(samples) > 1:
            count_clusters(samples[1].cluster, "the sample of those who chose", clusters)
    of_trial = people == "trial" or (people is None and observational is None)
    if weights is not None and treated_share is None and event is not None and of_trial:
        notes.append(
            f"Disablement and enablement take {share:.3f}, the weighted share of the treated, as known: its own error "
            "is not in their intervals. If the design fixed another share, say `treated_share` (--treated-share)."
        )
    if not crossing:
        whole = evidences(*whole_law(totals))
        if plain:
            sampling = CountSampling(totals[0].ravel(), totals[1].ravel(), arms)
        else:
            sampling = resampled(found, totals, num_resamples, seed, progress, arms)
    else:
        crossed = crossing_of(
            samples, size, share, seed,
            of_trial=observational is None or people == "trial", unknown=unknown, plain=plain,
            num_draws=num_resamples, progress=progress,
        )  # fmt: skip
        whole = crossed.whole
    return answered_causes(
        names,
        whole,
        sampling=sampling,
        evidence_of=evidences,
        event=None if event is None else as_event(names, event),
        scores=None if score is None else names.scores("score", score),
        at_least=at_least,
        gain=None if gain is None else as_gain(names, gain),
        notes=notes,
        crossing=crossed,
        strata=Strata(found.strata, sizes_of(samples)),
        sample=_sample_words(samples),
        **common,
    )


def _sample_words(samples: Sequence[People]) -> str:
    sizes = [f"{int((samples[0].arm == side).sum()):,}" for side in (0, 1)]
    if len(samples) == 1:
        return f"{sizes[0]} and {sizes[1]} people in the two arms"
    return f"{sizes[0]} and {sizes[1]} people in the two arms of the experiment and {len(samples[1].arm):,} who chose"


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


def _choosers(
    data: Any, asked: Mapping[str, Any], arms: tuple[Hashable, Hashable], labels: Sequence[Any], missing: str
) -> People:
    """People who chose: the control, the treatment, or something else."""
    frame = read_frame(data, {name: column for name, column in asked.items() if column is not None})
    return with_others(frame, asked, arms, read_people(frame, asked, arms, labels, missing, _CALLED))
