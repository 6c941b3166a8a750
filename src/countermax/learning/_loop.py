"""The loop of a training: compiled steps for all members at once, evaluations, checkpoints, and how it ends."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax._core.archive import pack, unpack
from countermax._core.errors import InputError
from countermax._core.files import write_atomically
from countermax._core.interruption import deferred_signals
from countermax._core.progress import ProgressBar
from countermax._core.results import AbstractResult, Row
from countermax._pairs import Pairs
from countermax.couplings import AbstractCoupling, AbstractSampler, Independent
from countermax.learning._losses import AbstractObjective, Loss, expected_losses

Coupling = TypeVar("Coupling", bound=AbstractSampler)

_REMEDY = "move it away to start over"
_ENDINGS = {
    "finished": "finished",
    "patience": "stopped for want of progress",
    "start": "finished",
    "interrupted": "was interrupted",
    "non-finite": "failed with a loss that is not finite",
}


@dataclass(frozen=True)
class History:
    """What was seen during training, one entry for each evaluation."""

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """Mean of the objective since the entry before."""
    held_out: list[float] = field(default_factory=list)
    """Exact loss on held-out pairs."""


@final
@dataclass(frozen=True, eq=False)
class Fit(AbstractResult, Generic[Coupling]):
    """A trained coupling, how it came about and how training ended."""

    coupling: Coupling
    history: History
    ended: str
    """`finished` or `patience` (no more progress); `start` where training ended worse on the held-out pairs than it had
    started, so that the coupling is the one it started from; in an error's `fits`, `interrupted` or `non-finite`."""
    optimum: float | None
    """The least loss that any coupling has on the held-out pairs, where it is known."""
    start: float | None = None
    """The loss on the held-out pairs before training; a training that has ended never exceeds it."""

    sample = ""  # pairs are drawn
    assumptions = ("Losses are exact, on pairs that no step was trained on.",)

    @property
    def held_out(self) -> float | None:
        """The coupling's exact loss on the held-out pairs; None where it has no exact law, or was not evaluated."""
        if not self.history.held_out or self.ended == "start":
            return self.start
        return self.history.held_out[-1]

    @property
    def above_optimum(self) -> float | None:
        """How far the held-out loss is above the optimum, as a fraction of it."""
        if self.optimum is None or self.held_out is None or self.optimum <= 0:
            return None
        return self.held_out / self.optimum - 1

    @property
    def title(self) -> str:
        return f"Training of a {type(self.coupling).__name__}"

    @property
    def rows(self) -> tuple[Row, ...]:
        name, seen = type(self.coupling).__name__, zip(self.history.step, self.history.held_out, strict=True)
        ends = (("before training", name, self.start), ("optimum", "any coupling", self.optimum))
        known = [Row("held-out loss", about, whose, value) for about, whose, value in ends if value is not None]
        return (*(Row("held-out loss", f"step {step}", name, value) for step, value in seen), *known)

    @property
    def notes(self) -> tuple[str, ...]:
        kept = "Training ended worse on the held-out pairs than it had started: the coupling is the start."
        return (kept,) if self.ended == "start" else ()

    def _summary(self) -> str:
        above = "" if self.above_optimum is None else f", {self.above_optimum:.2%} above the least of any coupling"
        loss = "" if self.held_out is None else f" The loss on held-out pairs is {self.held_out:.5g}{above}."
        return f"Training {_ENDINGS[self.ended]} at step {(self.history.step or [0])[-1]}.{loss}"

    def _plot(self) -> "plotting.Figure":
        curve = {type(self.coupling).__name__: (self.history.step, self.history.held_out)}
        return plotting.draw_curves(curve, self.optimum, "Held-out loss during training")

    def _details(self) -> Mapping[str, Any]:
        about = self._named("ended", "optimum", "start", "above_optimum")
        return {"coupling": type(self.coupling).__name__, **about, "history": vars(self.history)}


class _Stopped(BaseException):
    """What ends a training early, with what there is of every member."""

    def __init__(self, message: str, fits: list[Fit[Any]]):
        super().__init__(message)
        self.fits = fits


class TrainingError(_Stopped, RuntimeError):
    """Training had to stop; `fits` holds the last good state of every member."""


class TrainingInterrupted(_Stopped, KeyboardInterrupt):
    """Somebody stopped a training (Ctrl-C); `fits` holds what had been learned by then, which is not the result."""


