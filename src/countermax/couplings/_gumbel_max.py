"""Gumbel-max: the outcome with the largest logit plus Gumbel noise, which all worlds share, or two share in part."""

from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, DTypeLike, Float, PRNGKeyArray
from numpy.typing import NDArray

from countermax import race
from countermax._core.checks import as_answer, as_array, as_floats, as_log_prob_pair, as_score_pair, fail_if, is_traced
from countermax._core.types import Joint, Logits, LogProbs, Outcome, Probs, Scalar, Score
from countermax.couplings._base import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism
from countermax.couplings._fields import check_floats

_SLOWEST = 100.0  # minus the log of the rate of a clock that still rings first now and then

GumbelNoise: TypeAlias = Float[Array, " k"]


@final
class GumbelMax(AbstractArgmaxSampler[GumbelNoise], AbstractMechanism[GumbelNoise], AbstractCoupling):
    """The Gumbel-max mechanism of Oberst and Sontag (2019), with its exact law.

    It is counterfactually stable: an outcome changes only to one that the change of worlds favours more,
    `q_j / p_j > q_i / p_i`. It is the only mechanism that is stable for all worlds, although two given worlds have
    other stable couplings. It keeps the outcome at least half as often as any coupling can, but not always as often
    (`countermax.maximality_gap`), and it knows nothing of scores.
    """

    num_outcomes = None  # any number

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> GumbelNoise:
        """One standard Gumbel for each outcome."""
        return jax.random.gumbel(key, (num_outcomes,), dtype)

    def expected_squared_difference(
        self, p: Logits, q: Logits, score: Score, counterfactual_score: Score | None = None
    ) -> Scalar:
        """E[(score(X) - score(Y))^2] in O(K log K) time and O(K) memory, for outcomes too many for `joint`."""
        return _expected_squared_difference(p, q, score, counterfactual_score, None)

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return race.joint(log_p, log_q)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return race.row(log_p, log_q, x)

    def _scores(self, noise: GumbelNoise, log_p: LogProbs) -> LogProbs:
        return log_p + noise

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> GumbelNoise:
        return top_down(log_p, x, key=key)


class ClockNoise(eqx.Module):
    """Gumbels of the clocks that two worlds share, and of those that each has for itself."""

    shared: Float[Array, " k"]
    own: Float[Array, " k"]
    """Of the world that looks at them."""
    other: Float[Array, " k"]
    """Of the other one."""


@final
class SharedGumbelMax(AbstractArgmaxSampler[ClockNoise], AbstractCoupling):
    """A dial from independence (0) to Gumbel-max (1): two worlds share part of their noise.

    Gumbel-max is a race of exponential clocks, one for each outcome. Here each outcome has a clock of rate `shared`
    that both worlds hear, and in each world one of rate `1 - shared` of its own; the first to ring counts. Below 1 it
    couples two worlds and is no mechanism: outcomes may change where nothing is done, and it is not stable.
    """

    shared: Float[Array, ""]

    def __init__(self, shared: Float[ArrayLike, ""] | int):
        """Sets the rate of the shared clocks, from 0 to 1: not a correlation, which is `noise_correlation`."""
        rate = as_array("shared", shared, 0)
        found = "" if is_traced(rate) else f", got {rate}"
        self.shared = as_floats("shared", fail_if(rate, _not_a_rate, f"`shared` must lie between 0 and 1{found}"), 0)

    def __check_init__(self) -> None:
        check_floats("shared", self.shared, 0)
        fail_if(self.shared, _not_a_rate, "`shared` must lie between 0 and 1")

    num_outcomes = None  # any number

    @property
    def noise_correlation(self) -> float:
        """Pearson's correlation of the Gumbels that the two worlds add to the logit of an outcome."""
        return float(noise_correlation(np.asarray(self.shared)))

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> ClockNoise:
        """One standard Gumbel for each clock."""
        return ClockNoise(*jax.random.gumbel(key, (3, num_outcomes), dtype))

    def swap(self, noise: ClockNoise) -> ClockNoise:
        """The other world hears its own clocks in place of this one's."""
        return ClockNoise(noise.shared, noise.other, noise.own)

    def expected_squared_difference(
        self, p: Logits, q: Logits, score: Score, counterfactual_score: Score | None = None
    ) -> Scalar:
        """E[(score(X) - score(Y))^2], as `GumbelMax.expected_squared_difference`."""
        return _expected_squared_difference(p, q, score, counterfactual_score, self.shared)

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return race.joint(log_p, log_q, self._rate(log_p))

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return race.row(log_p, log_q, x, self._rate(log_p))

    def _scores(self, noise: ClockNoise, log_p: LogProbs) -> LogProbs:
        log_shared, log_own = self._log_rates(log_p)
        return log_p + jnp.maximum(noise.shared + log_shared, noise.own + log_own)

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> ClockNoise:
        """Top down in two stages: what each outcome adds to its logit, then the clocks behind it.

        Which of two clocks rang first is decided by their rates alone; the other one rang later.
        """
        key_first, key_which, key_later, key_other = jax.random.split(key, 4)
        log_shared, log_own = self._log_rates(log_p)
        slack = jnp.minimum(-log_shared, _SLOWEST) + jnp.minimum(-log_own, _SLOWEST)
        first = top_down(log_p, x, key=key_first, slack=slack)
        is_shared = jax.random.uniform(key_which, log_p.shape, log_p.dtype) < self._rate(log_p)
        later = jax.random.gumbel(key_later, log_p.shape, log_p.dtype)

        def clock(rang: Array, log_rate: Scalar) -> Array:
            slow = log_rate == -jnp.inf  # never rings
            latest = jnp.where(slow, 0, first - jnp.where(slow, 0, log_rate))
            return jnp.where(slow, later, jnp.where(rang, latest, -jnp.logaddexp(-latest, -later)))

        other = jax.random.gumbel(key_other, log_p.shape, log_p.dtype)
        return ClockNoise(clock(is_shared, log_shared), clock(~is_shared, log_own), other)

    def _rate(self, log_p: LogProbs) -> Scalar:
        return self.shared.astype(log_p.dtype)

    def _log_rates(self, log_p: LogProbs) -> tuple[Scalar, Scalar]:
        """Logs of the rates of the shared clocks and of those of one's own; `-inf` has no gradient."""
        rate = self._rate(log_p)

        def log(value: Scalar) -> Scalar:
            return jnp.where(value > 0, jnp.log(jnp.where(value > 0, value, 1)), -jnp.inf)

        return log(rate), log(1 - rate)


