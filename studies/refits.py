"""Coverage of intervals where a classifier is fitted: people drawn again and again from a logistic truth."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax.tables import Predicted, Refit, Rows
from studies.experiments import Result

Floats = NDArray[np.float64]

_MOST_STEPS, _LONGEST_STEP, _CONVERGED = 50, 2.0, 1e-10


def fit_tables(features: Floats, counts: Floats) -> Floats:
    """The coefficients of many regressions, [tables, features + 1, outcomes]: those of an intercept come first.

    The penalty is scikit-learn's own: half the sum of squared coefficients, without those of the intercept.

    Args:
        features: Features of each cell, [cells, features].
        counts: Number of people in each cell with each outcome, [tables, cells, outcomes].
    """
    design = _with_intercept(features)
    tables, _, outcomes = counts.shape
    penalised = np.append(0.0, np.ones(features.shape[1]))
    size = design.shape[1] * outcomes
    # To add a number to the coefficients of all outcomes changes nothing; a small penalty on their sum decides.
    free = np.einsum("f,g,kl->fkgl", *(np.eye(design.shape[1])[0],) * 2, np.ones((outcomes, outcomes)))
    penalty = (np.einsum("fg,kl->fkgl", np.diag(penalised), np.eye(outcomes)) + free).reshape(size, size)
    squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1).T
    shape = (design.shape[1], design.shape[1], outcomes, outcomes)
    totals = counts.sum(axis=2, keepdims=True)
    found = np.zeros((tables, design.shape[1], outcomes))
    for _ in range(_MOST_STEPS):
        probs = softmax(design @ found)
        slope = (design.T @ (counts - totals * probs)).reshape(tables, size)
        slope -= found.reshape(tables, size) @ penalty
        weights = totals[..., None] * (np.eye(outcomes) * probs[..., None] - probs[..., None] * probs[..., None, :])
        products = squares @ weights.reshape(tables, len(design), -1)
        curvature = products.reshape(tables, *shape).transpose(0, 1, 3, 2, 4).reshape(tables, size, size)
        step = np.linalg.solve(curvature + penalty, slope[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _CONVERGED))
        found += step.reshape(found.shape)
        if longest.max() < _CONVERGED:
            break
    return found


def predict_tables(features: Floats, coefficients: Floats) -> Floats:
    """The probabilities of all outcomes, [tables, cells, outcomes]."""
    return softmax(_with_intercept(features) @ coefficients)


def softmax(logits: Floats) -> Floats:
    """Probabilities over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@lru_cache(maxsize=1024)
def _fitted_once(features: bytes, counts: bytes, shape: tuple[int, int]) -> Floats:
    """Coefficients of one table: each verb of a problem fits the same resamples again."""
    return fit_tables(np.frombuffer(features).reshape(shape[0], -1), np.frombuffer(counts).reshape(1, *shape))


class Logistic:
    """A classifier with the interface of scikit-learn, for features of few values."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No settings."""
        return {}

    def set_params(self) -> "Logistic":
        """Sets nothing."""
        return self

    def fit(self, features: Any, outcome: Any) -> "Logistic":
        """Counts equal rows, and fits the table."""
        self.feature_names_in_ = np.asarray(features.columns, object)
        cells, cell = np.unique(features.to_numpy(np.float64), axis=0, return_inverse=True)
        self.classes_, label = np.unique(outcome, return_inverse=True)
        counts = np.zeros((1, len(cells), len(self.classes_)))
        np.add.at(counts[0], (cell, label), 1.0)
        self.coefficients_ = _fitted_once(cells.tobytes(), counts.tobytes(), counts.shape[1:])
        return self

    def predict_proba(self, features: Any) -> Floats:
        """The probabilities of the classes, for each row."""
        return np.asarray(predict_tables(features.to_numpy(np.float64), self.coefficients_)[0])


def _with_intercept(features: Floats) -> Floats:
    return np.column_stack([np.ones(len(features)), features])


