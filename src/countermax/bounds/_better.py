"""How many would have been better off, over all couplings: closed forms over the thresholds of a score.

Whoever is below a threshold here and reaches it there is better off. So `P(better)` is at least the rise in the share
of those who reach it, for every threshold; and those who do not exceed it there, less those who are below it here, are
not better off. The largest of these are attained (Lu, Ding and Dasgupta 2018, for ordinal outcomes).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from countermax._core.checks import as_log_prob_pair, as_score_pair
from countermax._core.types import Logits, LogProbs, Score
from countermax.bounds._value import Bounds


def better_bounds(p: Logits, q: Logits, score: Score, counterfactual_score: Score | None = None) -> Bounds:
    """The bounds of P(counterfactual_score(Y) > score(X)) over everybody: who would have been better off.

    For who would have been worse off, change the signs of the scores.

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        score: One number for each outcome; more is better.
        counterfactual_score: The score in the other world, if it is another one.
    """
    log_p, log_q = as_log_prob_pair(p, q)
    return unchecked_better_bounds(log_p, log_q, *as_score_pair(score, counterfactual_score, log_p.size))


def unchecked_better_bounds(
    log_p: LogProbs, log_q: LogProbs, score: Float[Array, " k"], counterfactual_score: Float[Array, " k"]
) -> Bounds:
    """`better_bounds` of normalised log-probabilities and scores that have been checked."""
    probs_p, probs_q = jnp.exp(log_p), jnp.exp(log_q)
    thresholds = jnp.concatenate([score, counterfactual_score])[:, None]
    here, there = score[None, :], counterfactual_score[None, :]
    reach = (there >= thresholds) @ probs_q - (here >= thresholds) @ probs_p
    stay = (there <= thresholds) @ probs_q - (here < thresholds) @ probs_p
    lower = jnp.clip(reach.max(), 0, 1)
    return Bounds(lower, jnp.clip(1 - stay.max(), lower, 1))
