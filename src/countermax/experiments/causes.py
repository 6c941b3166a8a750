"""Do intervals of probabilities of causation hold the truth? Trials, two sources and strata, drawn again and again."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax._core.labels import Labels
from countermax._core.sheet import Sheet, Value
from countermax.causation import Causation, Evidence, answered_causes, probabilities_of_causation
from countermax.experiments.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from countermax.tables import causation_of_arms

Floats = NDArray[np.float64]

LEVEL = 0.95
_NUM_TRIALS = {"quick": 10, "published": 100, "best": 100}
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
    """P(chose, had), where people who chose are observed, too."""


_EVEN, _FALLING = (0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1)
_SICK, _SHARES, _FIT = (0.45, 0.35, 0.2), (0.35, 0.4, 0.25), (0.2, 0.32, 0.48)
TRUTHS: dict[str, CausalTruth] = {
    "no effect, 2 outcomes": CausalTruth(((0.6, 0.4),), ((0.6, 0.4),), (1,), 50),
    "clear effect, 4 outcomes": CausalTruth((_FALLING,), (_EVEN,), (2, 3), 50),
    "rare event": CausalTruth(((0.99, 0.01),), ((0.96, 0.04),), (1,), 400),
    "two sources, 2 outcomes": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, ((0.45, 0.1), (0.1, 0.35))),
    "3 strata, no effect": CausalTruth((_SICK, _SHARES, _FIT), (_SICK, _SHARES, _FIT), (2,), 150),
}


@final
class CausalCoverage(AbstractExperiment):
    """Data drawn again and again from a known truth."""

    name = "causation"
    title = "Do intervals of probabilities of causation hold the truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each truth; `seeds` counts the trials."""
        number = _NUM_TRIALS[checked_preset(preset)] if seeds is None else seeds
        return [
            Cell(
                self.name,
                name,
                {**truth._asdict(), "num_trials": number, "level": LEVEL},
                cost=float(number * len(truth.control[0]) * len(truth.control)),
            )
            for name, truth in TRUTHS.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage and mean width of every number."""
        if context.train_only:
            return None
        return causal_coverage(TRUTHS[cell.name], cell.settings["num_trials"], 0, context.advance)

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
        truth: What data are drawn from.
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
            lower, upper = found.get(name, (0.0, 1.0))
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


def _asked(truth: CausalTruth) -> dict[str, Any]:
    return {"event": list(truth.event), "score": list(range(len(truth.control[0])))}


def _known(truth: CausalTruth) -> Causation:
    """The true ranges."""
    if len(truth.control) == 1:
        seen = None if truth.choices is None else dict(zip(("control", "treated"), truth.choices, strict=True))
        share = None if seen else 0.5
        return probabilities_of_causation(
            truth.control[0], truth.treated[0], observational=seen, treated_share=share, **_asked(truth)
        )
    control, treated = (np.array(each) for each in (truth.control, truth.treated))
    weight = np.full(len(control), 1 / len(control))
    return answered_causes(
        Labels(tuple(range(control.shape[1]))),
        Evidence(control, treated, None, None, None, 0.5, weight),
        sampling=None,
        evidence_of=None,
        event=list(truth.event),
        scores=np.arange(control.shape[1], dtype=np.float64),
        at_least=None,
        gain=None,
        people=None,
        couplings=["maximal"],
        arms=("control", "treated"),
    )


def _sampled(truth: CausalTruth, stream: np.random.Generator, seed: int) -> Causation:
    """A result of one sample."""
    if len(truth.control) == 1:
        control, treated = (stream.multinomial(truth.size, each[0]) for each in (truth.control, truth.treated))
        seen = None
        if truth.choices is not None:
            cells = stream.multinomial(2 * truth.size, np.ravel(truth.choices)).reshape(2, -1)
            seen = {"control": cells[0], "treated": cells[1]}
        couplings = None if seen else ["maximal"]
        return probabilities_of_causation(
            control,
            treated,
            observational=seen,
            counts=True,
            seed=seed,
            level=LEVEL,
            couplings=couplings,
            **_asked(truth),
        )
    size, strata = len(truth.control[0]), len(truth.control)
    columns: dict[str, list[int]] = {"arm": [], "stratum": [], "outcome": []}
    for arm, worlds in enumerate((truth.control, truth.treated)):
        laws = np.array(worlds) / strata
        places = np.repeat(np.arange(laws.size), stream.multinomial(truth.size, laws.ravel()))
        columns["arm"] += [arm] * len(places)
        columns["stratum"] += (places // size).tolist()
        columns["outcome"] += (places % size).tolist()
    return causation_of_arms(
        import_pandas().DataFrame(columns),
        outcome="outcome", arm="arm", strata="stratum", thin="merge", labels=range(size), seed=seed, level=LEVEL,
        couplings=["maximal"], **_asked(truth),
    )  # fmt: skip
