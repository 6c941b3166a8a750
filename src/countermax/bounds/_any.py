"""Over all couplings: Frechet's bounds of a probability, and greedy fills for the bounds of a score."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from countermax._core.types import LogProbs, Outcome, Probs, Scalar


def extremes(log_p: LogProbs, log_q: LogProbs, x: Outcome) -> tuple[Probs, Probs]:
    """The least and the largest P(Y=j | X=x) for each j, in O(K)."""
    # In units of p_x no outcome can take more than 1, so rooms are cut there and nothing overflows. What the others can
    # take is summed on both sides of j: the difference 1 - q_j would have no digits left where q_j is nearly one.
    upper = jnp.exp(jnp.minimum(log_q - log_p[x], 0))
    nothing = jnp.zeros(1, upper.dtype)
    before = jnp.concatenate([nothing, jnp.cumsum(upper)[:-1]])
    after = jnp.concatenate([jax.lax.cumsum(upper, reverse=True)[1:], nothing])
    return jnp.clip(1 - (before + after), 0, upper), upper


def largest_mean(log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"]) -> Scalar:
    """The largest E[score(Y) | X=x], in O(K log K): P(Y=. | X=x) is any distribution `w` with `w_j <= q_j / p_x`."""
    best_first = jnp.argsort(-score)
    room = jnp.exp(jnp.minimum(log_q - log_p[x], 0))
    return filled_mean(room[best_first], score[best_first])


def filled(room: Any, mass: Any = 1) -> Any:
    """How much each room takes of a mass that fills them one after the other, along the last axis; NumPy's or JAX's."""
    before = room.cumsum(axis=-1) - room
    return (mass - before).clip(0, room)


def filled_mean(room: Any, worth: Any) -> Any:
    """The mean worth of a unit of mass that fills rooms one after the other, along the last axis; NumPy's or JAX's."""
    taken = filled(room)
    return (taken * worth).sum(axis=-1) / taken.sum(axis=-1)
