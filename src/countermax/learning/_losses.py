"""Losses, the objectives that train on them, and the least loss that any coupling can have."""

from abc import abstractmethod
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax import comonotone
from countermax._core.checks import as_loss, is_traced
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, as_choice, as_count
from countermax._core.threads import in_threads
from countermax._core.transport import transport_plan
from countermax._core.types import LogProbs, OutcomeLike, Scalar
from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractSampler
from countermax.couplings._fields import as_vectors
from countermax.learning._program import Program

Costs = Float[Array, "k k"]
Loss = Callable[[LogProbs, LogProbs], Costs]


class AbstractLoss(eqx.Module):
    """A matrix of costs for each pair of distributions."""

    @abstractmethod
    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Costs:
        """The matrix for one pair."""


@final
class SquaredDifference(AbstractLoss):
    """The squared distance of scores, which may be vectors and may differ between the worlds.

    Its expectation is the variance of the effect plus the square of the mean effect, which no coupling can change.
    """

    score: Float[Array, "k d"]
    counterfactual_score: Float[Array, "k d"]

    def __init__(self, score: ArrayLike, counterfactual_score: ArrayLike | None = None):
        """Sets the scores: one number, or one vector, for each outcome."""
        other = score if counterfactual_score is None else counterfactual_score
        with np.errstate(over="ignore"):  # what is too large for single precision is refused as infinite
            self.score = as_vectors("score", jnp.asarray(score, float))
            self.counterfactual_score = as_vectors("counterfactual_score", jnp.asarray(other, float))
        here, there = self.score.shape, self.counterfactual_score.shape
        if here != there:
            raise InputError(f"both scores must have one shape, got {here} and {there}")

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Costs:
        _check_size("score", len(self.score), log_p)
        return ((self.score[:, None, :] - self.counterfactual_score[None, :, :]) ** 2).sum(axis=2)


@final
class Disagreement(AbstractLoss):
    """One where the outcome changes, zero where it stays: the maximal coupling is optimal."""

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Costs:
        return 1 - jnp.eye(log_p.size, dtype=log_p.dtype)


@final
class MatrixLoss(AbstractLoss):
    """Any fixed matrix."""

    matrix: Costs

    def __init__(self, matrix: ArrayLike):
        """Sets the matrix."""
        with np.errstate(over="ignore"):  # what is too large for single precision is refused as infinite
            self.matrix = as_loss("matrix", jnp.asarray(matrix, float))

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Costs:
        _check_size("matrix", len(self.matrix), log_p)
        return self.matrix


@final
class GivenOutcome(AbstractLoss):
    """A loss as seen by somebody whose factual outcome is known: the paper's counterfactual setting.

    The expectation over the joint law weights outcome x by p(x). Here the weight is one for `outcome`, or the same for
    every possible outcome: dividing the matrix by p(x) makes that an ordinary loss.
    """

    loss: Loss
    outcome: Int[Array, ""] | None

    def __init__(self, loss: Loss, outcome: OutcomeLike | None = None):
        """Sets the index of the outcome that was seen; by default each possible one counts alike."""
        self.loss = loss
        self.outcome = None if outcome is None else jnp.asarray(outcome)

    def __check_init__(self) -> None:
        outcome = self.outcome
        if outcome is not None and (outcome.ndim != 0 or not jnp.issubdtype(outcome.dtype, jnp.integer)):
            kind = f"shape {outcome.shape} and dtype {outcome.dtype}"
            raise InputError(f"`outcome` must be one outcome's index, got {kind}")

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Costs:
        possible, seen = log_p > -jnp.inf, self.outcome
        if seen is not None and not is_traced(seen) and not 0 <= int(seen) < log_p.size:
            raise InputError(f"`outcome` must lie in 0..{log_p.size - 1}, got {seen}")
        if seen is None:
            wanted = possible / possible.sum()
        else:
            wanted = jnp.where(jnp.arange(log_p.size) == seen, possible, 0).astype(log_p.dtype)
        weights = jnp.where(possible, wanted * jnp.exp(-jnp.where(possible, log_p, 0)), 0)
        return weights[:, None] * self.loss(log_p, log_q)


