"""From logged episodes to a process and to policies: frequencies, with the counts kept."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from countermax._core.errors import InputError
from countermax._core.quantities import as_amount, as_count
from countermax.mdp import _arrays as arrays
from countermax.mdp._arrays import SUM_TOLERANCE, Floats, Ints, Values
from countermax.mdp._labels import named
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP


def check_log(log: EpisodeLog, mdp: FiniteMDP) -> None:
    """Refuses a log of other states or actions than those of the process."""
    if (log.num_states, log.num_actions) != (mdp.num_states, mdp.num_actions):
        raise InputError(
            f"`log` must have the states and actions of the process, {mdp.num_states} and {mdp.num_actions}, got "
            f"{log.num_states} and {log.num_actions}"
        )


def policy_rows(world: FiniteMDP | EpisodeLog, policy: Values, *, argument: str = "policy") -> Floats:
    """Distributions over the actions, one for each state; what is wrong is named by state and action."""
    probs = arrays.as_floats(argument, policy)
    shape = (world.num_states, world.num_actions)
    if probs.shape != shape:
        raise InputError(f"`{argument}` must be [state, action] of shape {shape}, got {probs.shape}")
    bad = ~((probs >= 0) & (probs < np.inf))
    if bad.any():
        state, action = divmod(int(bad.argmax()), world.num_actions)
        raise InputError(
            f"`{argument}` must be finite and not negative, got {probs[state, action]:g} in "
            f"{named('state', state, world.state_names)}, {named('action', action, world.action_names)}"
        )
    with np.errstate(over="ignore"):  # told below, in words
        sums = probs.sum(axis=1)
    off = ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if off.any():
        state = int(off.argmax())
        raise InputError(
            f"`{argument}` must sum to one in each state, got {sums[state]:.6g} in "
            f"{named('state', state, world.state_names)}; {int(off.sum())} such state(s) in all"
        )
    return probs / sums[:, None]


def as_policy(mdp: FiniteMDP, policy: Values) -> Floats:
    """A policy that keeps to the actions that the process allows."""
    probs = policy_rows(mdp, policy)
    unknown = (probs > 0) & ~mdp.allowed
    if unknown.any():
        state, action = divmod(int(unknown.argmax()), mdp.num_actions)
        raise InputError(
            f"`policy` must keep to allowed actions, but takes {mdp.name_of_action(action)} in "
            f"{mdp.name_of_state(state)}, which has no transition row; {int(unknown.sum())} such pair(s) in all"
        )
    return probs


def restricted(mdp: FiniteMDP, policy: Values) -> tuple[Floats, Floats]:
    """The policy among the actions that the process knows, and how much of it was left out in each state.

    Where a policy wants nothing that is known, it does what was done most often.
    """
    kept = policy_rows(mdp, policy) * mdp.allowed
    totals = kept.sum(axis=1, keepdims=True)
    usual = deterministic(usual_policy(mdp).argmax(axis=1), mdp.num_actions)
    return np.where(totals > 0, kept / np.where(totals > 0, totals, 1), usual), 1 - totals[:, 0]


def usual_policy(mdp: FiniteMDP) -> Floats:
    """How often each action was taken, if the process was estimated; all allowed ones alike where there is no count."""
    counts = mdp.allowed * (np.zeros(mdp.allowed.shape) if mdp.visits is None else mdp.visits)
    counts[counts.sum(axis=1) == 0] = mdp.allowed[counts.sum(axis=1) == 0]
    return counts / counts.sum(axis=1, keepdims=True)


def deterministic(actions: Values, num_actions: int) -> Floats:
    """The policy that takes these actions, one for each state, for certain."""
    chosen = arrays.as_indices("actions", actions, as_count("`num_actions`", num_actions))
    if chosen.ndim != 1:
        raise InputError(f"`actions` must have one action for each state, got shape {chosen.shape}")
    arrays.check_sizes(len(chosen), num_actions)
    policy = np.zeros((len(chosen), num_actions))
    policy[np.arange(len(chosen)), chosen] = 1
    return policy


def softened(policy: Values, best: float, *, allowed: Bool[np.ndarray, "s a"] | None = None) -> Floats:
    """A policy that takes the most likely action of each state with probability `best`, and else any other one.

    On ties the lowest action is the most likely. Others are drawn from those that are `allowed`, [state, action]; by
    default all of them are. Where there is no other, `best` is one.
    """
    probs = arrays.as_finite("policy", policy)
    if probs.ndim != 2 or probs.size == 0:
        raise InputError(f"`policy` must be [state, action], got shape {probs.shape}")
    best = as_amount("`best`", best, least=0.0, most=1.0)
    can = np.ones(probs.shape, bool) if allowed is None else arrays.as_booleans("allowed", allowed)
    if can.shape != probs.shape:
        raise InputError(f"`allowed` must have the shape of `policy`, {probs.shape}, got {can.shape}")
    chosen = deterministic(probs.argmax(axis=1), probs.shape[1]) > 0
    others = can & ~chosen
    number = others.sum(axis=1, keepdims=True)
    return np.where(chosen, np.where(number > 0, best, 1.0), others * (1 - best) / np.maximum(number, 1))


_ROUNDING = 1e-20  # of squares: what the mean of equal numbers may be off by


def estimate(
    log: EpisodeLog,
    *,
    absorbing: Values | None = None,
    unseen: int | None = None,
    least_visits: int = 1,
    discount: float = 1.0,
) -> FiniteMDP:
    """The process whose rows are the frequencies in the log; rewards are the means over each transition.

    Where rewards of one transition vary, their variances are kept.

    Actions seen too seldom in a state are not allowed there, unless `unseen` says where they lead. A state in which
    nothing was seen often enough is where knowledge ends: it becomes absorbing. Without `absorbing` it counts as an
    end; beside ends that were named it does not, and an episode that stops there is censored.

    Args:
        log: Episodes.
        absorbing: States where episodes end, as indices or as a mask; by default those that nobody was seen to leave.
            The log must not leave them.
        unseen: The state that actions never or too seldom seen lead to, for instance death. It earns what arriving
            there earned on average; where nobody arrived, the least reward of the log.
        least_visits: Least number of times that an action must have been seen in a state for its row to count. Rows
            from a handful of visits are noise, and a policy that maximises over them picks the luckiest.
        discount: Discount factor for each step.
    """
    arrays.check_sizes(log.num_states, log.num_actions)
    ends = arrays.as_mask("absorbing", absorbing, log.num_states)
    as_count("`least_visits`", least_visits)
    steps = log.steps()
    leaving = ends[steps.state]
    if leaving.any():
        at = int(leaving.argmax())
        episode = arrays.plainly(log.name_of(int(steps.episode[at])))
        raise InputError(
            f"`absorbing` states must end episodes, but episode {episode} continues from "
            f"{named('state', int(steps.state[at]), log.state_names)} at step {steps.step[at]}"
        )
    sizes = (log.num_states, log.num_actions, log.num_states)
    seen = np.ravel_multi_index((steps.state, steps.action, steps.next_state), sizes)
    cells, where = np.unique(seen, return_inverse=True)
    counts = np.bincount(where)
    rewards = np.bincount(where, steps.reward) / counts
    variances = np.bincount(where, (steps.reward - rewards[where]) ** 2) / counts
    variances = np.where(variances > _ROUNDING * rewards**2, variances, 0)
    state, action, successor = np.unravel_index(cells, sizes)
    totals = visits(log)
    known = totals >= least_visits
    kept = known[state, action]
    state, action, successor = (each[kept] for each in (state, action, successor))
    counts, rewards, variances = counts[kept], rewards[kept], variances[kept]
    probs = counts / totals[state, action]
    given = ends.copy()
    if unseen is None:
        ends |= ~known.any(axis=1)
    else:
        arrays.as_index("unseen", unseen, log.num_states)
        ends[unseen] |= not known[unseen].any()
        if absorbing is None:  # states that were reached, and never left
            ends[np.setdiff1d(steps.next_state, steps.state)] = True
        given[unseen] |= ends[unseen] and absorbing is not None
        more_state, more_action = np.nonzero(~known & ~ends[:, None])
        nothing, arriving = np.zeros(len(more_state)), steps.reward[steps.next_state == unseen]
        earned = nothing + (arriving.mean() if len(arriving) else steps.reward.min())
        state, action = np.append(state, more_state), np.append(action, more_action)
        successor = np.append(successor, np.full(len(more_state), unseen))
        probs, rewards, counts = np.append(probs, nothing + 1), np.append(rewards, earned), np.append(counts, nothing)
        variances = np.append(variances, nothing)
    found = FiniteMDP.from_transitions(
        {
            "state": state,
            "action": action,
            "successor": successor,
            "probs": probs,
            "rewards": rewards,
            "counts": counts,
            "reward_variances": variances if variances.any() else None,
        },
        num_states=log.num_states,
        num_actions=log.num_actions,
        start=np.bincount(log.states[:, 0], minlength=log.num_states) / len(log),
        discount=discount,
        absorbing=ends,
        state_names=log.state_names,
        action_names=log.action_names,
    )
    return replace(found, never_left=ends & ~given)


def visits(log: EpisodeLog) -> Ints:
    """[state, action]: how often each action was taken."""
    arrays.check_sizes(log.num_states, log.num_actions)
    steps = log.steps()
    cells = steps.state * log.num_actions + steps.action
    return np.bincount(cells, minlength=log.num_states * log.num_actions).reshape(log.num_states, log.num_actions)


def estimate_policy(log: EpisodeLog, *, pseudo_count: float = 0.0) -> Floats:
    """[state, action]: how often each action was taken in each state; uniform in states never left.

    A `pseudo_count` is added to the count of every action, so that none is impossible.
    """
    counts = visits(log) + as_amount("`pseudo_count`", pseudo_count, least=0.0, most=1e100)
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), 1 / log.num_actions)
