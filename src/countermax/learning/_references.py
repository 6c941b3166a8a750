"""Reference points for vector-valued scores: where a mechanism should send everybody from."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import ArrayLike, PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax._core.transport import transport_plan
from countermax.couplings import ReferenceTransport, VectorQuantile
from countermax.couplings._reference import lloyd
from countermax.pairs import AbstractPairs, Pairs, draw_pairs, num_outcomes_of

_NUM_PARTNERS = 10
_BLUR = 0.005  # with hundreds of rounds of balancing; 0.05 with twenty is eleven points worse at 50 outcomes


def barycenter(
    scores: ArrayLike, num_points: int, pairs: Pairs, *, key: PRNGKeyArray, num_worlds: int = 400, num_rounds: int = 10
) -> NDArray[np.float64]:
    """Support points of the Wasserstein barycenter of the score distributions that the pairs induce.

    If `p` and `q` are drawn alike, any mechanism's expected squared distance of scores is twice the mean squared
    distance of the scores to their mean given the noise, and so at least twice the mean squared Wasserstein distance to
    the barycenter. Transport from its support attains that, so these points are the right ones to start from.

    Args:
        scores: One vector for each outcome.
        num_points: Number of points, one for each latent.
        pairs: Distribution of pairs; its factual worlds are used.
        key: Random key; consumed once.
        num_worlds: Number of worlds to average over.
        num_rounds: Rounds of Lloyd's algorithm.
    """
    return _lloyd(scores, num_points, pairs, key, num_worlds, num_rounds)[0]


def transport_start(scores: ArrayLike, num_latents: int, pairs: Pairs, *, key: PRNGKeyArray) -> ReferenceTransport:
    """A part for Gadget 2 to start from: transport from a vector quantile's reference, blurred as little as serves.

    Args:
        scores: One vector for each outcome.
        num_latents: Number of latents, one for each atom of the reference.
        pairs: Distribution of pairs.
        key: Random key; consumed once.
    """
    vectors = np.asarray(scores, np.float32)
    if isinstance(pairs, AbstractPairs) and pairs.num_distinct == 1:  # whose own reference has atoms of other weights
        return ReferenceTransport(
            barycenter(scores, num_latents, pairs, key=key).astype(np.float32), vectors, blur=_BLUR
        )
    fitted = VectorQuantile.fit(vectors, pairs, key=key, num_atoms=num_latents)
    return ReferenceTransport(np.asarray(fitted.points), vectors, blur=_BLUR)


@dataclass(frozen=True)
class ImplicitFloor:
    """The least that a mechanism can lose, beside what couplings lose that may see both worlds; on the same worlds."""

    loss: float
    optimum: float

    @property
    def above_optimum(self) -> float:
        """The distance as a fraction of the optimum; worlds that are easy or hard move both alike."""
        return self.loss / self.optimum - 1


def implicit_floor(
    scores: ArrayLike,
    pairs: Pairs,
    *,
    key: PRNGKeyArray,
    num_points: int = 256,
    num_worlds: int = 400,
    num_rounds: int = 10,
) -> ImplicitFloor:
    """Estimates the least expected squared distance that any *mechanism* can have, for p and q drawn alike.

    It is twice the barycenter's objective, found by Lloyd's algorithm; a coupling that sees both worlds can do better,
    a mechanism cannot, up to the algorithm's own error. For the optimum each world is paired with ten others.
    """
    _, value, worlds = _lloyd(scores, num_points, pairs, key, num_worlds, num_rounds)
    vectors = np.asarray(scores, np.float64)
    costs = ((vectors[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2)
    shifts = range(1, min(_NUM_PARTNERS, num_worlds - 1) + 1)
    least = [
        (transport_plan(world, other, costs).plan * costs).sum()
        for shift in shifts
        for world, other in zip(worlds, np.roll(worlds, shift, axis=0), strict=True)
    ]
    # The barycenter is that of these very worlds, each of which is also paired with itself, at no loss.
    return ImplicitFloor(2 * value * num_worlds / (num_worlds - 1), float(np.mean(least)))


def _lloyd(
    scores: ArrayLike, num_points: int, pairs: Pairs, key: PRNGKeyArray, num_worlds: int, num_rounds: int
) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """Points, mean squared distance to them, and the worlds."""
    vectors = np.asarray(scores, np.float64)
    if vectors.ndim != 2 or vectors.size == 0 or not np.isfinite(vectors).all():
        raise InputError(f"`scores` must be one finite vector for each outcome, got shape {vectors.shape}")
    num_points, num_rounds = as_count("`num_points`", num_points), as_count("`num_rounds`", num_rounds)
    num_worlds = as_count("`num_worlds`", num_worlds, least=2)
    check_memory(
        f"transport between {num_points} points and {len(vectors)} outcomes in {num_worlds} worlds",
        8 * num_points * len(vectors) * (num_worlds + vectors.shape[1]),
        "lower the number of points or of worlds",
    )
    if num_outcomes_of(pairs) != len(vectors):
        raise InputError(
            f"`scores` must have one vector for each of {num_outcomes_of(pairs)} outcomes, got {len(vectors)}"
        )
    worlds = np.exp(np.asarray(draw_pairs(pairs, num_worlds, key=key)[0], np.float64))
    worlds /= worlds.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    mean = worlds.mean(axis=0)
    points = vectors[rng.choice(len(vectors), num_points, p=mean / mean.sum())] + 0.1 * rng.normal(
        size=(num_points, vectors.shape[1])
    )
    found = lloyd(vectors, worlds, np.full(len(worlds), 1 / len(worlds)), points, num_rounds)
    return found.points, found.distance, worlds
