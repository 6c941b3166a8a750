"""Comonotone: quantiles of a score in one world meet the same quantiles of the score in the other."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Int

from countermax import comonotone
from countermax._core.checks import as_floats, as_order, as_score_pair
from countermax._core.errors import InputError
from countermax._core.types import Joint, LogProbs, Outcome, Probs, Score
from countermax.couplings._base import AbstractMatrixCoupling
from countermax.couplings._fields import check_permutation


@final
class Comonotone(AbstractMatrixCoupling):
    """The coupling with the least variance of the effect that any coupling has, for one scalar score in each world.

    Where both worlds sort the outcomes alike it has the law of `InverseCDF.sorted_by(score)`, which is a mechanism.
    Where they do not, no order of the outcomes is optimal and this is a yardstick rather than a mechanism.
    """

    order: Int[Array, " k"]
    other_order: Int[Array, " k"]

    def __init__(self, score: Score, counterfactual_score: Score | None = None):
        """Lines the outcomes of each world up by its score.

        Args:
            score: One number for each outcome.
            counterfactual_score: The score in the other world, if it is another one.
        """
        here, there = as_score_pair(score, counterfactual_score, as_floats("score", score, 1).size)
        self.order, self.other_order = as_order(here), as_order(there)

    def __check_init__(self) -> None:
        check_permutation("order", self.order)
        check_permutation("other_order", self.other_order)
        if self.order.size != self.other_order.size:
            raise InputError(
                f"both worlds must have the same outcomes, got {self.order.size} and {self.other_order.size}"
            )

    @property
    def num_outcomes(self) -> int:
        """As many as the scores have."""
        return self.order.size

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        law = comonotone.joint(log_p[self.order], log_q[self.other_order])
        return jnp.zeros_like(law).at[self.order[:, None], self.other_order[None, :]].set(law)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        parts = comonotone.row(log_p[self.order], log_q[self.other_order], jnp.argmax(self.order == x))
        return jnp.zeros_like(parts).at[self.other_order].set(parts)
