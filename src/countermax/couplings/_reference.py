"""References of vector quantiles: support points of the Wasserstein barycenter of worlds, by Lloyd's algorithm.

If p and q are drawn alike and independently, any mechanism's expected squared distance of scores is twice the mean
squared distance of the scores to their mean given the noise, and so at least twice the mean squared Wasserstein
distance to the barycenter. Transport from its support attains that. A round transports every world from the points and
moves each point to the mean of what it was sent to; it never gets worse on the worlds that it saw, and ends in a local
optimum, so that several starts are tried.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax._core.threads import in_threads
from countermax._core.transport import transport_plan
from countermax._pairs import ObservedPairs, Pairs, draw_pairs, num_outcomes_of
from countermax.couplings._plans import squared_distances, with_ties_broken

Floats = NDArray[np.float64]

_FEW, _MANY = 64, 256  # points of the rounds that are cheap
_JITTER = 0.05  # share of the scores' spread that separates points which start at one place
_PAIRS_FOR_STARTS = 50
_TOLERANCE = 1e-5  # of the largest eigenvalue, below which one is rounding
_OTHERWISE = "train a `Gadget2` with `countermax.fit`, which takes any loss, or ask `Optimal` for the least of one pair"


def scores_of_loss(loss: Any) -> NDArray[np.float64]:
    """Vectors whose squared distances are the loss (Torgerson 1952; Schoenberg 1938 says when there are any).

    A symmetric loss with nothing on the diagonal is a squared distance if and only if it is conditionally negative
    definite: `w @ loss @ w <= 0` for all weights w that sum to zero. Disagreement is one, as are squared distances and
    distances on a line.

    Raises:
        InputError: No distance represents the loss.
    """
    matrix = np.asarray(loss, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise InputError(f"`loss` must be a square matrix, one row and one column for each outcome, got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InputError("`loss` must be finite; use a large number for a pair to be avoided")
    scale = float(np.abs(matrix).max())
    must = "to be a squared distance of scores"
    if np.abs(matrix - matrix.T).max() > _TOLERANCE * scale:
        raise InputError(f"`loss` must be symmetric {must}, got one that is not; {_OTHERWISE}")
    if np.abs(np.diagonal(matrix)).max() > _TOLERANCE * scale:
        raise InputError(f"`loss` must be zero where the outcome stays, {must}; {_OTHERWISE}")
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    values, vectors = np.linalg.eigh(-(centred + centred.T) / 4)
    largest = max(float(values[-1]), 0.0)
    if values[0] < -_TOLERANCE * max(largest, np.finfo(float).tiny):
        raise InputError(
            "`loss` must be conditionally negative definite to be a squared distance of scores, but its smallest "
            f"eigenvalue is {values[0] / largest if largest else values[0]:.3g} of the largest; {_OTHERWISE}"
        )
    kept = np.flatnonzero(values > _TOLERANCE * largest)[::-1]
    if not kept.size:
        return np.zeros((len(matrix), 1))
    scores = vectors[:, kept] * np.sqrt(values[kept])
    # Eigenvectors come with either sign; the largest entry decides, so that equal losses have equal scores.
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(kept.size)])
    return np.asarray(scores * signs)


def loss_matrix(loss: Callable[..., Array], num_outcomes: int) -> NDArray[np.float64]:
    """The matrix of a loss that is the same for all pairs of worlds."""
    even = jax.nn.log_softmax(jnp.zeros(num_outcomes))
    uneven = jax.nn.log_softmax(jnp.linspace(0.0, 1.0, num_outcomes))
    matrices = [np.asarray(loss(p, q), np.float64) for p, q in ((even, even), (uneven, even), (even, uneven))]
    if any(each.shape != (num_outcomes, num_outcomes) for each in matrices):
        raise InputError(f"`loss` must give a matrix of {num_outcomes} by {num_outcomes}, got {matrices[0].shape}")
    if not all(np.array_equal(matrices[0], each) for each in matrices[1:]):
        raise InputError(f"`loss` must be the same for all pairs to be a squared distance of scores; {_OTHERWISE}")
    return matrices[0]


class Barycenter(NamedTuple):
    """Equally weighted points, and how far the worlds are from them."""

    points: Floats
    distance: float
    """Mean squared Wasserstein distance of the worlds."""


def lloyd(scores: Floats, worlds: Floats, weights: Floats, points: Floats, num_rounds: int) -> Barycenter:
    """Lloyd's rounds on fixed worlds."""
    distance = np.inf
    for _ in range(num_rounds):
        points, distance = _round(scores, worlds, weights, points)
    return Barycenter(points, distance)


