"""Learning: `fit` one coupling, or `fit_many` of one shape at once.

The loop runs inside `lax.scan`, a stretch between two evaluations at a time, so that progress, checkpoints and Ctrl-C
cost nothing in between. All members of `fit_many` share each compiled stretch under `vmap`; `fit` is one member.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.learning._checkpoint import State, fingerprint_of, resume, write_checkpoint
from countermax.learning._history import Coupling, Fit, History, TrainingError
from countermax.learning._loop import Loop, held_out_losses, independent_loss, member_of, run_steps, stack
from countermax.learning._losses import Loss
from countermax.learning._objectives import AbstractObjective, Exact, as_objective
from countermax.learning._optima import least_losses
from countermax.learning._pairs import FixedPair, Pairs, draw_pairs

_MOST_SOLVED = 1024 * 100  # held-out pairs times outcomes for which the optimum is worth solving for


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
    params, rest = eqx.partition(stack("couplings", couplings), eqx.is_inexact_array)
    if not jax.tree.leaves(params):
        raise InputError(f"`couplings` must have parameters, but {type(couplings[0]).__name__} has nothing to learn")
    all_pairs, pairs_axis = (stack("pairs", pairs), 0) if isinstance(pairs, Sequence) else (pairs, None)
    all_losses, losses_axis = (stack("loss", loss), 0) if isinstance(loss, Sequence) else (loss, None)
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
    plan = Loop(rest, all_pairs, all_losses, pairs_axis, losses_axis, objective, optimizer, batch_size)

    held_out = [draw_pairs(each, num_held_out, key=key_held_out) for each in each_pairs]
    for each in couplings:
        each.check_size(held_out[0][0].shape[1])
    held_p, held_q = (jnp.stack([data[side] for data in held_out]) for side in (0, 1))
    scale = jnp.stack(
        [
            independent_loss(one, *draw_pairs(each, 64, key=key_scale))
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
                state, means = run_steps(plan, state, keys, scale, jnp.asarray(done), length)
                exact = held_out_losses(plan, state.params, held_p, held_q)
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
    fits = [Fit(member_of(state.params, rest, index), histories[index], ended, optima[index]) for index in range(count)]
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


def _optimum(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> float | None:
    if log_p.size > _MOST_SOLVED or not bool(jnp.isfinite(jax.vmap(loss)(log_p, log_q)).all()):
        return None
    try:
        return float(least_losses(loss, log_p, log_q).mean())
    except ImportError:
        return None


def _note(histories: Sequence[History], optima: Sequence[float | None]) -> str:
    """The newest entry of every history, averaged over members."""
    held_out = float(np.mean([history.held_out[-1] for history in histories]))
    known = [optimum for optimum in optima if optimum is not None]
    above = f", {held_out / np.mean(known) - 1:.2%} above the optimum" if known and np.mean(known) > 0 else ""
    return f"loss {held_out:.4g}{above}"


def _stalled(histories: list[History], patience: int) -> bool:
    means = np.mean([history.held_out for history in histories], axis=0)
    return len(means) > patience and bool(means[-patience:].min() >= means[:-patience].min())
