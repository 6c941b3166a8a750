"""Couplings known by their joint law alone: independent, maximal, comonotone and optimal."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax import comonotone
from countermax._core.checks import as_floats, as_loss, as_order, as_score_pair, fail_if, is_traced
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.transport import transport_rows
from countermax._core.types import Joint, Logits, LogProbs, Outcome, Probs, Scalar, Score
from countermax.couplings._base import AbstractMatrixCoupling
from countermax.couplings._fields import check_floats, check_permutation
from countermax.couplings._plans import on_host


@final
class Independent(AbstractMatrixCoupling):
    """What was seen tells nothing: the other world is drawn independently of it."""

    num_outcomes = None  # any number

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return jnp.exp(log_p[:, None] + log_q[None, :])

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return jnp.exp(log_q)


@final
class Maximal(AbstractMatrixCoupling):
    """Keeps the outcome as often as any coupling can: `P(X=Y=i) = min(p_i, q_i)`.

    What cannot be kept is drawn independently of what was seen: off the diagonal stands the product of the two
    residuals `(p - q)+` and `(q - p)+`. With three outcomes or more, no mechanism has this law for all pairs at once
    (Proposition 2 of Lorberbom et al. 2021).
    """

    num_outcomes = None  # any number

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
    probs = (gained + hidden * jnp.exp(log_q)) / jnp.where(differ, total + hidden, 1)
    return jnp.where(differ, probs, jnp.exp(log_q))


def _excess(log: LogProbs, other: LogProbs) -> LogProbs:
    """The logarithm of `max(0, exp(log) - exp(other))`; no product of small numbers, so that it never vanishes."""
    larger = log > other
    shrinks = jnp.where(larger & (other > -jnp.inf), other, -jnp.inf) - jnp.where(larger, log, 0)
    share = -jnp.expm1(shrinks)
    return jnp.where(larger, jnp.where(larger, log, 0) + jnp.log(jnp.where(larger, share, 1)), -jnp.inf)


@final
class Comonotone(AbstractMatrixCoupling):
    """The coupling with the least variance of the effect that any coupling has, for one scalar score in each world.

    Where both worlds sort the outcomes alike it has the law of `InverseCDF.sorted_by(score)`, which is a mechanism.
    Where they do not, no order of the outcomes is optimal and this is a yardstick rather than a mechanism.
    """

    order: Int[Array, " k"]
    other_order: Int[Array, " k"]

    def __init__(self, score: Score, counterfactual_score: Score | None = None):
        """Lines the outcomes of each world up by its score, one number for each; by default both have the same."""
        here, there = as_score_pair(score, counterfactual_score, as_floats("score", score, 1).size)
        self.order, self.other_order = as_order(here), as_order(there)

    def __check_init__(self) -> None:
        check_permutation("order", self.order)
        check_permutation("other_order", self.other_order)
        here, there = self.order.size, self.other_order.size
        if here != there:
            raise InputError(f"both worlds must have the same outcomes, got {here} and {there}")

    @property
    def num_outcomes(self) -> int:
        return self.order.size

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        law = comonotone.joint(log_p[self.order], log_q[self.other_order])
        return jnp.zeros_like(law).at[self.order[:, None], self.other_order[None, :]].set(law)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        probs = comonotone.row(log_p[self.order], log_q[self.other_order], jnp.argmax(self.order == x))
        return jnp.zeros_like(probs).at[self.other_order].set(probs)


_LARGEST_ORDER = 32  # beyond, powers of ratios of distances underflow in single precision


@final
class Optimal(AbstractMatrixCoupling):
    """The coupling with the least expected loss: exact optimal transport, solved by POT's network simplex.

    It looks at both worlds at once, so it is a yardstick for mechanisms and not one of them. It runs on the host,
    works under `jit` and `vmap`, and has no gradient.
    """

    loss: Float[Array, "k k"]

    def __init__(self, loss: Float[ArrayLike, "k k"]):
        """Sets the loss to be minimised: `loss[i, j]` for outcome i of the factual world beside j of the other."""
        self.loss = as_loss("loss", loss)

    def __check_init__(self) -> None:
        check_floats("loss", self.loss, 2)
        as_loss("loss", self.loss)

    @property
    def num_outcomes(self) -> int | None:
        return self.loss.shape[0]

    def cost(self, p: Logits, q: Logits) -> Scalar:
        """The least expected loss that any coupling of `p` and `q` can have."""
        return self.expected_loss(p, q, self.loss)

    def wasserstein(self, p: Logits, q: Logits, *, order: int | float = 1) -> Scalar:
        """The Wasserstein distance `min E[d(X, Y)^order]^(1 / order)`, for a loss `d` that is a metric."""
        if not 1 <= order <= _LARGEST_ORDER:
            raise InputError(f"`order` must lie between 1 and {_LARGEST_ORDER}, got {order}")
        metric = _as_metric(self.loss)
        largest = jnp.maximum(metric.max(), np.finfo(metric.dtype).tiny)  # so that no power overflows
        return largest * Optimal((metric / largest) ** order).cost(p, q) ** (1 / order)

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return jnp.exp(log_p)[:, None] * self._rows(log_p, log_q)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return self._rows(log_p, log_q)[x]

    def _rows(self, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
        size = log_p.size
        check_memory(
            f"optimal transport between {size} and {size} outcomes",
            6.0 * size**2 * 8,
            "join outcomes together, or use `InverseCDF.sorted_by` where the loss is of one score",
        )
        return _solved_rows(log_p, log_q, self.loss.astype(log_p.dtype))


@jax.custom_jvp
def _solved_rows(log_p: LogProbs, log_q: LogProbs, loss: Float[Array, "k k"]) -> Float[Array, "k k"]:
    return on_host(transport_rows, log_p, log_q, loss, shape=loss.shape)


@_solved_rows.defjvp
def _refuse_gradient(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """The bits that go to the host carry no derivative, and zero would be a wrong one."""
    raise InputError("`Optimal` has no gradient; hold its answer still with jax.lax.stop_gradient on what goes into it")


def _as_metric(distance: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The distances, if they are a metric up to rounding."""
    must = "`loss` must be a metric for a Wasserstein distance: "

    def tolerance(each: Any) -> Any:
        return 1e-6 * (1 + abs(each).max(initial=0))

    def odd_signs(each: Any) -> Any:
        return (abs(each.diagonal()) > tolerance(each)).any() | (each < -tolerance(each)).any()

    def one_way(each: Any) -> Any:
        return (abs(each - each.T) > tolerance(each)).any()

    def shorter_through_a_third(each: Any) -> Any:
        def through(middle: Any) -> Any:
            return (each > each[:, middle][:, None] + each[middle, :][None, :] + tolerance(each)).any()

        if is_traced(each):
            return jax.lax.map(through, jnp.arange(len(each))).any()
        return any(through(middle) for middle in range(len(each)))

    squares = "squared differences, for instance, are not one: pass the absolute differences and order=2"
    distance = fail_if(distance, odd_signs, must + "zero on the diagonal, positive elsewhere")
    distance = fail_if(distance, one_way, must + "symmetric")
    shorter = must + f"no way through a third outcome may be shorter; {squares}"
    return fail_if(distance, shorter_through_a_third, shorter)
