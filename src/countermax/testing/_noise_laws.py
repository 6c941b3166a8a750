"""Laws of noise: its kind, responses to it, and abduction."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax.couplings import AbstractArgmaxSampler, AbstractNoiseSampler
from countermax.testing._draw_laws import Finding, look_again, same_share, smallest
from countermax.testing._exact_laws import STEP, agree_with_steps
from countermax.testing._subject import (
    BOTH,
    DOUBLE,
    GENERIC,
    SINGLE,
    BrokenError,
    Case,
    Subject,
    batch_size,
    close,
    on_each,
    precision,
)

_NUM_DRAWN = 16_384
_NUM_VALUES = {False: 2.0**20, True: 2.0**31}  # distinct values that noise must have, in single and double precision
_MOST_NUMBERS = 24  # of noise that holds many, some are looked at
_FEWEST = 2000  # observations of an outcome, for sums to be normal
_TAILS = np.array([0.001, 0.01])
_EDGES = np.concatenate([_TAILS, np.arange(1, 16) / 16, 1 - _TAILS[::-1]])


def of_its_kind(subject: Subject) -> str:
    """Noise has the dtype that was asked for, and abducted noise is what `respond` and `swap` take: noise."""
    for dtype in BOTH:
        with precision(dtype):
            noise, abducted = _kinds(subject.in_precision(dtype), subject.case("random", dtype))
        for leaf in jax.tree.leaves(noise):
            if jnp.issubdtype(leaf.dtype, jnp.inexact) and leaf.dtype != dtype:
                raise BrokenError(f"noise of {dtype} was asked for, and is {leaf.dtype}")
        forms: list[Any] = [jax.tree.structure(abducted), jax.tree.structure(noise)]
        if forms[0] != forms[1]:
            raise BrokenError(f"abducted noise is {forms[0]}, not {forms[1]}")
        for drawn, found in zip(jax.tree.leaves(noise), jax.tree.leaves(abducted), strict=True):
            if (drawn.shape, drawn.dtype) != (found.shape, found.dtype):
                kinds = [f"{leaf.dtype} of shape {leaf.shape}" for leaf in (found, drawn)]
                raise BrokenError(f"abducted noise ({dtype}) is {kinds[0]}, not {kinds[1]}")
    return "of one kind in both precisions"


def fine(subject: Subject, level: float) -> str:
    """Noise hardly ever repeats itself; if it did, it could not give each outcome just its probability.

    Floating-point noise may not do so in any of its numbers, other noise not as a whole.
    """
    from scipy.stats import poisson

    least = 1.0
    for dtype in subject.drawn_in:
        case = subject.case("random", dtype)
        with precision(dtype):
            seen = int(case.p.argmax())
            drawn = map(np.asarray, _noises(subject.in_precision(dtype), case.p, seen, subject.key))
        for what, values in zip(("noise", "abducted noise"), drawn, strict=True):
            columns = values.T if values.size else np.zeros((0, _NUM_DRAWN))
            for column in columns:
                repeated = _NUM_DRAWN - np.unique(column).size
                expected = _NUM_DRAWN**2 / 2 / _NUM_VALUES[dtype == DOUBLE]
                value = float(poisson.sf(repeated - 1, expected)) * 4 * len(columns)
                if value < level:
                    raise BrokenError(f"{what} ({dtype}) repeats {repeated} of {_NUM_DRAWN} values")
                least = min(least, value)
    return f"{_NUM_DRAWN} values, smallest p-value {least:.2g}"


def posterior(subject: Subject, level: float, key: PRNGKeyArray) -> str:
    """Abducted from outcomes that follow p, noise is distributed as it was, given each outcome and on the whole."""
    case = subject.case("random", subject.native)
    with precision(case.p.dtype):
        sampler = subject.in_precision(case.p.dtype)
        pilot, _ = _noises(sampler, case.p, int(case.p.argmax()), jax.random.fold_in(key, 0))
        features = np.asarray(_features(pilot), np.float64)
        edges = np.quantile(features, _EDGES, axis=0).T.astype(case.p.dtype)
    test = partial(_two_samples, subject, case, edges)
    return look_again(test, subject.level, level, jax.random.fold_in(key, 1))


def _two_samples(
    subject: Subject, case: Case, edges: NDArray[np.floating], num_samples: int, key: PRNGKeyArray
) -> Finding:
    p, _ = case.probs
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    sampler, batch = subject.in_precision(case.p.dtype), min(num_samples, batch_size(subject.sampler, 4 * p.size))
    counts = np.zeros((2, p.size, len(edges), _EDGES.size + 1), int)
    with precision(case.p.dtype):
        for start in range(0, num_samples, batch):
            facts = rng.choice(p.size, batch, p=p)
            counts += np.asarray(_count(sampler, case.p, edges, facts, jax.random.fold_in(key, start)))
    tests = list[tuple[str, NDArray[np.floating]]]()
    for x in np.flatnonzero(counts[:, :, 0].sum(axis=-1).min(axis=0) >= _FEWEST):
        tests.append((f"abducted noise of outcome {x}", _compare(*counts[:, x])))
    tests.append(("abducted noise", _compare(*counts.sum(axis=1))))
    return smallest(tests)


def _compare(drawn: NDArray[np.integer], abducted: NDArray[np.integer]) -> NDArray[np.float64]:
    """P-values for each feature: its tails, its location and its spread, by the normal scores of its bins."""
    from scipy.stats import norm

    tails = [slice(0, 1), slice(0, 2), slice(-2, None), slice(-1, None)]
    totals = np.array([drawn[0].sum(), abducted[0].sum()])
    extremes = [(drawn[:, each].sum(axis=1), abducted[:, each].sum(axis=1)) for each in tails]
    values = [same_share(*pair, totals[0] / totals.sum()) for pair in extremes]
    pooled = (drawn + abducted) / totals.sum()
    middles = np.clip(np.cumsum(pooled, axis=1) - pooled / 2, 1e-9, 1 - 1e-9)
    score = norm.ppf(middles)
    for each in (score, score**2):
        mean = (pooled * each).sum(axis=1, keepdims=True)
        variance = (pooled * (each - mean) ** 2).sum(axis=1)
        difference = ((drawn / totals[0] - abducted / totals[1]) * each).sum(axis=1)
        error = np.sqrt(np.maximum(variance * (1 / totals).sum(), 1e-300))
        values.append(2 * norm.sf(np.abs(difference) / error))
    return np.concatenate(values)


def _kinds(sampler: AbstractNoiseSampler[Any], case: Case) -> tuple[Any, Any]:
    """The shapes and dtypes of noise and of abducted noise."""
    key, size = jax.random.key(0), case.p.size
    noise = eqx.filter_eval_shape(lambda: sampler.noise(size, key=key, dtype=case.p.dtype))
    return noise, eqx.filter_eval_shape(lambda: sampler.abduct(case.p, int(case.possible[0]), key=key))


def _numbers(noise: Any) -> Float[Array, " f"]:
    """Some of the floating-point numbers of one draw; of noise without any, all of it as one number."""
    leaves = jax.tree.leaves(eqx.filter(noise, eqx.is_array))
    floats = [leaf.ravel() for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    if floats:
        numbers = jnp.concatenate(floats)
        return numbers[np.unique(np.linspace(0, numbers.size - 1, _MOST_NUMBERS).astype(int))]
    plain = [jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf for leaf in leaves]
    whole = jnp.concatenate([leaf.ravel().astype(float) for leaf in plain])
    return jnp.atleast_1d(whole @ jnp.sqrt(jnp.arange(2.0, 2.0 + whole.size)))


def _features(numbers: Float[Array, "... f"]) -> Float[Array, "... g"]:
    """The numbers, and how they differ from their neighbours, in which dependence shows."""
    if numbers.shape[-1] == 1:
        return numbers
    return jnp.concatenate([numbers, numbers - jnp.roll(numbers, 1, axis=-1)], axis=-1)


@eqx.filter_jit
def _noises(sampler: AbstractNoiseSampler[Any], p: ArrayLike, x: ArrayLike, key: PRNGKeyArray) -> tuple[Array, Array]:
    """Noise, and noise given one outcome."""

    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = sampler.noise(jnp.size(p), key=key, dtype=jnp.result_type(p))
        return _numbers(noise), _numbers(sampler.abduct(p, x, key=key))

    return jax.vmap(one)(jax.random.split(key, _NUM_DRAWN))


@eqx.filter_jit
def _count(
    sampler: AbstractNoiseSampler[Any], p: ArrayLike, edges: ArrayLike, facts: Int[ArrayLike, " n"], key: PRNGKeyArray
) -> Int[Array, "views k f bins"]:
    """How often each feature fell into each bin, by outcome: of noise, and of abducted noise."""
    size, limits = jnp.size(p), jnp.asarray(edges)
    shape = (size, limits.shape[0], limits.shape[1] + 1)

    def one(x: Array, key: PRNGKeyArray) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        key_noise, key_abducted = jax.random.split(key)
        noise = sampler.noise(size, key=key_noise, dtype=jnp.result_type(p))
        abducted = sampler.abduct(p, x, key=key_abducted)
        return (sampler.respond(noise, p), binned(noise)), (x, binned(abducted))

    def binned(noise: Any) -> Array:
        return (_features(_numbers(noise))[:, None] > limits).sum(axis=1)

    def tally(outcomes: Array, bins: Array) -> Array:
        cells = (outcomes[:, None] * shape[1] + jnp.arange(shape[1])[None, :]) * shape[2] + bins
        return jnp.bincount(cells.ravel(), length=int(np.prod(shape))).reshape(shape)

    seen = jnp.asarray(facts)
    drawn, abducted = jax.vmap(one)(seen, jax.random.split(key, seen.size))
    return jnp.stack([tally(*drawn), tally(*abducted)])


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
