"""What no mechanism can lose less than, if worlds are drawn alike and independently.

The expected squared distance of a mechanism's scores in two such worlds is at least twice the worlds' mean squared
Wasserstein distance to one distribution of scores, their barycenter. That distance is a transport problem, and every
value of its dual limits it from below: for any prices f, one for each outcome of each world, no distribution is nearer
than

    mean_w sum_k w_k f_wk + min_y mean_w min_k (|h_k - y|^2 - f_wk).

Prices are found by ascent on a grid, where nothing need be exact. Their value is certain, because the last minimum is
over all y: it is attained within the convex hull of the scores, and the function is |y|^2 plus a concave one, so in a
cube of side a in d dimensions it is nowhere lower than d a^2 / 4 below its least corner.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from countermax.couplings._plans import squared_distances

Floats = NDArray[np.float64]

_AT_ONCE = 1024  # points


class Search(NamedTuple):
    """How prices are found, and how closely their value is."""

    side: float = 0.2
    """Of the first cubes."""
    stages: tuple[tuple[int, int, float], ...] = ((1, 300, 0.3), (2, 150, 0.02))
    """By how much sides are divided, and then steps of ascent and their first size and temperature."""
    last: float = 0.003
    """Size and temperature at the end of each stage."""
    near: float = 0.2
    """Share of the range of heights; points of later stages are among the lowest."""
    tolerance: float = 1e-3
    """By how much the last minimum may be too low, as a share of the mean that prices pay."""


def barycenter_limit(scores: Floats, worlds: Floats, search: Search) -> float:
    """A certain lower limit of the worlds' mean squared distance to their barycenter.

    Args:
        scores: Scores of the outcomes, [outcome, dimension]; in three dimensions at most, which cubes can fill.
        worlds: Probabilities, [world, outcome].
        search: Steps and tolerances.
    """
    chances, hull = worlds.T.astype(np.float64), ConvexHull(scores)
    prices = np.zeros_like(chances)
    for divided, steps, start in search.stages:
        side = search.side / divided
        points = np.unique(_corners(_cubes(hull, side)).reshape(-1, scores.shape[1]), axis=0) * side
        heights = _heights(scores, prices, points)
        points = points[heights <= heights.min() + search.near * np.ptp(heights)] if prices.any() else points
        given = (each.astype(np.float32) for each in (squared_distances(points, scores), chances, prices))
        prices = np.asarray(_raised(*given, start, search.last, steps), np.float64)
    paid = float((chances * prices).sum(axis=0).mean())
    return paid + _least(scores, prices, hull, search.side, search.tolerance * abs(paid))


def _least(scores: Floats, prices: Floats, hull: ConvexHull, side: float, tolerance: float) -> float:
    """The least height of all, less a tolerance: cubes that may be lower are divided."""
    cubes, least = _cubes(hull, side), np.inf
    while len(cubes):
        corners, place = np.unique(_corners(cubes).reshape(-1, scores.shape[1]), axis=0, return_inverse=True)
        heights = _heights(scores, prices, corners * side)
        least = min(least, float(heights.min()))
        lowest = heights[place.reshape(len(cubes), -1)].min(axis=1) - scores.shape[1] * side**2 / 4
        cubes, side = _corners(2 * cubes[lowest < least - tolerance]).reshape(-1, scores.shape[1]), side / 2
        cubes = cubes[_meets(hull, cubes, side)]
    return least - tolerance


def _cubes(hull: ConvexHull, side: float) -> NDArray[np.int64]:
    """[cube, dimension]: those that meet the convex hull, by their first corner, counted in sides."""
    low, high = (np.floor(each(hull.points, axis=0) / side).astype(int) for each in (np.min, np.max))
    ranges = (np.arange(first, last + 1) for first, last in zip(low, high, strict=True))
    found = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(low))
    return found[_meets(hull, found, side)]


def _meets(hull: ConvexHull, cubes: NDArray[np.int64], side: float) -> NDArray[np.bool_]:
    """Whether the ball around a cube meets every half-space of the hull."""
    *normals, offset = hull.equations.T
    outside = (cubes + 0.5) * side @ np.array(normals) + offset
    return np.asarray((outside <= side * np.sqrt(cubes.shape[1]) / 2).all(axis=1))


def _corners(cubes: NDArray[np.int64]) -> NDArray[np.int64]:
    """[cube, corner, dimension]."""
    return cubes[:, None] + np.array(list(np.ndindex(*[2] * cubes.shape[1])))


def _heights(scores: Floats, prices: Floats, points: NDArray[np.floating]) -> Floats:
    """What is least at each point, on average over worlds."""
    with jax.enable_x64(True):
        costs = np.zeros((-(-len(points) // _AT_ONCE) * _AT_ONCE, len(scores)))  # one shape, compiled once
        costs[: len(points)] = squared_distances(points, scores)
        found = [np.asarray(_below(each, jnp.asarray(prices))) for each in costs.reshape(-1, _AT_ONCE, len(scores))]
    return np.concatenate(found)[: len(points)]


@jax.jit
def _below(costs: Float[Array, "m k"], prices: Float[Array, "k n"]) -> Float[Array, " m"]:
    return jax.lax.map(jax.checkpoint(lambda each: (each[:, None] - prices).min(axis=0).mean()), costs)


@partial(jax.jit, static_argnames="steps")
def _raised(
    costs: Float[Array, "m k"],
    chances: Float[Array, "k n"],
    prices: Float[Array, "k n"],
    start: float,
    last: float,
    steps: int,
) -> Float[Array, "k n"]:
    """Prices of a larger value, the minimum being a soft one that becomes harder."""
    sizes = start * (last / start) ** (jnp.arange(steps) / steps)
    optimiser = optax.scale_by_adam()

    def value(prices: Float[Array, "k n"], heat: Float[Array, ""]) -> Float[Array, ""]:
        return (chances * prices).sum(axis=0).mean() - heat * jax.nn.logsumexp(-_below(costs, prices) / heat)

    def step(state: tuple, size: Float[Array, ""]) -> tuple[tuple, None]:
        prices, moments = state
        change, moments = optimiser.update(prices.shape[1] * jax.grad(value)(prices, size), moments)
        return (prices + size * change, moments), None

    (prices, _), _ = jax.lax.scan(step, (prices, optimiser.init(prices)), sizes)
    return prices
