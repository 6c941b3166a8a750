"""How far a log and a process pin down what would have happened, whatever the coupling.

At each step a coupling may answer with any row `w` between 0 and `q / p_x`: all that the data say of it. Backwards from
the last step, the best (the worst) such row from every state gives bounds for the value of a whole trajectory. The
logged action in the logged state leads to the logged successor for certain. No coupling gives a value outside the
bounds if it leaves a world without intervention as it was (`Independent`, for one, does not); some attain each, if they
may differ from step to step.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float
from scipy import sparse

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.bounds import Bounds, filled_mean, unchecked_score_bounds
from countermax.couplings import Independent
from countermax.mdp._arrays import MOST_REWARD, Floats, Ints, Values, as_finite
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, steps_of
from countermax.mdp.planning import policy_matrix
from countermax.mdp.policies import as_policy
from countermax.mdp.replays._exact import Choose
from countermax.mdp.replays._questions import Facts, TransitionCoupling, facts_of

_CELLS_AT_ONCE = 2**18  # episodes times states that are bounded together
_ROWS_AT_ONCE = 2**14

Fill: TypeAlias = Callable[[Ints, Ints, Ints, Floats], tuple[Floats, Floats]]
"""From facts, states, actions and the worth of each slot: the least and the largest mean over the rows allowed."""


def trajectory_bounds(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    *,
    stable: bool = False,
    horizon: int | None = None,
    discount: float | None = None,
    rewards: Values | None = None,
    final: Values | None = None,
    progress: bool | None = None,
) -> Bounds:
    """The bounds of each episode's counterfactual value, over all couplings.

    Args:
        mdp: The process.
        log: What happened; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        stable: Whether to allow counterfactually stable couplings only (Gumbel-max is one), over states as outcomes.
        horizon: How many steps; by default as many as the longest episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own; 1 for the plain
            return.
        rewards: Rewards in the shape of `mdp.rewards`, by default the process's own; zeros to ask for `final` alone.
        final: A score for being in each state at the end. With zero rewards and an indicator it bounds a probability.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    probs = as_policy(mdp, policy)
    return backward(
        mdp,
        log,
        lambda _, __, state: probs[state],
        probs,
        possible=probs > 0,
        stable=stable,
        horizon=horizon,
        discount=discount,
        rewards=rewards,
        final=final,
        progress=progress,
    )