class State(NamedTuple):
    """What changes while training; every leaf has a leading axis over members."""

    params: PyTree
    optimizer: PyTree
    bad_step: Int[Array, " members"]  # the first step with a non-finite loss or gradient; -1 while there is none
    total: Float[Array, " members"]  # of the objective, over the steps since the last evaluation


class Progress(NamedTuple):
    """How far a training is."""

    state: State
    histories: list[History]
    done: int


class Checkpoint:
    """The file of one training; without a path nothing is written."""

    def __init__(self, path: str | Path | None, fingerprint: str):
        self.path = None if path is None else Path(path)
        self.step: int | None = None
        """The step that the file holds; None where there is no file."""
        self._fingerprint = fingerprint

    def write(self, progress: Progress) -> None:
        """Replaces what the file holds, in one piece."""
        if self.path is None:
            return
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(progress.state)]
        seen = [
            np.asarray([getattr(each, field) for each in progress.histories], dtype)
            for field, dtype in (("step", np.int64), ("loss", np.float64), ("held_out", np.float64))
        ]
        header = {"fingerprint": self._fingerprint, "step": progress.done}
        write_atomically(self.path, pack("checkpoint", header, [*leaves, *seen]))
        self.step = progress.done

    def read(self, fresh: Progress, boundaries: range) -> Progress:
        """What the file holds; `fresh` where there is none."""
        if self.path is None or not self.path.exists():
            return fresh
        header, arrays = unpack(self.path, "checkpoint", remedy=_REMEDY)
        if header.get("fingerprint") != self._fingerprint:
            raise InputError(
                f"{self.path} belongs to another run (other couplings, pairs, loss, key, optimizer or settings, or "
                f"other versions of the libraries): {_REMEDY}, or repeat the old settings to resume"
            )
        leaves, structure = jax.tree.flatten(fresh.state)
        done, stored, seen = header.get("step"), arrays[: len(leaves)], arrays[len(leaves) :]
        alike = len(arrays) == len(leaves) + 3 and all(
            (each.shape, each.dtype) == (wanted.shape, wanted.dtype)
            for each, wanted in zip(stored, map(_plain, leaves), strict=True)
        )
        if type(done) is not int or not 0 <= done <= boundaries.stop or not alike:
            raise InputError(f"{self.path} is damaged: it does not hold the state of this run; {_REMEDY}")
        restored = [_restored(each, leaf) for each, leaf in zip(stored, leaves, strict=True)]
        state: State = jax.tree.unflatten(structure, restored)
        wanted = [step for step in boundaries if step <= done] + [done] * (done == boundaries.stop)
        count, finite = len(fresh.histories), all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
        if any(each.shape != (count, len(wanted)) for each in seen) or (seen[0] != wanted).any() or not finite:
            raise InputError(f"{self.path} is damaged: its history is not that of {done} steps; {_REMEDY}")
        self.step = done
        steps, losses, held_out = (each.tolist() for each in seen)
        return Progress(state, [History(*each) for each in zip(steps, losses, held_out, strict=True)], done)


def _plain(leaf: Any) -> NDArray[Any]:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def _restored(stored: NDArray[Any], leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(stored), impl=jax.random.key_impl(leaf))
    return jnp.asarray(stored)


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
    plan: Loop, state: State, keys: Array, scale: Float[Array, " members"], start: Int[Array, ""], stop: Int[Array, ""]
) -> State:
    """The steps from `start` to before `stop`, for all members.

    One program for any number of steps, and the key of a step depends on its number alone: however a training is
    divided into calls, its numbers are the same to the last bit.
    """

    def step(number: Int[Array, ""], state: State) -> State:
        member = functools.partial(_step, plan, number)
        axes = (0, _axis(plan.rest, 0), 0, 0, _axis(plan.pairs, plan.pairs_axis), _axis(plan.losses, plan.losses_axis))
        return eqx.filter_vmap(member, in_axes=axes)(state, plan.rest, keys, scale, plan.pairs, plan.losses)

    return jax.lax.fori_loop(start, stop, step, state)


def _step(
    plan: Loop, number: Array, state: State, rest: PyTree, key: PRNGKeyArray, scale: Array, pairs: Pairs, loss: Loss
) -> State:
    """One step of one member."""
    params, optimizer, bad_step, total = state
    key_pairs, key_objective = jax.random.split(jax.random.fold_in(key, number))
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


_BRISK, _SLOW = 0.25, 1.0  # seconds that one call of the compiled steps should take, so that a signal waits no longer


class Schedule(NamedTuple):
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


