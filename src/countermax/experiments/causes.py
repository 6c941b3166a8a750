"""Do intervals of probabilities of causation hold the truth? Trials, two sources and strata, drawn again and again."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax._core.labels import Labels
from countermax._core.sheet import Sheet, Value
from countermax.causation import Causation, Evidence, answered_causes
from countermax.experiments.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from countermax.tables import causation_of_arms

Floats = NDArray[np.float64]

LEVEL = 0.95
SEED = 20261116
"""Of the samples; rules were mended on others, but four truths had been counted on these before the last repair."""
_NUM_TRIALS = {"quick": 10, "published": 100, "best": 400}
_ROUNDING = 1e-8
_KINDS = {"any coupling": "bounds", "stable": "stable_bounds", "harms nobody": "monotone_bounds"}


class CausalTruth(NamedTuple):
    """What is true: in each stratum how outcomes are distributed without the treatment and with it."""

    control: tuple[tuple[float, ...], ...]
    treated: tuple[tuple[float, ...], ...]
    event: tuple[int, ...]
    size: int
    """People in each arm; of a second source, as many as in both."""
    choices: tuple[tuple[float, ...], ...] | None = None
    """P(chose, had) in each stratum, control first, where people who chose are observed, too."""
    cluster: int = 0
    """People in each cluster; 0 for independent people."""
    tilt: tuple[float, ...] | None = None
    """How two kinds of people, or of clusters, differ from the mean. The first is sampled twice as often and weighs
    half as much."""

    @property
    def is_crossed(self) -> bool:
        """Whether bounds are cross-fitted."""
        return len(self.control) > 1 or (self.choices is not None and self.tilt is not None)


_EVEN, _FALLING = (0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1)
_KINKS = ((0.5, 0.3, 0.2), (0.5, 0.2, 0.3), (0.5, 0.25, 0.25), (0.2, 0.3, 0.5), (0.3, 0.2, 0.5))
_SICK, _SHARES, _FIT = (0.45, 0.35, 0.2), (0.35, 0.4, 0.25), (0.2, 0.32, 0.48)
_MIXED = ((0.3, 0.3, 0.4), (0.5, 0.2, 0.3), (0.6, 0.25, 0.15), (0.2, 0.3, 0.5), (0.1, 0.2, 0.7))
_CHOSE = ((0.45, 0.1, 0.1, 0.35), (0.3, 0.1, 0.2, 0.4), (0.2, 0.3, 0.1, 0.4))
TRUTHS: dict[str, CausalTruth] = {
    "no effect, 2 outcomes": CausalTruth(((0.6, 0.4),), ((0.6, 0.4),), (1,), 50),
    "clear effect, 4 outcomes": CausalTruth((_FALLING,), (_EVEN,), (2, 3), 50),
    "rare event": CausalTruth(((0.99, 0.01),), ((0.96, 0.04),), (1,), 400),
    "two sources, 2 outcomes": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1]),
    "3 strata, no effect": CausalTruth((_SICK, _SHARES, _FIT), (_SICK, _SHARES, _FIT), (2,), 150),
    "5 strata, no effect, kinks": CausalTruth(_KINKS, _KINKS, (2,), 250),
    "5 strata, mixed effects": CausalTruth(_KINKS, _MIXED, (2,), 250),
    "3 strata, two sources": CausalTruth(
        ((0.7, 0.3), (0.6, 0.4), (0.5, 0.5)), ((0.4, 0.6), (0.4, 0.6), (0.35, 0.65)), (1,), 300, _CHOSE
    ),
    "clusters, weights": CausalTruth(
        ((0.4, 0.35, 0.25),), ((0.3, 0.3, 0.4),), (2,), 400, cluster=10, tilt=(-0.15, 0.0, 0.15)
    ),
    "clusters, weights, 3 strata": CausalTruth(
        (_SICK, _SHARES, _FIT), (_SICK, _FIT, _FIT), (2,), 600, cluster=10, tilt=(-0.1, 0.0, 0.1)
    ),
    "clusters, weights, two sources": CausalTruth(
        ((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1], cluster=10, tilt=(-0.05, 0.05)
    ),
}


@final
class CausalCoverage(AbstractExperiment):
    """Data drawn again and again from a known truth."""

    name = "causation"
    title = "Do intervals of probabilities of causation hold the truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each truth; `seeds` counts the trials."""
        found = []
        for name, truth in TRUTHS.items():
            number = _NUM_TRIALS[checked_preset(preset)] if seeds is None else seeds
            settings = {**truth._asdict(), "num_trials": number, "level": LEVEL, "seed": SEED}
            found.append(Cell(self.name, name, settings, cost=float(number if truth.is_crossed else 8 * number)))
        return found

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage and mean width of every number."""
        if context.train_only:
            return None
        return causal_coverage(TRUTHS[cell.name], cell.settings["num_trials"], cell.settings["seed"], context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The least coverage over all numbers of a kind, and their mean width."""
        lines: list[list[Value]] = []
        for name, result in stored.items():
            line: list[Value] = [name]
            for kind in _KINDS:
                found = [each for number, each in result.items() if number.startswith(f"{kind}: ")]
                least = min((each["coverage"] for each in found), default=None)
                width = np.mean([each["width"] for each in found]) if found else 0.0
                line.append("none" if least is None else f"{least:.1%} ({width:.2f})")
            lines.append(line)
        headers = ("truth", *_KINDS)
        title = "How often 95 % intervals hold the whole range: the least over all numbers (mean width)"
        words = [
            "PN, PS, PNS, disablement, enablement, benefit, harm and tie of data that are drawn from a known truth; an "
            "interval holds if it holds the whole true range."
        ]
        return Section(self.title, words, {"causation": Sheet(title, headers, ("",) * len(headers), lines)})


