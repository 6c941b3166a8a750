"""Inverse CDF: line the outcomes up in some order and let one uniform number point at them."""

from collections.abc import Sequence
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, DTypeLike, Float, Int, PRNGKeyArray

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
        permutation = jnp.asarray(order)
        if permutation.ndim != 1 or permutation.size == 0 or not jnp.issubdtype(permutation.dtype, jnp.integer):
            kind = f"shape {permutation.shape} and dtype {permutation.dtype}"
            raise InputError(
                f"`order` must be a list of integers that names each of the outcomes 0..k-1 once, got {kind}"
            )
        found = "" if isinstance(permutation, jax.core.Tracer) else f", got {permutation.tolist()}"
        self.order = fail_if(
            permutation,
            (jnp.sort(permutation) != jnp.arange(permutation.size)).any(),
            f"`order` must name each of the outcomes 0..k-1 once{found}",
        )

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
        return cls(jnp.argsort(array, stable=True))

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

        That takes the distance from where x's interval begins to where each of the others ends. The last possible
        outcome takes what is left: whatever rounding did, the parts add up to one.
        """
        log_p, log_q, position = self._arrange(log_p), self._arrange(log_q), self._position_of(x)
        places = jnp.arange(log_p.size)
        distance = _distances(log_p, log_q, position)
        width = jnp.exp(log_p[position])
        inside = (distance > 0) & (distance < width)
        log_fraction = jnp.log(jnp.where(inside, distance, 1)) - jnp.where(inside, log_p[position], 0)
        # Where the width underflows, so may the distance; it is then as far as x itself reaches, or not even there.
        beyond = (distance > 0) | ((distance >= width) & (places >= position))
        fraction = jnp.where(inside, jnp.exp(log_fraction), jnp.where(beyond, 1, 0))
        possible = log_q > -jnp.inf
        fraction = jnp.where(places >= jnp.where(possible, places, 0).max(), 1, fraction)
        parts = jnp.diff(_flat_where_empty(fraction, possible), prepend=jnp.zeros(1, fraction.dtype))
        return parts if self.order is None else jnp.zeros_like(parts).at[self.order].set(parts)

    def _edges(self, log_p: LogProbs) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Where each interval ends and begins, in the order of the line."""
        probs = self._arrange(jnp.exp(log_p))
        upper = _flat_where_empty(jnp.cumsum(probs), probs > 0)
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


def _distances(log_p: LogProbs, log_q: LogProbs, position: Outcome) -> Float[Array, " k"]:
    """From the beginning of p's interval at `position` to the end of each of q's, as exactly as the logs allow.

    Such a distance is how far the two worlds have drifted apart somewhere on the line, plus the intervals from there on
    that lie between. The drift is a sum of differences `q_k - p_k`: equal outcomes leave nothing behind, not even
    rounding, so that rare outcomes between them meet their right partners. It can be summed from either end and looked
    at in either of two places; the way that passes the least mass has lost the fewest digits.
    """
    probs_p, probs_q = jnp.exp(log_p), jnp.exp(log_q)
    both = (log_p > -jnp.inf) & (log_q > -jnp.inf)
    log_ratio = jnp.where(both, log_q, 0) - jnp.where(both, log_p, 0)
    falls = log_ratio <= 0
    less, more = (
        probs_p * jnp.expm1(jnp.where(falls, log_ratio, 0)),
        probs_q * jnp.expm1(-jnp.where(falls, 0, log_ratio)),
    )
    change = jnp.where(both, jnp.where(falls, less, -more), probs_q - probs_p)
    # Outcomes whose logs are equal may still differ by what the logs cannot show, so they count, but for less.
    mass = jax.lax.stop_gradient(jnp.where(log_p == log_q, 0.125, 1) * (probs_p + probs_q))

    def drift(last: Int[Array, " n"] | Int[Array, ""]) -> tuple[Array, Array]:
        """How much more q than p there is up to and including `last`, and the mass that was passed to find out."""
        zero = jnp.zeros(1, change.dtype)
        (left, passed), (right, passed_right) = (
            (jnp.concatenate([zero, jnp.cumsum(each)])[last + 1] for each in (change, mass)),
            (jnp.concatenate([jax.lax.cumsum(each, reverse=True), zero])[last + 1] for each in (change, mass)),
        )
        return jnp.where(passed <= passed_right, left, -right), jnp.minimum(passed, passed_right)

    places = jnp.arange(log_p.size)

    def walk(probs: Probs) -> Float[Array, " k"]:
        """From the beginning of the interval at `position` to the end of each other one, in one world."""
        onwards = jnp.cumsum(jnp.where(places >= position, probs, 0))
        back = jax.lax.cumsum(jnp.where(places < position, probs, 0), reverse=True)
        return onwards - jnp.concatenate([back[1:], jnp.zeros(1, back.dtype)])

    walk_p, walk_q = walk(probs_p), walk(probs_q)
    drift_here, passed_here = drift(position - 1)
    drift_there, passed_there = drift(places)
    from_here = passed_here + jnp.abs(walk_q) <= passed_there + jnp.abs(walk_p)
    return jnp.where(from_here, drift_here + walk_q, drift_there + walk_p)


def _flat_where_empty(cumulative: Float[Array, " k"], possible: Bool[Array, " k"]) -> Float[Array, " k"]:
    """A cumulative sum that never falls, and does not move at all over impossible outcomes.

    Sums in parallel do neither to the last digit, and the last digit would let an impossible outcome appear.
    """
    return jax.lax.cummax(jnp.where(possible, cumulative, 0))
