"""What data alone can say about one counterfactual question, whatever the coupling.

Data fix `p` and `q`; every joint law with these marginals explains them equally well. The bounds here are the smallest
and the largest answer over all such laws, or over the counterfactually stable ones (`stable=True`): those in which an
outcome changes only to one that the change of worlds favours more, `q_j / p_j > q_i / p_i`. All of them are sharp:
some coupling attains each limit.
"""

from jaxtyping import Array, Float

from countermax._core.checks import as_answer, as_log_prob_pair, as_outcome, as_score_pair, as_scores
from countermax._core.types import Logits, LogProbs, Outcome, OutcomeLike, Score
from countermax.bounds import _any, _stable
from countermax.bounds._value import Bounds


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

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        x: Outcome that was seen in the factual world; must have nonzero probability there.
        score: One number for each outcome.
        stable: Whether to allow counterfactually stable couplings only.
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

    Args:
        p: Logits of the factual world.
        q: Logits of the other world.
        x: Outcome that was seen in the factual world; must have nonzero probability there.
        score: One number for each outcome.
        counterfactual_score: The score in the other world, if it is another one.
        stable: Whether to allow counterfactually stable couplings only.
    """
    log_p, _ = as_log_prob_pair(p, q)
    score_p, score_q = as_score_pair(score, counterfactual_score, log_p.size)
    other = score_bounds(p, q, x, score_q, stable=stable)
    here = score_p[as_outcome(log_p, x)]
    return as_answer("the bounds", other.shifted(-here))


def unchecked_outcome_bounds(log_p: LogProbs, log_q: LogProbs, x: Outcome, *, stable: bool = False) -> Bounds:
    """`outcome_bounds` of normalised log-probabilities and a possible outcome, for callers that have checked them."""
    return Bounds(*(_stable if stable else _any).extremes(log_p, log_q, x))


def unchecked_score_bounds(
    log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"], *, stable: bool = False
) -> Bounds:
    """`score_bounds` of normalised log-probabilities and a possible outcome, for callers that have checked them."""
    largest = (_stable if stable else _any).largest_mean
    return Bounds(-largest(log_p, log_q, x, -score), largest(log_p, log_q, x, score))
