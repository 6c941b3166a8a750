"""The least expected loss that any coupling of a pair can have: the yardstick of every learned mechanism."""

import os
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from countermax.couplings import InverseCDF
from countermax.losses import Disagreement, Loss, SquaredDifference


def least_losses(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> NDArray[np.float64]:
    """The optimum of each pair: in closed form where there is one, else by POT's network simplex, in parallel."""
    if isinstance(loss, Disagreement):
        return np.asarray(1 - jnp.exp(jnp.minimum(log_p, log_q)).sum(axis=1), np.float64)
    if isinstance(loss, SquaredDifference) and _is_one_score(loss):
        with jax.enable_x64(True):
            score = np.asarray(loss.score[:, 0], np.float64)
            order = np.argsort(score, stable=True)
            doubles = (np.asarray(each, np.float64)[:, order] for each in (log_p, log_q))
            return np.asarray(_costs_in_order(score[order], *doubles))
    import ot

    matrices = np.asarray(jax.vmap(loss)(log_p, log_q), np.float64)
    probs_p, probs_q = (np.exp(np.asarray(each, np.float64)) for each in (log_p, log_q))

    def solve(index: int) -> float:
        p, q = probs_p[index] / probs_p[index].sum(), probs_q[index] / probs_q[index].sum()
        costs = matrices[index] - matrices[index].min()  # POT takes some negative costs for an infeasible problem
        return float((ot.emd(p, q, costs, numItermax=10_000_000) * matrices[index]).sum())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.fromiter(pool.map(solve, range(len(matrices))), np.float64, len(matrices))


@jax.jit
def _costs_in_order(
    score: Float[ArrayLike, " k"], p: Float[ArrayLike, "n k"], q: Float[ArrayLike, "n k"]
) -> Float[Array, " n"]:
    """Expected squared differences of the inverse CDF, for outcomes that stand in the order of their score."""
    ascending, log_p, log_q = jnp.asarray(score), jax.nn.log_softmax(p, axis=1), jax.nn.log_softmax(q, axis=1)
    matrix = (ascending[:, None] - ascending[None, :]) ** 2
    return jax.vmap(lambda first, second: (InverseCDF()._joint(first, second) * matrix).sum())(log_p, log_q)


def _is_one_score(loss: SquaredDifference) -> bool:
    return loss.score.shape[1] == 1 and bool((loss.score == loss.counterfactual_score).all())
