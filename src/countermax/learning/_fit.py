"""Learning: `fit` one coupling, or `fit_many` of one shape at once.

The loop runs in compiled code, about half a second at a time, so that progress, checkpoints and Ctrl-C cost next to
nothing. All members of `fit_many` share each compiled stretch under `vmap`; `fit` is one member.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from countermax._core.checks import as_key
from countermax._core.errors import InputError
from countermax._core.quantities import as_amount, as_count
from countermax._pairs import FixedPair, Pairs, draw_pairs, num_outcomes_of
from countermax.learning._loop import (
    Checkpoint,
    Coupling,
    Fit,
    History,
    Loop,
    Progress,
    Schedule,
    State,
    held_out_losses,
    independent_loss,
    run_steps,
    stack,
    train,
)
from countermax.learning._losses import AbstractObjective, Exact, Loss, as_objective, checked_size, least_losses
from countermax.learning._program import Program

_MOST_SOLVED = 1024 * 100  # held-out pairs times outcomes for which the optimum is worth solving for
_MOST_CELLS = 5 * 10**7  # and cells of all their loss matrices


@final
@dataclass(frozen=True)
class Training:
    """How a coupling is trained.

    Args:
        steps: Number of gradient steps.
        batch_size: Number of pairs in each step.
        learning_rate: Adam's rate at the start; it falls to zero along a cosine.
        objective: Objective whose gradient is followed: `exact`, `relaxed`, `reinforce`, or one with its own settings.
        clip: Largest gradient norm, once losses are in units of the independent coupling's; None for no limit.
        optimizer: Optax optimiser in place of Adam.
        evaluate_every: Steps between evaluations (and checkpoints); by default twenty evaluations in all.
        num_held_out: Number of pairs to evaluate on.
        patience: Evaluations without a better held-out loss, averaged over members, after which to stop.
    """

    steps: int = 2000
    batch_size: int = 128
    learning_rate: float = 1e-2
    objective: str | AbstractObjective = "exact"
    clip: float | None = 1.0
    optimizer: optax.GradientTransformation | None = None
    evaluate_every: int | None = None
    num_held_out: int = 256
    patience: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", as_objective(self.objective))
        amount = functools.partial(as_amount, above=0.0)
        for name in ("steps", "batch_size", "num_held_out", "evaluate_every", "patience", "learning_rate", "clip"):
            value, check = getattr(self, name), amount if name in ("learning_rate", "clip") else as_count
            if value is not None or name not in ("evaluate_every", "patience", "clip"):
                object.__setattr__(self, name, check(f"`{name}`", value))


def fit(
    coupling: Coupling,
    pairs: Pairs,
    loss: Loss,
    training: Training = Training(),  # noqa: B008 (immutable)
    *,
    key: PRNGKeyArray,
    checkpoint: str | Path | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Fit[Coupling]:
    """Trains one coupling to have a small expected loss over the pairs.

    What comes back is never worse on the held-out pairs than what went in: where training ended worse, it is the start.

    Args:
        coupling: Coupling to train: a gadget, or any coupling with parameters.
        pairs: Distribution of pairs.
        loss: Loss to minimise.
        training: Settings: steps, batch size, learning rate and so on.
        key: Random key, consumed once; the same key gives the same result.
        checkpoint: File to write after each evaluation and when interrupted, and to resume from where it exists.
        report: Function to call after each evaluation, with the number of steps done and of all steps, in place of a
            progress bar.

    Raises:
        TrainingError: A loss or gradient was not finite; it names the step and holds the last good state.
        TrainingInterrupted: Ctrl-C (a `KeyboardInterrupt`); the checkpoint holds the step, the exception what had been
            learned by then.
    """
    (only,) = fit_many([coupling], pairs, loss, training, key=key, checkpoint=checkpoint, report=report)
    return only


def fit_many(
    couplings: Sequence[Coupling],
    pairs: Pairs | Sequence[Pairs],
    loss: Loss | Sequence[Loss],
    training: Training = Training(),  # noqa: B008 (immutable)
    *,
    key: PRNGKeyArray,
    checkpoint: str | Path | None = None,
    report: Callable[[int, int], None] | None = None,
) -> list[Fit[Coupling]]:
    """Trains couplings of one shape at once: several seeds, or several tasks; otherwise as `fit`.

    The couplings differ in their parameters only. There is one distribution of pairs and one loss, or one of the same
    kind for each coupling.
    """
    if not couplings:
        raise InputError("`couplings` must not be empty")
    steps, batch_size, objective = training.steps, training.batch_size, as_objective(training.objective)
    stretch = -(-steps // 20) if training.evaluate_every is None else training.evaluate_every
    key_steps, key_held_out, key_scale = jax.random.split(as_key(key), 3)
    count = len(couplings)
    params, rest = eqx.partition(stack("couplings", couplings), eqx.is_inexact_array)
    if not jax.tree.leaves(params):
        raise InputError(f"`couplings` must have parameters, but {type(couplings[0]).__name__} has nothing to learn")
    each_pairs, all_pairs, pairs_axis = _for_each("pairs", pairs, count)
    each_loss, all_losses, losses_axis = _for_each("loss", loss, count)
    optimizer = training.optimizer or _adam(training.learning_rate, steps, training.clip)
    if isinstance(each_pairs[0], FixedPair) and isinstance(objective, Exact):
        batch_size = 1  # more of the same pair would change nothing where nothing is sampled
    plan = Loop(rest, all_pairs, all_losses, pairs_axis, losses_axis, objective, optimizer, batch_size)

    size = num_outcomes_of(each_pairs[0])
    for each in couplings:
        each.check_size(size)
    keys, start, unit = jax.random.split(key_steps, count), jnp.asarray(0), jnp.ones(count)
    state = State(params, jax.vmap(optimizer.init)(params), jnp.full(count, -1, jnp.int32), jnp.zeros(count))
    program = Program(run_steps, plan, state, keys, unit, start, start)
    program.check_memory(
        f"training {count} at once with {batch_size} pairs of {size} outcomes for each step",
        "lower `batch_size`, or make the couplings smaller or fewer",
        alive=10,
    )
    held_out = [draw_pairs(each, training.num_held_out, key=key_held_out) for each in each_pairs]
    held_p, held_q = (jnp.stack([data[side] for data in held_out]) for side in (0, 1))
    Program(held_out_losses, plan, params, held_p, held_q).check_memory(
        f"evaluating {count} at once on {held_p.shape[1]} pairs of {size} outcomes", "lower `num_held_out`"
    )
    for one, data in zip(each_loss, held_out, strict=True):
        checked_size(one, *data)
    drawn = [draw_pairs(each, 64, key=key_scale) for each in each_pairs]
    Program(independent_loss, each_loss[0], *drawn[0]).check_memory(
        f"the loss of {len(drawn[0][0])} pairs of {size} outcomes", "group the outcomes"
    )
    scale = jnp.stack([independent_loss(one, *data) for one, data in zip(each_loss, drawn, strict=True)])
    optima = [_optimum(each, *data) for each, data in zip(each_loss, held_out, strict=True)]

    numbers = [np.asarray(each).tolist() for each in (jax.random.key_data(key), scale)]
    fingerprint = program.fingerprint(numbers, steps, stretch, training.num_held_out)
    kept = Checkpoint(checkpoint, fingerprint)
    made = kept.read(Progress(state, [History() for _ in couplings], 0), range(stretch, steps, stretch))
    schedule = Schedule(plan, keys, scale, held_p, held_q, optima, steps, stretch, training.patience, kept, params)
    return train(schedule, made, report)


def _for_each(name: str, given: Any, count: int) -> tuple[list[Any], Any, int | None]:
    """What is one for all, or one for each coupling: for each, for compiled code, and its axis there."""
    if not isinstance(given, Sequence):
        return [given] * count, given, None
    if len(given) != count:
        raise InputError(f"`{name}` must be one, or one for each of {count} couplings, got {len(given)}")
    return list(given), stack(name, given), 0


@functools.lru_cache
def _adam(learning_rate: float, steps: int, clip: float | None) -> optax.GradientTransformation:
    """Remembered, so that a second run with the same settings finds its training loop compiled."""
    chain = [] if clip is None else [optax.clip_by_global_norm(clip)]
    return optax.chain(*chain, optax.adam(optax.cosine_decay_schedule(learning_rate, steps)))


def _optimum(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> float | None:
    if (
        log_p.size > _MOST_SOLVED
        or log_p.size * log_p.shape[1] > _MOST_CELLS
        or not bool(jnp.isfinite(jax.vmap(loss)(log_p, log_q)).all())
    ):
        return None
    try:
        return float(least_losses(loss, log_p, log_q).mean())
    except ImportError:
        return None
