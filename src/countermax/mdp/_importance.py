"""Importance sampling, its blends with a model, and intervals from resampled episodes."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtrit

from countermax._core.errors import InputError
from countermax.mdp._arrays import Floats, Ints, Values, plainly
from countermax.mdp._estimation import as_policy, estimate_policy, policy_rows
from countermax.mdp._labels import named
from countermax.mdp._log import EpisodeLog, follow_up, step_mask, steps_of
from countermax.mdp._planning import action_values, policy_matrix
from countermax.mdp._process import FiniteMDP, as_discount

FEW_EPISODES = 30
"""An effective sample size below which estimates are not to be trusted."""
_MOST_RATIO = 1e150
_LEAST_RATIO = 1e-300  # smaller ones are zero, so that none is lost half-way
_NEAR = 1.6448536269514722  # standard errors on either side of a 90 % interval
_MOST_LENGTHS = 32  # that MAGIC blends, beside the model's own value
_PILOT = 20  # one episode in so many chooses where empirical Bernstein cuts
_CUTS = 200


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


def step_ratios(log: EpisodeLog, target: Values, behaviour: Values | None) -> Float[np.ndarray, "n t"]:
    """How much likelier each action is under the target policy than under the behaviour; 1 after an episode's end.

    Without a behaviour policy, the log says how likely each step was, or its frequencies do.
    """
    states, actions = log.states[:, :-1], log.actions
    wanted = policy_rows(log, target, argument="target")[states, actions]
    if behaviour is None and log.propensities is not None:
        done = log.propensities
    else:
        behaviour = estimate_policy(log) if behaviour is None else behaviour
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
    with np.errstate(over="ignore"):
        return np.where(log.mask, wanted / np.where(log.mask, done, 1), 1)


def importance_ratios(log: EpisodeLog, target: Values, behaviour: Values | None) -> Float[np.ndarray, "n t"]:
    """How much likelier each episode is under the target policy than under the behaviour, up to each step.

    After an episode's end the last ratio is repeated. Ratios below 1e-300 are zero: double precision ends soon after.
    """
    return accumulated(log, step_ratios(log, target, behaviour))


def accumulated(log: EpisodeLog, steps: Float[np.ndarray, "n t"]) -> Float[np.ndarray, "n t"]:
    """Products of the ratios of single steps, up to each step."""
    with np.errstate(over="ignore"):  # told below, in words
        ratios = steps.cumprod(axis=1)
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
    weights = ratios[:, -1]
    if not weights.any():
        return 0.0
    weights = weights / weights.max()  # whose squares are numbers
    return float(weights.sum() ** 2 / (weights**2).sum())


def marginalised_value(log: EpisodeLog, steps: Float[np.ndarray, "n t"], discount: float, horizon: int) -> float:
    """Importance sampling by the states at each time in place of whole histories (Xie, Ma and Wang 2019).

    Before each step, the ratio so far of an episode is replaced by its mean over all episodes that are in the same
    state at the same time; their actions then have the ratios of `steps`. Unbiased if the behaviour policy is known and
    states are Markov; unlike a model it lets the process change over time.
    """
    total, so_far = 0.0, np.ones(len(log))
    for time in range(min(horizon, steps.shape[1])):
        here = np.flatnonzero(log.lengths > time)
        states, sizes = log.states[here, time], (log.num_states,)
        means = np.bincount(states, so_far[here], *sizes) / np.maximum(np.bincount(states, None, *sizes), 1)
        so_far[here] = means[states] * steps[here, time]
        total += discount**time * float(so_far[here] @ log.rewards[here, time])
    return total / len(log)


class CorrectedValues(NamedTuple):
    """The model's mean value, corrected by importance sampling: of all steps, and of as many as serve best."""

    robust: float
    """Doubly robust. Unbiased if the ratios are right, whatever the model; of small variance if the model is good."""
    weighted: float
    """The same with ratios divided by their mean at each step: biased, but far less at the mercy of a few large ones.

    Where no episode has any weight from a step on, it is the model's from there.
    """
    magic: float
    """Weighted, and blended over the number of steps that are corrected."""


def corrected_values(
    model: tuple[Floats, Floats], ratios: Float[np.ndarray, "n t"], steps: Ints, discount: float
) -> CorrectedValues:
    """The model's mean value plus the surprises, by importance sampling."""
    values, surprises = model
    factors = discount ** np.arange(ratios.shape[1])
    found = []
    for weights in (ratios, _normalised(ratios, step_mask(steps, ratios.shape[1]))):
        counted = (weights > 0) & (surprises != 0)
        if not np.isfinite(surprises[counted]).all():
            raise InputError(
                "`mdp` must know every logged action that `target` can take; estimate it from the same log"
            )
        corrections = np.zeros_like(weights)
        corrections[counted] = weights[counted] * surprises[counted]
        found.append(corrections * factors)
    robust, weighted = (float((values + each.sum(axis=1)).mean()) for each in found)
    return CorrectedValues(robust, weighted, _blended(values, found[1]))


