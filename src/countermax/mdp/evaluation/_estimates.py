"""What a policy would be worth, from the log of another one: every estimate that people know, side by side."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.extras import on_ray
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._ray import in_prepared_parts
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.intervals._interval import check_level, student_interval
from countermax.mdp._arrays import Floats, Ints, Values, as_mask, as_whole, check_sizes, shortened
from countermax.mdp._cautions import doubts, told_of_ends
from countermax.mdp._couplings import Couplings, chosen_couplings
from countermax.mdp._estimation import estimate, estimate_policy, policy_rows, restricted
from countermax.mdp._importance import (
    corrected_value,
    effective_sample_size,
    importance_estimates,
    importance_ratios,
    model_values,
    resamples_of,
)
from countermax.mdp._log import EpisodeLog, steps_compared, steps_of
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.evaluation._results import Estimate, PolicyEvaluation
from countermax.mdp.replays import replayed_values, trajectory_bounds

Model: TypeAlias = FiniteMDP | Callable[[EpisodeLog], FiniteMDP]

_WHOLE = "the target policy"
_RESTRICTED = "the target policy among the actions that the model knows"
_NO_WEIGHT = "no episode has a weight of 1e-300 or more: nobody did what the target policy would do"


def evaluate_policy(
    log: EpisodeLog,
    target: Values,
    *,
    couplings: Couplings | None = None,
    model: Model = estimate,
    behaviour: Values | None = None,
    outcomes: Values | None = None,
    absorbing: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    num_resamples: int = 100,
    level: float = 0.95,
    key: PRNGKeyArray,
    engine: str = "local",
    progress: bool | None = None,
) -> PolicyEvaluation:
    """Estimates what a policy is worth from the log of another one, in every common way.

    All estimates are of one policy: the target policy among the actions that the model knows. All of them cover the
    same steps of each episode from its own first state: as many as the horizon has, or, where an episode stops earlier
    without reaching an absorbing state (it is censored), as many as were seen.

    Intervals come from resampling episodes. Everything that is learned from the log, the model and the behaviour
    policy, is learned again from each resample; the target policy stays as it is.

    Args:
        log: Logged episodes.
        target: [state, action]: the policy to be evaluated.
        couplings: Couplings for the counterfactual estimates, by name; by default Gumbel-max and inverse CDF. Without
            any, nothing is replayed.
        model: Function that learns a process from a log; or a known process, which stays as it is. Every logged step
            must be possible under it, unless nothing is replayed; then there are no `bounds` where one is not.
        behaviour: [state, action]: what the log was made with, if known; by default frequencies, which are consistent
            but make importance sampling biased in small logs.
        outcomes: Label of each state as an outcome; see `replay`.
        absorbing: States where episodes end by themselves, as indices or as a mask; by default the model's. An
            estimated model also calls those absorbing that nobody was seen to leave.
        horizon: Largest number of steps of an episode; by default that of the longest episode. What episodes did later
            counts for the model and the behaviour policy only.
        discount: Discount factor for each step, in every estimate; by default the model's own. 1 for the plain return.
        censored: Treatment of episodes that stop before their end: "stop", up to there. Carrying them on with the model
            is for `replay`: importance sampling weighs what was earned, and nobody earned what a model adds.
        num_resamples: Number of resamples for the intervals; 0 for none.
        level: Confidence of the intervals, which reach at least as far as this share of the resamples.
        key: Random key for drawing the resamples; consumed once.
        engine: "local", or "ray" for parts of the episodes, and resamples, on a cluster; see `replay`.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    spread = on_ray(engine)
    as_whole("num_resamples", num_resamples, least=0)
    check_level(level)
    if censored != "stop":
        raise InputError(
            '`censored` must be "stop" where a policy is evaluated in every way: importance sampling weighs what was '
            f"earned, and nobody earned what a model adds, got {shortened(censored)}; `replay` and `rank_episodes` can "
            'carry episodes on with "model"'
        )
    wanted, steps = policy_rows(log, target, argument="target"), steps_of(log, horizon)
    chosen = chosen_couplings(couplings, none=True)
    _check_sizes(log, steps, 8 + len(chosen), num_resamples)
    process = model if isinstance(model, FiniteMDP) else model(log)
    policy, left_out = restricted(process, wanted)
    ends = process.ends if absorbing is None else as_mask("absorbing", absorbing, log.num_states)
    never_left = process.never_left if absorbing is None else process.absorbing & ~ends
    compared = steps_compared(log, ends, steps)
    task = _Task(log, policy, chosen, model, behaviour, outcomes, compared, steps, discount)
    with ProgressBar("evaluating", num_resamples + 1, progress, unit="resamples") as bar:
        point, ratios = _estimates(task, process, np.arange(len(log)), engine=engine)
        bar.advance(1)
        drawn = []
        resamples = resamples_of(key, len(log), num_resamples)
        for each in in_prepared_parts(_again, (task,), zip(resamples)) if spread else map(_again(task), resamples):
            drawn.append(each)
            bar.advance(1)
    bounds = _bounds(task, process, engine=engine)
    estimates, effective = [], effective_sample_size(ratios)
    for (kind, name), value in point.items():
        size = float(len(log)) if kind == "observed" else effective  # a model too knows little of what was seldom done
        interval, reason = student_interval(value, [each[kind, name] for each in drawn], level, size)
        estimates.append(Estimate(name, kind, value, interval, _NO_WEIGHT if value is None else reason))
    warned = doubts(log, process, wanted, policy, left_out, ratios, compared, steps)
    return PolicyEvaluation(
        estimates=tuple(estimates),
        bounds=bounds,
        target=_RESTRICTED if (policy != wanted)[~process.absorbing].any() else _WHOLE,
        policy=policy,
        effective_sample_size=effective,
        num_episodes=len(log),
        num_censored=int((compared < steps).sum()),
        num_resamples=num_resamples,
        level=level,
        horizon=steps,
        discount=as_discount(process, discount),
        notes=told_of_ends(log, ends, never_left),
        warnings=warned,
    )