def train(schedule: Schedule, made: Progress, report: Callable[[int, int], None] | None) -> list[Fit[Any]]:
    """Trains to the end from wherever a training is."""
    checkpoint, length = schedule.checkpoint, 1
    try:
        bar = ProgressBar("training", schedule.steps, None if report is None else False, unit="steps", done=made.done)
        with deferred_signals() as handle_signals, bar:
            if checkpoint.step is None:
                checkpoint.write(made)  # so that a place where nothing can be written is found before the work
            while (ended := _ending(schedule, made)) is None:
                began = time.perf_counter()
                made = _advanced(schedule, made, length)
                seconds = time.perf_counter() - began
                length = 2 * length if seconds < _BRISK else max(1, length // 2) if seconds > _SLOW else length
                if _is_evaluated(made):
                    bar.update(made.done, note=_note(made.histories, schedule.optima))
                    if report is not None:
                        report(made.done, schedule.steps)
                    checkpoint.write(made)
                try:
                    handle_signals()
                except BaseException as stopped:
                    try:
                        checkpoint.write(made)
                    except InputError as error:  # a full disk must not hide that somebody wants to stop
                        stopped.add_note(str(error))
                    raise
            start = np.asarray(held_out_losses(schedule.plan, schedule.start, schedule.held_p, schedule.held_q))
    except KeyboardInterrupt as stopped:
        where = (
            "nothing is stored, but this exception's `fits` holds what had been learned; `checkpoint=` would store it"
            if checkpoint.step is None
            else f"{checkpoint.path} holds step {checkpoint.step}: run it again to resume from there"
        )
        message = f"training was interrupted at step {made.done} of {schedule.steps}; {where}"
        raise TrainingInterrupted(message, _fits(schedule, made, "interrupted")) from stopped
    fits = _fits(schedule, made, ended, start)
    if ended == "non-finite":
        raise TrainingError(_what_went_wrong(schedule, made), fits)
    return fits


def _advanced(schedule: Schedule, made: Progress, length: int) -> Progress:
    """A few steps further, but not beyond the next evaluation, which is done once it is reached."""
    state, histories, done = made
    target = min((done // schedule.stretch + 1) * schedule.stretch, schedule.steps)
    stop = min(done + length, target)
    state = run_steps(schedule.plan, state, schedule.keys, schedule.scale, jnp.asarray(done), jnp.asarray(stop))
    state = jax.block_until_ready(state)
    if stop < target:
        return Progress(state, histories, stop)
    exact = held_out_losses(schedule.plan, state.params, schedule.held_p, schedule.held_q)
    since = histories[0].step[-1] if histories[0].step else 0
    histories = [
        History([*each.step, stop], [*each.loss, float(total) / (stop - since)], [*each.held_out, float(held_out)])
        for each, total, held_out in zip(histories, state.total, exact, strict=True)
    ]
    return Progress(state._replace(total=jnp.zeros_like(state.total)), histories, stop)


def _is_evaluated(made: Progress) -> bool:
    return made.histories[0].step[-1:] == [made.done]


def _ending(schedule: Schedule, made: Progress) -> str | None:
    """How the training has ended; None while it has not. Looked at after evaluations only, resumed or not."""
    if not _is_evaluated(made):
        return None
    if bool((made.state.bad_step >= 0).any()):
        return "non-finite"
    means, patience = np.mean([each.held_out for each in made.histories], axis=0), schedule.patience
    if patience is not None and len(means) > patience and means[-patience:].min() >= means[:-patience].min():
        return "patience"
    return "finished" if made.done == schedule.steps else None


def _fits(
    schedule: Schedule, made: Progress, ended: str, start: NDArray[np.floating[Any]] | None = None
) -> list[Fit[Any]]:
    """What was learned; of a member that ended worse on the held-out pairs than it had started, the start."""
    fits = []
    for index, (history, optimum) in enumerate(zip(made.histories, schedule.optima, strict=True)):
        before = None if start is None else float(start[index])
        is_worse = before is not None and ended != "non-finite" and before < history.held_out[-1]
        members = eqx.combine(schedule.start if is_worse else made.state.params, schedule.plan.rest)
        kept = jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, members)  # noqa: B023 (used here)
        fits.append(Fit(kept, history, "start" if is_worse else ended, optimum, before))
    return fits


def _what_went_wrong(schedule: Schedule, made: Progress) -> str:
    member = int((made.state.bad_step >= 0).argmax())
    of_member = f" of member {member}" if len(made.histories) > 1 else ""
    path = schedule.checkpoint.path
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
