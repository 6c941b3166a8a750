"""Treatment effects: the other world's score minus the factual one's, what the change would have added.

Data fix their mean; the coupling decides their variance. Everywhere `p` and `q` are logits of the factual and of the
other world, a score is one number for each outcome, and that of the other world is by default the same.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from countermax._core import checks
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax._core.types import Logits, OutcomeLike, Scalar, Score
from countermax.couplings import AbstractCoupling, AbstractSampler

_SUM_TOLERANCE = 1e-3  # finds counts and forgotten factors; a large law in single precision may be off by 1e-4


class Effect(NamedTuple):
    """The exact mean and variance of an effect."""

    mean: Scalar
    variance: Scalar

    @property
    def standard_deviation(self) -> Scalar:
        """Of the effect itself, not of an estimate."""
        return jnp.sqrt(self.variance)


class SampledEffect(NamedTuple):
    """An effect's mean and variance as estimated from draws, each with its standard error."""

    mean: Scalar
    mean_error: Scalar
    variance: Scalar
    variance_error: Scalar
    num_samples: int


def effect_from_joint(
    joint: Float[ArrayLike, "k k"], score: Score, counterfactual_score: Score | None = None
) -> Effect:
    """The exact effect under a joint law P(X=i, Y=j), which must sum to one."""
    matrix = checks.as_floats("joint", joint, 2)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"`joint` must be square, got shape {matrix.shape}")
    matrix = checks.fail_if(matrix, checks.not_finite, "`joint` must be finite")
    matrix = checks.fail_if(matrix, lambda each: (each < -1e-6).any(), "`joint` must not be negative")
    matrix = checks.fail_if(
        matrix,
        lambda each: abs(each.sum() - 1) > _SUM_TOLERANCE,
        "`joint` must sum to one; divide counts by their sum",
    )
    return checks.as_answer(
        "the effect", _unchecked_effect(matrix, *checks.as_score_pair(score, counterfactual_score, matrix.shape[0]))
    )


def _unchecked_effect(
    joint: Float[Array, "k k"], score: Float[Array, " k"], counterfactual_score: Float[Array, " k"]
) -> Effect:
    """`effect_from_joint` of a law and scores that have been checked."""
    difference = counterfactual_score[None, :] - score[:, None]
    mean = (joint * difference).sum()
    return Effect(mean, (joint * (difference - mean) ** 2).sum())


def treatment_effect(
    coupling: AbstractCoupling, p: Logits, q: Logits, score: Score, counterfactual_score: Score | None = None
) -> Effect:
    """The exact effect over everybody: counterfactual_score(Y) - score(X) for (X, Y) from the coupling."""
    return effect_from_joint(coupling.joint(p, q), score, counterfactual_score)


def individual_effect(
    coupling: AbstractCoupling,
    p: Logits,
    q: Logits,
    x: OutcomeLike,
    score: Score,
    counterfactual_score: Score | None = None,
) -> Effect:
    """The exact effect for somebody whose factual outcome is known: counterfactual_score(Y) - score(x) given X = x."""
    log_p, _ = checks.as_log_prob_pair(p, q)
    score_p, score_q = checks.as_score_pair(score, counterfactual_score, log_p.size)
    probs = coupling.counterfactual_probs(p, q, x)
    expected = probs @ score_q
    effect = Effect(expected - score_p[checks.as_outcome(log_p, x)], probs @ (score_q - expected) ** 2)
    return checks.as_answer("the individual effect", effect)


def sampled_effect(
    coupling: AbstractSampler,
    p: Logits,
    q: Logits,
    score: Score,
    counterfactual_score: Score | None = None,
    *,
    num_samples: int,
    key: PRNGKeyArray,
) -> SampledEffect:
    """The effect over everybody as `num_samples` independent draws show it, for couplings without an exact law.

    At least two draws are needed; the key is consumed once.
    """
    num_samples = as_count("`num_samples`", num_samples, least=2)
    log_p, log_q = checks.as_log_prob_pair(p, q)
    coupling.check_size(log_p.size)
    check_memory(
        f"{num_samples} draws of {log_p.size} outcomes",
        3.0 * num_samples * log_p.size * log_p.dtype.itemsize,
        "lower `num_samples`",
    )
    score_p, score_q = checks.as_score_pair(score, counterfactual_score, log_p.size)
    x, y = jax.vmap(lambda each: coupling._pair(log_p, log_q, key=each))(
        jax.random.split(checks.as_key(key), num_samples)
    )
    effects = score_q[y] - score_p[x]
    mean = effects.mean()
    deviations = effects - mean
    variance = (deviations**2).sum() / (num_samples - 1)
    spread_of_squares = jnp.maximum((deviations**4).mean() - variance**2, 0)
    errors = jnp.sqrt(variance / num_samples), jnp.sqrt(spread_of_squares / num_samples)
    return checks.as_answer("the sampled effect", SampledEffect(mean, errors[0], variance, errors[1], num_samples))
