"""Exact losses on held-out pairs, beside the optimum of the same pairs."""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax.couplings import AbstractCoupling, GumbelMax, Independent, InverseCDF, VectorQuantile
from countermax.couplings._reference import lloyd
from countermax.intervals import ratio_error, standard_error
from countermax.learning import (
    FixedPair,
    ObservedPairs,
    SquaredDifference,
    draw_pairs,
    expected_losses,
    least_losses,
)
from studies.engine import Result
from studies.quantiles._tasks import QuantileTask
from studies.sepsis import trials_of

Floats = NDArray[np.float64]

FLOOR = "floor of any mechanism (estimate)"
_PROJECTED = "best projected inverse CDF"
_NUM_DIRECTIONS = 100  # on which vector scores are projected, besides the axes
_NUM_CHOOSING = {10: 500}  # pairs, none of them held out, by which the best of them is chosen, where they are cheap
_LEAST_CHOOSING = 50


def _held_out(task: QuantileTask, key: int) -> tuple[Any, Any]:
    return draw_pairs(task.pairs, task.num_held_out, key=jax.random.key(key))


def measure_fixed(task: QuantileTask, held_out_key: int, *, floor_rounds: int | None = None) -> Result:
    """Fixed couplings, the optimum, and the floor where rounds are asked for."""
    scores = task.scores
    fixed: dict[str, AbstractCoupling] = {"independent": Independent(), "Gumbel-max": GumbelMax()}
    log_p, log_q = _held_out(task, held_out_key)
    if task.kind != "disagreement":
        ways = np.concatenate([np.eye(3), np.random.default_rng(1).normal(size=(_NUM_DIRECTIONS, 3))])
        orders = [InverseCDF.sorted_by(scores @ way) for way in ways]
        number = _NUM_CHOOSING.get(task.num_outcomes, _LEAST_CHOOSING)
        others = draw_pairs(task.pairs, number, key=jax.random.key(0))
        fixed[_PROJECTED] = min(orders, key=lambda each: float(expected_losses(each, task.loss, *others).mean()))
    rows = {name: measure(task, held_out_key, [each]) for name, each in fixed.items()}
    optimum = least_losses(task.loss, log_p, log_q)
    rows["optimal"] = {"value": float(optimum.mean()), "error": _error(optimum), "above": 0.0, "above_error": 0.0}
    if floor_rounds is not None:
        rows[FLOOR] = measure(task, held_out_key, [_floor(task, held_out_key, floor_rounds)])
    return {"rows": rows}


def _floor(task: QuantileTask, held_out_key: int, num_rounds: int) -> VectorQuantile:
    """Transport from the barycenter of the held-out worlds themselves.

    On the very pairs that all else is measured on: whether these are easy or hard moves the floor as it moves the rest.
    `implicit_floor`, which has other pairs for its optimum, differs by up to a point from key to key.
    """
    log_p, log_q = _held_out(task, held_out_key)
    fitted = VectorQuantile.fit(task.scores, ObservedPairs(log_p, log_q), key=jax.random.key(0))
    worlds = np.exp(np.concatenate([np.asarray(each, np.float64) for each in (log_p, log_q)]))
    worlds /= worlds.sum(axis=1, keepdims=True)
    weights = np.full(len(worlds), 1 / len(worlds))
    found = lloyd(task.scores, worlds, weights, np.asarray(fitted.points, np.float64), num_rounds)
    return VectorQuantile(found.points.astype(np.float32), task.scores.astype(np.float32))


def measure_records() -> Result:
    """Variances of effects on the records' features, added up over features and averaged over queries."""
    trials = trials_of("icu-features", as_published=False, num_scores=1)
    assert np.array_equal(trials.score, trials.other_score)
    found: dict[str, list[float]] = {}
    for log_p, log_q, scores in zip(trials.log_p, trials.log_q, trials.score, strict=True):
        with jax.enable_x64(True):
            pair, loss = FixedPair(log_p, log_q), SquaredDifference(scores)
            both = pair.p[None], pair.q[None]
            mean = (np.exp(both[1][0]) - np.exp(both[0][0])) @ scores
            asked: dict[str, AbstractCoupling] = {"independent": Independent(), "Gumbel-max": GumbelMax()}
            asked["VectorQuantile, its own reference"] = VectorQuantile.fit(scores, pair, key=jax.random.key(0))
            squares = {name: float(expected_losses(each, loss, *both)[0]) for name, each in asked.items()}
            squares["optimal"] = float(least_losses(loss, *both)[0])
        for name, square in squares.items():
            found.setdefault(name, []).append(square - float(mean @ mean))
    means = {name: float(np.mean(each)) for name, each in found.items()}
    above = {name: value / means["optimal"] - 1 for name, value in means.items()}
    size = [int((each > -np.inf).sum()) for each in np.maximum(trials.log_p, trials.log_q)]
    rows = {name: {"value": means[name], "above": above[name], "above_error": None} for name in means}
    return {"rows": rows, "num_outcomes": size}


def measure(task: QuantileTask, held_out_key: int, couplings: list[Any]) -> Result:
    """The mean loss of couplings on the held-out pairs, beside the optimum of the same pairs."""
    log_p, log_q = _held_out(task, held_out_key)
    losses = np.stack([np.asarray(expected_losses(each, task.loss, log_p, log_q), np.float64) for each in couplings])
    optimum = least_losses(task.loss, log_p, log_q)
    mean = losses.mean(axis=0)
    return {
        "value": float(mean.mean()),
        "error": _error(mean),
        "above": float(mean.mean() / optimum.mean() - 1),
        "above_error": ratio_error(mean, optimum) if len(optimum) > 1 else None,
        "above_by_seed": (losses.mean(axis=1) / optimum.mean() - 1).tolist(),
    }


def _error(values: Floats) -> float | None:
    return standard_error(values) if len(values) > 1 else None
