"""People whose truth is known, a classifier that is fitted to them, and how often intervals hold the truth."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax.tables import Predicted, counterfactuals, effects, transitions
from studies.coverage._logistic import Logistic, softmax
from studies.coverage._tables import (
    AGES,
    CELLS,
    COUPLINGS,
    LABELS,
    SCORE,
    TREATED,
    Range,
    numbers,
    percentiles,
)
from studies.engine import Result

Floats = NDArray[np.float64]

NAME = "logistic regression, refit"
STUDIES: dict[str, float] = {f"{NAME}, clear effect": 1.5, f"{NAME}, small effect": 0.6, f"{NAME}, no effect": 0.0}
"""How much the treatment adds to the logits of the last outcome, half as much to those of the one before it."""
METHODS = ("refitted", "percentile", "classifier as known")

NUM_ROWS, NUM_REFITS = 200, 200
LEVEL = 0.95

_INTERCEPTS, _SLOPES, _EFFECTS = np.array([0.0, 0.0, -0.3]), np.array([0.0, 0.5, -0.4]), np.array([0.0, 0.5, 1.0])
_NORMAL = 1.959964  # 97.5 % of a normal number lie below
_ROUNDING = 1e-8
_FEATURES = ["age", "treated"]


def refit_coverage(
    effect: float,
    num_trials: int,
    seed: int,
    advance: Callable[[float], None] = lambda _: None,
    *,
    num_rows: int = NUM_ROWS,
    num_refits: int = NUM_REFITS,
) -> Result:
    """How often intervals hold the truth, and their mean width: refitted, by percentiles, and with a known classifier.

    The truth is that of the population which people are drawn from. A number that is about people of some age with some
    outcome counts in those samples that have them. As many trials run at once as joblib is told to (`parallel_config`).

    Args:
        effect: Amount that the treatment adds to the logits.
        num_trials: Number of samples.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
        num_rows: Number of people in each sample.
        num_refits: Number of times that the classifier is fitted again.
    """
    from joblib import Parallel, delayed

    calls = (delayed(_trial)(effect, [seed, place], num_rows, num_refits) for place in range(num_trials))
    held: dict[str, dict[str, list[bool]]] = {method: {} for method in METHODS}
    widths: dict[str, dict[str, list[float]]] = {method: {} for method in METHODS}
    for place, found in enumerate(Parallel(return_as="generator")(calls)):
        for method, name, holds, width in found:
            held[method].setdefault(name, []).append(holds)
            widths[method].setdefault(name, []).append(width)
        advance((place + 1) / num_trials)
    return {
        method: {
            name: {"coverage": float(np.mean(each)), "width": float(np.mean(widths[method][name])), "trials": len(each)}
            for name, each in found.items()
        }
        for method, found in held.items()
    }


def probabilities(cells: Floats, effect: float) -> Floats:
    """The truth, for people of some ages with and without treatment."""
    age, treated = cells.T
    return softmax(_INTERCEPTS + np.outer(age, _SLOPES) + effect * np.outer(treated, _EFFECTS))


def sample(stream: np.random.Generator, effect: float, num_rows: int) -> Any:
    """A randomised treatment and a covariate; drawn again until every outcome was seen."""
    while True:
        cells = CELLS[stream.integers(0, len(CELLS), num_rows)]
        drawn = probabilities(cells, effect).cumsum(axis=1) > stream.random((num_rows, 1))
        frame = import_pandas().DataFrame(cells, columns=_FEATURES)
        frame["status"] = np.array(LABELS)[drawn.argmax(axis=1)]
        if frame["status"].nunique() == len(LABELS):
            return frame


def truth(effect: float) -> dict[str, Range]:
    """The least and the largest of every number in the population."""
    p, q = probabilities(CELLS, effect)[None], probabilities(TREATED, effect)[None]
    return {name: (float(low[0]), float(high[0])) for name, (low, high) in numbers(p, p, q).items()}


def _trial(effect: float, seed: list[int], num_rows: int, num_refits: int) -> list[tuple[str, str, bool, float]]:
    """For each method and number: whether the interval holds the truth, and how wide it is."""
    stream = np.random.default_rng(seed)
    frame, true = sample(stream, effect, num_rows), truth(effect)
    model = Logistic().fit(frame[_FEATURES], frame["status"])
    asked = {
        "outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1.0}), "labels": LABELS,
        "level": LEVEL, "seed": int(stream.integers(2**32)), "progress": False,
    }  # fmt: skip
    again = asked | {"refit": True, "num_resamples": num_refits}
    refitted = {**_of_all(frame, again), **_of_rows(frame, again)}
    of_percentiles = percentiles(_counts(frame), num_refits, LEVEL, stream)
    found: dict[str, dict[str, Range]] = {
        "refitted": refitted,
        "percentile": {name: of_percentiles[name] for name in refitted},
        "classifier as known": _of_all(frame, asked),
    }
    return [
        (method, name, bool(lower <= true[name][0] + _ROUNDING and true[name][1] - _ROUNDING <= upper), upper - lower)
        for method, limits in found.items()
        for name, (lower, upper) in limits.items()
    ]


def _of_all(frame: Any, asked: dict[str, Any]) -> dict[str, Range]:
    """The intervals of what is said about everybody."""
    result: dict[str, Range] = {}
    moved = transitions(frame, **asked)
    for name, interval in (("share", moved.shares_interval), ("any coupling: share", moved.share_bounds_interval)):
        if interval is not None:
            for row, seen in enumerate(LABELS):
                for column, other in enumerate(LABELS):
                    limits = float(interval.lower[row, column]), float(interval.upper[row, column])
                    result[f"{name} {seen} to {other}"] = limits
    found = effects(frame, **asked, score=SCORE, couplings={name: name for name in COUPLINGS})
    if found.mean_error is not None:
        error = _NORMAL * float(found.mean_error[0])
        result["mean effect"] = float(found.mean[0]) - error, float(found.mean[0]) + error
    if found.mean_interval is not None and found.variance_intervals is not None:
        result["mean effect"] = float(found.mean_interval.lower[0]), float(found.mean_interval.upper[0])
        for coupling in COUPLINGS:
            result[f"variance {coupling}"] = found.variance_intervals[coupling][:2]
        assert found.variance_bounds_interval is not None
        result["any coupling: variance"] = found.variance_bounds_interval[:2]
    return result


def _of_rows(frame: Any, asked: dict[str, Any]) -> dict[str, Range]:
    """The intervals of what is said about one person of each age and with each outcome who was not treated."""
    return {name: limits for bounds in ("any", "stable") for name, limits in _of_bounds(frame, asked, bounds)}


def _of_bounds(frame: Any, asked: dict[str, Any], bounds: str) -> Iterator[tuple[str, Range]]:
    family = {"any": "any coupling", "stable": "stable couplings"}[bounds]
    rows = counterfactuals(frame, **asked, bounds=bounds)
    untreated = rows[rows["treated"] == 0].drop_duplicates([*_FEATURES, "status"])
    for _, row in untreated.iterrows():
        for other in LABELS:
            words = f"answer {row['status']} to {other}, age {row['age']:g}"
            begin = f"counterfactual_{other}"
            yield words, (row[f"{begin}_ci_lower"], row[f"{begin}_ci_upper"])
            yield f"{family}: {words}", (row[f"{begin}_bounds_ci_lower"], row[f"{begin}_bounds_ci_upper"])


def _counts(frame: Any) -> Floats:
    """How many people in each cell had each outcome."""
    cells = 2 * np.searchsorted(AGES, frame["age"]) + frame["treated"].to_numpy(int)
    result = np.zeros((len(CELLS), len(LABELS)))
    np.add.at(result, (cells, [LABELS.index(label) for label in frame["status"]]), 1.0)
    return result
