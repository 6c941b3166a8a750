"""Where in an episode the choice of mechanism matters: one step at a time is left open, the others are held."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import Floats, Values
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import as_discount, as_horizon, as_policy
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._bounds import greedy_fill
from countermax.mdp.replays._exact import Answers, replay
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import questioner


class Leeway(NamedTuple):
    """The episode's counterfactual value if the mechanism were another one at one step only, for each step."""

    lower: Float[np.ndarray, " t"]
    upper: Float[np.ndarray, " t"]

    @property
    def width(self) -> Float[np.ndarray, " t"]:
        """How much the mechanism of each step can change."""
        return self.upper - self.lower


def leeway(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: AbstractCoupling,
    *,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Leeway:
    """How far the value of one episode moves when one step's mechanism is any other; exact, and sharp for each step.

    Args:
        mdp: The process.
        log: One episode.
        policy: [state, action]: what would have been done.
        coupling: The mechanism of all the other steps.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps; by default as many as the episode has.
        discount: In place of the process's own.
    """
    if len(log) != 1:
        raise InputError(f"`log` must hold one episode, got {len(log)}; use `select`")
    probs = as_policy(mdp, policy)
    steps = log.longest if horizon is None else as_horizon(horizon)
    factor = as_discount(mdp, discount)
    whole = replay(mdp, log, policy, coupling, outcomes=outcomes, horizon=steps, discount=factor, path=True)
    assert whole.path is not None
    facts = facts_of(mdp, log)
    known, fill = Answers(questioner(mdp, coupling, outcomes), facts), greedy_fill(mdp, facts)
    lower, upper = np.full(steps, whole.values[0]), np.full(steps, whole.values[0])
    state, action = np.nonzero(probs * ~mdp.absorbing[:, None])
    share = probs[state, action]
    later: Floats = np.zeros(mdp.num_states)
    for step in reversed(range(steps)):
        rows = known.rows(np.zeros(len(state), np.int64), step, state, action)
        worth = rows.gains.sum(axis=1) + factor * (rows.chances @ later)
        if step < log.lengths[0]:
            fact = np.full(len(state), facts.of_step[0, step])
            slots = mdp.rewards[state, action] + factor * later[mdp.successors[state, action]]
            same = (facts.state[fact] == state) & (facts.action[fact] == action)
            there = factor**step * whole.path[0, step][state] * share
            for end, each in zip((lower, upper), fill(fact, state, action, slots), strict=True):
                end[step] += there @ (np.where(same, slots[:, facts.next_slot[fact[0]]], each) - worth)
        later = np.bincount(state, share * worth, minlength=mdp.num_states).astype(np.float64)
    return Leeway(np.minimum(lower, whole.values[0]), np.maximum(upper, whole.values[0]))
