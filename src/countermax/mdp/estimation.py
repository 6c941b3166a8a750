"""From logged episodes to a process: frequencies, with the counts kept so that one can see how thin the data are."""

import numpy as np

from countermax._core.errors import InputError
from countermax.mdp._arrays import Floats, Ints, Values, as_index, as_mask, as_number, as_whole, check_sizes, plainly
from countermax.mdp._labels import named
from countermax.mdp._process import FiniteMDP
from countermax.mdp.log import EpisodeLog

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
        log: Logged episodes.
        absorbing: States where episodes end, as indices or as a mask; by default those that nobody was seen to leave.
            The log must not leave them.
        unseen: The state that actions never or too seldom seen lead to, for instance death.
        least_visits: Least number of times that an action must have been seen in a state for its row to count. Rows
            from a handful of visits are noise, and a policy that maximises over them picks the luckiest.
        discount: Discount factor for each step.
    """
    check_sizes(log.num_states, log.num_actions)
    ends = as_mask("absorbing", absorbing, log.num_states)
    as_whole("least_visits", least_visits, least=1)
    steps = log.steps()
    leaving = ends[steps.state]
    if leaving.any():
        at = int(leaving.argmax())
        episode = plainly(log.name_of(int(steps.episode[at])))
        raise InputError(
            f"`absorbing` states must end episodes, but episode {episode} continues from "
            f"{named('state', int(steps.state[at]), log.state_names)} at step {steps.step[at]}"
        )
    sizes = (log.num_states, log.num_actions, log.num_states)
    cells, where = np.unique(
        np.ravel_multi_index((steps.state, steps.action, steps.next_state), sizes), return_inverse=True
    )
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
        as_index("unseen", unseen, log.num_states)
        ends[unseen] |= not known[unseen].any()
        given[unseen] |= ends[unseen] and absorbing is not None
        more_state, more_action = np.nonzero(~known & ~ends[:, None])
        nothing = np.zeros(len(more_state))
        state, action = np.append(state, more_state), np.append(action, more_action)
        successor = np.append(successor, np.full(len(more_state), unseen))
        probs, rewards, counts = np.append(probs, nothing + 1), np.append(rewards, nothing), np.append(counts, nothing)
        variances = np.append(variances, nothing)
    return FiniteMDP.from_transitions(
        state,
        action,
        successor,
        probs,
        rewards,
        num_states=log.num_states,
        num_actions=log.num_actions,
        start=np.bincount(log.states[:, 0], minlength=log.num_states) / len(log),
        discount=discount,
        absorbing=ends,
        counts=counts,
        reward_variances=variances if variances.any() else None,
        state_names=log.state_names,
        action_names=log.action_names,
        never_left=ends & ~given,
    )


def visits(log: EpisodeLog) -> Ints:
    """[state, action]: how often each action was taken."""
    check_sizes(log.num_states, log.num_actions)
    steps = log.steps()
    cells = steps.state * log.num_actions + steps.action
    return np.bincount(cells, minlength=log.num_states * log.num_actions).reshape(log.num_states, log.num_actions)


def estimate_policy(log: EpisodeLog, *, pseudo_count: float = 0.0) -> Floats:
    """[state, action]: how often each action was taken in each state; uniform in states never left.

    Args:
        log: Logged episodes.
        pseudo_count: Number added to the count of every action, so that none is impossible.
    """
    counts = visits(log) + as_number("pseudo_count", pseudo_count, 0, 1e100)
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), 1 / log.num_actions)
