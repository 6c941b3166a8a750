"""Laws of joint probabilities, rows, losses and gradients: no draws, checked to rounding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling
from countermax.testing._cases import BrokenError, Case, close

_RAREST_JOINT = 1e-30  # below, single precision has no room for the joint probabilities of an outcome
_COARSE = 1e-3  # how far a rare outcome's row may be from the joint's: at extreme logits p itself has lost digits


def joint_of(coupling: AbstractCoupling, case: Case) -> NDArray[np.floating]:
    """The joint law, after a look at its shape and signs."""
    return _checked(np.asarray(_joint(coupling, case.p, case.q)), case.p.size)


def marginals(coupling: AbstractCoupling, case: Case) -> float:
    """Row sums are p, column sums are q, and what is impossible has probability zero."""
    joint = joint_of(coupling, case)
    p, q = case.probs
    if joint[p == 0].any() or joint[:, q == 0].any():
        raise BrokenError("an impossible outcome has positive probability")
    return max(
        close("the factual marginal", joint.sum(axis=1), p, case.tolerance),
        close("the other world's marginal", joint.sum(axis=0), q, case.tolerance),
    )


def rows_of(coupling: AbstractCoupling, case: Case) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """The outcomes that can be seen, and what is answered given each of them."""
    possible = np.flatnonzero(case.p > -np.inf)
    asked = np.where(case.p > -np.inf, np.arange(case.p.size), possible[0])  # of one shape, so that it is compiled once
    return possible, np.asarray(_rows(coupling, case.p, case.q, asked))[possible]


def rows(coupling: AbstractCoupling, case: Case) -> float:
    """What is answered given x is row x of the joint law, normalised."""
    p, q = case.probs
    joint = joint_of(coupling, case)
    possible, found = rows_of(coupling, case)
    if (found < 0).any() or found[:, q == 0].any():
        raise BrokenError("a counterfactual row is negative, or holds an impossible outcome")
    worst = close("the sum of a counterfactual row", found.sum(axis=1), np.ones(len(possible)), case.tolerance)
    for x, row in zip(possible, found, strict=True):
        what = f"the counterfactual row of outcome {x}"
        if p[x] > 1e-3:
            worst = max(worst, close(what, row, joint[x] / joint[x].sum(), case.tolerance / p[x]))
        elif p[x] > _RAREST_JOINT:
            worst = max(worst, close(what, row, joint[x].astype(np.float64) / p[x], _COARSE))
    return worst


def losses(coupling: AbstractCoupling, case: Case) -> float:
    """An expected loss is the sum of the joint law times the loss, however it is computed."""
    size = case.p.size
    loss = np.cos(np.arange(size * size)).reshape(size, size)  # of both signs, and no symmetry that could hide a swap
    expected = (joint_of(coupling, case).astype(np.float64) * loss).sum()
    found = np.asarray(_expected_loss(coupling, case.p, case.q, loss.astype(case.p.dtype)))
    return close("the expected loss", found, np.asarray(expected), case.tolerance)


def shift(coupling: AbstractCoupling, case: Case) -> float:
    """Logits are unnormalised: a constant added to them changes nothing."""
    moved = Case(case.name, case.p + case.p.dtype.type(7.25), case.q - case.q.dtype.type(3.5))
    scale = max(1.0, float(np.abs(case.p[case.p > -np.inf]).max()))  # shifting rounds the logits themselves
    return close(
        "the law of shifted logits", joint_of(coupling, moved), joint_of(coupling, case), scale * case.tolerance
    )


def gradients(coupling: AbstractCoupling, tried: list[Case]) -> str:
    """Of the joint law and of a row, with respect to both worlds' logits."""
    for case in tried:
        try:
            found = _gradients(coupling, case.p, case.q)
        except InputError as refusal:
            return f"refused: {refusal}"
        if not all(np.isfinite(np.asarray(each)).all() for each in found):
            raise BrokenError(f"{case.name}: a gradient of the joint law is not finite")
    return f"finite in {len(tried)} cases"


def _checked(joint: NDArray[np.floating], size: int) -> NDArray[np.floating]:
    if joint.shape != (size, size):
        raise BrokenError(f"the joint law has shape {joint.shape}, not {(size, size)}")
    if (joint < 0).any():
        raise BrokenError(f"the joint law has a negative entry, {joint.min():.2g}")
    return joint


# Compiled once for all cases of one shape, since the coupling and its logits are arguments.
@eqx.filter_jit
def _joint(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike) -> Array:
    return coupling.joint(p, q)


@eqx.filter_jit
def _rows(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, outcomes: ArrayLike) -> Array:
    return jax.vmap(coupling.counterfactual_probs, (None, None, 0))(p, q, outcomes)


@eqx.filter_jit
def _expected_loss(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, loss: ArrayLike) -> Array:
    return coupling.expected_loss(p, q, loss)


@eqx.filter_jit
def _gradients(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    size = jnp.size(p)
    weights = jnp.cos(jnp.arange(size * size)).reshape(size, size)  # no symmetry that could hide a term

    def weighed(p: Array, q: Array) -> Array:
        row = coupling.counterfactual_probs(p, q, jnp.argmax(p))
        return (coupling.joint(p, q) * weights).sum() + (row * weights[0]).sum()

    gradients: tuple[Array, Array] = jax.grad(weighed, (0, 1))(jnp.asarray(p), jnp.asarray(q))
    return gradients
