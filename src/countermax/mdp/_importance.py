"""Importance sampling, and intervals from resampled episodes."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from countermax._core.errors import InputError
from countermax.mdp._arrays import Floats, Ints, Values, as_finite, plainly
from countermax.mdp._estimation import as_policy, policy_rows
from countermax.mdp._labels import named
from countermax.mdp._log import EpisodeLog, step_mask, steps_of
from countermax.mdp._planning import action_values, policy_matrix
from countermax.mdp._process import FiniteMDP, as_discount

_MOST_RATIO = 1e150
_LEAST_RATIO = 1e-300  # smaller ones are zero, so that none is lost half-way


class ImportanceEstimates(NamedTuple):
    """Four weightings of the same rewards; None where no episode has any weight.

    Unbiased means: if the behaviour policy is known. With one that was estimated from the same episodes, all of them
    are consistent, but biased in small logs.
    """

    ordinary: float
    """Unbiased; every episode counts by the ratio of its probabilities."""
    per_decision: float
    """Unbiased; every reward counts by the ratio up to its step."""
    weighted: float | None
    """Biased but bounded: the ratios of episodes are divided by their mean (self-normalised)."""
    weighted_per_decision: float | None
    """Biased but bounded: the ratios up to each step are divided by their mean over the episodes still compared."""


def importance_ratios(log: EpisodeLog, target: Values, behaviour: Values) -> Float[np.ndarray, "n t"]:
    """How much likelier each episode is under the target policy than under the behaviour, up to each step.

    After an episode's end the last ratio is repeated. Ratios below 1e-300 are zero: double precision ends soon after.
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
    return np.where(ratios < _LEAST_RATIO, 0, ratios)


def importance_estimates(
    log: EpisodeLog,
    ratios: Float[np.ndarray, "n t"],
    *,
    discount: float,
    horizon: int | None = None,
    steps: Ints | None = None,
) -> ImportanceEstimates:
    """The target policy's value by importance sampling."""
    ratios = as_finite("ratios", ratios)
    if ratios.shape != log.actions.shape:
        raise InputError(f"`ratios` must be [episode, step] of shape {log.actions.shape}, got {ratios.shape}")
    ratios = ratios[:, : steps_of(log, horizon)]
    weights, returns = ratios[:, -1], log.returns(discount, horizon=horizon)
    count = ratios.shape[1]
    gains = log.rewards[:, :count] * discount ** np.arange(count)
    lasting = step_mask(np.full(len(log), steps_of(log, horizon)) if steps is None else steps, count)
    least = weights.max(initial=0)
    unknown = (lasting.any(axis=0) & ~(ratios * lasting).any(axis=0)).any()
    return ImportanceEstimates(
        float((weights * returns).mean()),
        float((ratios * gains).sum(axis=1).mean()),
        float(weights / least @ returns / (weights / least).sum()) if least > 0 else None,
        None if unknown else float((_normalised(ratios, lasting) * gains).sum(axis=1).mean()),
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


def corrected_value(
    model: tuple[Floats, Floats], ratios: Float[np.ndarray, "n t"], steps: Ints, discount: float, *, weighted: bool
) -> float:
    """The model's mean value plus the surprises, by importance sampling: doubly robust.

    Unbiased if the ratios are right, whatever the model; of small variance if the model is good. Weighted, ratios are
    divided by their mean at each step: biased, but far less at the mercy of a few large ones. Where no episode has any
    weight from a step on, the weighted estimate is the model's from there.
    """
    weights = _normalised(ratios, step_mask(steps, ratios.shape[1])) if weighted else ratios
    values, surprises = model
    counted = (weights > 0) & (surprises != 0)
    if not np.isfinite(surprises[counted]).all():
        raise InputError("`mdp` must know every logged action that `target` can take; estimate it from the same log")
    corrections = np.zeros_like(weights)
    corrections[counted] = weights[counted] * surprises[counted]
    return float((values + corrections @ discount ** np.arange(ratios.shape[1])).mean())


def model_values(
    mdp: FiniteMDP, log: EpisodeLog, target: Values, steps: Ints, *, discount: float | None = None
) -> tuple[Floats, Floats]:
    """What the model says of each episode's first state, and how far each logged step is off, [episode, step].

    An episode that is compared over n steps has n - t of them to go at time t, and none beyond.
    """
    probs, factor = as_policy(mdp, target), as_discount(mdp, discount)
    chain, gains = policy_matrix(mdp, probs), (probs * mdp.expected_rewards).sum(axis=1)
    values, surprises = np.zeros(len(log)), np.zeros(log.actions.shape)
    later, worth, settled = np.zeros(mdp.num_states), action_values(mdp, np.zeros(mdp.num_states)), False
    for to_go in range(1, int(steps.max()) + 1):
        time = steps - to_go
        at = np.flatnonzero((time >= 0) & (time < log.lengths))
        when = time[at]
        state, action, after = log.states[at, when], log.actions[at, when], log.states[at, when + 1]
        surprises[at, when] = log.rewards[at, when] + factor * later[after] - worth[state, action]
        if not settled:  # and so they stay
            before, later = later, gains + factor * (chain @ later)
            settled = bool((later == before).all())
            worth = action_values(mdp, later, discount=factor)
        first = time == 0
        values[first] = later[log.states[first, 0]]
    return values, surprises


def _normalised(ratios: Floats, lasting: Bool[np.ndarray, "n t"]) -> Floats:
    """Ratios divided by their mean over the episodes that last; zero where none of them has any weight."""
    kept = ratios * lasting
    most = kept.max(axis=0, initial=0)
    kept = kept / np.where(most > 0, most, 1)
    totals = kept.sum(axis=0)
    return kept * lasting.sum(axis=0) / np.where(totals > 0, totals, 1)


def resamples_of(key: PRNGKeyArray, count: int, num_resamples: int) -> Iterator[Ints]:
    """Positions of the episodes of each resample, drawn with replacement."""
    seed = np.asarray(jax.random.bits(key, (4,)))
    for resample in range(num_resamples):
        yield np.random.default_rng([*seed, resample]).integers(0, count, count)
