"""What data alone can say about one counterfactual question, whatever the mechanism.

Data fix `p` and `q`; every joint law with these marginals explains them equally well. The bounds here are the smallest
and the largest answer over all such laws, or over the counterfactually stable ones (`stable=True`): those in which an
outcome changes only to one that the change of worlds favours more, `q_j / p_j > q_i / p_i`. All of them are sharp:
some coupling attains each end.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from countermax import _stable_rows
from countermax._checks import as_log_prob_pair, as_outcome, as_score_pair, as_scores
from countermax._types import Logits, LogProbs, Outcome, OutcomeLike, Score


class Bounds(NamedTuple):
    """The ends of an interval, or of one interval for each outcome."""

    lower: Float[Array, "..."]
    upper: Float[Array, "..."]

    @property
    def width(self) -> Float[Array, "..."]:
        """How much is left to the choice of mechanism."""
        return self.upper - self.lower

    def contains(self, value: Float[Array, "..."], tolerance: float = 1e-6) -> Bool[Array, "..."]:
        """Whether an answer is compatible with the data, up to rounding."""
        return (self.lower - tolerance <= value) & (value <= self.upper + tolerance)


def outcome_bounds(p: Logits, q: Logits, x: OutcomeLike, *, stable: bool = False) -> Bounds:
    """The interval for P(Y=j | X=x), for each j.

    Over all couplings it is `[max(0, p_x + q_j - 1), min(p_x, q_j)] / p_x` (Frechet).

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        x: What was seen in the factual world; must have nonzero probability there.
        stable: Whether to allow counterfactually stable couplings only.
    """
    log_p, log_q = as_log_prob_pair(p, q)
    return unchecked_outcome_bounds(log_p, log_q, as_outcome(log_p, x), stable=stable)


def score_bounds(p: Logits, q: Logits, x: OutcomeLike, score: Score, *, stable: bool = False) -> Bounds:
    """The interval for E[score(Y) | X=x].

    Over all couplings P(Y=. | X=x) is any distribution `w` with `w_j <= q_j / p_x`, so the ends are reached greedily:
    fill the best (the worst) outcomes first.

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        x: What was seen in the factual world; must have nonzero probability there.
        score: One number for each outcome.
        stable: Whether to allow counterfactually stable couplings only.
    """
    log_p, log_q = as_log_prob_pair(p, q)
    x = as_outcome(log_p, x)
    return unchecked_score_bounds(log_p, log_q, x, as_scores("score", score, log_p.size), stable=stable)


def effect_bounds(
    p: Logits,
    q: Logits,
    x: OutcomeLike,
    score: Score,
    counterfactual_score: Score | None = None,
    *,
    stable: bool = False,
) -> Bounds:
    """The interval for the individual effect `score(x) - E[score(Y) | X=x]`.

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        x: What was seen in the factual world; must have nonzero probability there.
        score: One number for each outcome.
        counterfactual_score: The score in the other world, if it is another one.
        stable: Whether to allow counterfactually stable couplings only.
    """
    log_p, _ = as_log_prob_pair(p, q)
    score_p, score_q = as_score_pair(score, counterfactual_score, log_p.size)
    other = score_bounds(p, q, x, score_q, stable=stable)
    here = score_p[as_outcome(log_p, x)]
    return Bounds(here - other.upper, here - other.lower)


def unchecked_outcome_bounds(log_p: LogProbs, log_q: LogProbs, x: Outcome, *, stable: bool = False) -> Bounds:
    """`outcome_bounds` of normalised log-probabilities and a possible outcome, for callers that have checked them."""
    if stable:
        return Bounds(*_stable_rows.extremes(log_p, log_q, x))
    # In units of p_x no outcome can take more than 1, so rooms are cut there and nothing overflows. What the others can
    # take is summed on both sides of j: the difference 1 - q_j would have no digits left where q_j is nearly one.
    upper = jnp.exp(jnp.minimum(log_q - log_p[x], 0))
    nothing = jnp.zeros(1, upper.dtype)
    before = jnp.concatenate([nothing, jnp.cumsum(upper)[:-1]])
    after = jnp.concatenate([jax.lax.cumsum(upper, reverse=True)[1:], nothing])
    return Bounds(jnp.clip(1 - (before + after), 0, upper), upper)


def unchecked_score_bounds(
    log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"], *, stable: bool = False
) -> Bounds:
    """`score_bounds` of normalised log-probabilities and a possible outcome, for callers that have checked them."""
    largest = _stable_rows.largest_mean if stable else _largest_mean
    return Bounds(-largest(log_p, log_q, x, -score), largest(log_p, log_q, x, score))


def _largest_mean(log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"]) -> Float[Array, ""]:
    order = jnp.argsort(-score)
    room = jnp.exp(jnp.minimum(log_q - log_p[x], 0))[order]
    taken_before = jnp.concatenate([jnp.zeros(1, room.dtype), jnp.cumsum(room)[:-1]])
    weights = jnp.clip(1 - taken_before, 0, room)
    return (weights / weights.sum()) @ score[order]