Range = tuple[Any, Any]

LABELS = ("worse", "same", "better")
SCORE = np.array([0.0, 1.0, 2.0])
AGES = (-1.0, 0.0, 1.0)
CELLS = np.array([(age, treated) for age in AGES for treated in (0.0, 1.0)])
"""Age and treatment of the people in each cell of a table."""
TREATED = np.column_stack([CELLS[:, 0], np.ones(len(CELLS))])
"""The same, if everybody was treated."""
COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")

_UNTREATED = CELLS[:, 1] == 0


def numbers(counts: Floats, p: Floats, q: Floats) -> dict[str, Range]:
    """The least and the largest of every number of each table: twice the same where the coupling is known.

    Args:
        counts: Number of people in each cell with each outcome, [tables, cells, outcomes].
        p: Probabilities of the outcomes in each cell.
        q: The same, if everybody was treated.
    """
    totals = counts.sum(axis=(1, 2))
    share = counts[:, _UNTREATED].sum(axis=2) / totals[:, None]  # of people who would change
    p, q = p[:, _UNTREATED], q[:, _UNTREATED]
    effect = (q - p) @ SCORE
    mean = (effect * share).sum(axis=1)
    result: dict[str, Range] = {"mean effect": (mean, mean)}

    def variance(squares: Floats) -> Floats:
        return np.asarray((squares * share).sum(axis=1) - mean**2)

    for coupling in COUPLINGS:
        ((given, _),) = _answers(p, q, coupling, "none")
        loss = (SCORE[:, None] - SCORE) ** 2
        result[f"variance {coupling}"] = (variance((p[..., None] * given * loss).sum(axis=(2, 3))),) * 2
    result["any coupling: variance"] = variance(_squares(p, q, opposed=False)), variance(_squares(p, q, opposed=True))
    (given, _), any_coupling = _answers(p, q, COUPLINGS[0], "any")
    _, stable = _answers(p, q, COUPLINGS[0], "stable")
    families = {"": (given, given), "any coupling: ": any_coupling, "stable couplings: ": stable}
    for family, limits in families.items():
        for place, seen in enumerate(LABELS):
            among = counts[:, _UNTREATED, place]
            kept = counts[:, ~_UNTREATED, place].sum(axis=1)
            for column, other in enumerate(LABELS):
                change = f"{seen} to {other}"
                cells = [each[:, :, place, column] for each in limits]
                if family != "stable couplings: ":
                    same = kept if place == column else 0.0
                    total = among.sum(axis=1) + kept
                    result[f"{family}share {change}"] = tuple(
                        ((each * among).sum(axis=1) + same) / total for each in cells
                    )
                for age, each in zip(AGES, zip(*(cell.T for cell in cells), strict=True), strict=True):
                    result[f"{family}answer {change}, age {age:g}"] = each
    return result


def percentiles(counts: Floats, number: int, level: float, stream: np.random.Generator) -> dict[str, Range]:
    """The percentile bootstrap of every number: people are drawn again, and the regression is fitted again."""
    drawn = stream.multinomial(int(counts.sum()), counts.ravel() / counts.sum(), number)
    again = drawn.reshape(number, *counts.shape).astype(np.float64)
    again = again[(again.sum(axis=1) > 0).all(axis=1)]  # every outcome was seen
    found = numbers(again, *fitted(again))
    tail = (1 - level) / 2
    return {
        name: (float(np.quantile(low, tail)), float(np.quantile(high, 1 - tail))) for name, (low, high) in found.items()
    }


def fitted(counts: Floats) -> tuple[Floats, Floats]:
    """Fitted probabilities of each cell as it is, and if everybody was treated."""
    coefficients = fit_tables(CELLS, counts)
    return predict_tables(CELLS, coefficients), predict_tables(TREATED, coefficients)