def causal_coverage(
    truth: CausalTruth, num_trials: int, seed: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """How often intervals hold the true range, and their mean width, for every number.

    Args:
        truth: Truth that data are drawn from.
        num_trials: Number of samples.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
    """
    stream = np.random.default_rng(seed)
    true = _spans(_known(truth), "truth")
    held: dict[str, list[bool]] = {name: [] for name in true}
    widths: dict[str, list[float]] = {name: [] for name in true}
    for place in range(num_trials):
        found = _spans(_sampled(truth, stream, place), "intervals")
        for name, (least, largest) in true.items():
            lower, upper = found[name]
            held[name].append(bool(lower - _ROUNDING <= least and largest <= upper + _ROUNDING))
            widths[name].append(upper - lower)
        advance((place + 1) / num_trials)
    return {name: {"coverage": float(np.mean(held[name])), "width": float(np.mean(widths[name]))} for name in held}


def _spans(result: Causation, what: str) -> dict[str, tuple[float, float]]:
    found = {}
    for answer in result.answers:
        for kind, field in _KINDS.items():
            source: Any = answer if what == "truth" else answer.intervals
            span = getattr(source, field)
            if span is not None:
                found[f"{kind}: {answer.name}"] = (float(span.lower), float(span.upper))
    return found


def _known(truth: CausalTruth) -> Causation:
    """The true ranges."""
    control, treated = (np.array(each) for each in (truth.control, truth.treated))
    strata, size = control.shape
    seen: list[Floats | None] = [None, None, None]
    if truth.choices is not None:
        chose = np.array(truth.choices).reshape(strata, 2, size)
        seen = [chose[:, 0], chose[:, 1], np.zeros(strata)]
    weight = np.full(strata, 1 / strata)
    evidence = Evidence(control, treated, seen[0], seen[1], seen[2], 0.5, weight)
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
        people=None,
        couplings=[],
        arms=("0", "1"),
    )


def _sampled(truth: CausalTruth, stream: np.random.Generator, seed: int) -> Causation:
    """A result of one sample."""
    size, strata = len(truth.control[0]), len(truth.control)
    frames = [
        _people(truth, truth.size, np.array(worlds), stream) | {"arm": arm}
        for arm, worlds in enumerate((truth.control, truth.treated))
    ]
    pandas, seen = import_pandas(), None
    if truth.choices is not None:
        people = _people(truth, 2 * truth.size, np.array(truth.choices), stream)
        cells = people["outcome"]
        seen = pandas.DataFrame(people | {"arm": cells // size, "outcome": cells % size})
    design: dict[str, Any] = {} if truth.tilt is None else {"weights": "weight", "clusters": "cluster"}
    if strata > 1:
        design |= {"strata": "stratum", "thin": "merge"}
    return causation_of_arms(
        pandas.concat([pandas.DataFrame(each) for each in frames]), observational=seen,
        outcome="outcome", arm="arm", labels=range(size), seed=seed, level=LEVEL, couplings=[],
        event=list(truth.event), score=list(range(size)), **design,
    )  # fmt: skip


def _people(truth: CausalTruth, number: int, laws: Floats, stream: np.random.Generator) -> dict[str, Any]:
    """People of one sample: stratum, outcome, cluster and weight.

    Args:
        truth: Truth that people are drawn from.
        number: Number of people.
        laws: [strata, outcomes]: what they have.
        stream: Source of randomness.
    """
    each = max(truth.cluster, 1)
    cluster = np.repeat(np.arange(number // each), each) + stream.integers(2**40) * number
    stratum = stream.integers(len(laws), size=len(cluster))
    kind = np.repeat(stream.random(number // each) < 1 / 3, each)
    shift = np.zeros(laws.shape[1]) if truth.tilt is None else np.resize(truth.tilt, laws.shape[1])
    if laws.shape[1] > len(truth.control[0]):
        shift /= 2
    law = laws[stratum] + np.where(kind, 1, -1)[:, None] * shift
    outcome = (stream.random(len(law))[:, None] > law.cumsum(axis=1)).sum(axis=1).clip(0, law.shape[1] - 1)
    return {"stratum": stratum, "outcome": outcome, "cluster": cluster, "weight": np.where(kind, 1.5, 0.75)}
