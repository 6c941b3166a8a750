"""Inverse CDF: line the outcomes up in some order and let one uniform number point at them."""

from collections.abc import Sequence
from typing import ClassVar, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, Float, Int, PRNGKeyArray

from countermax import comonotone
from countermax._core.checks import as_floats, as_order, fail_if
from countermax._core.types import Joint, LogProbs, Outcome, Probs, Score
from countermax.couplings._base import AbstractCoupling, AbstractMechanism
from countermax.couplings._fields import as_permutation, check_permutation

UniformNoise = Float[Array, ""]


@final
class InverseCDF(AbstractMechanism[UniformNoise], AbstractCoupling):
    """The comonotone mechanism: outcomes side by side on [0, 1), and one uniform number that all worlds share.

    Ranks are preserved: who does better than others in one world does so in every world. What "better" means is the
    order, so the order is the whole assumption.
    """

    _drawn_from: ClassVar[str] = "uniform"
    order: Int[Array, " k"] | None

    def __init__(self, order: Int[ArrayLike, " k"] | Sequence[int] | None = None):
        """Lines the outcomes up: a permutation, worst first; by default their own order, for any number of them."""
        self.order = None if order is None else as_permutation("order", order)

    def __check_init__(self) -> None:
        if self.order is not None:
            check_permutation("order", self.order)

    @classmethod
    def sorted_by(cls, score: Score) -> "InverseCDF":
        """The mechanism that is optimal for one scalar score.

        With outcomes in the order of their score, both worlds' scores are non-decreasing functions of one uniform
        number. Such a pair has the largest covariance of all couplings (Hoeffding and Frechet; Cambanis et al. 1976),
        so it minimises `E (score(Y) - score(X))^2`, and with it the variance of the effect `score(Y) - score(X)`, for
        every `p` and `q` at once. Nothing is left to learn for one scalar score; learning pays for vector-valued
        scores, for agreement, and for any other loss that no single order serves. Ties keep the outcomes' own order and
        cost nothing.
        """
        array = as_floats("score", score, 1)
        return cls(as_order(fail_if(array, lambda each: (each != each).any(), "`score` must not contain NaN")))

    @property
    def num_outcomes(self) -> int | None:
        return None if self.order is None else self.order.size

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> UniformNoise:
        """One uniform number, however many outcomes there are."""
        del num_outcomes
        return jax.random.uniform(key, (), dtype)

    def _respond(self, noise: UniformNoise, log_p: LogProbs) -> Outcome:
        upper, _ = self._edges(log_p)
        position = jnp.searchsorted(upper, noise, side="right")
        # `upper` ends at 1 but for rounding; past the end, the last possible outcome is meant.
        last = log_p.size - 1 - jnp.argmax(self._arrange(log_p)[::-1] > -jnp.inf)
        place = jnp.minimum(position, last)
        return place if self.order is None else self.order[place]

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> UniformNoise:
        upper, lower = self._edges(log_p)
        position = self._position_of(x)
        low, high = lower[position], upper[position]
        inside = low + (high - low) * jax.random.uniform(key, (), log_p.dtype)
        return jnp.clip(inside, low, jnp.maximum(low, jnp.nextafter(high, low)))

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        law = comonotone.joint(self._arrange(log_p), self._arrange(log_q))
        return law if self.order is None else jnp.zeros_like(law).at[self.order[:, None], self.order[None, :]].set(law)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        probs = comonotone.row(self._arrange(log_p), self._arrange(log_q), self._position_of(x))
        return probs if self.order is None else jnp.zeros_like(probs).at[self.order].set(probs)

    def _edges(self, log_p: LogProbs) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Where each interval ends and begins, in the order of the line."""
        probs = self._arrange(jnp.exp(log_p))
        upper = comonotone._flat_where_empty(jnp.cumsum(probs), probs > 0)
        upper = upper / upper[-1]
        return upper, jnp.concatenate([jnp.zeros(1, upper.dtype), upper[:-1]])

    def _arrange(self, values: Float[Array, " k"]) -> Float[Array, " k"]:
        return values if self.order is None else values[self.order]

    def _position_of(self, x: Outcome) -> Outcome:
        return x if self.order is None else jnp.argmax(self.order == x)