def barycenter_points(
    scores: Floats,
    worlds: Floats,
    weights: Floats,
    num_points: int,
    rng: np.random.Generator,
    midpoints: Floats,
    num_restarts: int,
    num_rounds: int,
) -> Floats:
    """Equally weighted support points of the worlds' barycenter.

    Few points are tried from several starts on some of the worlds; the best are divided until there are enough of them,
    with more worlds as they become more. Each round sees other worlds where there are enough of them, and the last ones
    move the points by less and less, so that they fit all worlds rather than those that they saw.
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

    shares = weights if weights is not None else np.full(len(worlds), 1 / len(worlds))
    total, distance = np.zeros_like(points), 0.0
    for share, (sent, one) in zip(shares, in_threads(solve, worlds), strict=True):
        total += share * sent
        distance += share * one
    return total * len(points), distance


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


class Reference(NamedTuple):
    """Atoms and their weights."""

    points: Floats
    weights: Floats


def fitted_reference(
    scores: Any, pairs: Pairs, key: PRNGKeyArray, num_atoms: int, num_worlds: int, num_restarts: int, num_rounds: int
) -> Reference:
    """The reference that serves the pairs best; see `VectorQuantile.fit`."""
    vectors = as_score_vectors(scores, num_outcomes_of(pairs))
    num_atoms, num_worlds = as_count("`num_atoms`", num_atoms), as_count("`num_worlds`", num_worlds, least=2)
    num_restarts, num_rounds = as_count("`num_restarts`", num_restarts), as_count("`num_rounds`", num_rounds)
    check_memory(
        f"transport from {num_atoms} atoms to {len(vectors)} outcomes in {num_worlds} worlds",
        8.0 * len(vectors) * (8 * num_atoms + 8 * len(vectors) + 2 * num_worlds),
        "lower `num_atoms`",
    )
    if vectors.shape[1] == 1:  # every reference does the same
        return Reference(vectors.mean(axis=0, keepdims=True), np.ones(1))
    p, q, weights = _worlds(pairs, num_worlds, key)
    if len(p) == 1:
        return midpoints(p[0], q[0], vectors)
    rng = np.random.default_rng(np.asarray(jax.random.bits(jax.random.fold_in(key, 1), (4,))))
    starts, both = _starts(p, q, weights, vectors, rng), np.concatenate([p, q])
    halves = np.concatenate([weights, weights]) / 2
    points = barycenter_points(vectors, both, halves, num_atoms, rng, starts, num_restarts, num_rounds)
    return Reference(points, np.full(num_atoms, 1 / num_atoms))


def midpoints(p: Floats, q: Floats, scores: Floats) -> Reference:
    """The reference under which one pair has its optimum: half-way between the outcomes that the optimal plan pairs.

    Half-way along an optimal plan there is one optimal way to either end: the one that was come from. So both worlds'
    plans from there, put together, are the optimal plan.
    """
    plan = transport_plan(p, q, with_ties_broken(squared_distances(scores, scores))).plan
    first, second = np.nonzero(plan)
    return Reference((scores[first] + scores[second]) / 2, plan[first, second])


def as_score_vectors(scores: Any, num_outcomes: int) -> Floats:
    """One finite vector for each outcome."""
    vectors = np.asarray(scores, np.float64)
    vectors = vectors[:, None] if vectors.ndim == 1 else vectors
    if vectors.ndim != 2 or vectors.size == 0 or not np.isfinite(vectors).all():
        raise InputError(f"`scores` must be one finite vector for each outcome, got shape {vectors.shape}")
    if len(vectors) != num_outcomes:
        raise InputError(f"`scores` must have one vector for each of {num_outcomes} outcomes, got {len(vectors)}")
    return vectors


def _worlds(pairs: Pairs, num_worlds: int, key: PRNGKeyArray) -> tuple[Floats, Floats, Floats]:
    """Probabilities of both worlds of each pair, and how much the pair counts; half as many pairs as worlds."""
    if isinstance(pairs, ObservedPairs) and pairs.num_distinct <= num_worlds:
        weights = np.exp(np.asarray(pairs.log_weights, np.float64))
        log_p, log_q = np.asarray(pairs.p)[weights > 0], np.asarray(pairs.q)[weights > 0]
        weights = weights[weights > 0]
    else:
        log_p, log_q = map(np.asarray, draw_pairs(pairs, -(-num_worlds // 2), key=key))
        weights = np.ones(len(log_p))
    from scipy.special import softmax

    probs_p, probs_q = (softmax(np.asarray(each, np.float64), axis=1) for each in (log_p, log_q))
    return probs_p, probs_q, weights / weights.sum()


def _starts(p: Floats, q: Floats, weights: Floats, scores: Floats, rng: np.random.Generator) -> Floats:
    """Places half-way between outcomes that optimal plans of some of the pairs put together."""
    chosen = rng.choice(len(p), min(len(p), _PAIRS_FOR_STARTS), replace=False, p=weights)
    found = list(in_threads(lambda place: midpoints(p[place], q[place], scores), chosen))
    places, masses = (np.concatenate(each) for each in zip(*found, strict=True))
    return np.asarray(places[rng.choice(len(places), 1000, p=masses / masses.sum())])
