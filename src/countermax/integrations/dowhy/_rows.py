"""Many questions to couplings and bounds at once: every distinct one is asked once, in few shapes to compile."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax.bounds import filled_mean, unchecked_outcome_bounds, unchecked_score_bounds
from countermax.couplings import AbstractCoupling
from countermax.integrations.dowhy._noise import Codes, Floats

_SIZES = (16, 256, 4096)


def coupled(coupling: AbstractCoupling, p: Floats, q: Floats, x: Codes) -> Floats:
    """P(Y=. | X=x) of each row, [rows, outcomes]."""
    return _asked(_coupled, (coupling,), (_log(p), _log(q), x))


def outcome_limits(p: Floats, q: Floats, x: Codes, stable: bool) -> tuple[Floats, Floats]:
    """The least and the largest P(Y=j | X=x) of each row."""
    both = _asked(_outcome_limits, (stable,), (_log(p), _log(q), x))
    return both[:, 0], both[:, 1]


def largest_means(p: Floats, q: Floats, x: Codes, worth: Floats, stable: bool) -> Floats:
    """The largest mean of each worth of the outcomes, [rows, worths]; `worth` is [rows, worths, outcomes]."""
    if stable:
        return _asked(_largest_stable_means, (), (_log(p), _log(q), x, worth))
    with np.errstate(over="ignore"):
        room = np.minimum(q / p[np.arange(len(x)), x][:, None], 1)
    best_first = np.argsort(-worth, axis=-1)
    rooms = np.take_along_axis(np.broadcast_to(room[:, None], worth.shape), best_first, axis=-1)
    return filled_mean(rooms, np.take_along_axis(worth, best_first, axis=-1))


def _log(probs: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(probs)


def _asked(function: Callable[..., jax.Array], fixed: tuple[Any, ...], arrays: tuple[np.ndarray, ...]) -> Floats:
    flat = np.concatenate([np.asarray(array, np.float64).reshape(len(array), -1) for array in arrays], axis=1)
    _, first, inverse = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    arrays = tuple(array[first] for array in arrays)
    parts = []
    with jax.enable_x64(True):
        for start in range(0, len(first), _SIZES[-1]):
            block = [array[start : start + _SIZES[-1]] for array in arrays]
            size = next(each for each in _SIZES if each >= len(block[0]))
            filled = [np.concatenate([each, np.repeat(each[:1], size - len(each), axis=0)]) for each in block]
            parts.append(np.asarray(function(*fixed, *filled))[: len(block[0])])
        return np.concatenate(parts)[inverse.reshape(-1)]


@eqx.filter_jit
def _coupled(
    coupling: AbstractCoupling,
    log_p: Float[ArrayLike, "n k"],
    log_q: Float[ArrayLike, "n k"],
    x: Int[ArrayLike, " n"],
) -> Float[Array, "n k"]:
    return jax.vmap(coupling._counterfactual_probs)(*map(jnp.asarray, (log_p, log_q, x)))


@eqx.filter_jit
def _outcome_limits(
    stable: bool, log_p: Float[ArrayLike, "n k"], log_q: Float[ArrayLike, "n k"], x: Int[ArrayLike, " n"]
) -> Float[Array, "n 2 k"]:
    def one(log_p: Float[Array, " k"], log_q: Float[Array, " k"], x: Int[Array, ""]) -> Float[Array, "2 k"]:
        return jnp.stack(unchecked_outcome_bounds(log_p, log_q, x, stable=stable))

    return jax.vmap(one)(*map(jnp.asarray, (log_p, log_q, x)))


@eqx.filter_jit
def _largest_stable_means(
    log_p: Float[ArrayLike, "n k"],
    log_q: Float[ArrayLike, "n k"],
    x: Int[ArrayLike, " n"],
    worth: Float[ArrayLike, "n w k"],
) -> Float[Array, "n w"]:
    def one(
        log_p: Float[Array, " k"], log_q: Float[Array, " k"], x: Int[Array, ""], worth: Float[Array, "w k"]
    ) -> Float[Array, " w"]:
        return jax.vmap(lambda each: unchecked_score_bounds(log_p, log_q, x, each, stable=True).upper)(worth)

    return jax.vmap(one)(*map(jnp.asarray, (log_p, log_q, x, worth)))
