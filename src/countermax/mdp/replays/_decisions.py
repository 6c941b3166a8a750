"""The single decision that would have mattered most, found by changing one action at a time."""

from typing import NamedTuple

import numpy as np

from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import Floats, Ints, Values
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, check_single
from countermax.mdp.policies import as_policy, usual_policy
from countermax.mdp.replays._bounds import backward
from countermax.mdp.replays._exact import forward
from countermax.mdp.replays._questions import TransitionCoupling


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
    effect_bounds: Bounds
    """The effect over all couplings."""


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
        coupling: One with an exact law.
        otherwise: [state, action]; by default what was done most often, as far as the process has counts.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps; by default as many as the episode has.
        discount: In place of the process's own.
    """
    check_single(log)
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
    rows = TransitionCoupling.exact(mdp, coupling, outcomes)
    found = forward(rows, copies, choose, horizon=horizon, discount=discount, progress=False)
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
            Bounds(float(lower - observed), float(upper - observed)),
        )
        for at, action, value, lower, upper in zip(step, other, found.values, *bounds, strict=True)
    )
    return tuple(sorted(decisions, key=lambda each: (-each.effect, each.step)))