def backward(
    mdp: FiniteMDP,
    log: EpisodeLog,
    choose: Choose,
    after: Floats,
    *,
    possible: Bool[np.ndarray, "s a"] | None = None,
    stable: bool = False,
    horizon: int | None = None,
    discount: float | None = None,
    rewards: Values | None = None,
    final: Values | None = None,
    progress: bool | None = None,
) -> Bounds:
    """The recursion, for policies that may change with time and from one episode to the next.

    Args:
        mdp: The process.
        log: What happened.
        choose: What would have been done while each episode lasted.
        after: [state, action]: what would have been done after its end.
        possible: [state, action]: what can be chosen at all; by default everything that is allowed. Saves work.
        stable: Whether to allow counterfactually stable couplings only.
        horizon: How many steps.
        discount: Factor by which a reward is worth less one step later; by default the process's own.
        rewards: Rewards in the shape of `mdp.rewards`; by default the process's own.
        final: A score for being in each state at the end; by episode too, if need be.
        progress: Whether to show a progress bar.
    """
    steps = steps_of(log, horizon)
    factor = as_discount(mdp, discount)
    gains = mdp.rewards if rewards is None else _as_shape("rewards", rewards, mdp.rewards.shape)
    shape = (len(log), mdp.num_states)
    last = np.zeros(shape) if final is None else _as_shape("final", final, shape, shape[1:])
    facts = facts_of(mdp, log)
    fill = _stable_fill(mdp, facts) if stable else greedy_fill(mdp, facts)
    task = _Task(mdp, choose, after, mdp.allowed if possible is None else possible, gains, factor, facts, fill)
    at_once = max(1, _CELLS_AT_ONCE // mdp.num_states)
    parts = []
    with ProgressBar("bounding", len(log), progress, unit="episodes") as bar:
        for start in range(0, len(log), at_once):
            episodes = np.arange(start, min(start + at_once, len(log)))
            parts.append(_backward(task, log, episodes, steps, last[episodes]))
            bar.advance(len(episodes))
    return Bounds(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _as_shape(name: str, values: Values, *shapes: tuple[int, ...]) -> Floats:
    """Numbers in the first of the shapes, from any of them or from one number."""
    array = as_finite(name, values)
    if not (np.abs(array) <= MOST_REWARD).all():
        raise InputError(f"`{name}` must lie within {MOST_REWARD:g}, got {np.abs(array).max():g}")
    if array.shape not in ((), *shapes):
        raise InputError(f"`{name}` must be a number or have shape {' or '.join(map(str, shapes))}, got {array.shape}")
    return np.broadcast_to(array, shapes[0])


class _Task(NamedTuple):
    mdp: FiniteMDP
    choose: Choose
    after: Floats
    possible: Bool[np.ndarray, "s a"]
    gains: Floats
    factor: float
    facts: Facts
    fill: Fill


def _backward(
    task: _Task, log: EpisodeLog, episodes: Ints, steps: int, last: Float[np.ndarray, "n s"]
) -> tuple[Floats, Floats]:
    mdp = task.mdp
    reach = _reachable(mdp, task.possible, log.states[episodes, 0], min(steps, log.longest))
    chain = policy_matrix(mdp, task.after)
    now = (task.after * (mdp.probs * task.gains).sum(axis=2)).sum(axis=1)
    plain = last  # what is still to come where the log says nothing
    limits = [last, last]
    for step in reversed(range(steps)):
        plain = now + task.factor * (plain @ chain.T)
        later, limits = limits, [plain.copy(), plain.copy()]
        if step >= log.longest:
            continue
        seen = step < log.lengths[episodes]
        place, state = np.nonzero(reach[step] & seen[:, None] & ~mdp.absorbing)
        entry, action = np.nonzero(choices := task.choose(step, episodes[place], state))
        place, state, share = place[entry], state[entry], choices[entry, action]
        for limit in limits:
            limit[place, state] = 0
        for start in range(0, len(place), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            where = place[part], state[part]
            fact = task.facts.of_step[episodes[where[0]], step]
            for limit, each in zip(limits, _one_step(task, later, *where, action[part], fact), strict=True):
                np.add.at(limit, where, share[part] * each)
    everybody = np.arange(len(episodes))
    lower, upper = (limit[everybody, log.states[episodes, 0]] for limit in limits)
    return lower, upper


def _one_step(
    task: _Task, later: list[Floats], place: Ints, state: Ints, action: Ints, fact: Ints
) -> tuple[Floats, Floats]:
    """The least and the largest worth of a step and of what follows."""
    mdp, facts = task.mdp, task.facts
    successors, earned = mdp.successors[state, action], task.gains[state, action]
    least, most = (earned + task.factor * each[place[:, None], successors] for each in later)
    same = (facts.state[fact] == state) & (facts.action[fact] == action)
    slot = facts.next_slot[fact]
    everybody = np.arange(len(place))
    lower, upper = task.fill(fact, state, action, least)[0], task.fill(fact, state, action, most)[1]
    return np.where(same, least[everybody, slot], lower), np.where(same, most[everybody, slot], upper)


def greedy_fill(mdp: FiniteMDP, facts: Facts) -> Fill:
    """Over all couplings: fill the worst (the best) outcomes first, none beyond `q / p_x`."""
    seen = mdp.probs[facts.state, facts.action, facts.next_slot]

    def fill(fact: Ints, state: Ints, action: Ints, worth: Floats) -> tuple[Floats, Floats]:
        room = np.minimum(mdp.probs[state, action] / seen[fact][:, None], 1)
        order = np.argsort(worth, axis=1)
        room, worth = np.take_along_axis(room, order, axis=1), np.take_along_axis(worth, order, axis=1)
        return filled_mean(room, worth), filled_mean(room[:, ::-1], worth[:, ::-1])

    return fill


def _stable_fill(mdp: FiniteMDP, facts: Facts) -> Fill:
    """Over counterfactually stable couplings."""
    outcomes = TransitionCoupling.of(mdp, Independent())  # any will do: only its logits are asked for

    def fill(fact: Ints, state: Ints, action: Ints, worth: Floats) -> tuple[Floats, Floats]:
        log_p, log_q, x, places = outcomes.logits(facts.questions(fact, state, action))
        row, slot = np.nonzero(mdp.probs[state, action])
        scores = np.zeros_like(log_q)
        scores[row, places[row, slot]] = worth[row, slot]
        with jax.enable_x64(True):
            lower, upper = map(np.asarray, _stable(log_p, log_q, x, scores))
        return lower[: len(fact)], upper[: len(fact)]

    return fill


@jax.jit
def _stable(log_p: ArrayLike, log_q: ArrayLike, x: ArrayLike, scores: ArrayLike) -> Bounds:
    def one(log_p: Array, log_q: Array, x: Array, score: Array) -> Bounds:
        return unchecked_score_bounds(log_p, log_q, x, score, stable=True)

    return jax.vmap(one)(*map(jnp.asarray, (log_p, log_q, x, scores)))


def _reachable(
    mdp: FiniteMDP, possible: Bool[np.ndarray, "s a"], first: Ints, steps: int
) -> list[Bool[np.ndarray, "n s"]]:
    """[episode, state] at each time: where a trajectory can be at all."""
    row, state = mdp.matrix.nonzero()
    row, state = row[kept := possible.ravel()[row]], state[kept]
    pairs = np.ones(len(row), np.float32), (row // mdp.num_actions, state)
    after = sparse.csr_array(pairs, shape=(mdp.num_states, mdp.num_states))
    here = np.zeros((len(first), mdp.num_states), bool)
    here[np.arange(len(first)), first] = True
    found = [here]
    for _ in range(steps - 1):
        found.append(np.asarray(found[-1].astype(np.float32) @ after) > 0)
    return found
