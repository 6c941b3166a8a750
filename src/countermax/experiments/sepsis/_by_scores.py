"""The inverse CDF by score where each world has a score of its own."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings import AbstractMatrixCoupling, comonotone


@final
class InverseCDFByScores(AbstractMatrixCoupling):
    """Pairs quantiles of one world's score with quantiles of the other's: the least variance over everybody.

    With one score for both worlds it is `InverseCDF.sorted_by`. With two it is no single line of outcomes any more, and
    so a coupling but no mechanism.
    """

    order: Int[Array, " k"]
    other_order: Int[Array, " k"]

    def __init__(self, score: Float[Array, " k"], other_score: Float[Array, " k"]):
        """Lines the outcomes of each world up by its own score."""
        self.order, self.other_order = jnp.argsort(score), jnp.argsort(other_score)

    @property
    def num_outcomes(self) -> int | None:
        """As many as have a score."""
        return self.order.size

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        law = comonotone.joint(log_p[self.order], log_q[self.other_order])
        return jnp.zeros_like(law).at[self.order[:, None], self.other_order[None, :]].set(law)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        parts = comonotone.row(log_p[self.order], log_q[self.other_order], jnp.argmax(self.order == x))
        return jnp.zeros_like(parts).at[self.other_order].set(parts)
