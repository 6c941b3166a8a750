"""Simulation: many episodes of a process at once, in JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.mdp._arrays import Floats, Values, as_horizon, as_whole
from countermax.mdp._process import FiniteMDP
from countermax.mdp.log import EpisodeLog
from countermax.mdp.policies import as_policy


def simulate(mdp: FiniteMDP, policy: Values, *, num_episodes: int, horizon: int, key: PRNGKeyArray) -> EpisodeLog:
    """Draws episodes under a policy.

    Each ends on arrival in an absorbing state, or after `horizon` steps. The first call for a size compiles; after
    that, 20,000 sepsis episodes take a fraction of a second.

    Args:
        mdp: The process; its start must not lie in absorbing states.
        policy: [state, action], rows that sum to one.
        num_episodes: How many.
        horizon: The most steps that an episode can have.
        key: Consumed once.
    """
    as_whole("num_episodes", num_episodes, least=1)
    as_horizon(horizon, least=1)
    check_memory(
        f"{num_episodes} episodes of {horizon} steps",
        80 * num_episodes * (horizon + 1) + 16 * num_episodes * (mdp.width + mdp.num_actions),
        "lower `num_episodes` or `horizon`",
    )
    at_once = mdp.start * mdp.absorbing
    if at_once.any():
        state = mdp.name_of_state(int(at_once.argmax()))
        raise InputError(f"`mdp` must start where episodes continue, but {state} is absorbing: its episodes are empty")
    states, actions, slots = _walk(
        _edges(mdp.start),
        _edges(as_policy(mdp, policy)),
        _edges(mdp.probs),
        jnp.asarray(mdp.successors, jnp.int32),
        key,
        num_episodes,
        horizon,
    )
    visited, done, slot = (np.asarray(each).T for each in (states, actions, slots))
    continues = ~mdp.absorbing[visited[:, :-1]]
    return EpisodeLog(
        states=visited.astype(np.int64),
        actions=done.astype(np.int64),
        rewards=mdp.rewards[visited[:, :-1], done, slot],
        lengths=continues.sum(axis=1),
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        state_names=mdp.state_names,
        action_names=mdp.action_names,
    )


def _edges(probs: Floats) -> Float[Array, "... w"]:
    """Upper edges of the outcomes' parts of [0, 1), the last possible one's at infinity.

    So rounding never lets a uniform number fall behind it, onto an impossible outcome.
    """
    possible = probs > 0
    last = probs.shape[-1] - 1 - possible[..., ::-1].argmax(axis=-1)
    behind = np.arange(probs.shape[-1]) >= last[..., None]
    return jnp.asarray(np.where(behind, np.inf, probs.cumsum(axis=-1)), jnp.float32)


@partial(jax.jit, static_argnums=(5, 6))
def _walk(
    start: Float[Array, " s"],
    policy: Float[Array, "s a"],
    rows: Float[Array, "s a w"],
    successors: Int[Array, "s a w"],
    key: PRNGKeyArray,
    num_episodes: int,
    horizon: int,
) -> tuple[Int[Array, "times n"], Int[Array, "t n"], Int[Array, "t n"]]:
    """States, actions and slots of the rows over time."""
    key_start, key_steps = jax.random.split(key)

    def step(
        state: Int[Array, " n"], key: PRNGKeyArray
    ) -> tuple[Int[Array, " n"], tuple[Int[Array, " n"], Int[Array, " n"], Int[Array, " n"]]]:
        for_action, for_state = jax.random.uniform(key, (2, num_episodes), jnp.float32)
        action = _pick(policy[state], for_action)
        slot = _pick(rows[state, action], for_state)
        after = successors[state, action, slot]
        return after, (after, action, slot)

    # Single precision whatever JAX's default is, so that a key means the same episodes everywhere.
    uniform = jax.random.uniform(key_start, (num_episodes,), jnp.float32)
    first = jnp.searchsorted(start, uniform, side="right").astype(jnp.int32)
    _, (later, actions, slots) = jax.lax.scan(step, first, jax.random.split(key_steps, horizon))
    return jnp.concatenate([first[None], later]), actions, slots


def _pick(edges: Float[Array, "n w"], uniform: Float[Array, " n"]) -> Int[Array, " n"]:
    return (uniform[:, None] >= edges).sum(axis=1, dtype=jnp.int32)
