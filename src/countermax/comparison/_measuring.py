"""Every number of a question, compiled in one piece; and all of them again for thousands of other worlds."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax._core.compilation import quickly_compiled
from countermax.bounds import Bounds, unchecked_better_bounds, unchecked_outcome_bounds, unchecked_score_bounds
from countermax.comparison._thresholds import better_reaching
from countermax.couplings import AbstractCoupling
from countermax.effects import unchecked_effect
from countermax.intervals import Interval
from countermax.intervals._inversion import NUM_CANDIDATES, NUM_DRAWS, resampled_intervals
from countermax.intervals._sampling import AbstractSampling

Floats = NDArray[np.float64]
Scores = tuple[ArrayLike, ArrayLike]

_FEW_OUTCOMES = 64
_MOST_NUMBERS = 2**28  # of joint laws, over which intervals are computed: fewer truths are tried where laws are large
_AT_ONCE = 2**21  # numbers of joint laws in memory at one time
_FEWEST_CANDIDATES, _FEWEST_DRAWS = 150, 100


class Measures(NamedTuple):
    """What one coupling says; without a score, None where there would be one."""

    probabilities: Any
    agreement: Any
    expected_score: Any
    effect_variance: Any
    better: Any
    worse: Any


class Limits(NamedTuple):
    """What a whole family of couplings leaves open."""

    probabilities: Any
    expected_score: Any
    better: Any
    worse: Any


class Found(NamedTuple):
    """Everything that is asked of two worlds."""

    answers: dict[str, Measures]
    any: Limits
    stable: Limits
    win_probability: Any


def solved(
    couplings: Mapping[str, AbstractCoupling],
    log_p: Floats,
    log_q: Floats,
    seen: int,
    scores: tuple[Floats, Floats] | None,
    rare: bool,
    some_unknown: bool,
) -> tuple[Found, dict[str, Floats]]:
    """All numbers for one pair of worlds, and each coupling's joint law."""
    solve = _one_quickly() if log_p.size <= _FEW_OUTCOMES else _one()
    return jax.tree.map(np.asarray, solve(dict(couplings), log_p, log_q, np.asarray(seen), scores, rare, some_unknown))


def intervals_of(
    sampling: AbstractSampling,
    couplings: Mapping[str, AbstractCoupling],
    seen: int,
    scores: tuple[Floats, Floats] | None,
    *,
    some_unknown: bool,
    level: float,
    seed: int,
    method: Callable[..., Interval],
) -> Found:
    """The intervals of all numbers, in place of the numbers; a range's spans it whole, in place of its `Bounds`."""

    def many(log_p: Floats, log_q: Floats) -> Found:
        return _many()(dict(couplings), log_p, log_q, np.asarray(seen), scores, some_unknown)

    limits = limits_of(sampling, many, seen, len(couplings), level=level, seed=seed, method=method)
    found = _paired(*limits, level)
    if scores is not None and method is not resampled_intervals:
        better, worse = (
            better_reaching(each, sampling, sign * scores[0], sign * scores[1], some_unknown)
            for each, sign in ((found.any.better, 1), (found.any.worse, -1))
        )
        found = found._replace(any=found.any._replace(better=better, worse=worse))
    inside = (  # a stable coupling is a coupling
        None if stable is None else stable.within(every) for stable, every in zip(found.stable, found.any, strict=True)
    )
    return found._replace(stable=Limits(*inside))


