"""How far a log and a process pin down what would have happened, whatever the coupling.

At each step a coupling may answer with any row `w` between 0 and `q / p_x`: all that the data say of it. Backwards from
the last step, the best (the worst) such row from every state gives bounds for the value of a whole trajectory. The
logged action in the logged state leads to the logged successor for certain. No coupling gives a value outside the
bounds; some attain each, if they may differ from step to step.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from countermax._core.extras import on_ray
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax.bounds import Bounds
from countermax.mdp._arrays import Floats, Ints, Values
from countermax.mdp._log import EpisodeLog, check_single
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._choices import choices_of
from countermax.mdp.replays._course import Course, as_shape, course_of
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays.engines import AbstractEngine, Bounded, ToCome, engine_for, walk_all, walk_on_ray


def trajectory_bounds(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    *,
    stable: bool = False,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    actions: str = "fresh",
    behaviour: Values | None = None,
    rewards: Values | None = None,
    final: Values | None = None,
    engine: str = "local",
    progress: bool | None = None,
) -> Bounds:
    """The bounds of each episode's counterfactual value, over all couplings.

    Valid for every coupling; sharp if couplings may differ from step to step. The mean of the bounds over many episodes
    is valid for the mean value, but wider than need be.

    Args:
        mdp: The process.
        log: Logged episodes; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        stable: Whether to allow counterfactually stable couplings only (Gumbel-max is one), over states as outcomes.
        horizon: Number of steps; by default that of the longest episode.
        discount: Discount factor for each step; by default the process's own; 1 for the plain return.
        censored: Treatment of episodes that stop before their end; see `replay`.
        actions: Way in which actions are drawn; see `replay`. Coupled actions may have any coupling, too.
        behaviour: [state, action]: what the log was made with, for coupled actions.
        rewards: Rewards in the shape of `mdp.rewards`, in place of its own and of those in the log; zeros to ask for
            `final` alone.
        final: A score for being in each state at the end, [state] or [episode, state]. With zero rewards and an
            indicator it bounds a probability.
        engine: "local", or "ray" for parts of the episodes on a cluster; see `replay`.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    spread = on_ray(engine)
    facts = facts_of(mdp, log)
    choices = choices_of(mdp, log, facts, policy, actions, behaviour, None)
    course = course_of(
        mdp, log, facts, choices, horizon=horizon, discount=discount, censored=censored, rewards=rewards
    )  # fmt: skip
    shape = (len(log), mdp.num_states)
    last = None if final is None else as_shape("final", final, shape, shape[1:])
    return _bounds(course, course.to_come(last), stable=stable, spread=spread, progress=progress)


def feature_bounds(mdp: FiniteMDP, log: EpisodeLog, policy: Values, scores: Floats, *, horizon: int) -> Bounds:
    """The bounds of features along one episode, [time, feature]: each a walk back from that time, with nothing earned.

    Args:
        mdp: The process.
        log: One episode.
        policy: [state, action]: what would have been done.
        scores: [state, feature].
        horizon: The last time.
    """
    check_single(log)
    count = scores.shape[1]
    check_memory(
        f"{count} features of {mdp.num_states} states over {horizon} steps",
        24 * count * mdp.num_states * (horizon + 1),
        "lower `horizon`, or follow fewer features",
    )
    times = np.repeat(np.arange(horizon + 1), count)
    copies = log.select(np.zeros(len(times), np.int64))
    facts = facts_of(mdp, copies)
    choices = choices_of(mdp, copies, facts, policy, "fresh", None, None)
    course = course_of(mdp, copies, facts, choices, horizon=horizon, discount=1.0, censored="model", rewards=0.0)
    timed = replace(course, seen=np.minimum(course.seen, times), steps=times)
    found = _bounds(timed, _carried_back(timed, scores), stable=False, progress=False)
    return Bounds(found.lower.reshape(-1, count), found.upper.reshape(-1, count))


def _carried_back(course: Course, scores: Floats) -> ToCome:
    """What is still to come of every feature when the log ends, for the times in their order: one walk for all."""
    rest, count = course.steps - course.seen, scores.shape[1]
    worth = [scores]
    for _ in range(int(rest.max())):
        worth.append(np.asarray(course.chain @ worth[-1]))
    rows = rest * count + np.arange(len(rest)) % count
    return np.ascontiguousarray(np.stack(worth).transpose(0, 2, 1)).reshape(-1, len(scores)), rows


def _bounds(course: Course, to_come: ToCome, *, stable: bool, spread: bool = False, progress: bool | None) -> Bounds:
    engine = engine_for(course, None, stable=stable)
    lower, upper = np.zeros(len(course)), np.zeros(len(course))
    walks = (
        _walked_elsewhere(engine, course, to_come)
        if spread
        else walk_all(engine, lambda batch: _walked(engine, course, batch, to_come), rows=to_come[-1])
    )
    with ProgressBar("bounding", len(course), progress, unit="episodes") as bar:
        for each in walks:
            lower[each.episodes], upper[each.episodes] = each.lower, each.upper
            bar.advance(len(each.episodes))
    return Bounds(lower, upper)


def _walked(engine: AbstractEngine, course: Course, batch: Ints, to_come: ToCome) -> Bounded:
    del course
    return engine.backwards(batch, *to_come, keep=False)


def _walked_elsewhere(engine: AbstractEngine, course: Course, to_come: ToCome) -> Iterator[Bounded]:
    """The same by workers of a cluster."""
    for batch, found in walk_on_ray(engine, course, to_come, _walked, backwards=True):
        yield found._replace(episodes=batch[found.episodes])
