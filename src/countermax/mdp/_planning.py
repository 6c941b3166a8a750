"""Planning in a finite MDP, and simulation: the best policy, the value of any policy, and episodes of it."""

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax.mdp._arrays import Floats, Ints, Values, as_horizon, as_indices
from countermax.mdp._estimation import as_policy, deterministic
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP, as_discount

_MOST_ROUNDS = 1000
_TIE = 1e-9  # a gain below this share of the largest value is rounding, not an improvement
_DENSE_SHARE = 0.02  # above this share of nonzeros a dense solve is faster than a sparse one


class Plan(NamedTuple):
    """A best policy, and what everything is worth under it."""

    actions: Int[np.ndarray, " s"]
    """The best action in each state."""
    values: Float[np.ndarray, " s"]
    """The expected discounted reward from each state on."""
    action_values: Float[np.ndarray, "s a"]
    """The same if the first action is another one; `-inf` where it is not allowed."""
    rounds: int

    @property
    def policy(self) -> Float[np.ndarray, "s a"]:
        """The policy that takes the best action for certain."""
        return deterministic(self.actions, self.action_values.shape[1])


def policy_iteration(mdp: FiniteMDP, *, actions: Values | None = None) -> Plan:
    """The policy with the largest discounted value over an unlimited horizon.

    Each round solves for the values of the policy and then improves every action that can be improved by more than
    rounding. Keeping the old action on ties is what makes it end: where several actions are worth exactly the same, an
    argmax follows the last digit and can run in circles.

    The process has a discount below one, or absorbing states that every policy met on the way reaches. The first policy
    is one action for each state; by default that with the largest immediate reward, the lowest on ties. In practice ten
    rounds or so suffice.
    """
    immediate = np.where(mdp.allowed, mdp.expected_rewards, -np.inf)
    current = immediate.argmax(axis=1) if actions is None else as_indices("actions", actions, mdp.num_actions)
    as_policy(mdp, deterministic(current, mdp.num_actions))
    everywhere = np.arange(mdp.num_states)
    for rounds in range(1, _MOST_ROUNDS + 1):
        values = policy_values(mdp, deterministic(current, mdp.num_actions))
        worth = action_values(mdp, values)
        gain = worth.max(axis=1) - worth[everywhere, current]
        better = gain > _TIE * max(1e-300, float(np.abs(values).max()))
        if not better.any():
            return Plan(current, values, worth, rounds)
        current = np.where(better, worth.argmax(axis=1), current)
    raise InputError(f"policy iteration must end, but did not in {_MOST_ROUNDS} rounds")


def policy_values(
    mdp: FiniteMDP, policy: Values, *, horizon: int | None = None, discount: float | None = None
) -> Floats:
    """The expected sum of discounted rewards from each state on."""
    probs = as_policy(mdp, policy)
    factor = as_discount(mdp, discount)
    chain = policy_matrix(mdp, probs)
    gains = (probs * mdp.expected_rewards).sum(axis=1)
    if horizon is not None:
        values = np.zeros(mdp.num_states)
        for _ in range(as_horizon(horizon)):
            before, values = values, gains + factor * (chain @ values)
            if (values == before).all():  # and so they stay
                break
        return values
    live = np.flatnonzero(~mdp.absorbing)
    if factor == 1:
        _check_proper(mdp, chain)
    inner = sparse.csr_array(chain[live][:, live])
    system = sparse.eye_array(len(live), format="csr") - factor * inner
    values = np.zeros(mdp.num_states)
    if system.nnz > _DENSE_SHARE * len(live) ** 2:
        values[live] = np.linalg.solve(system.toarray(), gains[live])
    elif len(live):
        values[live] = linalg.spsolve(system.tocsc(), gains[live])
    if not np.isfinite(values).all():
        raise InputError("values must be finite, but episodes would hardly ever end; give a `horizon` or a `discount`")
    return values


def policy_value(mdp: FiniteMDP, policy: Values, *, horizon: int | None = None, discount: float | None = None) -> float:
    """The expected sum of discounted rewards of an episode; see `policy_values`."""
    return float(mdp.start @ policy_values(mdp, policy, horizon=horizon, discount=discount))


def state_distributions(mdp: FiniteMDP, policy: Values, horizon: int) -> Float[np.ndarray, "t s"]:
    """Where episodes are at times 0..horizon, exactly; those that ended stay in their absorbing state."""
    check_memory(
        f"distributions over {mdp.num_states} states at {as_horizon(horizon)} times",
        16 * mdp.num_states * (horizon + 1),
        "lower `horizon`",
    )
    backwards = policy_matrix(mdp, policy).T.tocsr()
    rows = [mdp.start]
    for _ in range(horizon):
        rows.append(backwards @ rows[-1])
    return np.stack(rows)


def action_values(mdp: FiniteMDP, values: Floats, *, discount: float | None = None) -> Floats:
    """[state, action]: the expected reward of a step and of what follows; `-inf` where an action is not allowed."""
    worth = mdp.expected_rewards + as_discount(mdp, discount) * (mdp.matrix @ values).reshape(mdp.allowed.shape)
    return np.where(mdp.allowed, worth, -np.inf)


def policy_matrix(mdp: FiniteMDP, policy: Values) -> sparse.csr_array:
    """The Markov chain [state, next state] of a policy, sparse."""
    probs = as_policy(mdp, policy)
    state, action = np.nonzero(probs)
    entries = probs[state, action], (state, state * mdp.num_actions + action)
    mixing = sparse.csr_array(entries, shape=(mdp.num_states, probs.size))
    return sparse.csr_array(mixing @ mdp.matrix)


def _check_proper(mdp: FiniteMDP, chain: sparse.csr_array) -> None:
    """Without a discount, values are finite if every state can reach an absorbing one."""
    ending = mdp.absorbing.copy()
    while True:
        more = ending | (chain @ ending.astype(np.float64) > 0)
        if (more == ending).all():
            break
        ending = more
    if not ending.all():
        raise InputError(
            "without a discount every state must lead to an absorbing one, but under this policy "
            f"{mdp.name_of_state(int((~ending).argmax()))} does not; give a `horizon` or a `discount` below one"
        )


Singles: TypeAlias = NDArray[np.float32]


def simulate(mdp: FiniteMDP, policy: Values, *, num_episodes: int, horizon: int, key: PRNGKeyArray) -> EpisodeLog:
    """Draws episodes under a policy.

    Each ends on arrival in an absorbing state, or after `horizon` steps. 20,000 sepsis episodes take a fraction of a
    second. A key means the same episodes everywhere, whatever JAX's default precision is; it is consumed once.
    """
    as_count("`num_episodes`", num_episodes)
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
    key_start, key_steps = jax.random.split(key)
    start = np.asarray(jax.random.uniform(key_start, (num_episodes,), jnp.float32))
    later = np.asarray(_uniform(jax.random.split(key_steps, horizon), num_episodes))
    visited, done, slot = _walk(mdp, as_policy(mdp, policy), start, later)
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


@partial(jax.jit, static_argnums=1)
def _uniform(keys: Array, num_episodes: int) -> Array:
    """[step, 2, episode]: for actions, and for where they lead."""
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
