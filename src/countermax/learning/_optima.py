"""The least expected loss that any coupling of a pair can have: the yardstick of every learned coupling."""

import os
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from countermax import comonotone
from countermax._core.memory import check_memory
from countermax._core.transport import transport_plan
from countermax.learning._losses import Disagreement, Loss, SquaredDifference, checked_size


def least_losses(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> NDArray[np.float64]:
    """The optimum of each pair: in closed form where there is one, else by POT's network simplex, in parallel."""
    checked_size(loss, log_p, log_q)
    if isinstance(loss, Disagreement):
        return np.asarray(1 - jnp.exp(jnp.minimum(log_p, log_q)).sum(axis=1), np.float64)
    if isinstance(loss, SquaredDifference) and loss.score.shape[1] == 1:
        with jax.enable_x64(True):
            doubles = [np.asarray(each, np.float64) for each in (loss.score, loss.counterfactual_score, log_p, log_q)]
            return np.asarray(_sorted_losses(doubles[0][:, 0], doubles[1][:, 0], *doubles[2:]))
    count, size = log_p.shape
    check_memory(f"the loss matrices of {count} pairs of {size} outcomes", 24 * count * size**2, "ask for fewer pairs")
    matrices = np.asarray(jax.vmap(loss)(log_p, log_q), np.float64)
    probs_p, probs_q = (np.exp(np.asarray(each, np.float64)) for each in (log_p, log_q))

    def solve(index: int) -> float:
        return float((transport_plan(probs_p[index], probs_q[index], matrices[index]).plan * matrices[index]).sum())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.fromiter(pool.map(solve, range(len(matrices))), np.float64, len(matrices))


@jax.jit
def _sorted_losses(score: ArrayLike, other_score: ArrayLike, log_p: ArrayLike, log_q: ArrayLike) -> Array:
    """The comonotone coupling's, which no coupling beats where there is one score in each world."""
    first, second = (jax.nn.log_softmax(jnp.asarray(each), axis=1) for each in (log_p, log_q))
    squares = jax.vmap(comonotone.expected_squared_difference, (0, 0, None, None))
    return squares(first, second, jnp.asarray(score), jnp.asarray(other_score))
