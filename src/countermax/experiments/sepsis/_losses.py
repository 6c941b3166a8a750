"""What gadgets are trained for in the sepsis experiment, besides the expected squared difference."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from countermax._core.types import LogProbs, Scalar
from countermax.couplings import AbstractCoupling, AbstractSampler
from countermax.learning import AbstractLoss, AbstractObjective, SquaredDifference


@final
class AfterOneOutcome(AbstractLoss):
    """As published: the squared difference for those who were seen in one particular outcome.

    It is a second moment: the mean of score(Y) given X, which the marginals do not fix, is pulled towards score(x).
    """

    squares: SquaredDifference
    outcome: Int[Array, ""]
    """An array, so that gadgets for different outcomes are trained at once."""

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
        """The matrix for one pair: everything in the row of the outcome, divided by its probability."""
        here = jnp.arange(log_p.size) == self.outcome
        return jnp.where(here, jnp.exp(-jnp.where(here, log_p, 0)), 0)[:, None] * self.squares(log_p, log_q)


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
