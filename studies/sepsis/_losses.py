"""What gadgets are trained for in the sepsis experiment, besides the expected squared difference."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from countermax._core.types import LogProbs, Scalar
from countermax.couplings import AbstractCoupling, AbstractSampler
from countermax.learning import AbstractLoss, AbstractObjective


@final
class ScoreProducts(AbstractLoss):
    """Inner products of the other world's centred scores: what `VarianceGivenSeen` computes with. No cost in itself."""

    other_score: Float[Array, "k d"]

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
        """The matrix for one pair."""
        centred = self.other_score - (jnp.exp(log_q) @ self.other_score)[None, :]
        return centred @ centred.T


@final
class VarianceGivenSeen(AbstractObjective):
    """The variance of score(Y) given X, averaged over X ~ p; the matrix holds the scores' products.

    It is not linear in the joint law, since the mean that the variance is taken around is the coupling's own, so it
    is an objective and not a loss.
    """

    def __call__(
        self,
        coupling: AbstractSampler,
        log_p: LogProbs,
        log_q: LogProbs,
        loss: Float[Array, "k k"],
        *,
        key: PRNGKeyArray,
    ) -> Scalar:
        """The exact value for one pair."""
        assert isinstance(coupling, AbstractCoupling)
        joint = coupling._joint(log_p, log_q)
        possible = log_p > -jnp.inf
        explained = ((joint @ loss) * joint).sum(axis=1) * jnp.exp(-jnp.where(possible, log_p, 0))
        return joint.sum(axis=0) @ jnp.diag(loss) - jnp.where(possible, explained, 0).sum()
