"""The loop around the compiled steps: evaluations, checkpoints, signals, and the ways in which a training ends."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax._core.signals import deferred_signals
from countermax.learning._checkpoint import Checkpoint, Progress
from countermax.learning._history import Fit, History, TrainingError, TrainingInterrupted
from countermax.learning._loop import Loop, held_out_losses, member_of, run_steps

_BRISK, _SLOW = 0.25, 1.0  # seconds that one call of the compiled steps should take, so that a signal waits no longer


class Training(NamedTuple):
    """What does not change from one evaluation to the next."""

    plan: Loop
    keys: Array
    scale: Float[Array, " members"]
    held_p: Float[Array, "m n k"]
    held_q: Float[Array, "m n k"]
    optima: Sequence[float | None]
    steps: int
    stretch: int
    """Steps between two evaluations."""
    patience: int | None
    checkpoint: Checkpoint
    start: Any
    """The parameters before training: what is kept of a member that training made worse."""


def train(
    training: Training, made: Progress, *, progress: bool | Callable[[int, int], None] | None, label: str
) -> list[Fit[Any]]:
    """Trains to the end from wherever a training is.

    Args:
        training: Training to carry out.
        made: Progress so far.
        progress: Whether to show a bar, or a function to call after each evaluation.
        label: Text beside the progress bar.
    """
    report = progress if callable(progress) else None
    shown = False if callable(progress) else progress
    checkpoint, length = training.checkpoint, 1
    try:
        with deferred_signals() as handle_signals, _bar(training, made, shown, label) as bar:
            if checkpoint.step is None:
                checkpoint.write(made)  # so that a place where nothing can be written is found before the work
            while (ended := _ending(training, made)) is None:
                began = time.perf_counter()
                made = _advanced(training, made, length)
                seconds = time.perf_counter() - began
                length = 2 * length if seconds < _BRISK else max(1, length // 2) if seconds > _SLOW else length
                if _is_evaluated(made):
                    bar.update(made.done, note=_note(made.histories, training.optima))
                    if report is not None:
                        report(made.done, training.steps)
                    checkpoint.write(made)
                try:
                    handle_signals()
                except BaseException as stopped:
                    _keep(checkpoint, made, stopped)
                    raise
            start = np.asarray(held_out_losses(training.plan, training.start, training.held_p, training.held_q))
    except KeyboardInterrupt as stopped:
        where = (
            "nothing is stored, but this exception's `fits` holds what had been learned; `checkpoint=` would store it"
            if checkpoint.step is None
            else f"{checkpoint.path} holds step {checkpoint.step}: run it again to resume from there"
        )
        message = f"training was interrupted at step {made.done} of {training.steps}; {where}"
        raise TrainingInterrupted(message, _fits(training, made, "interrupted")) from stopped
    fits = _fits(training, made, ended, start)
    if ended == "non-finite":
        raise TrainingError(_what_went_wrong(training, made), fits)
    return fits


def _bar(training: Training, made: Progress, shown: bool | None, label: str) -> ProgressBar:
    return ProgressBar(label, training.steps, shown, unit="steps", done=made.done)


def _advanced(training: Training, made: Progress, length: int) -> Progress:
    """A few steps further, but not beyond the next evaluation, which is done once it is reached."""
    state, histories, done = made
    target = min((done // training.stretch + 1) * training.stretch, training.steps)
    stop = min(done + length, target)
    state = run_steps(training.plan, state, training.keys, training.scale, jnp.asarray(done), jnp.asarray(stop))
    state = jax.block_until_ready(state)
    if stop < target:
        return Progress(state, histories, stop)
    exact = held_out_losses(training.plan, state.params, training.held_p, training.held_q)
    since = histories[0].step[-1] if histories[0].step else 0
    histories = [
        History([*each.step, stop], [*each.loss, float(total) / (stop - since)], [*each.held_out, float(held_out)])
        for each, total, held_out in zip(histories, state.total, exact, strict=True)
    ]
    return Progress(state._replace(total=jnp.zeros_like(state.total)), histories, stop)


def _is_evaluated(made: Progress) -> bool:
    return made.histories[0].step[-1:] == [made.done]


def _ending(training: Training, made: Progress) -> str | None:
    """How the training has ended; None while it has not. Looked at after evaluations only, resumed or not."""
    if not _is_evaluated(made):
        return None
    if bool((made.state.bad_step >= 0).any()):
        return "non-finite"
    if training.patience is not None and _stalled(made.histories, training.patience):
        return "patience"
    return "finished" if made.done == training.steps else None


def _stalled(histories: Sequence[History], patience: int) -> bool:
    means = np.mean([history.held_out for history in histories], axis=0)
    return len(means) > patience and bool(means[-patience:].min() >= means[:-patience].min())


def _keep(checkpoint: Checkpoint, made: Progress, stopped: BaseException) -> None:
    try:
        checkpoint.write(made)
    except InputError as error:  # a full disk must not hide that somebody wants to stop
        stopped.add_note(str(error))


def _fits(
    training: Training, made: Progress, ended: str, start: NDArray[np.floating[Any]] | None = None
) -> list[Fit[Any]]:
    """What was learned; of a member that ended worse on the held-out pairs than it had started, the start.

    Args:
        training: Training that was carried out.
        made: Progress so far.
        ended: Reason why training ended.
        start: Held-out losses before training; None where it was interrupted.
    """
    fits = []
    for index, (history, optimum) in enumerate(zip(made.histories, training.optima, strict=True)):
        before = None if start is None else float(start[index])
        is_worse = before is not None and ended != "non-finite" and before < history.held_out[-1]
        params = training.start if is_worse else made.state.params
        kept = member_of(params, training.plan.rest, index)
        fits.append(Fit(kept, history, "start" if is_worse else ended, optimum, before))
    return fits


def _what_went_wrong(training: Training, made: Progress) -> str:
    member = int((made.state.bad_step >= 0).argmax())
    of_member = f" of member {member}" if len(made.histories) > 1 else ""
    path = training.checkpoint.path
    kept = "" if path is None else f", and in {path}, which has to be moved away before a training with other settings"
    return (
        f"the loss or its gradient became non-finite at step {int(made.state.bad_step[member])}{of_member}; lower the "
        f"learning rate or check the loss. The last good state is in this error's `fits`{kept}."
    )


def _note(histories: Sequence[History], optima: Sequence[float | None]) -> str:
    """The newest entry of every history, averaged over members."""
    held_out = float(np.mean([history.held_out[-1] for history in histories]))
    known = [optimum for optimum in optima if optimum is not None]
    above = f", {held_out / np.mean(known) - 1:.2%} above the optimum" if known and np.mean(known) > 0 else ""
    return f"loss {held_out:.4g}{above}"
