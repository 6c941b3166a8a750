"""One question over all that two worlds may share: from independence to Gumbel-max, and where the answer turns."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax import race
from countermax._core.compilation import quickly_compiled
from countermax.comparison._measuring import Found, limits_of
from countermax.comparison._sharing_result import SharingCurve, SharingIntervals, TurningPoint
from countermax.couplings._gumbel_max import noise_correlation
from countermax.intervals import Interval
from countermax.intervals._sampling import AbstractSampling

Floats = NDArray[np.float64]

SHARED = np.arange(101) / 100
"""The rates of the shared clocks at which the curve is known."""

_EVERY = 10  # of these rates, those with intervals
_FINE = np.arange(1025) / 1024  # where turning points are looked for
_FINER = np.arange(33) / 32  # of the distance between two of them
_ZOOMS = 5  # until the place of a turning point is known to one part in 10^10
_LEAST = 1e-9  # lead, effect or advantage that counts as one


class Curve(NamedTuple):
    """What is answered at each rate; without a score, None where there would be one."""

    probabilities: Any
    agreement: Any
    expected_score: Any
    better_given_observed: Any
    better: Any
    worse: Any
    score_correlation: Any


def sharing_of(
    labels: Sequence[str],
    seen: int,
    worlds: tuple[str, str],
    log_p: Floats,
    log_q: Floats,
    scores: tuple[Floats, Floats] | None,
    found: Found,
    *,
    sampling: AbstractSampling | None,
    some_unknown: bool,
    level: float,
    seed: int,
    method: Callable[..., Interval],
) -> SharingCurve:
    """The curve for a question that has been checked; called where double precision is on.

    Args:
        labels: Names of the outcomes.
        seen: The outcome that was observed.
        worlds: Names of the factual world and of the other one.
        log_p: Log-probabilities of the factual world, without those whose outcome is not known.
        log_q: Log-probabilities of the other world, likewise.
        scores: A number for each outcome in either world.
        found: The bounds.
        sampling: Sampling behind the two worlds; None where they are known.
        some_unknown: Whether the last entry of the sampling's worlds is for people whose outcome is not known.
        level: Confidence of the intervals.
        seed: Seed of the draws behind the intervals.
        method: Method that finds intervals.
    """
    curve: Curve = jax.tree.map(np.asarray, _one()(log_p, log_q, np.asarray(seen), scores, SHARED))
    start = None if scores is None else float(scores[0][seen])

    def effect(expected: Any) -> Any:
        return None if expected is None or start is None else expected - start

    intervals = None
    if sampling is not None:
        rates = SHARED[::_EVERY]

        def many(log_p: Floats, log_q: Floats) -> Curve:
            return _many()(log_p, log_q, np.asarray(seen), scores, rates, some_unknown)

        limits = limits_of(sampling, many, seen, len(rates), level=level, seed=seed, method=method)
        spans = Curve(*(None if low is None else Interval(low, high, level) for low, high in zip(*limits, strict=True)))
        expected = spans.expected_score
        spread = None if expected is None else Interval(effect(expected.lower), effect(expected.upper), level)
        intervals = SharingIntervals(level, sampling.words(), rates, effect=spread, **spans._asdict())
    every, stable = found.any, found.stable
    return SharingCurve(
        labels=tuple(labels),
        observed=seen,
        worlds=worlds,
        shared=SHARED,
        noise_correlation=noise_correlation(SHARED),
        effect=effect(curve.expected_score),
        **curve._asdict(),
        bounds=every.probabilities,
        stable_bounds=stable.probabilities,
        effect_bounds=None if start is None else every.expected_score.shifted(-start),
        stable_effect_bounds=None if start is None else stable.expected_score.shifted(-start),
        turning_points=_turning_points(labels, seen, log_p, log_q, scores),
        intervals=intervals,
    )


def _measured(log_p: ArrayLike, log_q: ArrayLike, seen: ArrayLike, scores: Any, rates: ArrayLike) -> Curve:
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)

    def at(rate: Any) -> Curve:
        row, joint = race.row(log_p, log_q, seen, rate), race.joint(log_p, log_q, rate)
        if scores is None:
            return Curve(row, jnp.trace(joint), None, None, None, None, None)
        here, there = map(jnp.asarray, scores)
        rises, falls = there[None, :] > here[:, None], there[None, :] < here[:, None]
        return Curve(
            row,
            jnp.trace(joint),
            row @ there,
            row @ (there > here[seen]),
            (joint * rises).sum(),
            (joint * falls).sum(),
            _correlation(joint, jnp.exp(log_p), jnp.exp(log_q), here, there),
        )

    return jax.lax.map(at, jnp.asarray(rates))


def _correlation(joint: Any, p: Any, q: Any, here: Any, there: Any) -> Any:
    """Pearson's correlation of both worlds' scores; 0 where one of them does not vary."""
    here, there = here - p @ here, there - q @ there
    spread = jnp.sqrt((p @ here**2) * (q @ there**2))
    return jnp.where(spread > 0, here @ joint @ there / jnp.where(spread > 0, spread, 1), 0)


def _turning_points(
    labels: Sequence[str], seen: int, log_p: Floats, log_q: Floats, scores: tuple[Floats, Floats] | None
) -> tuple[TurningPoint, ...]:
    """All of them, by their rates."""

    def rows(rates: Floats) -> Floats:
        return np.asarray(_rows()(log_p, log_q, np.asarray(seen), rates))

    points = [
        _point("most likely outcome", rate, labels[before], labels[after]) for rate, before, after in _leaders(rows)
    ]
    if scores is not None:
        here, there = scores[0][seen], scores[1]
        size = float(max(np.abs(there - here).max(), np.finfo(np.float64).tiny))
        rises = there > here
        for what, words, value in (
            ("sign of the effect", ("negative", "positive"), lambda rates: rows(rates) @ (there - here) / size),
            ("better off", ("less likely than not", "likelier than not"), lambda rates: rows(rates) @ rises - 0.5),
        ):
            for rate, sign in _signs(value):
                points.append(_point(what, rate, words[sign < 0], words[sign > 0]))
    return tuple(sorted(points, key=lambda each: each.shared))


def _point(what: str, rate: float, before: str, after: str) -> TurningPoint:
    return TurningPoint(what, rate, float(noise_correlation(rate)), before, after)


def _leaders(rows: Callable[[Floats], Floats]) -> list[tuple[float, int, int]]:
    """Where the likeliest outcome becomes another, and which; a lead that rounding could make is none."""
    known = rows(_FINE)
    tied = known[0] >= known[0].max() - _LEAST
    leader = int(np.where(tied, known[1], -1).argmax())
    found = []
    for place in range(1, len(_FINE)):
        start = float(_FINE[place - 1])
        while _is_beaten(leader, known[place : place + 1])[0]:
            start, end, row = _narrowed(rows, start, float(_FINE[place]), functools.partial(_is_beaten, leader))
            found.append((float((start + end) / 2), leader, int(row.argmax())))
            start, leader = end, int(row.argmax())
    return found


def _signs(value: Callable[[Floats], Floats]) -> list[tuple[float, int]]:
    """Where a number changes its sign, and which it has from there on; zero is none."""
    known = value(_FINE)
    sign, last, found = 0, 0.0, []
    for rate, each in zip(_FINE, known, strict=True):
        new = int(np.sign(each)) if abs(each) > _LEAST else 0
        if new and sign and new != sign:
            start, end, _ = _narrowed(value, last, float(rate), functools.partial(_has_sign, new))
            found.append((float((start + end) / 2), new))
        if new:
            sign, last = new, float(rate)
    return found


def _is_beaten(leader: int, rows: Floats) -> NDArray[np.bool_]:
    return rows.max(axis=1) > rows[:, leader] + _LEAST


def _has_sign(sign: int, values: Floats) -> NDArray[np.bool_]:
    return values * sign > _LEAST


def _narrowed(
    ask: Callable[[Floats], Floats], start: float, end: float, is_over: Callable[[Floats], NDArray[np.bool_]]
) -> tuple[float, float, Any]:
    """The last rate before something is so, the first one after, and what is answered there; it is so at the end."""
    for _ in range(_ZOOMS):
        rates = start + (end - start) * _FINER
        answers = ask(rates)
        over = is_over(answers)
        first = int(over.argmax()) if over.any() else len(rates) - 1
        start, end, answer = float(rates[max(first - 1, 0)]), float(rates[first]), answers[first]
    return start, end, answer


@functools.cache
def _rows() -> Callable[..., Any]:
    def run(log_p: Any, log_q: Any, seen: Any, rates: Any) -> Any:
        return jax.vmap(lambda rate: race.row(jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen), rate))(rates)

    return quickly_compiled(run)


@functools.cache
def _one() -> Callable[..., Curve]:
    return quickly_compiled(_measured)


@functools.cache
def _many() -> Callable[..., Curve]:
    def run(log_p: Any, log_q: Any, seen: Any, scores: Any, rates: Any, some_unknown: bool) -> Curve:
        if some_unknown:
            log_p, log_q = (
                each[:, :-1] - jax.nn.logsumexp(each[:, :-1], axis=1, keepdims=True) for each in (log_p, log_q)
            )
        return jax.vmap(lambda p, q: _measured(p, q, seen, scores, rates))(log_p, log_q)

    return quickly_compiled(run, many_numbers=True)
