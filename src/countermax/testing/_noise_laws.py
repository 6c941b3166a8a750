"""Laws of noise: it explains what was seen, worlds respond to nothing else, and a relaxation points its way."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax.couplings import AbstractArgmaxSampler, AbstractNoiseSampler
from countermax.testing._cases import GENERIC, BrokenError, Case, close
from countermax.testing._gradient_laws import STEP, agree_with_steps
from countermax.testing._subject import BOTH, DOUBLE, SINGLE, Subject, batch_size, on_each, precision

_RAREST = {SINGLE: 1e-6, DOUBLE: 1e-14}  # noise that is one uniform number cannot resolve rarer observations
_TIES = 2e-4  # share of responses that rounding may decide otherwise, far more than the one in millions that it does
_TEMPERATURES = np.array([0.25, 1.0, 3.0])
_NUM_RELAXED = 512


class Responses(NamedTuple):
    """What many draws of noise lead to."""

    explained: Any
    """What the noise yields that was abducted from each fact."""
    undefined: Any
    """Whether that noise holds NaN."""
    pair: tuple[Any, Any]
    responses: tuple[Any, Any]
    """The same pair, put together from `noise`, `swap` and `respond`."""
    counterfactual: Any
    prediction: Any
    """The same counterfactual, put together from `abduct`, `swap` and `respond`."""


def explains(subject: Subject) -> str:
    """Noise that is abducted from an outcome yields this outcome, and is defined."""

    def law(case: Case) -> float:
        for seen, found in _responses(subject, case):
            if found.undefined.any():
                raise BrokenError(f"the noise that explains outcome {seen[found.undefined.argmax()]} is NaN")
            _same("the noise yields another outcome", found.explained, seen)
        return 0.0

    return on_each(_cases(subject), law)


def composed(subject: Subject) -> str:
    """A pair is two responses to one noise, a counterfactual the other world's response to abducted noise."""

    def law(case: Case) -> float:
        for _, found in _responses(subject, case):
            for world, drawn, response in zip(("factual", "other"), found.pair, found.responses, strict=True):
                _same(f"a pair's {world} outcome is not the response to its noise", drawn, response, ties=True)
            what = "the counterfactual is not the response to abducted noise"
            _same(what, found.counterfactual, found.prediction, ties=True)
        return 0.0

    return on_each((case for case in _cases(subject) if case.name in GENERIC), law)


def unchanged(subject: Subject) -> str:
    """In a world with the same logits everything is as it was: pairs and counterfactuals."""

    def law(case: Case) -> float:
        for seen, found in _responses(subject, Case(case.name, case.p, case.p)):
            _same("a pair of equal worlds differs", found.pair[1], found.pair[0])
            _same("the counterfactual is another outcome", found.counterfactual, seen)
        return 0.0

    return on_each(_cases(subject), law)


def relaxes(subject: Subject) -> str:
    """The softmax of scores over the temperature: its largest weight is on the response, its gradient is its own."""

    def law(case: Case) -> float:
        p, _ = case.probs
        soft, hard, scores, gradient = _relax(subject, case.p)
        if not np.isneginf(scores[:, p == 0]).all() or soft[..., p == 0].any():
            raise BrokenError("an impossible outcome has a score, or a weight")
        _same("the highest score is not that of the response", scores.argmax(axis=1), hard)
        for place, temperature in enumerate(_TEMPERATURES):
            heat = scores.astype(np.float64) / temperature
            expected = np.exp(heat - heat.max(axis=1, keepdims=True))
            expected /= expected.sum(axis=1, keepdims=True)
            scale = max(1.0, float(np.abs(heat[np.isfinite(heat)]).max()))
            what = f"at temperature {temperature:g}, the softmax of scores"
            error = close(what, soft[:, place], expected, scale * case.tolerance)
            _same("the largest weight is not on the response", soft[:, place].argmax(axis=1), hard, ties=True)
        if not np.isfinite(gradient).all():
            raise BrokenError("the gradient of a relaxation is not finite")
        if case.p.dtype == DOUBLE and case.name in GENERIC:
            weights = np.cos(np.arange(p.size))
            step = np.where(p > 0, weights[::-1], 0)
            ends = [_relax(subject, case.p + size * step)[0] @ weights for size in (STEP, 0.0, -STEP)]
            error = max(error, agree_with_steps("with respect to the logits", gradient @ step, ends))
        return error

    return on_each((case for dtype in BOTH for case in subject.cases(dtype)), law)


