"""Laws of joint probabilities, rows and gradients: no draws, checked to rounding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling
from countermax.testing._queries import BrokenError, Query, close

_RAREST_JOINT = 1e-30  # below, single precision has no room for the joint probabilities of an outcome
_COARSE = 1e-3  # how far a rare outcome's row may be from the joint's: at extreme logits p itself has lost digits


def joint_of(coupling: AbstractCoupling, query: Query) -> NDArray[np.floating]:
    """The joint law, after a look at its shape and signs."""
    return _checked(np.asarray(_joint(coupling, query.p, query.q)), query.p.size)


def marginals(coupling: AbstractCoupling, query: Query) -> float:
    """Row sums are p, column sums are q, and what is impossible has probability zero."""
    joint = joint_of(coupling, query)
    p, q = query.probs
    if joint[p == 0].any() or joint[:, q == 0].any():
        raise BrokenError("an impossible outcome has positive probability")
    return max(
        close("the factual marginal", joint.sum(axis=1), p, query.tolerance),
        close("the other world's marginal", joint.sum(axis=0), q, query.tolerance),
    )


def rows(coupling: AbstractCoupling, query: Query) -> float:
    """What is answered given x is row x of the joint law, normalised."""
    p, q = query.probs
    joint = joint_of(coupling, query)
    possible = np.flatnonzero(query.p > -np.inf)
    asked = np.where(query.p > -np.inf, np.arange(p.size), possible[0])  # of one shape, so that it is compiled once
    found = np.asarray(_rows(coupling, query.p, query.q, asked))[possible]
    if (found < 0).any() or found[:, q == 0].any():
        raise BrokenError("a counterfactual row is negative, or holds an impossible outcome")
    worst = close("the sum of a counterfactual row", found.sum(axis=1), np.ones(len(possible)), query.tolerance)
    for x, row in zip(possible, found, strict=True):
        what = f"the counterfactual row of outcome {x}"
        if p[x] > 1e-3:
            worst = max(worst, close(what, row, joint[x] / joint[x].sum(), query.tolerance / p[x]))
        elif p[x] > _RAREST_JOINT:
            worst = max(worst, close(what, row, joint[x].astype(np.float64) / p[x], _COARSE))
    return worst


def shift(coupling: AbstractCoupling, query: Query) -> float:
    """Logits are unnormalised: a constant added to them changes nothing."""
    moved = Query(query.name, query.p + query.p.dtype.type(7.25), query.q - query.q.dtype.type(3.5))
    scale = max(1.0, float(np.abs(query.p[query.p > -np.inf]).max()))  # shifting rounds the logits themselves
    return close(
        "the law of shifted logits", joint_of(coupling, moved), joint_of(coupling, query), scale * query.tolerance
    )


def gradients(coupling: AbstractCoupling, asked: list[Query]) -> str:
    """Of the joint law and of a row, with respect to both worlds' logits."""
    for query in asked:
        try:
            found = _gradients(coupling, query.p, query.q)
        except InputError as refusal:
            return f"refused: {refusal}"
        if not all(np.isfinite(np.asarray(each)).all() for each in found):
            raise BrokenError(f"{query.name}: a gradient of the joint law is not finite")
    return f"finite on {len(asked)} queries"


def _checked(joint: NDArray[np.floating], size: int) -> NDArray[np.floating]:
    if joint.shape != (size, size):
        raise BrokenError(f"the joint law has shape {joint.shape}, not {(size, size)}")
    if (joint < 0).any():
        raise BrokenError(f"the joint law has a negative entry, {joint.min():.2g}")
    return joint


# Compiled once for all queries of one shape, since the coupling and its logits are arguments.
@eqx.filter_jit
def _joint(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike) -> Array:
    return coupling.joint(p, q)


@eqx.filter_jit
def _rows(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, outcomes: ArrayLike) -> Array:
    return jax.vmap(coupling.counterfactual_probs, (None, None, 0))(p, q, outcomes)


@eqx.filter_jit
def _gradients(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    size = jnp.size(p)
    weights = jnp.cos(jnp.arange(size * size)).reshape(size, size)  # no symmetry that could hide a term

    def weighed(p: Array, q: Array) -> Array:
        row = coupling.counterfactual_probs(p, q, jnp.argmax(p))
        return (coupling.joint(p, q) * weights).sum() + (row * weights[0]).sum()

    gradients: tuple[Array, Array] = jax.grad(weighed, (0, 1))(jnp.asarray(p), jnp.asarray(q))
    return gradients
