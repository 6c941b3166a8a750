"""Two arms of a trial, from raw data: who had which outcome, how well that is known, and one question."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax._core.progress import ProgressBar
from countermax._core.quantities import FEWEST_RESAMPLES, as_count, as_seed
from countermax._tables.files import read_frame
from countermax._tables.frames import Codes, Floats
from countermax.comparison import Comparison, answered
from countermax.couplings import AbstractCoupling
from countermax.intervals._sampling import AbstractSampling, CountSampling, ResampledSampling
from countermax.tables._design import design_notes
from countermax.tables._people import People, read_people

MISSING_RULES = ("refuse", "worst", "drop")
POPULATIONS = ("both", "factual", "counterfactual")

FEWEST = 20
"""People in a stratum and arm; and in a stratum, of those who chose."""

_NUM_RESAMPLES = 400
_MOST_LACKING = 0.1  # of the resamples may lack people of a stratum in an arm


def compare_arms(
    data: Any,
    *,
    outcome: Hashable,
    arm: Hashable,
    factual: Hashable,
    counterfactual: Hashable,
    observed: Hashable,
    score: Any = None,
    labels: Sequence[Hashable] | None = None,
    weights: Hashable | None = None,
    clusters: Hashable | None = None,
    strata: Hashable | None = None,
    population: str = "both",
    missing: str = "refuse",
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    level: float = 0.95,
    num_resamples: int = _NUM_RESAMPLES,
    seed: int = 0,
    tolerance: float = 0.05,
    progress: bool | None = None,
    sharing: bool = False,
) -> Comparison:
    """Asks every coupling about one person in a trial: this was seen in one arm; what would have happened in the other?

    Every answer has a confidence interval for the sampling of the people in both arms.

    Args:
        data: A frame of pandas, polars or Arrow, or a file (CSV, JSON lines, Parquet): one row for each person.
        outcome: Column with the outcomes. An ordered category is their order, and its ranks are the default score.
        arm: Column with the arms, as assigned or as received; the result names it.
        factual: Arm in which the person was.
        counterfactual: Arm that the question is about; all other arms play no part.
        observed: Outcome that the person had.
        score: One number for each outcome, by label or in the order of the labels; higher is better.
        labels: Outcomes in their order; by default the categories, else all values found, sorted.
        weights: Column with the weight of each person.
        clusters: Column that names the group in which people were sampled, or treated, together.
        strata: Column by which both arms are standardised: each stratum counts as it does in the `population`.
        population: Population whose strata count: `both` arms, the `factual` one or the `counterfactual` one.
        missing: Treatment of people without an outcome: `refuse` them, let them have had the `worst` for every
            bound (any outcome, that is), or `drop` them, which takes them for people like the others.
        couplings: Couplings to ask, by name; by default the library's own.
        level: Confidence of the intervals.
        num_resamples: Number of resamples with weights, clusters or strata.
        seed: Seed of the draws behind the intervals.
        tolerance: Largest width of the bounds at which the choice of coupling does not matter.
        progress: Whether to show a bar while resampling; by default if the output is a terminal.
        sharing: Whether to ask also how much the two worlds must share for the answer to turn.
    """
    if missing not in MISSING_RULES:
        raise InputError(f"`missing` must be one of {', '.join(MISSING_RULES)}, got {missing!r}")
    if population not in POPULATIONS:
        raise InputError(f"`population` must be one of {', '.join(POPULATIONS)}, got {population!r}")
    asked = {"outcome": outcome, "arm": arm, "clusters": clusters, "strata": strata, "weights": weights}
    frame = read_frame(data, {name: column for name, column in asked.items() if column is not None})
    people = read_people(frame, asked, (factual, counterfactual), labels, missing)
    names, notes = people.labels, list(people.notes)
    seen = names.place_of("observed", observed)
    if score is None and people.is_ordered:
        score = np.arange(len(names))
    scores = None if score is None else names.scores("score", score)
    plain = weights is None and clusters is None and strata is None
    seed = as_seed("seed", seed)
    unknown = missing == "worst" and bool((people.outcome < 0).any())
    totals = totals_of(people, np.ones(len(people.outcome)), len(names) + unknown)
    worlds = (str(factual), str(counterfactual))
    sampling: AbstractSampling
    if plain:
        sampling = CountSampling(totals[0, 0], totals[1, 0], worlds)
    else:
        _check_strata(people, totals, population)
        designed = design_notes(people, asked, worlds)
        sampling = resampled(people, totals, num_resamples, seed, progress, worlds, population=population)
        if strata is not None:
            whose = {"both": "both arms", "factual": "the factual arm", "counterfactual": "the other arm"}[population]
            notes.append(
                f"Standardised over column {strata!r} to the people of {whose}. Couplings and bounds are of the "
                "standardised arms; those within strata can differ, and bounds there are narrower "
                "(`causation_of_arms`)."
            )
            notes += _thin_notes(people)
        notes += designed
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(sampling.p), np.log(sampling.q)
    return answered(
        names,
        seen,
        log_p,
        log_q,
        sampling=sampling,
        scores=None if scores is None else (scores, scores),
        couplings=couplings,
        tolerance=tolerance,
        level=level,
        seed=seed,
        worlds=worlds,
        order=people.order,
        notes=tuple(notes),
        some_unknown=unknown,
        sharing=sharing,
    )


def totals_of(people: People, times: Floats, size: int) -> NDArray[np.float64]:
    """Weights of people by arm, stratum and outcome; the last is for the missing one, where there is room for it."""
    outcome = np.where(people.outcome < 0, size - 1, people.outcome)
    cells = (people.arm * len(people.strata) + people.stratum) * size + outcome
    shape = (2, len(people.strata), size)
    return np.bincount(cells, people.weight * times, int(np.prod(shape))).reshape(shape).astype(np.float64)


def _standardised(totals: Floats, population: str) -> tuple[Floats, Floats]:
    """Probabilities in both arms, each stratum as frequent as in the population; NaN where an arm lacks a stratum."""
    share = _shares(totals, population)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = totals / totals.sum(axis=2, keepdims=True)
    here, there = np.where(share[None, :, None] > 0, within * share[None, :, None], 0).sum(axis=1)
    return here, there


def _shares(totals: Floats, population: str) -> Floats:
    """How frequent each stratum is in the population."""
    people = totals.sum(axis=2)
    share = {"both": people.sum(axis=0), "factual": people[0], "counterfactual": people[1]}[population]
    return np.asarray(share / share.sum())


def _check_strata(people: People, totals: Floats, population: str) -> None:
    """Refuses strata that lack an arm which the population needs."""
    empty = totals.sum(axis=2) == 0
    needed = {"both": empty.any(axis=0), "factual": empty[1] & ~empty[0], "counterfactual": empty[0] & ~empty[1]}
    if needed[population].any():
        lacking = [name for name, lacks in zip(people.strata, needed[population], strict=True) if lacks]
        raise InputError(
            f"`strata` must have people in both arms, but {listed(lacking)} has only one; merge strata, or standardise "
            "to another `population`"
        )


def _thin_notes(people: People) -> list[str]:
    """That strata have few people."""
    count = np.zeros((2, len(people.strata)), np.int64)
    np.add.at(count, (people.arm, people.stratum), 1)
    few = np.asarray((count < FEWEST).any(axis=0) & count.any(axis=0))
    thin = [people.strata[place] for place in np.flatnonzero(few)]
    if not thin:
        return []
    return [
        f"Fewer than {FEWEST} people in an arm of stratum {listed(thin)}: intervals may be too short; merge strata."
    ]


def resampled(
    people: People,
    totals: Floats,
    num_resamples: int,
    seed: int,
    progress: bool | None,
    worlds: tuple[str, str],
    *,
    population: str = "both",
) -> ResampledSampling:
    """Both arms' estimates, and those of people or clusters that were drawn again.

    Args:
        people: Everybody in the two arms.
        totals: Weights by arm, stratum and outcome.
        num_resamples: Number of resamples.
        seed: Seed of the draws.
        progress: Whether to show a bar.
        worlds: Names of the arms.
        population: Population whose strata count.
    """
    num_resamples = as_count("`num_resamples`", num_resamples, least=FEWEST_RESAMPLES)
    sides, number = cluster_groups(people), int(people.cluster.max()) + 1
    stream = np.random.default_rng(seed)
    found = []
    with ProgressBar("resampling", num_resamples, progress) as bar:
        for _ in range(num_resamples):
            times = np.zeros(number)
            for group in sides:
                times[group] = stream.multinomial(len(group), np.full(len(group), 1 / len(group)))
            found.append(_standardised(totals_of(people, times[people.cluster], totals.shape[2]), population))
            bar.advance(1)
    here, there = (np.stack(each) for each in zip(*found, strict=True))
    whole = ~(np.isnan(here).any(axis=1) | np.isnan(there).any(axis=1))
    if whole.mean() < 1 - _MOST_LACKING:
        raise InputError(
            "`strata` are too thin: in many resamples a stratum has people in one arm only; merge some of them"
        )
    sizes = [int((people.arm == side).sum()) for side in (0, 1)]
    words = f"{sizes[0]:,} people in {worlds[0]} and {sizes[1]:,} in {worlds[1]}"
    clusters = sum(len(each) for each in sides)
    if clusters < len(people.arm):
        words += f" in {clusters:,} clusters"
    numbers = _effective_numbers(people, totals, population)
    return ResampledSampling(
        *_standardised(totals, population), here[whole], there[whole], words, people=numbers[0], units=numbers[1]
    )


def _effective_numbers(people: People, totals: Floats, population: str) -> list[tuple[float, float]]:
    """How many people, and how many clusters, would count as much in each arm, if all had the same weight (Kish)."""
    mass = totals.sum(axis=2)
    counts = np.where(mass > 0, _shares(totals, population) / np.where(mass > 0, mass, 1), 0)
    each = people.weight * counts[people.arm, people.stratum]
    result = []
    for groups in (np.arange(len(each)), people.cluster):
        parts = [np.bincount(groups[people.arm == side], each[people.arm == side]) for side in (0, 1)]
        here, there = (float(part.sum() ** 2 / (part**2).sum()) for part in parts)
        result.append((here, there))
    return result


def cluster_groups(people: People) -> list[Codes]:
    """Clusters that are drawn again together: those of an arm, if each is in one arm; else all of them."""
    first = np.zeros(people.cluster.max() + 1, np.int64)
    first[people.cluster] = people.arm
    present = np.unique(people.cluster)
    if not (first[people.cluster] == people.arm).all():
        return [present]
    return [present[first[present] == side] for side in np.unique(people.arm)]
