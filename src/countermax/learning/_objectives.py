"""Objectives: three ways to the gradient of a coupling's expected loss."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.quantities import as_amount, as_count
from countermax._core.types import LogProbs, Scalar
from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractSampler


class AbstractObjective(eqx.Module):
    """An estimate of the expected loss whose gradient trains the coupling."""

    @abstractmethod
    def __call__(
        self,
        coupling: AbstractSampler,
        log_p: LogProbs,
        log_q: LogProbs,
        loss: Float[Array, "k k"],
        *,
        key: PRNGKeyArray,
    ) -> Scalar:
        """The estimate for one pair and its loss matrix."""


@final
class Exact(AbstractObjective):
    """The expectation itself, summed over the exact law: no noise, no temperature."""

    def __call__(
        self,
        coupling: AbstractSampler,
        log_p: LogProbs,
        log_q: LogProbs,
        loss: Float[Array, "k k"],
        *,
        key: PRNGKeyArray,
    ) -> Scalar:
        """The expected loss."""
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
        self,
        coupling: AbstractSampler,
        log_p: LogProbs,
        log_q: LogProbs,
        loss: Float[Array, "k k"],
        *,
        key: PRNGKeyArray,
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
        self,
        coupling: AbstractSampler,
        log_p: LogProbs,
        log_q: LogProbs,
        loss: Float[Array, "k k"],
        *,
        key: PRNGKeyArray,
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


OBJECTIVES: dict[str, type[Exact] | type[Relaxed] | type[Reinforce]] = {
    "exact": Exact,
    "relaxed": Relaxed,
    "reinforce": Reinforce,
}


def as_objective(objective: str | AbstractObjective) -> AbstractObjective:
    """An objective by its name, with its defaults."""
    if isinstance(objective, AbstractObjective):
        return objective
    if objective not in OBJECTIVES:
        raise InputError(f"`objective` must be one of {', '.join(OBJECTIVES)}, got {objective!r}")
    return OBJECTIVES[objective]()


def _exact(coupling: AbstractSampler) -> AbstractCoupling:
    if not isinstance(coupling, AbstractCoupling):
        raise InputError(
            f"this objective needs an exact law, which {type(coupling).__name__} does not have; use `relaxed`"
        )
    return coupling