def limits_of(
    sampling: AbstractSampling,
    many: Callable[[Floats, Floats], Any],
    seen: int,
    num_laws: int,
    *,
    level: float,
    seed: int,
    method: Callable[..., Interval],
) -> tuple[Any, Any]:
    """Where the intervals of all answers begin and end, in trees like those of the answers.

    Args:
        sampling: Sampling behind the two worlds.
        many: Answers for many pairs of worlds, from their log-probabilities: a tree of arrays with a row for each.
        seen: The outcome that was observed.
        num_laws: Number of joint laws computed for each pair of worlds.
        level: Confidence.
        seed: Seed of the draws.
        method: Method that finds intervals.
    """
    size = sampling.p.size
    occurs = bool(sampling.p[seen] > 0)
    structure: list[Any] = []

    def ask(p: Floats, q: Floats) -> Floats:
        step = min(len(p), max(1, _AT_ONCE // size**2))
        rest = -len(p) % step  # parts of one shape, so that one program is compiled
        with np.errstate(divide="ignore"):
            log_p, log_q = (np.log(np.concatenate([each, np.repeat(each[-1:], rest, axis=0)])) for each in (p, q))
        parts = []
        for start in range(0, len(log_p), step):
            some = slice(start, start + step)
            parts.append(many(log_p[some], log_q[some]))
        leaves, tree = jax.tree.flatten(jax.tree.map(lambda *each: np.concatenate(each)[: len(p)], *parts))
        structure[:] = [tree, [leaf.shape[1:] for leaf in leaves]]
        return np.concatenate([leaf.reshape(len(p), -1) for leaf in leaves], axis=1)

    room = _MOST_NUMBERS // (size**2 * max(1, num_laws))
    num_draws = int(np.clip(np.sqrt(room / 2), _FEWEST_DRAWS, NUM_DRAWS))
    interval = method(
        sampling,
        ask,
        seen=seen if occurs else None,
        level=level,
        num_candidates=int(np.clip(room / num_draws, _FEWEST_CANDIDATES, NUM_CANDIDATES)),
        num_draws=num_draws,
        seed=seed,
    )
    tree, shapes = structure
    splits = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    lower, upper = (
        jax.tree.unflatten(
            tree, [each.reshape(shape) for each, shape in zip(np.split(side, splits), shapes, strict=True)]
        )
        for side in (interval.lower, interval.upper)
    )
    return lower, upper


def _paired(lower: Any, upper: Any, level: float) -> Any:
    """Two trees of limits as one of intervals; of a `Bounds` the outer limits count."""
    if lower is None:
        return None
    if isinstance(lower, Bounds):
        return Interval(lower.lower, upper.upper, level)
    if isinstance(lower, dict):
        return {key: _paired(lower[key], upper[key], level) for key in lower}
    if isinstance(lower, Measures | Limits | Found):
        return type(lower)(*(_paired(*each, level) for each in zip(lower, upper, strict=True)))
    return Interval(lower, upper, level)


def _solve(
    couplings: dict[str, AbstractCoupling],
    log_p: ArrayLike,
    log_q: ArrayLike,
    seen: ArrayLike,
    scores: Scores | None,
    rare: bool = False,
    some_unknown: bool = False,
) -> tuple[Found, dict[str, Any]]:
    """Every number that has to be computed: a dozen small programs would take far longer.

    The inputs have been checked. A check in here would call the host, and what calls the host cannot be kept compiled.
    An answer is the row of the joint law; only for an outcome so `rare` that products underflow it is asked for by
    itself. If `some_unknown`, the last entry of both worlds is for people whose outcome is not known: couplings answer
    for the others, bounds cover whatever it was.
    """
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)
    here, there = (None, None) if scores is None else map(jnp.asarray, scores)
    worst = None
    if some_unknown:
        worst = _worst_case(log_p, log_q, seen, here, there)
        log_p, log_q = (each[:-1] - jax.nn.logsumexp(each[:-1]) for each in (log_p, log_q))
    joints, answers = {}, {}
    for name, each in couplings.items():
        joint = joints[name] = each._joint(log_p, log_q)
        total = joint[seen].sum()
        row = each._counterfactual_probs(log_p, log_q, seen) if rare else joint[seen] / jnp.where(total > 0, total, 1)
        if here is None or there is None:
            answers[name] = Measures(row, jnp.trace(joint), None, None, None, None)
            continue
        rises, falls = (there[None, :] > here[:, None]), (there[None, :] < here[:, None])
        answers[name] = Measures(
            row,
            jnp.trace(joint),
            row @ there,
            unchecked_effect(joint, here, there).variance,
            (joint * rises).sum(),
            (joint * falls).sum(),
        )
    families = (
        [_limits(log_p, log_q, seen, here, there, stable=stable) for stable in (False, True)]
        if worst is None
        else [worst, worst._replace(better=None, worse=None)]
    )
    win = None
    if here is not None and there is not None:
        alone = jnp.exp(log_p)[:, None] * jnp.exp(log_q)[None, :]
        win = (alone * ((there[None, :] > here[:, None]) + 0.5 * (there[None, :] == here[:, None]))).sum()
    return Found(answers, families[0], families[1], win), joints


def _limits(log_p: Any, log_q: Any, seen: Any, here: Any, there: Any, *, stable: bool) -> Limits:
    probabilities = unchecked_outcome_bounds(log_p, log_q, seen, stable=stable)
    if here is None:
        return Limits(probabilities, None, None, None)
    expected = unchecked_score_bounds(log_p, log_q, seen, there, stable=stable)
    if stable:
        return Limits(probabilities, expected, None, None)
    better = unchecked_better_bounds(log_p, log_q, here, there)
    worse = unchecked_better_bounds(log_p, log_q, -here, -there)
    return Limits(probabilities, expected, better, worse)


def _worst_case(log_p: Any, log_q: Any, seen: Any, here: Any, there: Any) -> Limits:
    """Limits that hold whatever those had whose outcome is not known: the last entry of both worlds.

    All ranges widen with fewer who had what was seen; then everybody unknown had the same, the worst for each limit.
    """
    size = log_p.size - 1

    def had(log_probs: Any, outcome: Any) -> Any:
        return log_probs[:-1].at[outcome].set(jnp.logaddexp(log_probs[outcome], log_probs[-1]))

    another = had(log_p, (seen + 1) % size)
    each = jnp.arange(size)
    most = jax.vmap(lambda j: unchecked_outcome_bounds(another, had(log_q, j), seen).upper[j])(each)
    least = jax.vmap(lambda j: unchecked_outcome_bounds(another, had(log_q, (j + 1) % size), seen).lower[j])(each)
    probabilities = Bounds(least, most)
    if here is None:
        return Limits(probabilities, None, None, None)
    low, high = jnp.argmin(there), jnp.argmax(there)
    expected = Bounds(
        unchecked_score_bounds(another, had(log_q, low), seen, there).lower,
        unchecked_score_bounds(another, had(log_q, high), seen, there).upper,
    )

    def better(here: Any, there: Any) -> Bounds:
        worst, best = (
            unchecked_better_bounds(had(log_p, start(here)), had(log_q, end(there)), here, there)
            for start, end in ((jnp.argmax, jnp.argmin), (jnp.argmin, jnp.argmax))
        )
        return Bounds(worst.lower, best.upper)

    return Limits(probabilities, expected, better(here, there), better(-here, -there))


@functools.cache
def _one_quickly() -> Callable[..., Any]:
    """For few outcomes: compiling takes far longer than running."""
    return quickly_compiled(_solve)


@functools.cache
def _one() -> Callable[..., Any]:
    return eqx.filter_jit(_solve)


@functools.cache
def _many() -> Callable[..., Found]:
    def run(couplings: Any, log_p: Any, log_q: Any, seen: Any, scores: Any, some_unknown: bool) -> Found:
        return jax.vmap(lambda p, q: _solve(couplings, p, q, seen, scores, False, some_unknown)[0])(log_p, log_q)

    return quickly_compiled(run, many_numbers=True)
