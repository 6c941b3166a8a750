"""The compiled part of a training: stretches of steps for all members at once, and their held-out losses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling, Independent
from countermax.learning._checkpoint import State
from countermax.learning._losses import Loss, expected_losses
from countermax.learning._objectives import AbstractObjective
from countermax.pairs import Pairs


class Loop(NamedTuple):
    """What does not change."""

    rest: PyTree  # of the couplings: what is not trained; its arrays have a leading axis over members too
    pairs: Any
    losses: Any
    pairs_axis: int | None
    losses_axis: int | None
    objective: AbstractObjective
    optimizer: optax.GradientTransformation
    batch_size: int


@eqx.filter_jit
def run_steps(
    plan: Loop,
    state: State,
    keys: Array,
    scale: Float[Array, " members"],
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> State:
    """The steps from `start` to before `stop`, for all members.

    One program for any number of steps, and the key of a step depends on its number alone: however a training is
    divided into calls, its numbers are the same to the last bit.
    """

    def step(number: Int[Array, ""], state: State) -> State:
        def member(state: State, rest: PyTree, key: PRNGKeyArray, scale: Array, pairs: Any, loss: Any) -> State:
            key = jax.random.fold_in(key, number)
            return _step(plan, state, rest, key, number, scale, pairs, loss)

        axes = (0, _axis(plan.rest, 0), 0, 0, _axis(plan.pairs, plan.pairs_axis), _axis(plan.losses, plan.losses_axis))
        return eqx.filter_vmap(member, in_axes=axes)(state, plan.rest, keys, scale, plan.pairs, plan.losses)

    return jax.lax.fori_loop(start, stop, step, state)


def _step(
    plan: Loop,
    state: State,
    rest: PyTree,
    key: PRNGKeyArray,
    number: Int[Array, ""],
    scale: Float[Array, ""],
    pairs: Pairs,
    loss: Loss,
) -> State:
    params, optimizer, bad_step, total = state
    key_pairs, key_objective = jax.random.split(key)
    p, q = jax.vmap(pairs)(jax.random.split(key_pairs, plan.batch_size))
    log_p, log_q = jax.nn.log_softmax(p, axis=1), jax.nn.log_softmax(q, axis=1)
    keys = jax.random.split(key_objective, plan.batch_size)

    def objective(params: PyTree) -> Float[Array, ""]:
        coupling = eqx.combine(params, rest)
        values = jax.vmap(lambda p, q, each: plan.objective(coupling, p, q, loss(p, q), key=each))(log_p, log_q, keys)
        return values.mean() / scale

    value, gradient = jax.value_and_grad(objective)(params)
    updates, new_optimizer = plan.optimizer.update(gradient, optimizer, params)
    new_params = optax.apply_updates(params, updates)
    finite: Bool[Array, ""] = jnp.isfinite(value)
    for leaf in jax.tree.leaves((gradient, new_params)):
        finite &= jnp.isfinite(leaf).all()
    good = finite & (bad_step < 0)  # once a member has failed it keeps its last good state
    kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), (new_params, new_optimizer), (params, optimizer))
    first_bad = jnp.where((bad_step < 0) & ~finite, number, bad_step).astype(bad_step.dtype)
    return State(kept[0], kept[1], first_bad, total + value * scale)


@eqx.filter_jit
def held_out_losses(
    plan: Loop, params: PyTree, p: Float[Array, "m n k"], q: Float[Array, "m n k"]
) -> Float[Array, " m"]:
    def member(params: PyTree, rest: PyTree, p: Array, q: Array, loss: Loss) -> Array:
        coupling = eqx.combine(params, rest)
        if not isinstance(coupling, AbstractCoupling):
            return jnp.asarray(jnp.nan)
        return expected_losses(coupling, loss, p, q).mean()

    axes = (0, _axis(plan.rest, 0), 0, 0, _axis(plan.losses, plan.losses_axis))
    return eqx.filter_vmap(member, in_axes=axes)(params, plan.rest, p, q, plan.losses)


@eqx.filter_jit
def independent_loss(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> Float[Array, ""]:
    """The unit in which losses are measured while training, so that one learning rate fits all of them."""
    values = jax.vmap(lambda p, q: Independent()._expected_loss(p, q, jnp.abs(loss(p, q))))(log_p, log_q)
    return jnp.where(values.mean() > 0, values.mean(), 1)


def stack(name: str, members: Sequence[Any]) -> Any:
    first, *others = members
    dynamic, static = eqx.partition(first, eqx.is_array)
    for other in others:
        if not eqx.tree_equal(static, eqx.partition(other, eqx.is_array)[1]):
            raise InputError(f"`{name}` must be of one kind and shape to be trained at once")
    arrays = [eqx.partition(each, eqx.is_array)[0] for each in members]
    try:
        return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), static)
    except ValueError as error:
        raise InputError(f"`{name}` must be of one shape to be trained at once") from error


def _axis(tree: Any, axis: int | None) -> Any:
    return jax.tree.map(lambda leaf: axis if eqx.is_array(leaf) else None, tree)


def member_of(params: PyTree, rest: PyTree, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, eqx.combine(params, rest))
