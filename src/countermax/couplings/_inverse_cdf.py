"""Inverse CDF: line the outcomes up in some order and let one uniform number point at them."""

from collections.abc import Sequence
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, DTypeLike, Float, Int, PRNGKeyArray

from countermax._checks import as_floats, fail_if
from countermax._errors import InputError
from countermax._types import Joint, LogProbs, Outcome, Probs, Score

from countermax.couplings._base import AbstractCoupling, AbstractMechanism

UniformNoise = Float[Array, ""]


@final
class InverseCDF(AbstractMechanism[UniformNoise], AbstractCoupling):
    """The comonotone mechanism: outcomes side by side on [0, 1), and one uniform number that all worlds share.

    Ranks are preserved: who does better than others in one world does so in every world. What "better" means is the
    order, so the order is the whole assumption.
    """

    order: Int[Array, " k"] | None

    def __init__(self, order: Int[ArrayLike, " k"] | Sequence[int] | None = None):
        """Lines the outcomes up.

        Args:
            order: A permutation of the outcomes, worst first; by default their own order, for any number of them.
        """
        if order is None:
            self.order = None
            return
        permutation = np.asarray(order)
        if permutation.ndim != 1 or sorted(permutation.tolist()) != list(range(permutation.size)):
            raise InputError(f"`order` must name each of the outcomes 0..k-1 once, got {permutation.tolist()}")
        self.order = jnp.asarray(permutation, int)

    @classmethod
    def sorted_by(cls, score: Score) -> "InverseCDF":
        """The mechanism that is optimal for one scalar score.

        With outcomes in the order of their score, both worlds' scores are non-decreasing functions of one uniform
        number. Such a pair has the largest covariance of all couplings (Hoeffding and Frechet; Cambanis et al. 1976),
        so it minimises `E (score(X) - score(Y))^2`, and with it the variance of the effect `score(X) - score(Y)`, for
        every `p` and `q` at once. Nothing is left to learn for one scalar score; learning pays for vector-valued
        scores, for agreement, and for any other loss that no single order serves.

        Args:
            score: One number for each outcome. Ties keep the outcomes' own order and cost nothing.
        """
        array = as_floats("score", score, 1)
        array = fail_if(array, jnp.isnan(array).any(), "`score` must not contain NaN")
        return cls(np.argsort(np.asarray(array), stable=True))

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> UniformNoise:
        """One uniform number, however many outcomes there are."""
        del num_outcomes
        return jax.random.uniform(key, (), dtype)

    def swap(self, noise: UniformNoise) -> UniformNoise:
        """Both worlds see the same noise."""
        return noise

    def _respond(self, noise: UniformNoise, log_p: LogProbs) -> Outcome:
        upper, _ = self._edges(log_p)
        position = jnp.searchsorted(upper, noise, side="right")
        # `upper` ends at 1 but for rounding; past the end, the last possible outcome is meant.
        last = log_p.size - 1 - jnp.argmax(self._arrange(log_p)[::-1] > -jnp.inf)
        return self._outcome_at(jnp.minimum(position, last))

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> UniformNoise:
        upper, lower = self._edges(log_p)
        position = self._position_of(x)
        low, high = lower[position], upper[position]
        inside = low + (high - low) * jax.random.uniform(key, (), log_p.dtype)
        return jnp.clip(inside, low, jnp.maximum(low, jnp.nextafter(high, low)))

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        rows = jax.vmap(self._counterfactual_probs, (None, None, 0))(log_p, log_q, jnp.arange(log_p.size))
        return jnp.exp(log_p)[:, None] * rows

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        """Which part of x's interval each of the other world's intervals covers.

        Distances along [0, 1) are measured from the nearer end, where sums have lost no digits, so that rare outcomes
        at either end meet their right partners. The last possible outcome takes what is left: whatever rounding did,
        the parts add up to one.
        """
        probs_p, probs_q = self._arrange(jnp.exp(log_p)), self._arrange(jnp.exp(log_q))
        position = self._position_of(x)
        below = jnp.where(jnp.arange(log_p.size) < position, probs_p, 0).sum()
        above = jnp.where(jnp.arange(log_p.size) > position, probs_p, 0).sum()
        from_left = jnp.cumsum(probs_q)
        from_right = jnp.concatenate([jax.lax.cumsum(probs_q, reverse=True)[1:], jnp.zeros(1, probs_q.dtype)])
        width = probs_p[position]
        distance = jnp.where(from_left < 0.5, from_left - below, above + width - from_right)
        inside = (distance > 0) & (distance < width)
        log_fraction = jnp.log(jnp.where(inside, distance, 1)) - jnp.where(inside, log_p[x], 0)
        fraction = jnp.where(inside, jnp.exp(log_fraction), jnp.where(distance > 0, 1, 0))
        fraction = jnp.where(from_right <= 0, 1, fraction)
        parts = jnp.diff(_flat_where_empty(fraction, probs_q), prepend=jnp.zeros(1, fraction.dtype))
        return parts if self.order is None else jnp.zeros_like(parts).at[self.order].set(parts)

    def _edges(self, log_p: LogProbs) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Where each interval ends and begins, in the order of the line."""
        probs = self._arrange(jnp.exp(log_p))
        upper = _flat_where_empty(jnp.cumsum(probs), probs)
        upper = upper / upper[-1]
        return upper, jnp.concatenate([jnp.zeros(1, upper.dtype), upper[:-1]])

    def _arrange(self, values: Float[Array, " k"]) -> Float[Array, " k"]:
        if self.order is None:
            return values
        if self.order.size != values.size:
            raise InputError(f"this order has {self.order.size} outcomes, but `p` and `q` have {values.size}")
        return values[self.order]

    def _position_of(self, x: Outcome) -> Outcome:
        return x if self.order is None else jnp.argmax(self.order == x)

    def _outcome_at(self, position: Outcome) -> Outcome:
        return position if self.order is None else self.order[position]


def _flat_where_empty(cumulative: Float[Array, " k"], probs: Probs) -> Float[Array, " k"]:
    """A cumulative sum that never falls, and does not move at all over impossible outcomes.

    Sums in parallel do neither to the last digit, and the last digit would let an impossible outcome appear.
    """
    return jax.lax.cummax(jnp.where(probs > 0, cumulative, 0))
