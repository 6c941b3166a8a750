"""Counterfactual trajectories drawn one by one: noise that explains what was seen, put to the other policy's rows."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractSampler
from countermax.mdp._arrays import Floats, Ints, Values
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import as_discount, as_horizon, as_policy
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import Questions, questioner


class SampledReplay(NamedTuple):
    """Trajectories that might have been."""

    states: Int[np.ndarray, "n samples times"]
    """After the end of a trajectory its last state is repeated."""
    actions: Int[np.ndarray, "n samples t"]
    returns: Float[np.ndarray, "n samples"]


def sample_replay(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: AbstractSampler,
    *,
    num_samples: int,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    key: PRNGKeyArray,
) -> SampledReplay:
    """Draws trajectories of every episode under another policy; `replay` is their exact law.

    For mechanisms that can only be drawn from, and for looking at single stories.

    Args:
        mdp: The process.
        log: What happened; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        coupling: The mechanism.
        num_samples: Trajectories for each episode.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps; by default as many as the longest episode has.
        discount: In place of the process's own; 1 for the plain return.
        key: Consumed once.
    """
    if num_samples < 1:
        raise InputError(f"`num_samples` must be at least 1, got {num_samples}")
    probs = as_policy(mdp, policy)
    asker = questioner(mdp, coupling, outcomes)
    facts = facts_of(mdp, log)
    steps = log.longest if horizon is None else as_horizon(horizon)
    factor = as_discount(mdp, discount)
    count = len(log) * num_samples
    episode = np.repeat(np.arange(len(log)), num_samples)
    states = np.zeros((count, steps + 1), np.int64)
    actions = np.zeros((count, steps), np.int64)
    returns = np.zeros(count)
    states[:, 0] = log.states[episode, 0]
    for step in range(steps):
        key_uniform, key_answers = jax.random.split(jax.random.fold_in(key, step))
        for_action, for_state = np.asarray(jax.random.uniform(key_uniform, (2, count)), np.float64)
        state = states[:, step]
        action = _pick(probs[state], for_action)
        slot = _pick(mdp.probs[state, action], for_state)
        fact = facts.of_step[episode, step] if step < facts.of_step.shape[1] else np.full(count, -1)
        seen = np.flatnonzero((fact >= 0) & ~mdp.absorbing[state])
        which = fact[seen]
        asked = Questions(facts.state[which], facts.action[which], facts.next_slot[which], state[seen], action[seen])
        slot[seen] = asker.draws(asked, key_answers)
        states[:, step + 1] = mdp.successors[state, action, slot]
        actions[:, step] = action
        returns += factor**step * mdp.rewards[state, action, slot]
    shape = (len(log), num_samples)
    return SampledReplay(states.reshape(*shape, -1), actions.reshape(*shape, -1), returns.reshape(shape))


def _pick(probs: Floats, uniform: Floats) -> Ints:
    """An entry of each row, by its probability; rounding never picks one that has none."""
    last = probs.shape[1] - 1 - (probs > 0)[:, ::-1].argmax(axis=1)
    return np.minimum((uniform[:, None] >= probs.cumsum(axis=1)).sum(axis=1), last)
