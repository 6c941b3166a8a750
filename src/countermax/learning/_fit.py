"""Learning: `fit` one coupling, or `fit_many` of one shape at once.

The loop runs inside `lax.scan`, a stretch between two evaluations at a time, so that progress, checkpoints and Ctrl-C
cost nothing in between. All members of `fit_many` share each compiled stretch under `vmap`; `fit` is one member.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.couplings import AbstractCoupling, Independent
from countermax.learning._checkpoint import State, fingerprint_of, resume, write_checkpoint
from countermax.learning._history import Coupling, Fit, History, TrainingError
from countermax.learning._losses import Loss, expected_losses
from countermax.learning._objectives import AbstractObjective, Exact, as_objective
from countermax.learning._optima import least_losses
from countermax.learning._pairs import FixedPair, Pairs, draw_pairs

_MOST_SOLVED = 1024 * 100  # held-out pairs times outcomes for which the optimum is worth solving for


class _Plan(NamedTuple):
    """What does not change."""

    rest: PyTree  # of the couplings: what is not trained; its arrays have a leading axis over members too
    pairs: Any
    losses: Any
    pairs_axis: int | None
    losses_axis: int | None
    objective: AbstractObjective
    optimizer: optax.GradientTransformation
    batch_size: int


def fit(
    coupling: Coupling,
    pairs: Pairs,
    loss: Loss,
    *,
    key: PRNGKeyArray,
    steps: int = 2000,
    objective: str | AbstractObjective = "exact",
    batch_size: int = 128,
    learning_rate: float = 1e-2,
    clip: float | None = 1.0,
    optimizer: optax.GradientTransformation | None = None,
    evaluate_every: int | None = None,
    num_held_out: int = 256,
    patience: int | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
    checkpoint: str | Path | None = None,
    label: str = "training",
) -> Fit[Coupling]:
    """Trains one coupling to have a small expected loss over the pairs.

    Args:
        coupling: What to train: a gadget, or any coupling with parameters.
        pairs: Distribution of pairs.
        loss: The loss.
        key: Consumed once; the same key gives the same result.
        steps: Number of gradient steps.
        objective: `exact`, `relaxed`, `reinforce`, or one of `countermax.learning` with its own settings.
        batch_size: Pairs for each step.
        learning_rate: Adam's rate at the start; it falls to zero along a cosine.
        clip: The largest gradient norm, once losses are in units of the independent coupling's; None for no limit.
        optimizer: Any Optax optimiser in place of that.
        evaluate_every: Steps between evaluations (and checkpoints); by default twenty evaluations in all.
        num_held_out: Pairs to evaluate on.
        patience: Evaluations without a better held-out loss after which to stop.
        progress: Whether to show a progress bar; by default if the output is a terminal. Or a function to call instead
            after each evaluation, with the number of steps done and of all steps.
        checkpoint: A file to write after each evaluation, and to resume from where it exists.
        label: What the progress bar says.

    Raises:
        TrainingError: A loss or gradient was not finite; it names the step and holds the last good state.
    """
    (only,) = fit_many(
        [coupling],
        pairs,
        loss,
        key=key,
        steps=steps,
        objective=objective,
        batch_size=batch_size,
        learning_rate=learning_rate,
        clip=clip,
        optimizer=optimizer,
        evaluate_every=evaluate_every,
        num_held_out=num_held_out,
        patience=patience,
        progress=progress,
        checkpoint=checkpoint,
        label=label,
    )
    return only


def fit_many(
    couplings: Sequence[Coupling],
    pairs: Pairs | Sequence[Pairs],
    loss: Loss | Sequence[Loss],
    *,
    key: PRNGKeyArray,
    steps: int = 2000,
    objective: str | AbstractObjective = "exact",
    batch_size: int = 128,
    learning_rate: float = 1e-2,
    clip: float | None = 1.0,
    optimizer: optax.GradientTransformation | None = None,
    evaluate_every: int | None = None,
    num_held_out: int = 256,
    patience: int | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
    checkpoint: str | Path | None = None,
    label: str = "training",
) -> list[Fit[Coupling]]:
    """Trains couplings of one shape at once: several seeds, or several tasks.

    Args:
        couplings: Couplings that differ in their parameters only.
        pairs: Distribution of pairs, or one of the same kind for each coupling.
        loss: The loss, or one of the same kind for each coupling.
        key: Consumed once; the same key gives the same result.
        steps: Number of gradient steps.
        objective: `exact`, `relaxed`, `reinforce`, or one of `countermax.learning` with its own settings.
        batch_size: Pairs for each step.
        learning_rate: Adam's rate at the start; it falls to zero along a cosine.
        clip: The largest gradient norm, once losses are in units of the independent coupling's; None for no limit.
        optimizer: Any Optax optimiser in place of that.
        evaluate_every: Steps between evaluations (and checkpoints); by default twenty evaluations in all.
        num_held_out: Pairs to evaluate on.
        patience: Evaluations without a better held-out loss, averaged over members, after which to stop.
        progress: Whether to show a progress bar; by default if the output is a terminal. Or a function to call instead
            after each evaluation, with the number of steps done and of all steps.
        checkpoint: A file to write after each evaluation, and to resume from where it exists.
        label: What the progress bar says.

    Raises:
        TrainingError: A loss or gradient was not finite; it names the step and holds the last good states.
    """
    if not couplings:
        raise InputError("`couplings` must not be empty")
    if steps < 1 or batch_size < 1 or num_held_out < 1:
        raise InputError(
            f"`steps`, `batch_size` and `num_held_out` must be at least 1, got {steps}, {batch_size}, {num_held_out}"
        )
    key_steps, key_held_out, key_scale = jax.random.split(key, 3)
    count = len(couplings)
    params, rest = eqx.partition(_stack("couplings", couplings), eqx.is_inexact_array)
    if not jax.tree.leaves(params):
        raise InputError(f"`couplings` must have parameters, but {type(couplings[0]).__name__} has nothing to learn")
    all_pairs, pairs_axis = (_stack("pairs", pairs), 0) if isinstance(pairs, Sequence) else (pairs, None)
    all_losses, losses_axis = (_stack("loss", loss), 0) if isinstance(loss, Sequence) else (loss, None)
    for name, many in (("pairs", pairs), ("loss", loss)):
        if isinstance(many, Sequence) and len(many) != count:
            raise InputError(f"`{name}` must be one, or one for each of {count} couplings, got {len(many)}")
    each_pairs = list(pairs) if isinstance(pairs, Sequence) else [pairs] * count
    each_loss = list(loss) if isinstance(loss, Sequence) else [loss] * count
    if optimizer is None:
        optimizer = _adam(learning_rate, steps, clip)
    objective = as_objective(objective)
    if isinstance(each_pairs[0], FixedPair) and isinstance(objective, Exact):
        batch_size = 1  # more of the same pair would change nothing where nothing is sampled
    plan = _Plan(rest, all_pairs, all_losses, pairs_axis, losses_axis, objective, optimizer, batch_size)

    held_out = [draw_pairs(each, num_held_out, key=key_held_out) for each in each_pairs]
    for each in couplings:
        each.check_size(held_out[0][0].shape[1])
    held_p, held_q = (jnp.stack([data[side] for data in held_out]) for side in (0, 1))
    scale = jnp.stack(
        [
            _independent_loss(one, *draw_pairs(each, 64, key=key_scale))
            for one, each in zip(each_loss, each_pairs, strict=True)
        ]
    )

    optima = [_optimum(each, *data) for each, data in zip(each_loss, held_out, strict=True)]

    state = State(params, jax.vmap(optimizer.init)(params), jnp.full(count, -1))
    histories = [History() for _ in couplings]
    stretch = evaluate_every or max(1, -(-steps // 20))
    settings = (steps, stretch, batch_size, plan.objective, learning_rate, clip, num_held_out)
    fingerprint = fingerprint_of(state, key, rest, each_pairs, each_loss, *settings)
    done = 0
    if checkpoint is not None and Path(checkpoint).exists():
        state, histories, done = resume(checkpoint, fingerprint, state, count)

    ended = "finished"
    keys = jax.random.split(key_steps, count)
    report = progress if callable(progress) else None
    shown = False if callable(progress) else progress
    with ProgressBar(label, steps, shown, unit="steps", done=done) as bar:
        try:
            while done < steps:
                length = min(stretch, steps - done)
                state, means = _run(plan, state, keys, scale, jnp.asarray(done), length)
                exact = _held_out_losses(plan, state.params, held_p, held_q)
                done += length
                for member, history in enumerate(histories):
                    history.step.append(done)
                    history.loss.append(float(means[member]))
                    history.held_out.append(float(exact[member]))
                bar.update(done, note=_note(histories, optima))
                if report is not None:
                    report(done, steps)
                if checkpoint is not None:
                    write_checkpoint(checkpoint, fingerprint, state, histories, done)
                if bool((state.bad_step >= 0).any()):
                    ended = "non-finite"
                    break
                if patience is not None and _stalled(histories, patience):
                    ended = "patience"
                    break
        except KeyboardInterrupt:
            ended = "interrupted"
    fits = [Fit(_member(state.params, rest, index), histories[index], ended, optima[index]) for index in range(count)]
    if ended == "non-finite":
        member = int((state.bad_step >= 0).argmax())
        raise TrainingError(
            f"the loss or its gradient became non-finite at step {int(state.bad_step[member])}"
            + (f" of member {member}" if count > 1 else "")
            + "; lower the learning rate or check the loss. The last good state is in this error's `fits`.",
            fits,
        )
    return fits


@functools.lru_cache
def _adam(learning_rate: float, steps: int, clip: float | None) -> optax.GradientTransformation:
    """Remembered, so that a second run with the same settings finds its training loop compiled."""
    chain = [] if clip is None else [optax.clip_by_global_norm(clip)]
    return optax.chain(*chain, optax.adam(optax.cosine_decay_schedule(learning_rate, steps)))


@eqx.filter_jit
def _run(
    plan: _Plan, state: State, keys: Array, scale: Float[Array, " members"], start: Int[Array, ""], length: int
) -> tuple[State, Float[Array, " members"]]:
    """A stretch of steps for all members.

    The key of a step depends on its number alone, so that resuming changes nothing.
    """

    def step(state: State, number: Int[Array, ""]) -> tuple[State, Float[Array, " members"]]:
        def member(
            state: State, rest: PyTree, key: PRNGKeyArray, scale: Array, pairs: Any, loss: Any
        ) -> tuple[State, Array]:
            key = jax.random.fold_in(key, number)
            return _step(plan, state, rest, key, number, scale, pairs, loss)

        axes = (0, _axis(plan.rest, 0), 0, 0, _axis(plan.pairs, plan.pairs_axis), _axis(plan.losses, plan.losses_axis))
        new, values = eqx.filter_vmap(member, in_axes=axes)(state, plan.rest, keys, scale, plan.pairs, plan.losses)
        return new, values

    state, values = jax.lax.scan(step, state, start + jnp.arange(length))
    return state, values.mean(axis=0)


def _step(
    plan: _Plan,
    state: State,
    rest: PyTree,
    key: PRNGKeyArray,
    number: Int[Array, ""],
    scale: Float[Array, ""],
    pairs: Pairs,
    loss: Loss,
) -> tuple[State, Float[Array, ""]]:
    params, optimizer, bad_step = state
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
    return State(kept[0], kept[1], first_bad), value * scale


@eqx.filter_jit
def _held_out_losses(
    plan: _Plan, params: PyTree, p: Float[Array, "m n k"], q: Float[Array, "m n k"]
) -> Float[Array, " m"]:
    def member(params: PyTree, rest: PyTree, p: Array, q: Array, loss: Loss) -> Array:
        coupling = eqx.combine(params, rest)
        if not isinstance(coupling, AbstractCoupling):
            return jnp.asarray(jnp.nan)
        return expected_losses(coupling, loss, p, q).mean()

    axes = (0, _axis(plan.rest, 0), 0, 0, _axis(plan.losses, plan.losses_axis))
    return eqx.filter_vmap(member, in_axes=axes)(params, plan.rest, p, q, plan.losses)


@eqx.filter_jit
def _independent_loss(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> Float[Array, ""]:
    """The unit in which losses are measured while training, so that one learning rate fits all of them."""
    values = jax.vmap(lambda p, q: Independent()._expected_loss(p, q, jnp.abs(loss(p, q))))(log_p, log_q)
    return jnp.where(values.mean() > 0, values.mean(), 1)


def _optimum(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> float | None:
    if log_p.size > _MOST_SOLVED or not bool(jnp.isfinite(jax.vmap(loss)(log_p, log_q)).all()):
        return None
    try:
        return float(least_losses(loss, log_p, log_q).mean())
    except ImportError:
        return None


def _stack(name: str, members: Sequence[Any]) -> Any:
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


def _member(params: PyTree, rest: PyTree, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, eqx.combine(params, rest))


def _note(histories: Sequence[History], optima: Sequence[float | None]) -> str:
    """The newest entry of every history, averaged over members."""
    held_out = float(np.mean([history.held_out[-1] for history in histories]))
    known = [optimum for optimum in optima if optimum is not None]
    above = f", {held_out / np.mean(known) - 1:.2%} above the optimum" if known and np.mean(known) > 0 else ""
    return f"loss {held_out:.4g}{above}"


def _stalled(histories: list[History], patience: int) -> bool:
    means = np.mean([history.held_out for history in histories], axis=0)
    return len(means) > patience and bool(means[-patience:].min() >= means[:-patience].min())
