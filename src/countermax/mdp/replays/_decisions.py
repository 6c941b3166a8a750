"""The single decision that would have mattered most, found by changing one action at a time."""

from typing import NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import Floats, Ints, Values
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import as_discount, as_policy
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._bounds import backward
from countermax.mdp.replays._exact import forward
from countermax.mdp.replays._questions import questioner


class Decision(NamedTuple):
    """One action changed, the rest as it was."""

    step: int
    state: int
    action: int
    """What was done."""
    other_action: int
    """What might have been done."""
    value: float
    """What the episode would have earned on average."""
    effect: float
    """How much more than it did."""
    lower: float
    """The least effect that any mechanism gives."""
    upper: float
    """The largest."""


def single_decisions(
    mdp: FiniteMDP,
    log: EpisodeLog,
    coupling: AbstractCoupling,
    *,
    otherwise: Values | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> tuple[Decision, ...]:
    """Every other action at every step of one episode, the largest effect first; exact.

    All other actions stay as logged, whatever the state; so without the change the episode would be what it was.
    Where a logged action is not known, and after the episode's end, the policy `otherwise` acts.

    Args:
        mdp: The process.
        log: One episode.
        coupling: The mechanism.
        otherwise: [state, action]; by default what was done most often, as far as the process has counts.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps; by default as many as the episode has.
        discount: In place of the process's own.
    """
    if len(log) != 1:
        raise InputError(f"`log` must hold one episode, got {len(log)}; use `select`")
    length = int(log.lengths[0])
    states, actions = log.states[0, :length], log.actions[0, :length]
    step, other = np.nonzero(mdp.allowed[states] & (np.arange(mdp.num_actions) != actions[:, None]))
    if len(step) == 0:
        return ()
    rest = usual_policy(mdp) if otherwise is None else as_policy(mdp, otherwise)

    def choose(now: int, copy: Ints, state: Ints) -> Floats:
        if now >= length:
            return rest[state]
        action = np.where(step[copy] == now, other[copy], actions[now])
        known = mdp.allowed[state, action]
        return np.where(known[:, None], np.eye(mdp.num_actions)[action], rest[state])

    copies = log.select(np.zeros(len(step), np.int64))
    asker = questioner(mdp, coupling, outcomes)
    found = forward(asker, copies, choose, horizon=horizon, discount=discount, progress=False)
    bounds = backward(mdp, copies, choose, rest, horizon=horizon, discount=discount, progress=False)
    observed = float(log.returns(as_discount(mdp, discount))[0])
    decisions = (
        Decision(
            int(at),
            int(states[at]),
            int(actions[at]),
            int(action),
            float(value),
            float(value - observed),
            float(lower - observed),
            float(upper - observed),
        )
        for at, action, value, lower, upper in zip(step, other, found.values, bounds.lower, bounds.upper, strict=True)
    )
    return tuple(sorted(decisions, key=lambda each: (-each.effect, each.step)))


def usual_policy(mdp: FiniteMDP) -> Floats:
    """How often each action was taken, if the process was estimated; all allowed ones alike where there is no count."""
    counts = np.zeros(mdp.allowed.shape) if mdp.counts is None else mdp.counts.sum(axis=2).astype(np.float64)
    counts *= mdp.allowed
    counts[counts.sum(axis=1) == 0] = mdp.allowed[counts.sum(axis=1) == 0]
    return counts / counts.sum(axis=1, keepdims=True)
