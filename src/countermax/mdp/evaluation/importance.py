"""Importance sampling: what a policy is worth, from episodes of another one, with no model of the process."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.mdp._arrays import Floats, Values, as_finite, plainly
from countermax.mdp._labels import named
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, steps_of
from countermax.mdp.planning import action_values, policy_matrix
from countermax.mdp.policies import as_policy, policy_rows

_MOST_RATIO = 1e150


class ImportanceEstimates(NamedTuple):
    """Three weightings of the same returns."""

    ordinary: float
    """Unbiased; every episode counts by the ratio of its probabilities."""
    per_decision: float
    """Unbiased; every reward counts by the ratio up to its step."""
    weighted: float | None
    """Biased but bounded: ratios are divided by their mean. None where no episode counts at all."""


def importance_ratios(log: EpisodeLog, target: Values, behaviour: Values) -> Float[np.ndarray, "n t"]:
    """How much likelier each episode is under the target policy than under the behaviour, up to each step.

    After an episode's end the last ratio is repeated.

    Args:
        log: Episodes of the behaviour policy.
        target: [state, action].
        behaviour: [state, action]; what was done must have a positive probability.
    """
    states, actions = log.states[:, :-1], log.actions
    wanted = policy_rows(log, target, argument="target")[states, actions]
    done = policy_rows(log, behaviour, argument="behaviour")[states, actions]
    never = log.mask & ~(done > 0)
    if never.any():
        episode, step = (int(each) for each in np.unravel_index(int(never.argmax()), never.shape))
        raise InputError(
            "`behaviour` must give what was done a positive probability, but has none for "
            f"{named('action', int(actions[episode, step]), log.action_names)} in "
            f"{named('state', int(states[episode, step]), log.state_names)} "
            f"(episode {plainly(log.name_of(episode))}, step {step})"
        )
    with np.errstate(over="ignore"):  # told below, in words
        ratios = np.where(log.mask, wanted / np.where(log.mask, done, 1), 1).cumprod(axis=1)
    large = ~(ratios <= _MOST_RATIO)
    if large.any():
        episode, step = (int(each) for each in np.unravel_index(int(large.argmax()), large.shape))
        raise InputError(
            f"`target` must not make an episode more than {_MOST_RATIO:g} times as likely as `behaviour` does, but it "
            f"does so with episode {plainly(log.name_of(episode))} by step {step}: importance sampling cannot be used"
        )
    return ratios


def importance_estimates(
    log: EpisodeLog, ratios: Float[np.ndarray, "n t"], *, discount: float, horizon: int | None = None
) -> ImportanceEstimates:
    """The target policy's value by importance sampling.

    Args:
        log: Episodes of the behaviour policy.
        ratios: Ratios of probabilities up to each step, from `importance_ratios`.
        discount: Factor by which a reward is worth less one step later; 1 for the plain return.
        horizon: How many steps of each episode count; all of them by default.
    """
    ratios = _as_ratios(log, ratios)[:, : steps_of(log, horizon)]
    weights, returns = ratios[:, -1], log.returns(discount, horizon=horizon)
    count = ratios.shape[1]
    gains = log.rewards[:, :count] * discount ** np.arange(count)
    total = weights.sum()
    return ImportanceEstimates(
        float((weights * returns).mean()),
        float((ratios * gains).sum(axis=1).mean()),
        float((weights * returns).sum() / total) if total > 0 else None,
    )


def effective_sample_size(ratios: Float[np.ndarray, "n t"]) -> float:
    """How many equally weighted episodes carry as much as these weights: the squared sum over the sum of squares."""
    array = as_finite("ratios", ratios)
    if array.ndim != 2 or array.size == 0 or (array < 0).any():
        raise InputError(f"`ratios` must be [episode, step] and not negative, got shape {array.shape}")
    weights = array[:, -1]
    if not weights.any():
        return 0.0
    weights = weights / weights.max()  # whose squares are numbers
    return float(weights.sum() ** 2 / (weights**2).sum())


def doubly_robust(
    mdp: FiniteMDP,
    log: EpisodeLog,
    target: Values,
    ratios: Float[np.ndarray, "n t"],
    *,
    horizon: int | None = None,
    discount: float | None = None,
) -> float:
    """The model's value, corrected by importance sampling where the log disagrees with the model.

    Unbiased if the ratios are right, whatever the model; of small variance if the model is good.

    Args:
        mdp: The process or an estimate of it; must know every logged action.
        log: Episodes of the behaviour policy.
        target: [state, action].
        ratios: Ratios of probabilities up to each step, from `importance_ratios`.
        horizon: How many steps an episode can have; by default as many as the longest has.
        discount: Factor by which a reward is worth less one step later; by default the process's own.
    """
    probs = as_policy(mdp, target)
    factor = as_discount(mdp, discount)
    steps = steps_of(log, horizon)
    ratios = _as_ratios(log, ratios)
    check_memory(
        f"values of {mdp.num_states} states and {mdp.num_actions} actions at {steps} times",
        8 * mdp.num_states * (mdp.num_actions + 1) * steps,
        "lower `horizon`",
    )
    later = np.zeros(mdp.num_states)
    chain = policy_matrix(mdp, probs)
    gains = (probs * mdp.expected_rewards).sum(axis=1)
    values, worths = [later], []
    for _ in range(steps):
        worths.append(action_values(mdp, later, discount=factor))
        later = gains + factor * (chain @ later)
        values.append(later)
    values, worths = values[::-1], worths[::-1]  # by time
    total = values[0][log.states[:, 0]].copy()
    for step in range(min(steps, log.longest)):
        lasts = log.mask[:, step]
        state, action, after = log.states[lasts, step], log.actions[lasts, step], log.states[lasts, step + 1]
        surprise = log.rewards[lasts, step] + factor * values[step + 1][after] - worths[step][state, action]
        total[lasts] += factor**step * ratios[lasts, step] * surprise
    return _checked(float(total.mean()))


def _as_ratios(log: EpisodeLog, ratios: Values) -> Floats:
    array = as_finite("ratios", ratios)
    if array.shape != log.actions.shape:
        raise InputError(f"`ratios` must be [episode, step] of shape {log.actions.shape}, got {array.shape}")
    return array


def _checked(value: float) -> float:
    if not np.isfinite(value):
        raise InputError("`mdp` must know every action in the log; estimate it from the same log")
    return value


def visit_shares(log: EpisodeLog) -> Floats:
    """[state]: the share of all steps that start there."""
    return np.bincount(log.steps().state, minlength=log.num_states) / log.num_steps
