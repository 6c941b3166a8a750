"""Gumbel-max: the outcome with the largest logit plus Gumbel noise."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from countermax import race
from countermax._core.checks import as_answer, as_log_prob_pair, as_score_pair
from countermax._core.types import Joint, Logits, LogProbs, Outcome, Probs, Scalar, Score
from countermax.couplings._base import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism

GumbelNoise = Float[Array, " k"]


@final
class GumbelMax(AbstractArgmaxSampler[GumbelNoise], AbstractMechanism[GumbelNoise], AbstractCoupling):
    """The Gumbel-max mechanism of Oberst and Sontag (2019), with its exact law.

    It is counterfactually stable: an outcome changes only to one that the change of worlds favours more,
    `q_j / p_j > q_i / p_i`. It keeps the outcome at least half as often as any coupling can, but not always as often
    (`countermax.maximality_gap`), and it knows nothing of scores.
    """

    @property
    def num_outcomes(self) -> int | None:
        """Any number."""
        return None

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> GumbelNoise:
        """One standard Gumbel for each outcome."""
        return jax.random.gumbel(key, (num_outcomes,), dtype)

    def expected_squared_difference(
        self, p: Logits, q: Logits, score: Score, counterfactual_score: Score | None = None
    ) -> Scalar:
        """E[(score(X) - score(Y))^2] in O(K log K) time and O(K) memory, for outcomes too many for `joint`.

        Args:
            p: Logits of the factual world.
            q: Logits of the other world.
            score: One number for each outcome.
            counterfactual_score: The score in the other world, if it is another one.
        """
        log_p, log_q = as_log_prob_pair(p, q)
        score_p, score_q = as_score_pair(score, counterfactual_score, log_p.size)
        return as_answer("Gumbel-max", race.expected_squared_difference(log_p, log_q, score_p, score_q))

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return race.joint(log_p, log_q)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return race.row(log_p, log_q, x)

    def _scores(self, noise: GumbelNoise, log_p: LogProbs) -> LogProbs:
        return log_p + noise

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> GumbelNoise:
        return top_down(log_p, x, key=key)


def top_down(log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> GumbelNoise:
    """Draws Gumbels under which `log_p` yields `x`.

    The winner's score is a standard Gumbel whoever wins; the losers' scores are Gumbels truncated below it.
    """
    key_best, key_rest = jax.random.split(key)
    return below(log_p, x, jax.random.gumbel(key_best, (), log_p.dtype), key=key_rest)


def below(log_p: LogProbs, x: Outcome, best: Float[Array, ""], *, key: PRNGKeyArray) -> GumbelNoise:
    """Draws Gumbels under which `log_p` yields `x` with the score `best`.

    Written for the noise itself instead of the scores, an impossible outcome's Gumbel comes out untouched, not NaN.
    """
    rest = jax.random.gumbel(key, log_p.shape, log_p.dtype)
    winner = best - log_p[x]
    best = winner + log_p[x]  # as it will be seen: the winner's noise has fewer digits than its score, if x is rare
    losers = -jnp.logaddexp(log_p - best, -rest)
    # Rounding can lift a loser to the winner's score; a few units in the last place keep it below.
    possible = jnp.where(log_p == -jnp.inf, 0, log_p)
    margin = 8 * np.finfo(log_p.dtype).eps * (1 + jnp.abs(possible) + jnp.abs(best))
    losers = jnp.where(log_p == -jnp.inf, losers, jnp.minimum(losers, best - possible - margin))
    return losers.at[x].set(winner)