def expected_losses(
    coupling: AbstractCoupling, loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]
) -> Float[Array, " n"]:
    """The expected loss of each pair."""
    coupling.check_size(checked_size(loss, log_p, log_q))
    if not is_traced(log_p):
        Program(_compiled_losses, coupling, loss, log_p, log_q).check_memory(
            f"the loss of {len(log_p)} pairs of {log_p.shape[1]} outcomes", "ask for fewer pairs or group the outcomes"
        )
    return _compiled_losses(coupling, loss, log_p, log_q)


def checked_size(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> int:
    """The number of outcomes that pairs and loss agree on."""
    shape, other = np.shape(log_p), np.shape(log_q)
    if len(shape) != 2 or shape != other:
        raise InputError(f"`log_p` and `log_q` must have the same shape, a row for each pair, got {shape} and {other}")
    size = shape[1]
    world = jax.ShapeDtypeStruct((size,), jax.dtypes.canonicalize_dtype(float))
    costs = jax.eval_shape(loss, world, world)
    if np.shape(costs) != (size, size):
        raise InputError(f"`loss` must give a matrix of {size} by {size} for these pairs, got shape {np.shape(costs)}")
    return size


@eqx.filter_jit
def _compiled_losses(
    coupling: AbstractCoupling, loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]
) -> Float[Array, " n"]:
    """A batch at a time, so that memory stays bounded."""
    return jax.lax.map(
        lambda pair: coupling._expected_loss(pair[0], pair[1], loss(*pair)), (log_p, log_q), batch_size=100
    )


def _check_size(name: str, size: int, log_p: LogProbs) -> None:
    if size != log_p.size:
        raise InputError(f"the loss's `{name}` is for {size} outcomes, but the pairs have {log_p.size}")


class AbstractObjective(eqx.Module):
    """An estimate of the expected loss whose gradient trains the coupling."""

    @abstractmethod
    def __call__(
        self, coupling: AbstractSampler, log_p: LogProbs, log_q: LogProbs, loss: Costs, *, key: PRNGKeyArray
    ) -> Scalar:
        """The estimate for one pair and its loss matrix."""


@final
class Exact(AbstractObjective):
    """The expectation itself, summed over the exact law: no noise, no temperature."""

    def __call__(
        self, coupling: AbstractSampler, log_p: LogProbs, log_q: LogProbs, loss: Costs, *, key: PRNGKeyArray
    ) -> Scalar:
        return _exact(coupling)._expected_loss(log_p, log_q, loss)


@final
class Relaxed(AbstractObjective):
    """The paper's Gumbel-softmax: responses softened by a temperature, the loss summed over both softened outcomes."""

    temperature: float = eqx.field(static=True, default=1.0)
    num_samples: int = eqx.field(static=True, default=16)

    def __check_init__(self) -> None:
        as_amount("`temperature`", self.temperature, above=0.0)
        as_count("`num_samples`", self.num_samples)

    def __call__(
        self, coupling: AbstractSampler, log_p: LogProbs, log_q: LogProbs, loss: Costs, *, key: PRNGKeyArray
    ) -> Scalar:
        """The mean over draws of the noise; it differs from the expected loss unless the temperature is small."""
        if not isinstance(coupling, AbstractArgmaxSampler):
            raise InputError(f"the relaxed objective needs an argmax sampler, got {type(coupling).__name__}")

        def one(each: PRNGKeyArray) -> Scalar:
            noise = coupling.noise(log_p.size, key=each, dtype=log_p.dtype)
            x = jax.nn.softmax(coupling._scores(noise, log_p) / self.temperature)
            y = jax.nn.softmax(coupling._scores(coupling.swap(noise), log_q) / self.temperature)
            return x @ loss @ y

        return jax.vmap(one)(jax.random.split(key, self.num_samples)).mean()