def _not_a_rate(value: Any) -> Any:
    return ~((value >= 0) & (value <= 1))


def _expected_squared_difference(p: Logits, q: Logits, score: Score, other: Score | None, shared: Any) -> Scalar:
    log_p, log_q = as_log_prob_pair(p, q)
    score_p, score_q = as_score_pair(score, other, log_p.size)
    rate = None if shared is None else shared.astype(log_p.dtype)
    return as_answer("Gumbel-max", race.expected_squared_difference(log_p, log_q, score_p, score_q, rate))


def noise_correlation(shared: ArrayLike) -> NDArray[np.float64]:
    r"""Pearson's correlation of the Gumbels of two worlds that share clocks of this rate.

    The two Gumbels have the joint distribution function `exp(-(e^-a + e^-b) A(w))`, `w = e^-b / (e^-a + e^-b)`, with
    `A(w) = 1 - s min(w, 1 - w)`, and their covariance is the integral of `-log A(w) / (w (1 - w))` over [0, 1]. The
    dilogarithm `Li2(z)` is `spence(1 - z)`.
    """
    from scipy.special import spence

    rate = np.asarray(shared, np.float64)
    own = 1 - rate
    dilogarithms = spence(1 - rate / 2) + spence(2 * own / (2 - rate)) - spence(own)
    logs = np.log1p(-rate / 2) ** 2 / 2 - np.log1p(own) * np.log(np.where(own > 0, own, 1))
    return np.asarray(np.clip(2 * (dilogarithms + logs) * 6 / np.pi**2, 0, 1))


def top_down(log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray, slack: ArrayLike = 0.0) -> Float[Array, " k"]:
    """Draws Gumbels under which `log_p` yields `x`.

    The winner's score is a standard Gumbel whoever wins; the losers' scores are Gumbels truncated below it.
    """
    key_best, key_rest = jax.random.split(key)
    return below(log_p, x, jax.random.gumbel(key_best, (), log_p.dtype), key=key_rest, slack=slack)


def below(
    log_p: LogProbs, x: Outcome, best: Float[Array, ""], *, key: PRNGKeyArray, slack: ArrayLike = 0.0
) -> Float[Array, " k"]:
    """Draws Gumbels under which `log_p` yields `x` with the score `best`; arguments as above.

    Written for the noise itself instead of the scores, an impossible outcome's Gumbel comes out untouched, not NaN.
    """
    rest = jax.random.gumbel(key, log_p.shape, log_p.dtype)
    winner = best - log_p[x]
    best = winner + log_p[x]  # as it will be seen: the winner's noise has fewer digits than its score, if x is rare
    losers = -jnp.logaddexp(log_p - best, -rest)
    # Rounding can lift a loser to the winner's score; a few units in the last place keep it below.
    possible = jnp.where(log_p == -jnp.inf, 0, log_p)
    margin = 8 * np.finfo(log_p.dtype).eps * (1 + jnp.abs(possible) + jnp.abs(best) + slack)
    losers = jnp.where(log_p == -jnp.inf, losers, jnp.minimum(losers, best - possible - margin))
    return losers.at[x].set(winner)
