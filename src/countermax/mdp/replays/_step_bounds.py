"""Where in an episode the choice of coupling matters: one step at a time is left open, the others are held."""

import numpy as np

from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import Floats, Values
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, check_single, steps_of
from countermax.mdp.policies import as_policy
from countermax.mdp.replays._bounds import greedy_fill
from countermax.mdp.replays._cache import AnswerCache
from countermax.mdp.replays._exact import replay
from countermax.mdp.replays._questions import TransitionCoupling, facts_of


def step_bounds(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: AbstractCoupling,
    *,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Bounds:
    """The bounds of one episode's value if one step's coupling is any other, one entry for each step.

    Exact, and sharp for each step alone.

    Args:
        mdp: The process.
        log: One episode.
        policy: [state, action]: what would have been done.
        coupling: The coupling of all the other steps.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps; by default as many as the episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own.
    """
    check_single(log)
    probs = as_policy(mdp, policy)
    steps = steps_of(log, horizon)
    factor = as_discount(mdp, discount)
    whole = replay(mdp, log, policy, coupling, outcomes=outcomes, horizon=steps, discount=factor, path=True)
    assert whole.path is not None
    facts = facts_of(mdp, log)
    known, fill = AnswerCache(TransitionCoupling.exact(mdp, coupling, outcomes), facts), greedy_fill(mdp, facts)
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
            for limit, each in zip((lower, upper), fill(fact, state, action, slots), strict=True):
                limit[step] += there @ (np.where(same, slots[:, facts.next_slot[fact[0]]], each) - worth)
        later = np.bincount(state, share * worth, minlength=mdp.num_states).astype(np.float64)
    return Bounds(np.minimum(lower, whole.values[0]), np.maximum(upper, whole.values[0]))
