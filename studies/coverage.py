"""Coverage of the intervals of comparisons: two arms, drawn again and again from a known truth."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.labels import Labels
from countermax._core.page import Sheet, Value
from countermax.comparison import Comparison
from countermax.comparison._asking import TwoWorlds, compare_worlds
from countermax.couplings._named import named_couplings
from countermax.intervals import Interval
from countermax.intervals._inversion import inverted_intervals, resampled_intervals
from countermax.intervals._sampling import CountSampling
from studies.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.refits import NUM_REFITS, NUM_ROWS, STUDIES, refit_coverage

Floats = NDArray[np.float64]


class Truth(NamedTuple):
    """The truth, and whom the question is about."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    observed: int
    num_trials: int = 2000


TRUTHS: dict[str, Truth] = {
    "no effect, 2 outcomes": Truth((0.4, 0.6), (0.4, 0.6), 0),
    "no effect, 4 outcomes": Truth((0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.3, 0.4), 1),
    "clear effect": Truth((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4), 0),
    "ratios nearly tied": Truth((0.5, 0.25, 0.25), (0.2, 0.39, 0.41), 1),
    "skewed": Truth((0.85, 0.1, 0.05), (0.7, 0.2, 0.1), 0),
    "skewed, no effect": Truth((0.7, 0.15, 0.1, 0.05), (0.7, 0.15, 0.1, 0.05), 3),
    "rare outcome": Truth((0.01, 0.5, 0.49), (0.04, 0.46, 0.5), 0),
    "one step up, 6 outcomes": Truth((0.05, 0.15, 0.3, 0.3, 0.15, 0.05), (0.05, 0.05, 0.15, 0.3, 0.3, 0.15), 1, 500),
}
"""After a step up, all thresholds of the score are equally good for the upper limit of who is better off."""

COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")
LEVEL = 0.95

_METHODS: Mapping[str, Callable[..., Interval]] = {"inverted": inverted_intervals, "percentile": resampled_intervals}
_ROUNDING = 1e-8
_WORDS = {"stable couplings": "any stable coupling"}  # what stored results are called
_EVERYBODY = ("better", "worse")  # numbers of which stored results are about everybody


