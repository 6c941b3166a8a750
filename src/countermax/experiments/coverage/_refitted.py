"""Tables whose truth is known, a classifier that is fitted to them, and how often intervals hold the truth."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax.experiments.engine import Result
from countermax.tables import Predicted, counterfactuals, effects, transitions

Floats = NDArray[np.float64]

NAME = "covariates, logistic regression, refit"
STUDIES: dict[str, float] = {NAME: 0.6, f"{NAME}, no effect": 0.0}
"""How much the treatment adds to the logits of the last outcome, half as much to those of the one before it."""

NUM_ROWS, NUM_REFITS = 200, 60
LEVEL = 0.95

_LABELS = ("worse", "same", "better")
_SCORE = (0.0, 1.0, 2.0)
_AGES = (-1.0, 0.0, 1.0)
_INTERCEPTS, _SLOPES, _TREATED = np.array([0.0, 0.0, -0.3]), np.array([0.0, 0.5, -0.4]), np.array([0.0, 0.5, 1.0])
_WEAK_PENALTY = 1e4  # its inverse, so that what is fitted is nearly the likelihood
_NORMAL = 1.959964  # 97.5 % of a normal number lie below
_ROUNDING = 1e-9


def refit_coverage(
    effect: float,
    num_trials: int,
    seed: int,
    advance: Callable[[float], None] = lambda _: None,
    *,
    num_rows: int = NUM_ROWS,
    num_refits: int = NUM_REFITS,
) -> Result:
    """How often intervals hold the truth, and their mean width, with the classifier fitted again and taken as known.

    Of each number: the mean effect, the shares under Gumbel-max, and their bounds over any coupling.

    Args:
        effect: How much the treatment adds to the logits.
        num_trials: Number of samples.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
        num_rows: Number of rows in each sample.
        num_refits: How often the classifier is fitted again.
    """
    from sklearn.linear_model import LogisticRegression

    truth, stream = _truth(effect), np.random.default_rng(seed)
    held: dict[str, dict[str, list[bool]]] = {}
    widths: dict[str, dict[str, list[float]]] = {}
    for place in range(num_trials):
        frame = _sample(stream, effect, num_rows)
        model = LogisticRegression(C=_WEAK_PENALTY, max_iter=1000).fit(frame[["age", "treated"]], frame["status"])
        asked = {
            "outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1}),
            "labels": _LABELS, "level": LEVEL, "seed": place, "progress": False,
        }  # fmt: skip
        for method, limits in (
            ("refitted", _limits(frame, asked | {"refit": True, "num_resamples": num_refits})),
            ("classifier as known", _limits(frame, asked)),
        ):
            for name, lower, upper in limits:
                least, largest = truth[name]
                holds = lower - _ROUNDING <= least and largest <= upper + _ROUNDING
                held.setdefault(method, {}).setdefault(name, []).append(holds)
                widths.setdefault(method, {}).setdefault(name, []).append(upper - lower)
        advance((place + 1) / num_trials)
    return {
        method: {
            name: {"coverage": float(np.mean(numbers)), "width": float(np.mean(widths[method][name]))}
            for name, numbers in found.items()
        }
        for method, found in held.items()
    }


def _limits(frame: Any, asked: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """The intervals of all numbers that have one."""
    found = transitions(frame, **asked)
    for name, interval in (("share", found.shares_interval), ("any coupling: share", found.share_bounds_interval)):
        if interval is not None:
            for row, seen in enumerate(_LABELS):
                for column, other in enumerate(_LABELS):
                    limits = float(interval.lower[row, column]), float(interval.upper[row, column])
                    yield f"{name} {seen} to {other}", *limits
    effect = effects(frame, **asked, score=_SCORE, couplings=["gumbel-max"])
    if effect.mean_interval is not None:
        yield "mean effect", float(effect.mean_interval.lower[0]), float(effect.mean_interval.upper[0])
    elif effect.mean_error is not None:
        error = _NORMAL * float(effect.mean_error[0])
        yield "mean effect", float(effect.mean[0]) - error, float(effect.mean[0]) + error


def _probabilities(age: Floats, treated: Floats, effect: float) -> Floats:
    logits = _INTERCEPTS + np.outer(age, _SLOPES) + effect * np.outer(treated, _TREATED)
    weights = np.exp(logits)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _sample(stream: np.random.Generator, effect: float, num_rows: int) -> Any:
    """A randomised treatment and a covariate; drawn again until every outcome was seen."""
    while True:
        age, treated = stream.choice(_AGES, num_rows), stream.integers(0, 2, num_rows)
        probs = _probabilities(age, treated.astype(np.float64), effect)
        place = (probs.cumsum(axis=1) > stream.random((num_rows, 1))).argmax(axis=1)
        if len(np.unique(place)) == len(_LABELS):
            return import_pandas().DataFrame({"age": age, "treated": treated, "status": np.array(_LABELS)[place]})


def _truth(effect: float) -> dict[str, tuple[float, float]]:
    """The least and the largest of every number: twice the same where the coupling is known."""
    size = len(_LABELS)
    age, treated, seen = (each.ravel() for each in np.meshgrid(_AGES, (0.0, 1.0), np.arange(size), indexing="ij"))
    p, q = _probabilities(age, treated, effect), _probabilities(age, np.ones(len(age)), effect)
    frame = import_pandas().DataFrame({"status": np.array(_LABELS)[seen.astype(int)]})
    rows = counterfactuals(
        frame, outcome="status", factual=p, counterfactual=q, labels=_LABELS, unchanged=treated == 1, progress=False
    )
    weight = p[np.arange(len(p)), seen.astype(int)] / (2 * len(_AGES))
    result = {"mean effect": (float(((q - p) @ _SCORE).mean()),) * 2}
    for place, label in enumerate(_LABELS):
        among = np.where(seen == place, weight, 0.0)
        for other in _LABELS:
            answer, least, largest = (
                float(rows[f"counterfactual_{other}{side}"].to_numpy() @ among / among.sum())
                for side in ("", "_lower", "_upper")
            )
            result[f"share {label} to {other}"] = answer, answer
            result[f"any coupling: share {label} to {other}"] = least, largest
    return result