def _blended(values: Floats, corrections: Float[np.ndarray, "n t"]) -> float:
    """MAGIC (Thomas and Brunskill 2016): the blend of the model's value, corrected up to each step, of least error.

    Its squared error is estimated by the covariance of the parts and their biases: how far each lies outside the 90 %
    interval of the one that corrects every step, by its standard error where the authors resample. A quadratic form is
    least over shares that sum to one where it is least, beside the squared distance of the sum from one, over all that
    are not negative: nonnegative least squares.
    """
    from scipy.optimize import nnls

    count, width = corrections.shape
    lengths = np.unique(np.linspace(0, width, min(width, _MOST_LENGTHS) + 1).round().astype(int))
    partial = np.concatenate([np.zeros((count, 1)), corrections.cumsum(axis=1)], axis=1)[:, lengths]
    each = values[:, None] + partial
    means = each.mean(axis=0)
    spread = (each - means) / np.sqrt(count * max(count - 1, 1))
    near = _NEAR * np.sqrt((spread[:, -1] ** 2).sum())
    bias = np.maximum(np.abs(means - means[-1]) - near, 0)
    errors = np.linalg.qr(np.concatenate([bias[None], spread]), mode="r")
    scale = np.abs(errors).max()
    if not scale > 0:
        return float(means[-1])
    target = np.zeros(len(errors) + 1)
    target[-1] = 1
    shares, _ = nnls(np.concatenate([errors / scale, np.ones((1, len(means)))]), target)
    return float(shares @ means / shares.sum())


def lower_limits(returns: Floats, weights: Floats, least: float, level: float) -> dict[str, float]:
    """Lower confidence limits of the value, by ordinary importance sampling (Thomas et al. 2015); none for one episode.

    Returns count from the least there is, so that weights make them no less than zero, and nothing is claimed for what
    the log cannot show. "empirical Bernstein" cuts them off, which lowers their mean, and allows for the variance of
    what is left (Maurer and Pontil 2009): it holds in any sample of known behaviour. One episode in twenty chooses the
    cut and counts no more. "Student" takes means for normal.
    """
    earned = weights * (returns - least)
    count = len(earned)
    if count < 2:
        return {}
    found = {"Student": earned.mean() + stdtrit(count - 1, 1 - level) * earned.std(ddof=1) / np.sqrt(count)}
    pilot = np.arange(count) % _PILOT == _PILOT - 1
    chosen, kept = earned[pilot], earned[~pilot]
    if len(chosen) > 1:
        cuts = np.geomspace(max(chosen.max(), 1e-300) / _CUTS, max(chosen.max(), 1e-300) * _CUTS, _CUTS)
        cut = max(cuts, key=lambda each: _bernstein(chosen, each, len(kept), level))
        found["empirical Bernstein"] = _bernstein(kept, cut, len(kept), level)
    return {name: max(float(least + each), least) for name, each in found.items()}


def _bernstein(earned: Floats, cut: float, count: int, level: float) -> float:
    """The limit that so many episodes would have, if they were like these, whose returns are cut off."""
    below, error = np.minimum(earned, cut), np.log(2 / (1 - level))
    return float(below.mean() - np.sqrt(2 * below.var(ddof=1) * error / count) - 7 * cut * error / (3 * (count - 1)))


def model_values(
    mdp: FiniteMDP, log: EpisodeLog, target: Values, steps: Ints, horizon: int, *, discount: float | None = None
) -> tuple[Floats, Floats]:
    """What the model says of each episode's first state, and how far each logged step is off, [episode, step].

    An episode that is compared over fewer steps than the horizon was cut off after them. After each step follow-up goes
    on with the chance that it has there, in whatever state.
    """
    probs, factor = as_policy(mdp, target), as_discount(mdp, discount)
    chain, gains = policy_matrix(mdp, probs), (probs * mdp.expected_rewards).sum(axis=1)
    lasting = follow_up(np.minimum(log.lengths, horizon), steps < horizon, horizon)[::-1].cumsum()[::-1]
    surprises, later, settled, last = np.zeros(log.actions.shape), np.zeros(mdp.num_states), False, -1.0
    for time in range(horizon - 1, -1, -1):
        share = lasting[time + 2] / lasting[time + 1] if time + 2 <= horizon and lasting[time + 1] > 0 else 1.0
        if not (settled and share == last):  # else nothing changes any more
            after_step, last = later, share
            worth = action_values(mdp, share * later, discount=factor)
            later = gains + share * factor * (chain @ after_step)
            settled = bool((later == after_step).all())
        if time < log.longest:
            at = np.flatnonzero(log.lengths > time)
            state, action, after = log.states[at, time], log.actions[at, time], log.states[at, time + 1]
            going = (steps[at] > time + 1) * after_step[after]
            surprises[at, time] = log.rewards[at, time] + factor * going - worth[state, action]
    return later[log.states[:, 0]], surprises


def _normalised(ratios: Floats, lasting: Bool[np.ndarray, "n t"]) -> Floats:
    """Ratios divided by their mean over the episodes that last; zero where none of them has any weight."""
    kept = ratios * lasting
    most = kept.max(axis=0, initial=0)
    kept = kept / np.where(most > 0, most, 1)
    totals = kept.sum(axis=0)
    return kept * lasting.sum(axis=0) / np.where(totals > 0, totals, 1)


def resamples_of(seed: int, count: int, num_resamples: int) -> Iterator[Ints]:
    """Positions of the episodes of each resample, drawn with replacement."""
    stream = np.asarray(jax.random.bits(jax.random.key(seed), (4,)))
    for resample in range(num_resamples):
        yield np.random.default_rng([*stream, resample]).integers(0, count, count)
