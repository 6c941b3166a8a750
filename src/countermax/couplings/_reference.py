"""Fitting a reference to pairs of worlds: exactly to one pair, to a table's own worlds, or to worlds that are drawn."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax._core.transport import transport_plan
from countermax.couplings._barycenter import barycenter_points, in_parallel
from countermax.couplings._plans import squared_distances, with_ties_broken
from countermax.pairs import AbstractPairs, ObservedPairs, Pairs, draw_pairs, num_outcomes_of

Floats = NDArray[np.float64]

_PAIRS_FOR_STARTS = 50


class Reference(NamedTuple):
    """Atoms and their weights."""

    points: Floats
    weights: Floats


def fitted_reference(
    scores: Any,
    pairs: Pairs,
    *,
    key: PRNGKeyArray,
    num_atoms: int,
    num_worlds: int,
    num_restarts: int,
    num_rounds: int,
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
    starts = _starts(p, q, weights, vectors, rng)
    points = barycenter_points(
        vectors,
        np.concatenate([p, q]),
        np.concatenate([weights, weights]) / 2,
        num_atoms,
        rng,
        midpoints=starts,
        num_restarts=num_restarts,
        num_rounds=num_rounds,
    )
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
    assert not isinstance(pairs, AbstractPairs) or pairs.num_distinct != 1 or len(log_p) == 1
    return _probabilities(log_p), _probabilities(log_q), weights / weights.sum()


def _probabilities(logs: NDArray[np.floating[Any]]) -> Floats:
    doubles = np.asarray(logs, np.float64)
    masses = np.exp(doubles - doubles.max(axis=1, keepdims=True))
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _starts(p: Floats, q: Floats, weights: Floats, scores: Floats, rng: np.random.Generator) -> Floats:
    """Places half-way between outcomes that optimal plans of some of the pairs put together."""
    chosen = rng.choice(len(p), min(len(p), _PAIRS_FOR_STARTS), replace=False, p=weights)
    found = in_parallel(lambda place: midpoints(p[place], q[place], scores), list(chosen))
    places, masses = (np.concatenate(each) for each in zip(*found, strict=True))
    return np.asarray(places[rng.choice(len(places), 1000, p=masses / masses.sum())])
