"""Simulation: many episodes of a process at once."""

from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.mdp._arrays import Floats, Ints, Values, as_horizon, as_whole
from countermax.mdp._process import FiniteMDP
from countermax.mdp.log import EpisodeLog
from countermax.mdp.policies import as_policy

Singles: TypeAlias = NDArray[np.float32]


def simulate(mdp: FiniteMDP, policy: Values, *, num_episodes: int, horizon: int, key: PRNGKeyArray) -> EpisodeLog:
    """Draws episodes under a policy.

    Each ends on arrival in an absorbing state, or after `horizon` steps. 20,000 sepsis episodes take a fraction of a
    second. A key means the same episodes everywhere, whatever JAX's default precision is.

    Args:
        mdp: The process; its start must not lie in absorbing states.
        policy: [state, action], rows that sum to one.
        num_episodes: Number of episodes.
        horizon: The most steps that an episode can have.
        key: Random key; consumed once.
    """
    as_whole("num_episodes", num_episodes, least=1)
    as_horizon(horizon, least=1)
    check_memory(
        f"{num_episodes} episodes of {horizon} steps",
        80 * num_episodes * (horizon + 1) + 32 * num_episodes * (mdp.width + mdp.num_actions),
        "lower `num_episodes` or `horizon`",
    )
    at_once = mdp.start * mdp.absorbing
    if at_once.any():
        state = mdp.name_of_state(int(at_once.argmax()))
        raise InputError(f"`mdp` must start where episodes continue, but {state} is absorbing: its episodes are empty")
    visited, done, slot = _walk(mdp, as_policy(mdp, policy), *_noise(key, num_episodes, horizon))
    continues = ~mdp.absorbing[visited[:, :-1]]
    return EpisodeLog(
        states=visited,
        actions=done,
        rewards=mdp.rewards[visited[:, :-1], done, slot],
        lengths=continues.sum(axis=1),
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        state_names=mdp.state_names,
        action_names=mdp.action_names,
    )


def _noise(key: PRNGKeyArray, num_episodes: int, horizon: int) -> tuple[Singles, Singles]:
    """[episode] for where episodes start, and [step, 2, episode] for actions and for where they lead."""
    key_start, key_steps = jax.random.split(key)
    start = jax.random.uniform(key_start, (num_episodes,), jnp.float32)
    later = _uniform(jax.random.split(key_steps, horizon), num_episodes)
    return np.asarray(start), np.asarray(later)


@partial(jax.jit, static_argnums=1)
def _uniform(keys: Array, num_episodes: int) -> Array:
    return jax.vmap(lambda key: jax.random.uniform(key, (2, num_episodes), jnp.float32))(keys)


def _walk(mdp: FiniteMDP, policy: Floats, start: Singles, later: Singles) -> tuple[Ints, Ints, Ints]:
    """[episode, time] states, actions and slots of the rows."""
    horizon, _, num_episodes = later.shape
    states = np.empty((num_episodes, horizon + 1), np.int64)
    actions, slots = np.empty((2, num_episodes, horizon), np.int64)
    states[:, 0] = np.searchsorted(edges_of(mdp.start), start, side="right")
    edges = edges_of(policy)
    for step, (for_action, for_state) in enumerate(later):
        state = states[:, step]
        action = pick(edges[state], for_action)
        slot = pick(edges_of(mdp.probs[state, action]), for_state)
        actions[:, step], slots[:, step] = action, slot
        states[:, step + 1] = mdp.successors[state, action, slot]
    return states, actions, slots


def edges_of(probs: Floats) -> Singles:
    """Upper edges of the outcomes' parts of [0, 1), the last possible one's at infinity.

    So rounding never lets a uniform number fall behind it, onto an impossible outcome.
    """
    possible = probs > 0
    last = probs.shape[-1] - 1 - possible[..., ::-1].argmax(axis=-1)
    behind = np.arange(probs.shape[-1]) >= last[..., None]
    return np.where(behind, np.inf, probs.cumsum(axis=-1)).astype(np.float32)


def pick(edges: Singles, uniform: Singles) -> Ints:
    """An entry of each row, by a uniform number and the edges of its parts."""
    return (uniform[:, None] >= edges).sum(axis=1)
