"""How an episode would have gone: what it would have earned and where it would have ended, by coupling and data."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._interval import percentile_interval
from countermax.mdp._arrays import Floats, Ints, Values, one_hot
from countermax.mdp._log import EpisodeLog
from countermax.mdp._posterior import Doubt, doubted
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays import Replay, replay, trajectory_bounds

MOST_ENDS = 4


class Outlook(NamedTuple):
    """Numbers of one episode under the other policy: its value, the chance of each end, and that of none at all."""

    replays: Mapping[str, Replay]
    bounds: Bounds
    """Over all couplings: [value, ends and none]."""
    intervals: Mapping[str, Interval]
    """By coupling, with other data; empty where the model is taken as given."""
    doubted: Interval | None
    """With other data and any coupling."""


def ends_of(mdp: FiniteMDP, log: EpisodeLog) -> Ints:
    """The ends that episodes come to, the most frequent ones first."""
    ended = log.last_states[mdp.ends[log.last_states]]
    often = np.bincount(ended, minlength=mdp.num_states)
    chosen = np.argsort(-often, kind="stable")[:MOST_ENDS]
    return chosen[often[chosen] > 0]


def earned_at(mdp: FiniteMDP, one: EpisodeLog, ends: Ints) -> Float[np.ndarray, " e"] | None:
    """What each end earns, where nothing but ends earns anything; else None."""
    there = (mdp.probs > 0) & (mdp.allowed & ~mdp.absorbing[:, None])[:, :, None]
    if mdp.reward_variances is not None and mdp.reward_variances[there].any():
        return None
    successor, reward = mdp.successors[there], mdp.rewards[there]
    if not len(ends) or not np.isin(successor[np.flatnonzero(reward)], ends).all():
        return None
    at_end = np.isin(np.arange(mdp.num_states), ends)[successor]
    successor, reward = successor[at_end], reward[at_end]
    found = np.array([reward[successor == end].mean() if (successor == end).any() else 0.0 for end in ends])
    expected = np.append(found, 0.0)[np.append(ends, -1).tolist().index(_end(one, ends))]
    alike = all(np.ptp(reward[successor == end]) < 1e-9 for end in ends if (successor == end).any())
    same = abs(float(one.returns(1.0)[0]) - expected) < 1e-9
    return found if alike and same and found.any() else None


def outlook_of(
    mdp: FiniteMDP,
    one: EpisodeLog,
    policy: Floats,
    couplings: Mapping[str, AbstractCoupling],
    ends: Ints,
    *,
    outcomes: Values | None,
    horizon: int,
    discount: float,
    censored: str,
    doubt: Doubt,
    progress: bool | None,
) -> Outlook:
    """What is asked of the model, and of every process that the log could have come from.

    Args:
        mdp: The process.
        one: The episode.
        policy: [state, action]: what would have been done.
        couplings: Couplings by name.
        ends: The states whose chances are asked for.
        outcomes: Label of each state as an outcome.
        horizon: Number of steps.
        discount: Discount factor for each step.
        censored: Treatment of an episode that stops before its end; see `replay`.
        doubt: Doubt about the process.
        progress: Whether to show a progress bar.
    """
    marks = np.stack([*(one_hot(int(end), mdp.num_states) for end in ends), (~mdp.ends).astype(np.float64)])

    def replayed(process: FiniteMDP, coupling: AbstractCoupling, *, path: bool) -> Replay:
        return replay(
            process, one, policy, coupling, outcomes=outcomes, horizon=horizon, discount=discount, censored=censored,
            path=path, progress=False,
        )  # fmt: skip

    def limits(process: FiniteMDP) -> Floats:
        """[lower and upper, value, ends and none]."""
        value = trajectory_bounds(
            process, one, policy, horizon=horizon, discount=discount, censored=censored, progress=False
        )
        copies = one.select(np.zeros(len(marks), np.int64))
        chance = trajectory_bounds(
            process, copies, policy, horizon=horizon, discount=1.0, censored=censored, rewards=0.0, final=marks,
            progress=False,
        )  # fmt: skip
        return np.concatenate([np.array(value), np.clip(np.array(chance), 0, 1)], axis=1)

    def numbers(process: FiniteMDP) -> Floats:
        """[coupling and two bounds; value, ends and none]."""
        answers = (replayed(process, each, path=False) for each in couplings.values())
        return np.concatenate([np.array([_answer(each, marks) for each in answers]), limits(process)])

    found = percentile_interval(doubted(mdp, doubt, numbers, progress, outcomes=outcomes), doubt.level)
    least, most = limits(mdp)
    return Outlook(
        {name: replayed(mdp, each, path=True) for name, each in couplings.items()},
        Bounds(least, most),
        {}
        if found is None
        else {name: Interval(found.lower[at], found.upper[at], doubt.level) for at, name in enumerate(couplings)},
        None if found is None else Interval(found.lower[-2], found.upper[-1], doubt.level),
    )


def visits_behind(mdp: FiniteMDP, path: Floats, policy: Floats, one: EpisodeLog) -> Float[np.ndarray, " t"]:
    """How often the log saw what the other world does at each step; NaN where nothing rests on that.

    The least visited of all that it does with a chance of at least one in twenty, unless it does what was done in the
    logged state, or the episode is over.

    Args:
        mdp: The process.
        path: [time, state]: where the other world is.
        policy: [state, action]: what it does.
        one: The episode.
    """
    found = np.full(len(path) - 1, np.nan)
    if mdp.counts is None:
        return found
    visits = mdp.counts.sum(axis=2)
    for step in range(len(found)):
        taken = path[step][:, None] * policy * ~mdp.absorbing[:, None]
        if step < one.lengths[0]:
            taken[one.states[0, step], one.actions[0, step]] = 0
        if (taken >= _LIKELY).any():
            found[step] = visits[taken >= _LIKELY].min()
        elif taken.sum() >= _LIKELY:
            found[step] = visits[taken > 0].min()
    return found


_LIKELY = 0.05


def _answer(replayed: Replay, marks: Floats) -> Floats:
    return np.append(replayed.values, replayed.last.toarray()[0] @ marks.T)


def _end(one: EpisodeLog, ends: Ints) -> int:
    last = int(one.last_states[0])
    return last if last in ends.tolist() else -1
