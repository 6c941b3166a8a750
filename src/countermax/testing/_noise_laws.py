"""Laws of noise: what is abducted explains what was seen, and a relaxation points at the response."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray

from countermax._core.types import Keys
from countermax.couplings import AbstractArgmaxSampler, AbstractMechanism
from countermax.testing._draw_laws import batch_size
from countermax.testing._queries import BrokenError, Query, close

_RAREST_ABDUCTION = 1e-6  # a mechanism that reads one uniform number cannot resolve rarer observations


def explains(mechanism: AbstractMechanism[Any], query: Query, key: PRNGKeyArray, num_samples: int = 20_000) -> float:
    """Every possible outcome in turn, so that rare ones are seen as often as common ones."""
    p, _ = query.probs
    rarest = 0.0 if isinstance(mechanism, AbstractArgmaxSampler) else _RAREST_ABDUCTION
    facts = np.resize(np.flatnonzero((query.p > -np.inf) & (p > rarest)), num_samples)
    batch = min(num_samples, batch_size(mechanism, p.size))
    for start in range(0, num_samples, batch):
        seen = np.resize(facts[start : start + batch], batch)
        keys = jax.random.split(jax.random.fold_in(key, start), batch)
        found, undefined = map(np.asarray, _explained(mechanism, query.p, seen, keys))
        if undefined.any():
            raise BrokenError(f"the noise that explains outcome {seen[undefined.argmax()]} is NaN")
        wrong = found != seen
        if wrong.any():
            example = f"{found[wrong.argmax()]} instead of {seen[wrong.argmax()]}"
            raise BrokenError(f"{wrong.sum()} of {batch} times the noise yields another outcome, {example}")
    return 0.0


def relaxes(mechanism: AbstractArgmaxSampler[Any], query: Query, key: PRNGKeyArray, num_samples: int = 2_000) -> float:
    """The largest weight is on the outcome that the same noise yields."""
    soft, hard = map(np.asarray, _relaxed_and_hard(mechanism, query.p, jax.random.split(key, num_samples)))
    wrong = int((soft.argmax(axis=1) != hard).sum())
    if wrong:
        raise BrokenError(f"in {wrong} of {num_samples} draws the largest weight is on another outcome")
    return close("the sum of a relaxation", soft.sum(axis=1), np.ones(num_samples), query.tolerance)


@eqx.filter_jit
def _explained(
    mechanism: AbstractMechanism[Any], p: ArrayLike, outcomes: Int[ArrayLike, " n"], keys: Keys
) -> tuple[Array, Array]:
    """What the noise that was abducted from each outcome yields, and whether any of it is NaN."""

    def one(x: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = mechanism.abduct(p, x, key=key)
        floats = jax.tree.leaves(eqx.filter(noise, eqx.is_inexact_array))
        return mechanism.respond(noise, p), jnp.array([jnp.isnan(each).any() for each in floats]).any()

    return jax.vmap(one)(jnp.asarray(outcomes), keys)


@eqx.filter_jit
def _relaxed_and_hard(mechanism: AbstractArgmaxSampler[Any], p: ArrayLike, keys: Keys) -> tuple[Array, Array]:
    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = mechanism.noise(jnp.size(p), key=key, dtype=jnp.result_type(p))
        # A temperature far from one, so that noise left out of the division shows.
        return mechanism.relax(noise, p, 3.0), mechanism.respond(noise, p)

    return jax.vmap(one)(keys)
