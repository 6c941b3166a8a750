"""Coverage of intervals of probabilities of causation: trials, people who chose, strata, clusters, lost outcomes."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax._core.labels import Labels
from countermax._core.page import Sheet, Value
from countermax.causation import Causation
from countermax.causation._answering import Known, causes_of
from countermax.causation._questions import Arms, Choosers, Evidence
from countermax.tables import Predicted, Refit, Rows
from countermax.trial import Design, Trial
from studies import refits
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.refits import AGES, LABELS, Logistic

LEVEL = 0.95
SEED = 20261117
"""Seed of samples on which no rule was tried."""


class CausalTruth(NamedTuple):
    """What is true: in each stratum how outcomes are distributed without the treatment and with it."""

    control: tuple[tuple[float, ...], ...]
    treated: tuple[tuple[float, ...], ...]
    event: tuple[int, ...]
    size: int
    """People in each arm; of a second source, as many as in both."""
    choices: tuple[tuple[float, ...], ...] | None = None
    """P(chose, had) in each stratum, control first, where people who chose are observed, too. One number more is that
    for people who chose something else."""
    cluster: int = 0
    """People in each cluster; 0 for independent people."""
    tilt: tuple[float, ...] | None = None
    """How two kinds of people, or of clusters, differ from the mean. The first is sampled twice as often and weighs
    half as much."""
    mix: tuple[float, ...] | None = None
    """Shares of the strata among people who chose; in the trial they are equal."""
    people: str | None = None
    """Whom questions are about; by default those who chose where they were observed."""
    lost: tuple[tuple[float, ...], ...] | None = None
    """P(outcome is missing | outcome) in each arm, and among those who chose it."""
    missing: str = "refuse"
    """Treatment of missing outcomes."""
    couplings: tuple[str, ...] = ()
    """Couplings whose own answers have intervals, too."""
    cost: float = 0.03
    """Seconds that a sample takes, roughly."""
    samples: int = 1000
    seed: int = SEED


class RowTruth(NamedTuple):
    """A logistic truth with a covariate, to which a classifier is fitted, and fitted again."""

    effect: float
    """What the treatment adds to the logits of the last outcome, half as much to those of the one before it."""
    rows: int = 200
    refits: int = 200
    cost: float = 0.45
    samples: int = 2000
    seed: int = SEED


ALL_COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")

_EVEN, _FALLING = (0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1)
_KINKS = ((0.5, 0.3, 0.2), (0.5, 0.2, 0.3), (0.5, 0.25, 0.25), (0.2, 0.3, 0.5), (0.3, 0.2, 0.5))
_SICK, _SHARES, _FIT = (0.45, 0.35, 0.2), (0.35, 0.4, 0.25), (0.2, 0.32, 0.48)
_MIXED = ((0.3, 0.3, 0.4), (0.5, 0.2, 0.3), (0.6, 0.25, 0.15), (0.2, 0.3, 0.5), (0.1, 0.2, 0.7))
_UNLIKE = tuple((round(0.05 + 0.065 * place, 3), 0.2, round(0.75 - 0.065 * place, 3)) for place in range(12))
_BEFORE, _AFTER = tuple((*law, 0.0) for law in _UNLIKE[:8]), tuple((0.0, *law) for law in _UNLIKE[:8])
_CHOSE = ((0.45, 0.1, 0.1, 0.35), (0.3, 0.1, 0.2, 0.4), (0.2, 0.3, 0.1, 0.4))
_ELSEWHERE = ((0.35, 0.1, 0.1, 0.3, 0.15), (0.25, 0.1, 0.15, 0.3, 0.2), (0.2, 0.2, 0.1, 0.4, 0.1))
_THREE = ((0.7, 0.3), (0.6, 0.4), (0.5, 0.5)), ((0.4, 0.6), (0.4, 0.6), (0.35, 0.65))
_LOST, _LOST_BY_CHANCE = ((0.2, 0.1, 0.05), (0.05, 0.1, 0.1)), ((0.15, 0.15, 0.15), (0.1, 0.1, 0.1))
TRUTHS: dict[str, CausalTruth] = {
    "no effect, 2 outcomes": CausalTruth(((0.6, 0.4),), ((0.6, 0.4),), (1,), 50),
    "clear effect, 4 outcomes": CausalTruth((_FALLING,), (_EVEN,), (2, 3), 50),
    "rare event": CausalTruth(((0.99, 0.01),), ((0.96, 0.04),), (1,), 400),
    "two sources, 2 outcomes": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1]),
    "3 strata, no effect": CausalTruth((_SICK, _SHARES, _FIT), (_SICK, _SHARES, _FIT), (2,), 150),
    "5 strata, no effect, kinks": CausalTruth(_KINKS, _KINKS, (2,), 250),
    "5 strata, mixed effects": CausalTruth(_KINKS, _MIXED, (2,), 250),
    "8 unlike strata, one step up": CausalTruth(_BEFORE, _AFTER, (3,), 320, couplings=("gumbel-max",), cost=0.1),
    "12 unlike strata, no effect": CausalTruth(_UNLIKE, _UNLIKE, (2,), 240, couplings=("gumbel-max",), cost=0.1),
    "3 strata, two sources": CausalTruth(*_THREE, (1,), 300, _CHOSE),
    "clusters, weights": CausalTruth(
        ((0.4, 0.35, 0.25),),
        ((0.3, 0.3, 0.4),),
        (2,),
        400,
        cluster=10,
        tilt=(-0.15, 0.0, 0.15),
    ),
    "clusters, weights, 3 strata": CausalTruth(
        (_SICK, _SHARES, _FIT),
        (_SICK, _FIT, _FIT),
        (2,),
        600,
        cluster=10,
        tilt=(-0.1, 0.0, 0.1),
    ),
    "clusters, weights, two sources": CausalTruth(
        ((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1], cluster=10, tilt=(-0.05, 0.05)
    ),
    "some chose something else": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _ELSEWHERE[:1]),
    "some chose something else, 3 strata": CausalTruth(*_THREE, (1,), 300, _ELSEWHERE),
    "another population, 3 strata": CausalTruth(*_THREE, (1,), 300, _CHOSE, mix=(0.6, 0.3, 0.1)),
    "people of the trial, two sources": CausalTruth(*_THREE, (1,), 300, _CHOSE, mix=(0.6, 0.3, 0.1), people="trial"),
    "missing outcomes, worst": CausalTruth((_SICK,), (_FIT,), (2,), 150, lost=_LOST, missing="worst"),
    "missing outcomes, worst, 3 strata": CausalTruth(
        (_SICK, _SHARES, _FIT), (_SICK, _FIT, _FIT), (2,), 200, lost=_LOST, missing="worst"
    ),
    "missing outcomes, worst, two sources": CausalTruth(
        ((0.7, 0.3),),
        ((0.4, 0.6),),
        (1,),
        400,
        _CHOSE[:1],
        lost=((0.1, 0.05), (0.05, 0.1)),
        missing="worst",
        cost=0.14,
    ),
    "missing outcomes, left out": CausalTruth((_SICK,), (_FIT,), (2,), 150, lost=_LOST_BY_CHANCE, missing="drop"),
    "couplings, no effect": CausalTruth((_SHARES,), (_SHARES,), (2,), 100, couplings=ALL_COUPLINGS),
    "couplings, clear effect": CausalTruth((_SICK,), (_FIT,), (2,), 100, couplings=ALL_COUPLINGS),
    "couplings, two sources": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1], couplings=ALL_COUPLINGS),
    "couplings, 3 strata, no effect": CausalTruth(
        (_SICK, _SHARES, _FIT), (_SICK, _SHARES, _FIT), (2,), 150, couplings=ALL_COUPLINGS
    ),
    "couplings, 5 strata, mixed effects": CausalTruth(_KINKS, _MIXED, (2,), 250, couplings=ALL_COUPLINGS),
}
ROWS: dict[str, RowTruth] = {
    "rows, refit, no effect": RowTruth(0.0),
    "rows, refit, small effect": RowTruth(0.6),
    "rows, refit, clear effect": RowTruth(1.5),
}


Floats = NDArray[np.float64]
Spans = dict[str, tuple[float, float]]
"""Least and largest, by kind and name of a number."""

_ONE = "one coupling"
_KINDS = {"any coupling": "any coupling", "stable couplings": "stable", "monotone": "monotone"}
KINDS = (*_KINDS.values(), _ONE)
"""Of numbers: ranges over couplings, and answers of single ones."""


def spans_of(result: Causation, what: str) -> Spans:
    """All ranges and answers of a result, or their intervals.

    Args:
        result: A result.
        what: Whether its numbers are the `truth`, or to be told by their `intervals`.
    """
    found = {}
    for row in result.rows:
        numbers: Any = (row.ci_lower, row.ci_upper) if what == "intervals" else (row.lower, row.upper)
        if what == "truth" and row.value is not None:
            numbers = (row.value, row.value)
        kind = _KINDS.get(row.coupling)
        name = f"{_ONE}: {row.quantity}, {row.coupling}" if kind is None else f"{kind}: {row.quantity}"
        if numbers[0] is not None:
            found[name] = numbers
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
    score = np.arange(size, dtype=np.float64)
    known = Known(Labels(tuple(range(size))), ("0", "1"), evidence, (score, score))
    return causes_of(known, list(truth.event), people=truth.people, couplings=truth.couplings)


def _with_lost(truth: CausalTruth, *arms: Floats) -> list[Floats]:
    """Laws of outcomes in both arms, with one more for missing ones."""
    found = []
    for laws, lost in zip(arms, truth.lost or (), strict=True):
        gone = laws * np.array(lost)
        found.append(np.concatenate([laws - gone, gone.sum(axis=1, keepdims=True)], axis=1))
    return found


def sampled_causes(truth: CausalTruth, stream: np.random.Generator) -> Causation:
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
    trial = Trial(
        pandas.concat([pandas.DataFrame(each) for each in frames]), observational=seen, outcome="outcome", arm="arm",
        labels=range(size), score=list(range(size)), missing=truth.missing, design=Design(**design),
    )  # fmt: skip
    return trial.causes(list(truth.event), couplings=truth.couplings, people=truth.people, level=LEVEL)


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


_ASKED: dict[str, Any] = {"score": range(len(LABELS)), "labels": LABELS}


def known_rows(truth: RowTruth) -> Causation:
    """What is true on average over the population."""
    p, q = (refits.probabilities(np.array([(age, arm) for age in AGES]), truth.effect) for arm in (0.0, 1.0))
    ages = import_pandas().DataFrame({"age": AGES})
    return Rows(ages, factual=p, counterfactual=q, **_ASKED).causes(LABELS[-1])


def sampled_rows(truth: RowTruth, stream: np.random.Generator, seed: int) -> Causation:
    """A result of one sample."""
    frame = refits.sample(stream, truth.effect, truth.rows)
    model = Logistic().fit(frame[["age", "treated"]], frame["status"])
    worlds = [Predicted(model, {"treated": arm}) for arm in (0.0, 1.0)]
    refit = Refit(num_resamples=truth.refits, level=LEVEL, seed=seed)
    rows = Rows(frame, outcome="status", factual=worlds[0], counterfactual=worlds[1], refit=refit, **_ASKED)
    return rows.causes(LABELS[-1])


_MOST_SAMPLES = {"quick": 10, "published": 500, "best": 10_000}
_SECONDS = 35.0  # that a cell takes at most, roughly, so that little is lost where it is stopped
_BATCHES = (500, 250, 100, 50)  # samples in a cell
_UNTOLD = ("cost", "samples", "seed")
_ROUNDING = 1e-8
_SAMPLES = ", samples "


@final
class CausalCoverage(AbstractExperiment):
    """Data drawn again and again from a known truth."""

    name = "causation"
    title = "Coverage of intervals of probabilities of causation"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """Some for each truth, each with a batch of its samples; `seeds` counts the samples of a truth."""
        found = []
        truths: dict[str, CausalTruth | RowTruth] = {**TRUTHS, **ROWS}
        for name, truth in truths.items():
            number = min(truth.samples, _MOST_SAMPLES[checked_preset(preset)]) if seeds is None else seeds
            batch = next((each for each in _BATCHES if each * truth.cost <= _SECONDS), _BATCHES[-1])
            about = {key: value for key, value in truth._asdict().items() if key not in _UNTOLD}
            for start in range(0, number, batch):
                end = min(start + batch, number)
                settings = {**about, "first": start, "num_trials": end - start, "level": LEVEL, "seed": truth.seed}
                label = f"{name}{_SAMPLES}{start + 1} to {end}"
                found.append(Cell(self.name, label, settings, cost=truth.cost * (end - start)))
        return sorted(found, key=lambda cell: (cell.settings["first"], cell.cost))  # a little of every truth first

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """How often each interval covers, and how wide it is."""
        if context.train_only:
            return None
        name = cell.name.rsplit(_SAMPLES, 1)[0]
        truth = ROWS[name] if name in ROWS else TRUTHS[name]
        places = range(cell.settings["first"], cell.settings["first"] + cell.settings["num_trials"])
        return causal_coverage(truth, places, cell.settings["seed"], context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The least coverage over all numbers of a kind, and their mean width."""
        by_truth: dict[str, list[Result]] = {}
        for name, result in stored.items():
            by_truth.setdefault(name.rsplit(_SAMPLES, 1)[0], []).append(result)
        lines: list[list[Value]] = []
        for name in [each for each in (*TRUTHS, *ROWS) if each in by_truth]:
            pooled = _pooled(by_truth[name])
            line: list[Value] = [name, str(max(each["trials"] for each in pooled.values()))]
            for kind in KINDS:
                found = [each for number, each in pooled.items() if number.startswith(f"{kind}: ")]
                least = min((each["held"] / each["trials"] for each in found), default=None)
                width = np.mean([each["width"] / each["trials"] for each in found]) if found else 0.0
                line.append("none" if least is None else f"{least:.1%} ({width:.2f})")
            lines.append(line)
        headers = ("truth", "samples", *KINDS)
        title = "Coverage of the whole range by 95 % intervals: the least over all numbers (mean width)"
        words = [
            "PN, PS, PNS, disablement, enablement, benefit, harm and tie of data that are drawn from a known truth; an "
            "interval must cover the whole true range, or what one coupling says about the truth."
        ]
        return Section(self.title, words, {"causation": Sheet(title, headers, ("",) * len(headers), lines)})