def _check_sizes(log: EpisodeLog, horizon: int, count: int, num_resamples: int) -> None:
    """What grows with numbers that were asked for."""
    check_sizes(log.num_states, log.num_actions)
    check_memory(
        f"{horizon} steps of {log.num_states} states and {log.num_actions} actions",
        16 * horizon * log.num_states * (log.num_actions + 1),
        "lower `horizon`",
    )
    check_memory(
        f"{num_resamples} resamples of {count} estimates", 150 * count * num_resamples, "lower `num_resamples`"
    )


class _Task(NamedTuple):
    log: EpisodeLog
    policy: Floats
    couplings: dict[str, AbstractCoupling]
    model: Model
    behaviour: Values | None
    outcomes: Values | None
    compared: Ints
    """How many steps of each episode every estimate covers: the same in all resamples."""
    horizon: int
    discount: float | None


_Values: TypeAlias = dict[tuple[str, str], float | None]
"""Estimates by kind and name."""


def _again(task: _Task) -> Callable[[Ints], _Values]:
    """A function from the episodes of a resample to its estimates."""
    return lambda chosen: _estimates(task, None, chosen)[0]


def _estimates(task: _Task, known: FiniteMDP | None, chosen: Ints, *, engine: str = "local") -> tuple[_Values, Floats]:
    """Every estimate from some of the episodes, repeats allowed; the model is learned from them unless it is known."""
    log, steps = task.log.select(chosen), task.compared[chosen]
    if known is None:
        known = task.model if isinstance(task.model, FiniteMDP) else task.model(log)
    horizon, discount = task.horizon, as_discount(known, task.discount)
    behaviour = estimate_policy(log) if task.behaviour is None else task.behaviour
    policy, _ = restricted(known, task.policy)  # a resample may lack rows
    ratios = importance_ratios(log, policy, behaviour)
    sampled = importance_estimates(log, ratios, discount=discount, horizon=horizon, steps=steps)
    planned = model_values(known, log, policy, steps, discount=discount)
    robust, weighted = (corrected_value(planned, ratios, steps, discount, weighted=each) for each in (False, True))
    found: _Values = {
        ("observed", "observed return"): float(log.returns(discount, horizon=horizon).mean()),
        ("importance sampling", "ordinary importance sampling"): sampled.ordinary,
        ("importance sampling", "per-decision importance sampling"): sampled.per_decision,
        ("importance sampling", "weighted importance sampling"): sampled.weighted,
        ("importance sampling", "weighted per-decision importance sampling"): sampled.weighted_per_decision,
        ("importance sampling", "doubly robust"): robust,
        ("importance sampling", "weighted doubly robust"): weighted,
        ("model", "model-based"): float(planned.values.mean()),
    }
    distinct, times = np.unique(chosen, return_counts=True)  # an episode drawn twice is replayed once
    for name, coupling in task.couplings.items():
        total = 0.0
        for part, horizon in _alike(task.compared[distinct]):
            some = task.log.select(distinct[part])
            options: dict[str, Any] = {"outcomes": task.outcomes, "horizon": horizon, "discount": discount}
            values = replayed_values(known, some, policy, coupling, engine=engine, **options)
            total += float(values @ times[part])
        found["counterfactual", f"counterfactual, {name}"] = total / len(chosen)
    return found, ratios[:, : task.horizon]


def _bounds(task: _Task, process: FiniteMDP, *, engine: str) -> Bounds | None:
    """The mean over all episodes of what any coupling could say; None where the model calls the log impossible."""
    logged, lower, upper = task.log.steps(), 0.0, 0.0
    if not process.matrix[logged.state * process.num_actions + logged.action, logged.next_state].all():
        return None  # a replay would have been refused
    for part, horizon in _alike(task.compared):
        log = task.log.select(part)
        found = trajectory_bounds(
            process, log, task.policy, horizon=horizon, discount=task.discount, engine=engine, progress=False
        )
        lower, upper = lower + float(found.lower.sum()), upper + float(found.upper.sum())
    return Bounds(lower / len(task.log), upper / len(task.log))


def _alike(steps: Ints) -> Iterator[tuple[Ints, int]]:
    """Positions of the episodes that are compared over the same number of steps, and that number."""
    for each in np.unique(steps).tolist():
        yield np.flatnonzero(steps == each), each
