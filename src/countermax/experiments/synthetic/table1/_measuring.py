"""Exact losses of fixed and learned couplings on common held-out pairs, with errors that are paired."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax.couplings import AbstractCoupling, GumbelMax, InverseCDF, named_couplings
from countermax.experiments.engine import Result
from countermax.experiments.synthetic._tasks import Table1Task, squared_mean_effect
from countermax.intervals import ratio_error, standard_error
from countermax.learning import FixedPair, draw_pairs, expected_losses, implicit_floor, least_losses

PROJECTED = "best projected inverse CDF"
FLOOR = "floor of any mechanism (estimate)"
_FIXED = ("independent", "gumbel-max", "inverse-cdf")
_NUM_DIRECTIONS = 200  # on which vector scores are projected, besides the axes


def _held_out(this: Table1Task, settings: Result) -> tuple[Any, Any]:
    return draw_pairs(this.pairs, settings["num_held_out"], key=jax.random.key(settings["held_out_key"]))


def measure_fixed(this: Table1Task, settings: Result) -> Result:
    """All couplings that are not learned."""
    log_p, log_q = _held_out(this, settings)
    losses: dict[str, list[NDArray[np.float64]]] = {}
    floors: list[float] = []
    for score, loss in zip(this.scores, this.losses, strict=True):
        if score.ndim == 1:
            fixed = named_couplings([*_FIXED, "inverse-cdf-by-score"], score=score)
        else:
            fixed = named_couplings(_FIXED)
            ways = np.concatenate([np.eye(3), np.random.default_rng(1).normal(size=(_NUM_DIRECTIONS, 3))])
            orders = [InverseCDF.sorted_by(score @ way) for way in ways]
            fixed[PROJECTED] = min(
                orders, key=lambda each: float(expected_losses(each, loss, log_p[:1000], log_q[:1000]).mean())
            )
            keys = jax.random.split(jax.random.key(settings["held_out_key"]), settings["num_floors"])
            floors = [implicit_floor(score, this.pairs, key=key).above_optimum for key in keys]
        for name, coupling in fixed.items():
            losses.setdefault(name, []).append(_exact(coupling, loss, log_p, log_q))
        losses.setdefault("optimal", []).append(least_losses(loss, log_p, log_q))
    rows = {name: _summary(this, np.stack(each)[:, None], np.stack(losses["optimal"])) for name, each in losses.items()}
    if floors:
        above = float(np.mean(floors))
        value = (1 + above) * rows["optimal"]["value"]  # estimated on other worlds, so carried over as a ratio
        rows[FLOOR] = {"value": value, "above": above, "above_error": standard_error(np.asarray(floors))}
    return {"rows": rows}


def measure_learned(this: Table1Task, couplings: Sequence[Sequence[AbstractCoupling]], settings: Result) -> Result:
    """Learned couplings; of several restarts on one pair the best by its own exact loss, which training knows."""
    log_p, log_q = _held_out(this, settings)
    losses = np.stack(
        [
            np.stack([_exact(each, loss, log_p, log_q) for each in members])
            for members, loss in zip(couplings, this.losses, strict=True)
        ]
    )
    optimum = np.stack([least_losses(loss, log_p, log_q) for loss in this.losses])
    everything = losses
    if this.is_fixed:
        losses = np.take_along_axis(losses, losses.mean(axis=2).argmin(axis=1)[:, None, None], axis=1)
    result = _summary(this, losses, optimum)
    if this.is_fixed and everything.shape[1] > 1:
        result["above_without_choosing"] = _summary(this, everything, optimum)["above"]
    gumbel = np.stack([_exact(GumbelMax(), loss, log_p, log_q) for loss in this.losses])
    result["saved_against_gumbel_max"] = _paired(this, losses.mean(axis=1), gumbel)
    return result


def _exact(coupling: AbstractCoupling, loss: Any, log_p: Any, log_q: Any) -> NDArray[np.float64]:
    return np.asarray(expected_losses(coupling, loss, log_p, log_q), np.float64)


def _summary(this: Table1Task, losses: NDArray[np.float64], optimum: NDArray[np.float64]) -> Result:
    """Value and distance to the optimum, with errors, from losses [scores, seeds, pairs] and optima [scores, pairs].

    With one pair the scores are the sample, else the pairs are; either way row and optimum are compared on the same.
    """
    if this.is_fixed:
        assert isinstance(this.pairs, FixedPair)
        shift = np.asarray([squared_mean_effect(this.pairs, score) for score in this.scores])
        sample, best = losses.mean(axis=(1, 2)) - shift, optimum.mean(axis=1) - shift
    else:
        sample, best = losses[0].mean(axis=0), optimum[0]
    result: Result = {
        "value": float(sample.mean()),
        "error": standard_error(sample),
        "above": float(sample.mean() / best.mean() - 1),
        "above_error": ratio_error(sample, best),
    }
    if not this.is_fixed:
        seeds = losses[0].mean(axis=1)
        result["by_seed"] = seeds.tolist()
        result["spread_over_seeds"] = float(seeds.std(ddof=1)) if len(seeds) > 1 else None
    else:
        result["by_draw"] = sample.tolist()
    return result


def _paired(this: Table1Task, losses: NDArray[np.float64], others: NDArray[np.float64]) -> Result:
    difference = (others - losses).mean(axis=1) if this.is_fixed else (others - losses)[0]
    return {"mean": float(difference.mean()), "error": standard_error(difference)}