def _cases(subject: Subject) -> list[Case]:
    return [case for dtype in subject.drawn_in for case in subject.cases(dtype)]


def _responses(subject: Subject, case: Case) -> Iterator[tuple[NDArray[np.integer], Responses]]:
    """Every possible outcome in turn, so that rare ones are seen as often as common ones; in batches of one shape."""
    p, _ = case.probs
    rarest = 0.0 if isinstance(subject.sampler, AbstractArgmaxSampler) else _RAREST[case.p.dtype]
    number = subject.level.num_facts
    facts = np.resize(np.flatnonzero((case.p > -np.inf) & (p > rarest)), number)
    batch = min(number, batch_size(subject.sampler, p.size))
    for start in range(0, number, batch):
        seen = np.resize(facts[start : start + batch], batch)
        with precision(case.p.dtype):
            sampler, key = subject.in_precision(case.p.dtype), jax.random.fold_in(subject.key, start)
            yield seen, jax.tree.map(np.asarray, _respond(sampler, case.p, case.q, seen, key))


def _relax(subject: Subject, p: NDArray[np.floating]) -> tuple[NDArray[Any], ...]:
    with precision(p.dtype):
        found = _relaxed(subject.in_precision(p.dtype), p, _TEMPERATURES.astype(p.dtype), subject.key)
        soft, hard, scores, gradient = map(np.asarray, found)
    return soft, hard, scores, gradient


def _same(what: str, found: NDArray[np.integer], expected: NDArray[np.integer], *, ties: bool = False) -> None:
    wrong = found != expected
    if wrong.sum() > (2 + _TIES * wrong.size if ties else 0):
        example = f"{found[wrong.argmax()]} instead of {expected[wrong.argmax()]}"
        raise BrokenError(f"{wrong.sum()} of {len(found)} times {what}, {example}")


@eqx.filter_jit
def _respond(
    sampler: AbstractNoiseSampler[Any], p: ArrayLike, q: ArrayLike, facts: Int[ArrayLike, " n"], key: PRNGKeyArray
) -> Responses:
    def one(x: Array, key: PRNGKeyArray) -> Responses:
        noise = sampler.noise(jnp.size(p), key=key, dtype=jnp.result_type(p))
        abducted = sampler.abduct(p, x, key=key)
        floats = jax.tree.leaves(eqx.filter(abducted, eqx.is_inexact_array))
        return Responses(
            sampler.respond(abducted, p),
            jnp.array([jnp.isnan(each).any() for each in floats]).any(),
            sampler.pair(p, q, key=key),
            (sampler.respond(noise, p), sampler.respond(sampler.swap(noise), q)),
            sampler.counterfactual(p, q, x, key=key),
            sampler.respond(sampler.swap(abducted), q),
        )

    seen = jnp.asarray(facts)
    return jax.vmap(one)(seen, jax.random.split(key, seen.size))


@eqx.filter_jit
def _relaxed(
    sampler: AbstractArgmaxSampler[Any], p: ArrayLike, temperatures: ArrayLike, key: PRNGKeyArray
) -> tuple[Array, Array, Array, Array]:
    """Relaxations at all temperatures, responses, scores, and gradients of weighed relaxations."""
    weights = jnp.cos(jnp.arange(jnp.size(p), dtype=jnp.result_type(p)))

    def one(key: PRNGKeyArray) -> tuple[Array, Array, Array, Array]:
        noise = sampler.noise(jnp.size(p), key=key, dtype=jnp.result_type(p))

        def relaxed(logits: Array) -> tuple[Array, Array]:
            soft = jax.vmap(lambda temperature: sampler.relax(noise, logits, temperature))(jnp.asarray(temperatures))
            return soft @ weights, soft

        gradient, soft = jax.jacrev(relaxed, has_aux=True)(jnp.asarray(p))
        return soft, sampler.respond(noise, p), sampler.scores(noise, p), gradient

    return jax.vmap(one)(jax.random.split(key, _NUM_RELAXED))