def _answers(p: Floats, q: Floats, coupling: str, bounds: str) -> tuple[tuple[Floats, Floats], ...]:
    """Answers and, where asked for, their bounds: each twice [tables, ages, seen, other]."""
    size = len(LABELS)
    log = [np.repeat(each.reshape(-1, size), size, axis=0) for each in (p, q)]
    frame = import_pandas().DataFrame({"status": np.tile(LABELS, len(log[0]) // size)})
    asked = Rows(frame, outcome="status", factual=log[0], counterfactual=log[1], labels=LABELS)
    rows: Mapping[str, Any] = asked.counterfactuals(coupling, bounds=bounds)

    def columns(side: str) -> Floats:
        found = np.stack([rows[f"counterfactual_{label}{side}"].to_numpy() for label in LABELS], axis=1)
        return found.reshape(*p.shape[:2], size, size)

    given = columns(""), columns("")
    return (given,) if bounds == "none" else (given, (columns("_lower"), columns("_upper")))


def _squares(p: Floats, q: Floats, *, opposed: bool) -> Floats:
    """Expected squared effects where quantiles are coupled, or opposite ones: the least and the largest."""
    other = SCORE[::-1] if opposed else SCORE
    above, aside = np.cumsum(p, axis=-1), np.cumsum(q[..., ::-1] if opposed else q, axis=-1)
    below = np.minimum(above[..., :, None], aside[..., None, :])
    padded = np.pad(below, [(0, 0)] * (below.ndim - 2) + [(1, 0), (1, 0)])
    joint = np.diff(np.diff(padded, axis=-1), axis=-2)
    return np.asarray((joint * (SCORE[:, None] - other) ** 2).sum(axis=(-2, -1)))


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
    """Coverage and mean width of intervals: refitted, by percentiles, and with a known classifier.

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
    """For each method and number: whether the interval covers the truth, and how wide it is."""
    stream = np.random.default_rng(seed)
    frame, true = sample(stream, effect, num_rows), truth(effect)
    model = Logistic().fit(frame[_FEATURES], frame["status"])
    asked: dict[str, Any] = {
        "outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1.0}), "labels": LABELS,
        "score": SCORE,
    }  # fmt: skip
    chance: dict[str, Any] = {"level": LEVEL, "seed": int(stream.integers(2**32))}
    again = Rows(frame, **asked, refit=Refit(num_resamples=num_refits, **chance))
    refitted = {**_of_all(again, {}), **_of_rows(again)}
    of_percentiles = percentiles(_counts(frame), num_refits, LEVEL, stream)
    found: dict[str, dict[str, Range]] = {
        "refitted": refitted,
        "percentile": {name: of_percentiles[name] for name in refitted},
        "classifier as known": _of_all(Rows(frame, **asked), chance),
    }
    return [
        (method, name, bool(lower <= true[name][0] + _ROUNDING and true[name][1] - _ROUNDING <= upper), upper - lower)
        for method, limits in found.items()
        for name, (lower, upper) in limits.items()
    ]


def _of_all(rows: Rows, chance: dict[str, Any]) -> dict[str, Range]:
    """The intervals of what is said about everybody."""
    result: dict[str, Range] = {}
    moved = rows.transitions(**chance)
    for name, interval in (("share", moved.shares_interval), ("any coupling: share", moved.share_bounds_interval)):
        if interval is not None:
            for row, seen in enumerate(LABELS):
                for column, other in enumerate(LABELS):
                    limits = float(interval.lower[row, column]), float(interval.upper[row, column])
                    result[f"{name} {seen} to {other}"] = limits
    found = rows.effects({name: name for name in COUPLINGS})
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


def _of_rows(rows: Rows) -> dict[str, Range]:
    """The intervals of what is said about one person of each age and with each outcome who was not treated."""
    return {name: limits for bounds in ("any", "stable") for name, limits in _of_bounds(rows, bounds)}


def _of_bounds(asked: Rows, bounds: str) -> Iterator[tuple[str, Range]]:
    family = {"any": "any coupling", "stable": "stable couplings"}[bounds]
    rows = asked.counterfactuals(bounds=bounds)
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