@final
class Reinforce(AbstractObjective):
    """The score-function estimate from draws of (x, y); each draw's baseline is the mean loss of the others."""

    num_samples: int = eqx.field(static=True, default=16)

    def __check_init__(self) -> None:
        as_count("`num_samples`", self.num_samples, least=2)  # with one there would be no baseline

    def __call__(
        self, coupling: AbstractSampler, log_p: LogProbs, log_q: LogProbs, loss: Costs, *, key: PRNGKeyArray
    ) -> Scalar:
        """The mean loss of the draws; its gradient is an unbiased estimate of the expected loss's."""
        law = _exact(coupling)._joint(log_p, log_q).ravel()
        possible = law > 0
        log_law = jnp.where(possible, jnp.log(jnp.where(possible, law, 1)), -jnp.inf)
        cells = jax.random.categorical(key, jax.lax.stop_gradient(log_law), shape=(self.num_samples,))
        losses = loss.ravel()[cells]
        baseline = (losses.sum() - losses) / (self.num_samples - 1)
        surrogate = (jax.lax.stop_gradient(losses - baseline) * log_law[cells]).mean()
        return losses.mean() + surrogate - jax.lax.stop_gradient(surrogate)


OBJECTIVES: dict[str, Callable[[], AbstractObjective]] = {"exact": Exact, "relaxed": Relaxed, "reinforce": Reinforce}


def as_objective(objective: str | AbstractObjective) -> AbstractObjective:
    """An objective by its name, with its defaults."""
    if isinstance(objective, AbstractObjective):
        return objective
    return OBJECTIVES[as_choice("`objective`", objective, OBJECTIVES)]()


def _exact(coupling: AbstractSampler) -> AbstractCoupling:
    if not isinstance(coupling, AbstractCoupling):
        name = type(coupling).__name__
        raise InputError(f"this objective needs an exact law, which {name} does not have; use `relaxed`")
    return coupling


def least_losses(loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]) -> NDArray[np.float64]:
    """The optimum of each pair: in closed form where there is one, else by POT's network simplex, in parallel."""
    checked_size(loss, log_p, log_q)
    if isinstance(loss, Disagreement):
        return np.asarray(1 - jnp.exp(jnp.minimum(log_p, log_q)).sum(axis=1), np.float64)
    if isinstance(loss, SquaredDifference) and loss.score.shape[1] == 1:
        with jax.enable_x64(True):
            doubles = [np.asarray(each, np.float64) for each in (loss.score, loss.counterfactual_score, log_p, log_q)]
            return np.asarray(_sorted_losses(doubles[0][:, 0], doubles[1][:, 0], *doubles[2:]))
    count, size = log_p.shape
    check_memory(f"the loss matrices of {count} pairs of {size} outcomes", 24 * count * size**2, "ask for fewer pairs")
    matrices = np.asarray(jax.vmap(loss)(log_p, log_q), np.float64)
    if not np.isfinite(matrices).all():
        first = int(np.flatnonzero(~np.isfinite(matrices).all(axis=(1, 2)))[0])
        raise InputError(f"the matrix of the loss must be finite, but that of pair {first} is not")
    probs_p, probs_q = (np.exp(np.asarray(each, np.float64)) for each in (log_p, log_q))

    def solve(index: int) -> float:
        return float((transport_plan(probs_p[index], probs_q[index], matrices[index]).plan * matrices[index]).sum())

    return np.array(list(in_threads(solve, range(len(matrices)))), np.float64)


@jax.jit
def _sorted_losses(score: ArrayLike, other_score: ArrayLike, log_p: ArrayLike, log_q: ArrayLike) -> Array:
    """The comonotone coupling's, which no coupling beats where there is one score in each world."""
    first, second = (jax.nn.log_softmax(jnp.asarray(each), axis=1) for each in (log_p, log_q))
    squares = jax.vmap(comonotone.expected_squared_difference, (0, 0, None, None))
    return squares(first, second, jnp.asarray(score), jnp.asarray(other_score))