def causal_coverage(
    truth: CausalTruth | RowTruth, places: Sequence[int], seed: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """In how many samples each interval covers the true range, and the sum of the widths.

    Args:
        truth: Truth that data are drawn from.
        places: Numbers of the samples, each of which has a stream of its own.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
    """
    found: Result = {}
    true = spans_of(known_rows(truth) if isinstance(truth, RowTruth) else known_causes(truth), "truth")
    for count, place in enumerate(places):
        stream = np.random.default_rng([seed, place])
        sample = sampled_rows(truth, stream, place) if isinstance(truth, RowTruth) else sampled_causes(truth, stream)
        _count(found, true, spans_of(sample, "intervals"))
        advance((count + 1) / len(places))
    return found


def _count(found: Result, true: Spans, intervals: Spans) -> None:
    """Adds a sample."""
    for name, (least, largest) in true.items():
        if name not in intervals:  # estimates that contradict monotonicity
            continue
        lower, upper = intervals[name]
        entry: dict[str, Any] = found.setdefault(name, {"held": 0, "trials": 0, "width": 0.0})
        entry["held"] += int(lower - _ROUNDING <= least and largest <= upper + _ROUNDING)
        entry["trials"] += 1
        entry["width"] += upper - lower


def _pooled(batches: Sequence[Result]) -> Result:
    """All samples of a truth together."""
    names = dict.fromkeys(name for batch in batches for name in batch)
    return {
        name: {key: sum(batch[name][key] for batch in batches if name in batch) for key in ("held", "trials", "width")}
        for name in names
    }
