"""Which mechanism to choose for a score: sorting for one, learning for several."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling, Gadget2, GumbelMax, Independent, InverseCDF, Maximal
from countermax.learning import Fit, ObservedPairs, SquaredDifference, fit, least_losses
from countermax.tables._pairs import MOST_PAIRS, all_pairs, some_pairs
from countermax.tables._rows import Reader
from countermax.tables._scores import Scores
from countermax.tables.frames import Floats

BY_SCORE = "inverse CDF by score"
LEARNED = "learned Gadget 2"

_MOST_SOLVED = 100_000  # pairs times outcomes for which transport problems are worth solving


def standard(scores: Scores) -> dict[str, AbstractCoupling]:
    """The fixed mechanisms, with the ones that the scores single out."""
    with jax.enable_x64(True):
        mechanisms: dict[str, AbstractCoupling] = {"Gumbel-max": GumbelMax(), "inverse CDF": InverseCDF()}
        if scores.one_order:
            mechanisms[BY_SCORE] = InverseCDF.sorted_by(scores.factual[:, 0])
        elif len(scores.names) > 1:
            for name, values in zip(scores.names, scores.factual.T, strict=True):
                mechanisms[f"inverse CDF by {name}"] = InverseCDF.sorted_by(values)
        return mechanisms | {"maximal": Maximal(), "independent": Independent()}


def learned_on(
    reader: Reader,
    scores: Scores,
    gadget: Gadget2 | None,
    options: dict[str, Any],
    progress: bool | None,
    *,
    key: PRNGKeyArray,
) -> Fit[Gadget2]:
    """Trains a gadget on the frame's own pairs to let the effect vary as little as possible."""
    size = len(reader.labels)
    key_gadget, key_fit = jax.random.split(key)
    if gadget is None:
        gadget = Gadget2(size, 16, key=key_gadget, hidden=(64, 64))
    if gadget.num_outcomes != size:
        raise InputError(f"`learn` must be a gadget for {size} outcomes, got one for {gadget.num_outcomes}")
    log_p, log_q, weights = some_pairs(reader, MOST_PAIRS)
    pairs = ObservedPairs(jnp.asarray(log_p), jnp.asarray(log_q), weights)
    loss = SquaredDifference(jnp.asarray(scores.factual), jnp.asarray(scores.counterfactual))
    settings = {"steps": 500, "batch_size": 64, "progress": progress} | options
    return fit(gadget, pairs, loss, key=key_fit, **settings)


def least_by_transport(reader: Reader, scores: Scores, average: Floats) -> float | None:
    """The least variance that any coupling can have with several scores; None where there are too many pairs."""
    pairs = all_pairs(reader, _MOST_SOLVED // len(reader.labels))
    if pairs is None:
        return None
    log_p, log_q, weights = pairs
    with jax.enable_x64(True):
        loss = SquaredDifference(jnp.asarray(scores.factual), jnp.asarray(scores.counterfactual))
        least = least_losses(loss, jnp.asarray(log_p), jnp.asarray(log_q))
    return max(float(np.average(least, weights=weights) - (average**2).sum()), 0.0)


def choose(scores: Scores, variances: Mapping[str, float], least: float | None) -> tuple[str, str]:
    """The name of the mechanism to choose, and why."""
    if scores.one_order:
        return BY_SCORE, (
            f"with one score, outcomes in its order have the least variance of all mechanisms, {least:.4g}, for every "
            "row at once; nothing has to be learned."
        )
    best = min(variances, key=lambda name: variances[name])
    if least is not None and variances[best] <= least * (1 + 1e-6):
        return best, f"no mechanism can have less variance than {least:.4g} on these rows; nothing has to be learned."
    why = "no order of the outcomes is optimal for several scores at once"
    if len(scores.names) == 1:
        why = "the two worlds' scores sort the outcomes differently, so that no order is optimal"
    if best == LEARNED:
        return best, f"{why}, and training on these rows found less variance than any fixed mechanism has."
    more = "training did not do better" if LEARNED in variances else "learn=True may find a better one"
    return best, f"{why}; of those compared it has the least variance, and {more}."
