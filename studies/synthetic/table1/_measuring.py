"""Exact losses of fixed and learned couplings on common held-out pairs, with errors that are paired."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax.couplings import AbstractCoupling, GumbelMax, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.intervals import ratio_error, standard_error
from countermax.learning import FixedPair, draw_pairs, expected_losses, implicit_floor, least_losses
from studies.engine import Result
from studies.synthetic._tasks import Table1Task, squared_mean_effect

Losses = NDArray[np.float64]

BY_SCORE = "inverse CDF by score"
PROJECTED = "best projected inverse CDF"
FLOOR = "floor of any mechanism (estimate)"
_FIXED = ("independent", "gumbel-max", "inverse-cdf")
_BLOCK = 50_000  # pairs that are drawn and measured at once
_NUM_DIRECTIONS = 200  # on which vector scores are projected, besides the axes


def _held_out(this: Table1Task, settings: Result) -> tuple[Any, Any]:
    return draw_pairs(this.pairs, settings["num_held_out"], key=jax.random.key(settings["held_out_key"]))


def measure_fixed(this: Table1Task, settings: Result) -> Result:
    """All couplings that are not learned; what is cheap on many more pairs than the others."""
    log_p, log_q = _held_out(this, settings)
    losses: dict[str, list[Losses]] = {}
    floors: list[float] = []
    fixed: dict[str, AbstractCoupling] = {}
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
    if "num_reference" in settings:
        few = {name: each[0] for name, each in losses.items()}
        _without_luck(rows, few, _on_many_pairs(this, fixed, settings))
    if floors:
        above = float(np.mean(floors))
        value = (1 + above) * rows["optimal"]["value"]  # estimated on other worlds, so carried over as a ratio
        rows[FLOOR] = {"value": value, "above": above, "above_error": standard_error(np.asarray(floors))}
    return {"rows": rows}


def _on_many_pairs(this: Table1Task, couplings: Mapping[str, AbstractCoupling], settings: Result) -> dict[str, Losses]:
    """The exact loss of each coupling on pairs of their own, block by block."""
    key = jax.random.fold_in(jax.random.key(settings["held_out_key"]), 1)
    blocks: dict[str, list[Losses]] = {name: [] for name in couplings}
    for start in range(0, settings["num_reference"], _BLOCK):
        size = min(_BLOCK, settings["num_reference"] - start)
        log_p, log_q = draw_pairs(this.pairs, size, key=jax.random.fold_in(key, start))
        for name, coupling in couplings.items():
            blocks[name].append(_exact(coupling, this.losses[0], log_p, log_q))
    return {name: np.concatenate(each) for name, each in blocks.items()}


def _without_luck(rows: dict[str, Result], few: Mapping[str, Losses], many: Mapping[str, Losses]) -> None:
    """Replaces values on few pairs by those on many, and the optimum by what many pairs say about the few.

    For one score an order of the outcomes is optimal; else the best order tells how lucky the few pairs were.
    """
    best = BY_SCORE if BY_SCORE in many else PROJECTED
    rows["optimal"]["value"], rows["optimal"]["error"] = _controlled(few["optimal"], few[best], many[best])
    for name, losses in many.items():
        rows[name]["value"], rows[name]["error"] = float(losses.mean()), standard_error(losses)
        if best == BY_SCORE:
            rows[name]["above"] = float(losses.mean() / many[best].mean() - 1)
            rows[name]["above_error"] = ratio_error(losses, many[best])


def _controlled(few: Losses, control: Losses, many: Losses) -> tuple[float, float]:
    """The mean of losses known on few pairs, and its error, by a control that is known on many others as well."""
    slope = float(np.cov(few, control)[0, 1] / control.var(ddof=1))
    value = few.mean() - slope * (control.mean() - many.mean())
    variance = (few - slope * control).var(ddof=1) / few.size + slope**2 * many.var(ddof=1) / many.size
    return float(value), float(np.sqrt(variance))


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


def _exact(coupling: AbstractCoupling, loss: Any, log_p: Any, log_q: Any) -> Losses:
    return np.asarray(expected_losses(coupling, loss, log_p, log_q), np.float64)


def _summary(this: Table1Task, losses: Losses, optimum: Losses) -> Result:
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


def _paired(this: Table1Task, losses: Losses, others: Losses) -> Result:
    difference = (others - losses).mean(axis=1) if this.is_fixed else (others - losses)[0]
    return {"mean": float(difference.mean()), "error": standard_error(difference)}
