"""Maximal: the outcome stays as often as any coupling lets it."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings._base import AbstractMatrixCoupling


@final
class Maximal(AbstractMatrixCoupling):
    """Keeps the outcome as often as any coupling can: `P(X=Y=i) = min(p_i, q_i)`.

    What cannot be kept is drawn independently of what was seen: off the diagonal stands the product of the two
    residuals `(p - q)+` and `(q - p)+`. With three outcomes or more, no mechanism has this law for all pairs at once
    (Proposition 2 of Lorberbom et al. 2021).
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
    """Where the outcomes go that cannot be kept, by what each gains.

    Gains are as large in sum as losses. Where rounding hides some of the gains, those of likely outcomes among rare
    changes, what is missing goes by q itself.
    """
    gains, losses = _excess(log_q, log_p), _excess(log_p, log_q)
    scale = jax.lax.stop_gradient(jnp.maximum(gains.max(), losses.max()))
    differ = scale > -jnp.inf

    def amounts(logs: LogProbs) -> Probs:
        return jnp.where(logs > -jnp.inf, jnp.exp(jnp.where(logs > -jnp.inf, logs - jnp.where(differ, scale, 0), 0)), 0)

    gained, lost = amounts(gains), amounts(losses).sum()
    total = gained.sum()
    hidden = jnp.where(lost > total * (1 + 64 * np.finfo(log_q.dtype).eps), lost - total, 0)
    parts = (gained + hidden * jnp.exp(log_q)) / jnp.where(differ, total + hidden, 1)
    return jnp.where(differ, parts, jnp.exp(log_q))


def _excess(log: LogProbs, other: LogProbs) -> LogProbs:
    """The logarithm of `max(0, exp(log) - exp(other))`; no product of small numbers, so that it never vanishes."""
    larger = log > other
    shrinks = jnp.where(larger & (other > -jnp.inf), other, -jnp.inf) - jnp.where(larger, log, 0)
    share = -jnp.expm1(shrinks)
    return jnp.where(larger, jnp.where(larger, log, 0) + jnp.log(jnp.where(larger, share, 1)), -jnp.inf)
