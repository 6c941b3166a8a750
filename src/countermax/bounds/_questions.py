"""What data alone can say about one counterfactual question, whatever the coupling.

Data fix `p` and `q`; every joint law with these marginals explains them equally well. The bounds here are the smallest
and the largest answer over all such laws, or over the counterfactually stable ones (`stable=True`): those in which an
outcome changes only to one that the change of worlds favours more, `q_j / p_j > q_i / p_i`. All of them are sharp:
some coupling attains each limit.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from countermax._core.checks import as_answer, as_log_prob_pair, as_outcome, as_score_pair, as_scores
from countermax._core.types import Logits, LogProbs, Outcome, OutcomeLike, Probs, Scalar, Score
from countermax.bounds._stable import stable_extremes, stable_largest_mean


class Bounds(NamedTuple):
    """The least and the largest answer over couplings, all of which fit the data equally well.

    One number each, or arrays with one for each answer. Sampling is left out: for that there is `Interval`.
    """

    lower: Any
    upper: Any

    @property
    def width(self) -> Any:
        """How much is left to the choice of coupling."""
        return self.upper - self.lower

    def shifted(self, by: Any) -> "Bounds":
        """The same range, moved."""
        return Bounds(self.lower + by, self.upper + by)

    def contains(self, value: Any, tolerance: float = 1e-6) -> Bool[Array, "..."] | Any:
        """Whether an answer is compatible with the data, up to rounding."""
        return (self.lower - tolerance <= value) & (value <= self.upper + tolerance)


def outcome_bounds(p: Logits, q: Logits, x: OutcomeLike, *, stable: bool = False) -> Bounds:
    """The bounds of P(Y=j | X=x), for each j.

    Over all couplings it is `[max(0, p_x + q_j - 1), min(p_x, q_j)] / p_x` (Frechet).

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        x: Outcome that was seen in the factual world; must have nonzero probability there.
        stable: Whether to allow counterfactually stable couplings only.
    """
    log_p, log_q = as_log_prob_pair(p, q)
    return as_answer("the bounds", unchecked_outcome_bounds(log_p, log_q, as_outcome(log_p, x), stable=stable))


def score_bounds(p: Logits, q: Logits, x: OutcomeLike, score: Score, *, stable: bool = False) -> Bounds:
    """The bounds of E[score(Y) | X=x].

    Over all couplings P(Y=. | X=x) is any distribution `w` with `w_j <= q_j / p_x`, so the ends are reached greedily:
    fill the best (the worst) outcomes first.

    The score is one number for each outcome; the other arguments are as of `outcome_bounds`.
    """
    log_p, log_q = as_log_prob_pair(p, q)
    x, scores = as_outcome(log_p, x), as_scores("score", score, log_p.size)
    return as_answer("the bounds", unchecked_score_bounds(log_p, log_q, x, scores, stable=stable))


def effect_bounds(
    p: Logits,
    q: Logits,
    x: OutcomeLike,
    score: Score,
    counterfactual_score: Score | None = None,
    *,
    stable: bool = False,
) -> Bounds:
    """The bounds of the individual effect `E[counterfactual_score(Y) | X=x] - score(x)`: what the change would add.

    Arguments are as of `score_bounds`; by default both worlds have one score.
    """
    log_p, _ = as_log_prob_pair(p, q)
    score_p, score_q = as_score_pair(score, counterfactual_score, log_p.size)
    other = score_bounds(p, q, x, score_q, stable=stable)
    here = score_p[as_outcome(log_p, x)]
    return as_answer("the bounds", other.shifted(-here))


def unchecked_outcome_bounds(log_p: LogProbs, log_q: LogProbs, x: Outcome, *, stable: bool = False) -> Bounds:
    """`outcome_bounds` of normalised log-probabilities and a possible outcome, for callers that have checked them."""
    return Bounds(*(stable_extremes if stable else any_extremes)(log_p, log_q, x))


def unchecked_score_bounds(
    log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"], *, stable: bool = False
) -> Bounds:
    """`score_bounds` of normalised log-probabilities and a possible outcome, for callers that have checked them."""
    largest = stable_largest_mean if stable else any_largest_mean
    return Bounds(-largest(log_p, log_q, x, -score), largest(log_p, log_q, x, score))


# Over all couplings: Frechet's bounds of a probability, and greedy fills for the bounds of a score.


def any_extremes(log_p: LogProbs, log_q: LogProbs, x: Outcome) -> tuple[Probs, Probs]:
    """The least and the largest P(Y=j | X=x) for each j, in O(K)."""
    # In units of p_x no outcome can take more than 1, so rooms are cut there and nothing overflows. What the others can
    # take is summed on both sides of j: the difference 1 - q_j would have no digits left where q_j is nearly one.
    upper = jnp.exp(jnp.minimum(log_q - log_p[x], 0))
    nothing = jnp.zeros(1, upper.dtype)
    before = jnp.concatenate([nothing, jnp.cumsum(upper)[:-1]])
    after = jnp.concatenate([jax.lax.cumsum(upper, reverse=True)[1:], nothing])
    return jnp.clip(1 - (before + after), 0, upper), upper


def any_largest_mean(log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"]) -> Scalar:
    """The largest E[score(Y) | X=x], in O(K log K): P(Y=. | X=x) is any distribution `w` with `w_j <= q_j / p_x`."""
    best_first = jnp.argsort(-score)
    room = jnp.exp(jnp.minimum(log_q - log_p[x], 0))
    return filled_mean(room[best_first], score[best_first])


def filled(room: Any, mass: Any = 1) -> Any:
    """How much each room takes of a mass that fills them one after the other, along the last axis; NumPy's or JAX's."""
    before = room.cumsum(axis=-1) - room
    return (mass - before).clip(0, room)


def filled_mean(room: Any, worth: Any) -> Any:
    """The mean worth of a unit of mass that fills rooms one after the other, along the last axis; NumPy's or JAX's."""
    taken = filled(room)
    return (taken * worth).sum(axis=-1) / taken.sum(axis=-1)


# How many would have been better off, over all couplings: closed forms over the thresholds of a score. Whoever is below
# a threshold here and reaches it there is better off. So `P(better)` is at least the rise in the share of those who
# reach it, for every threshold; and those who do not exceed it there, less those who are below it here, are not better
# off. The largest of these are attained (Lu, Ding and Dasgupta 2018, for ordinal outcomes).


def better_bounds(p: Logits, q: Logits, score: Score, counterfactual_score: Score | None = None) -> Bounds:
    """The bounds of P(counterfactual_score(Y) > score(X)) over everybody: who would have been better off.

    More is better: for who would have been worse off, change the signs of the scores. Arguments are as of
    `effect_bounds`.
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
