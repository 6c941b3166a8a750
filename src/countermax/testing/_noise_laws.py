"""Laws of noise: it explains what was seen, nothing changes where nothing is done, and a relaxation points its way."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.types import Keys
from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism, AbstractNoiseSampler
from countermax.testing._cases import BrokenError, Case, close
from countermax.testing._draw_laws import batch_size
from countermax.testing._exact_laws import rows_of

_RAREST_ABDUCTION = 1e-6  # noise that is one uniform number cannot resolve rarer observations
_NUM_FACTS = 20_000


def explains(sampler: AbstractNoiseSampler[Any], case: Case, key: PRNGKeyArray) -> float:
    """Noise that is abducted from an outcome yields this outcome, and is defined."""
    for seen, keys in _facts(sampler, case, key):
        found, undefined = map(np.asarray, _explained(sampler, case.p, seen, keys))
        if undefined.any():
            raise BrokenError(f"the noise that explains outcome {seen[undefined.argmax()]} is NaN")
        _same("the noise yields another outcome", found, seen)
    return 0.0


def unchanged(mechanism: AbstractMechanism[Any], case: Case, key: PRNGKeyArray) -> float:
    """In a world with the same logits everything is as it was: pairs, counterfactuals and, where known, their law."""
    for seen, keys in _facts(mechanism, case, key):
        first, second, found = map(np.asarray, _repeated(mechanism, case.p, seen, keys))
        _same("a pair of equal worlds differs", second, first)
        _same("the counterfactual is another outcome", found, seen)
    if not isinstance(mechanism, AbstractCoupling):
        return 0.0
    possible, law = rows_of(mechanism, Case(case.name, case.p, case.p))
    expected = np.eye(case.p.size)[possible]
    return close("a counterfactual row of equal worlds", law, expected, case.tolerance)


def relaxes(sampler: AbstractArgmaxSampler[Any], case: Case, key: PRNGKeyArray, num_samples: int = 2_000) -> float:
    """The largest weight is on the outcome that the same noise yields."""
    soft, hard = map(np.asarray, _relaxed_and_hard(sampler, case.p, jax.random.split(key, num_samples)))
    wrong = int((soft.argmax(axis=1) != hard).sum())
    if wrong:
        raise BrokenError(f"in {wrong} of {num_samples} draws the largest weight is on another outcome")
    return close("the sum of a relaxation", soft.sum(axis=1), np.ones(num_samples), case.tolerance)


def _facts(
    sampler: AbstractNoiseSampler[Any], case: Case, key: PRNGKeyArray
) -> Iterator[tuple[NDArray[np.integer], Keys]]:
    """Every possible outcome in turn, so that rare ones are seen as often as common ones; in batches of one shape."""
    p, _ = case.probs
    rarest = 0.0 if isinstance(sampler, AbstractArgmaxSampler) else _RAREST_ABDUCTION
    facts = np.resize(np.flatnonzero((case.p > -np.inf) & (p > rarest)), _NUM_FACTS)
    batch = min(_NUM_FACTS, batch_size(sampler, p.size))
    for start in range(0, _NUM_FACTS, batch):
        yield np.resize(facts[start : start + batch], batch), jax.random.split(jax.random.fold_in(key, start), batch)


def _same(what: str, found: NDArray[np.integer], expected: NDArray[np.integer]) -> None:
    wrong = found != expected
    if wrong.any():
        example = f"{found[wrong.argmax()]} instead of {expected[wrong.argmax()]}"
        raise BrokenError(f"{wrong.sum()} of {len(found)} times {what}, {example}")


@eqx.filter_jit
def _explained(
    sampler: AbstractNoiseSampler[Any], p: ArrayLike, outcomes: Int[ArrayLike, " n"], keys: Keys
) -> tuple[Int[Array, " n"], Bool[Array, " n"]]:
    """What the noise that was abducted from each outcome yields, and whether any of it is NaN."""

    def one(x: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = sampler.abduct(p, x, key=key)
        floats = jax.tree.leaves(eqx.filter(noise, eqx.is_inexact_array))
        return sampler.respond(noise, p), jnp.array([jnp.isnan(each).any() for each in floats]).any()

    return jax.vmap(one)(jnp.asarray(outcomes), keys)


@eqx.filter_jit
def _repeated(
    mechanism: AbstractMechanism[Any], p: ArrayLike, outcomes: Int[ArrayLike, " n"], keys: Keys
) -> tuple[Int[Array, " n"], Int[Array, " n"], Int[Array, " n"]]:
    """Pairs of outcomes of two worlds that are equal, and the counterfactuals of outcomes in a world that is equal."""

    def one(x: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        key_pair, key_answer = jax.random.split(key)
        return *mechanism.pair(p, p, key=key_pair), mechanism.counterfactual(p, p, x, key=key_answer)

    return jax.vmap(one)(jnp.asarray(outcomes), keys)


@eqx.filter_jit
def _relaxed_and_hard(sampler: AbstractArgmaxSampler[Any], p: ArrayLike, keys: Keys) -> tuple[Array, Array]:
    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = sampler.noise(jnp.size(p), key=key, dtype=jnp.result_type(p))
        # A temperature far from one, so that noise left out of the division shows.
        return sampler.relax(noise, p, 3.0), sampler.respond(noise, p)

    return jax.vmap(one)(keys)