def coverage(
    trial: Truth, size: int, num_trials: int, seed: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """Coverage and mean width of the intervals, for every number that `compare` prints.

    Samples in which nobody had the outcome that the question is about do not count.

    Args:
        trial: The truth.
        size: Number of people in each arm.
        num_trials: Number of samples.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
    """
    p, q = np.asarray(trial.p), np.asarray(trial.q)
    stream = np.random.default_rng(seed)
    truth = _limits(_asked(trial, np.log(p), np.log(q), None, inverted_intervals, 0), False)
    held = {method: dict.fromkeys(truth, 0) for method in _METHODS}
    widths = {method: dict.fromkeys(truth, 0.0) for method in _METHODS}
    for place in range(num_trials):
        counts = _sample(stream, size, p, q, trial.observed)
        with np.errstate(divide="ignore"):
            log_p, log_q = (np.log(each / size) for each in counts)
        for method, find in _METHODS.items():
            found = _limits(_asked(trial, log_p, log_q, CountSampling(*counts), find, place), True)
            for name, (lower, upper) in found.items():
                least, largest = truth[name]
                held[method][name] += lower - _ROUNDING <= least and largest <= upper + _ROUNDING
                widths[method][name] += upper - lower
        advance((place + 1) / num_trials)
    return {
        method: {
            name: {"coverage": held[method][name] / num_trials, "width": widths[method][name] / num_trials}
            for name in truth
        }
        for method in _METHODS
    }


def _sample(stream: np.random.Generator, size: int, p: Floats, q: Floats, seen: int) -> tuple[Floats, Floats]:
    """Counts of two arms; drawn again until somebody had the outcome in question."""
    here = stream.multinomial(size, p)
    while here[seen] == 0:
        here = stream.multinomial(size, p)
    return here.astype(np.float64), stream.multinomial(size, q).astype(np.float64)


def _asked(
    trial: Truth,
    log_p: Floats,
    log_q: Floats,
    sampling: CountSampling | None,
    method: Callable[..., Interval],
    seed: int,
) -> Comparison:
    score = np.arange(len(trial.p), dtype=np.float64)
    labels = Labels(tuple(str(label) for label in range(len(trial.p))))
    worlds = TwoWorlds(labels, ("p", "q"), log_p, log_q, (score, score), sampling, seed=seed)
    couplings = dict(named_couplings(COUPLINGS))
    return compare_worlds(worlds, str(trial.observed), couplings=couplings, level=LEVEL, method=method)


def _limits(result: Comparison, intervals: bool) -> dict[str, tuple[float, float]]:
    """Of every number its interval, or the number itself twice; of every range its interval, or its limits."""
    found: dict[str, tuple[Any, Any]] = {}
    for row in result.rows:
        if row.coupling and row.quantity != "same" and (row.quantity not in _EVERYBODY or row.about == "everybody"):
            numbers = (row.ci_lower, row.ci_upper) if intervals else (row.lower, row.upper)
            pair = (row.value, row.value) if numbers == (None, None) and not intervals else numbers
            column = row.quantity.removeprefix("P(").removesuffix(")").replace(" ", "_")
            found[f"{_WORDS.get(row.coupling, row.coupling)}: {column}"] = pair
    return found


SIZES = (50, 400)
_NUM_TRIALS = {"quick": 20, "published": 2000, "best": 2000}
_KINDS = {"answers": "", "any coupling": "any coupling", "stable couplings": "any stable coupling"}
_ENOUGH = 0.93
_NUM_REFIT_TRIALS = {"quick": 4, "published": 500, "best": 500}
_COST_OF_REFITS = 20.0  # of a trial with refits, beside an outcome of a trial with two arms
_REFIT_KINDS = {
    "mean effect": "mean effect",
    "variance": "variance",
    "any coupling: variance": "variance, any coupling",
    "share": "transition shares",
    "any coupling: share": "transition shares, any coupling",
    "answer": "answers",
    "any coupling: answer": "answers, any coupling",
    "stable couplings: answer": "answers, stable couplings",
}


@final
class Coverage(AbstractExperiment):
    """Two arms, drawn again and again from a known truth."""

    name = "coverage"
    title = "Coverage of the intervals"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each truth and size of the arms, and for each truth of a table; `seeds` counts the trials."""
        number = _NUM_TRIALS[checked_preset(preset)] if seeds is None else seeds
        return [*self._of_arms(number), *self._of_tables(_NUM_REFIT_TRIALS[preset] if seeds is None else seeds)]

    def _of_arms(self, number: int) -> list[Cell]:
        found = []
        for name, truth in TRUTHS.items():
            trials = min(number, truth.num_trials)
            for size in SIZES:
                settings = {
                    **truth._asdict(),
                    "size": size,
                    "num_trials": trials,
                    "level": LEVEL,
                    "couplings": COUPLINGS,
                }
                found.append(Cell(self.name, f"{name}, {size} an arm", settings, cost=float(len(truth.p) * trials)))
        return found

    def _of_tables(self, number: int) -> list[Cell]:
        return [
            Cell(
                self.name,
                study,
                {"effect": effect, "rows": NUM_ROWS, "refits": NUM_REFITS, "num_trials": number, "level": LEVEL},
                cost=_COST_OF_REFITS * number,
            )
            for study, effect in STUDIES.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage and width of every number."""
        if context.train_only:
            return None
        if cell.name in STUDIES:
            return refit_coverage(cell.settings["effect"], cell.settings["num_trials"], 0, context.advance)
        truth = TRUTHS[cell.name.rsplit(", ", 1)[0]]
        return coverage(truth, cell.settings["size"], cell.settings["num_trials"], 0, context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The least coverage and the mean width, beside the percentile bootstrap's."""
        arms = {name: result for name, result in stored.items() if name not in STUDIES}
        tables = {name: result for name, result in stored.items() if name in STUDIES}
        sheets = {
            "coverage": _sheet("Coverage of 95 % intervals: the least over all numbers", arms, _least),
            "coverage_widths": _sheet(
                "Mean width, divided by that of percentile intervals where those cover as often",
                arms,
                _ratio,
            ),
            **({"coverage_refit": _refit_sheet(tables)} if tables else {}),
        }
        words = [
            "Two arms are drawn from a known truth; every number that a comparison prints has an interval, every range "
            "over couplings one that must cover all of it. Samples in which nobody had the outcome in question do not "
            "count. In parentheses: percentile bootstrap of the same numbers, on the same samples.",
            "People with a covariate and a treatment are drawn from a known logistic truth; a logistic regression is "
            "fitted to them, and fitted again on others of them (`Refit`). In parentheses: percentiles "
            "of refits. Beside it: intervals that take the classifier as known.",
        ]
        return Section(self.title, words, sheets)


def _sheet(title: str, stored: Mapping[str, Result], entry: Any) -> Sheet:
    lines: list[list[Value]] = [
        [name, *(entry(result, list(_of_kind(result["inverted"], kind))) for kind in _KINDS.values())]
        for name, result in stored.items()
    ]
    return Sheet(title, ("truth and size", *_KINDS), ("",) * (1 + len(_KINDS)), lines)


def _refit_sheet(stored: Mapping[str, Result]) -> Sheet:
    """One line for each kind of number: the least coverage, and the mean width."""
    lines: list[list[Value]] = []
    for study, result in stored.items():
        for kind, words in _REFIT_KINDS.items():
            names = [name for name in result["refitted"] if name == kind or name.startswith(f"{kind} ")]
            known = [result["classifier as known"][name]["coverage"] for name in names if _is_known(result, name)]
            lines.append(
                [
                    study,
                    words,
                    _least(result, names, "refitted"),
                    _ratio(result, names, "refitted"),
                    f"{min(known):.1%}" if known else "none",
                ]
            )
    headers = ("truth", "numbers", "refitted", "width", "classifier as known")
    title = "Coverage of 95 % intervals where a classifier is fitted: the least over numbers"
    return Sheet(title, headers, ("",) * len(headers), lines)


def _is_known(result: Result, name: str) -> bool:
    """Whether a number has an interval without refits."""
    return name in result["classifier as known"]


def _of_kind(numbers: Iterable[str], kind: str) -> Iterable[str]:
    """The numbers of a family of couplings, or those of single ones."""
    families = tuple(f"{family}:" for family in _KINDS.values() if family)
    return (name for name in numbers if (name.startswith(f"{kind}:") if kind else not name.startswith(families)))


def _least(result: Result, names: list[str], method: str = "inverted") -> str:
    ours, theirs = (min(result[each][name]["coverage"] for name in names) for each in (method, "percentile"))
    return f"{ours:.1%} ({theirs:.1%})"


def _ratio(result: Result, names: list[str], method: str = "inverted") -> str:
    """Of mean widths over numbers of a kind: those whose percentile intervals cover and have a width."""
    covered = [
        name
        for name in names
        if result["percentile"][name]["coverage"] >= _ENOUGH and result["percentile"][name]["width"] > 0
    ]
    if not covered:
        return "never"
    ours, theirs = (np.mean([result[each][name]["width"] for name in covered]) for each in (method, "percentile"))
    return f"{ours / theirs:.2f} ({len(covered)} of {len(names)} numbers)"
