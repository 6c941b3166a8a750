"""Independent: what was seen says nothing about the other world."""

from typing import final

import jax.numpy as jnp

from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings._base import AbstractMatrixCoupling


@final
class Independent(AbstractMatrixCoupling):
    """What was seen tells nothing: the other world is drawn independently of it."""

    @property
    def num_outcomes(self) -> int | None:
        """Any number."""
        return None

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return jnp.exp(log_p[:, None] + log_q[None, :])

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return jnp.exp(log_q)
