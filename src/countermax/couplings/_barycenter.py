"""References for vector quantiles: support points of the Wasserstein barycenter of worlds, by Lloyd's rounds.

If p and q are drawn alike and independently, any mechanism's expected squared distance of scores is twice the mean
squared distance of the scores to their mean given the noise, and so at least twice the mean squared Wasserstein
distance to the barycenter. Transport from its support attains that. A round transports every world from the points and
moves each point to the mean of what it was sent to; it never gets worse on the worlds that it saw, and ends in a local
optimum, so that several starts are tried.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.transport import transport_plan
from countermax.couplings._plans import squared_distances, with_ties_broken

Floats = NDArray[np.float64]

_FEW, _MANY = 64, 256  # points of the rounds that are cheap
_JITTER = 0.05  # share of the scores' spread that separates points which start at one place


class Barycenter(NamedTuple):
    """Equally weighted points, and how far the worlds are from them."""

    points: Floats
    distance: float
    """Mean squared Wasserstein distance of the worlds."""


def lloyd(scores: Floats, worlds: Floats, weights: Floats, points: Floats, num_rounds: int) -> Barycenter:
    """Lloyd's rounds on fixed worlds.

    Args:
        scores: One vector for each outcome.
        worlds: Probabilities of each world.
        weights: Weight of each world; weights sum to one.
        points: Points to start from.
        num_rounds: Number of rounds.
    """
    distance = np.inf
    for _ in range(num_rounds):
        sent, distance = _round(scores, worlds, weights, points)
        points = sent
    return Barycenter(points, distance)


def barycenter_points(
    scores: Floats,
    worlds: Floats,
    weights: Floats,
    num_points: int,
    rng: np.random.Generator,
    *,
    midpoints: Floats | None = None,
    num_restarts: int = 3,
    num_rounds: int = 6,
) -> Floats:
    """Equally weighted support points of the worlds' barycenter.

    Few points are tried from several starts on some of the worlds; the best are divided until there are enough of them,
    with more worlds as they become more. Each round sees other worlds where there are enough of them, and the last ones
    move the points by less and less, so that they fit all worlds rather than those that they saw.

    Args:
        scores: One vector for each outcome.
        worlds: Probabilities of each world.
        weights: Weight of each world; weights sum to one.
        num_points: Number of points.
        rng: Random generator; consumed.
        midpoints: Places to start from, besides the scores themselves.
        num_restarts: Number of starts.
        num_rounds: Rounds for each number of points; twice as many where they are cheap, at up to 256 points.
    """
    sizes = [each for each in (_FEW, _MANY) if 2 * each <= num_points] + [num_points]
    shown = worlds[_order(rng, weights)]
    tests = slice(0, max(1, min(len(worlds), 100)))
    found = list[Barycenter]()
    for restart in range(num_restarts):
        start = _start(scores, worlds, weights, midpoints if restart % 2 else None, sizes[0], rng)
        points = _rounds(scores, shown, start, num_rounds, 100)
        found.append(Barycenter(points, _round(scores, shown[tests], None, points)[1]))
    points = min(found, key=lambda each: each.distance).points
    for size in sizes[1:]:
        points = _divided(points, size, scores, rng)
        points = _rounds(scores, shown, points, num_rounds if size > _MANY else 2 * num_rounds, 200)
    return points


def _rounds(scores: Floats, worlds: Floats, points: Floats, num_rounds: int, batch: int) -> Floats:
    """Rounds over batches of worlds, one after the other, with steps that become shorter."""
    place = 0
    for number in range(num_rounds):
        some = np.take(worlds, np.arange(place, place + min(batch, len(worlds))), axis=0, mode="wrap")
        place += batch
        sent, _ = _round(scores, some, None, points)
        step = 1.0 if number < num_rounds // 2 or len(worlds) <= batch else 2 / (number - num_rounds // 2 + 3)
        points = points + step * (sent - points)
    return points


def _round(scores: Floats, worlds: Floats, weights: Floats | None, points: Floats) -> tuple[Floats, float]:
    """Where the points are sent to on average, and the mean squared distance."""
    costs = squared_distances(points, scores)
    broken = with_ties_broken(costs)
    uniform = np.full(len(points), 1 / len(points))

    def solve(world: Floats) -> tuple[Floats, float]:
        possible = world > 0
        plan = transport_plan(uniform, world[possible], broken[:, possible]).plan
        return plan @ scores[possible], float((plan * costs[:, possible]).sum())

    parts = weights if weights is not None else np.full(len(worlds), 1 / len(worlds))
    total, distance = np.zeros_like(points), 0.0
    for part, (sent, one) in zip(parts, in_parallel(solve, worlds), strict=True):
        total += part * sent
        distance += part * one
    return total * len(points), distance


def in_parallel(function: Callable[[Any], Any], items: Sequence[Any] | Floats) -> list[Any]:
    """What a function that lets go of Python says of each item."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def _order(rng: np.random.Generator, weights: Floats) -> NDArray[np.intp]:
    """Each world once where all count alike; else drawn by weight, so that rounds may take them as they come."""
    if np.ptp(weights) <= 1e-12 * weights.max():
        return rng.permutation(len(weights))
    return rng.choice(len(weights), max(len(weights), 200), p=weights / weights.sum())


def _start(
    scores: Floats, worlds: Floats, weights: Floats, midpoints: Floats | None, count: int, rng: np.random.Generator
) -> Floats:
    places, mean = (scores, weights @ worlds) if midpoints is None else (midpoints, np.ones(len(midpoints)))
    chosen = places[rng.choice(len(places), count, p=mean / mean.sum())]
    return np.asarray(chosen + _spread(scores) * rng.normal(size=chosen.shape))


def _divided(points: Floats, count: int, scores: Floats, rng: np.random.Generator) -> Floats:
    """As many points as asked for, several at each place but for a little."""
    several = np.tile(points, (-(-count // len(points)), 1))[:count]
    return np.asarray(several + _spread(scores) * rng.normal(size=several.shape))


def _spread(scores: Floats) -> Floats:
    return np.asarray(_JITTER * scores.std(axis=0), np.float64)
