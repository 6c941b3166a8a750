"""Maximal: the outcome stays as often as any coupling lets it."""

from typing import final

import jax.numpy as jnp

from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings._base import AbstractMatrixCoupling


@final
class Maximal(AbstractMatrixCoupling):
    """Keeps the outcome as often as any coupling can: `P(X=Y=i) = min(p_i, q_i)`.

    What cannot be kept is drawn independently of what was seen: off the diagonal stands the product of the two
    residuals `(p - q)+` and `(q - p)+`. No mechanism has this law for all pairs at once (Proposition 2 of Lorberbom et
    al. 2021).
    """

    @property
    def num_outcomes(self) -> int | None:
        """Any number."""
        return None

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        probs_p, probs_q = jnp.exp(log_p), jnp.exp(log_q)
        leaving = jnp.maximum(probs_p - probs_q, 0)
        return jnp.diag(jnp.minimum(probs_p, probs_q)) + leaving[:, None] * _arrivals(log_p, log_q)[None, :]

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        log_ratio = jnp.minimum(log_q[x] - log_p[x], 0)
        leaving = 0 - jnp.expm1(log_ratio)  # a plain minus would make it -0.0 where nothing leaves
        return (leaving * _arrivals(log_p, log_q)).at[x].add(jnp.exp(log_ratio))


def _arrivals(log_p: LogProbs, log_q: LogProbs) -> Probs:
    """Where the outcomes go that cannot be kept; by q itself where rounding leaves no difference between the worlds."""
    gain = jnp.maximum(jnp.exp(log_q) - jnp.exp(log_p), 0)
    total = gain.sum()
    return jnp.where(total > 0, gain / jnp.where(total > 0, total, 1), jnp.exp(log_q))
