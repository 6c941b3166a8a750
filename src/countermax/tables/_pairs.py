"""The pairs of worlds that a frame's rows hold: what a coupling can be trained on."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from countermax._core.errors import InputError
from countermax._core.seeds import as_seed
from countermax.learning import ObservedPairs
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._rows import Chunk, Question, RowReader
from countermax.tables.frames import Floats, as_frame

MOST_PAIRS = 4096

Weighted = tuple[Floats, Floats, Floats]
"""Distinct pairs of log-probabilities, and in how many rows each stands."""


class NothingChangesError(InputError):
    """There is no pair of worlds to look at."""


def frame_pairs(
    frame: Any,
    *,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    labels: Sequence[Hashable] | None = None,
    normalise: bool = False,
    max_pairs: int = MOST_PAIRS,
    seed: int = 0,
) -> ObservedPairs:
    """The pairs of worlds in a frame's rows, to train a coupling on; of many rows some are drawn.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        labels: The outcomes in their order; by default that of `factual`.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        max_pairs: Largest number of rows that are drawn.
        seed: Seed of the drawing.
    """
    if max_pairs < 1:
        raise InputError(f"`max_pairs` must be at least 1, got {max_pairs}")
    seed = as_seed("seed", seed)
    reader = RowReader(as_frame(frame), Question(None, factual, counterfactual, labels, normalise, "raise"))
    log_p, log_q, weights = some_pairs(reader, max_pairs, seed)
    return ObservedPairs(jnp.asarray(log_p), jnp.asarray(log_q), weights)


def some_pairs(reader: RowReader, most: int = MOST_PAIRS, seed: int = 0) -> Weighted:
    """Distinct pairs of at most `most` rows, drawn without replacement; those left as they were do not count."""
    count = reader.frame.num_rows
    drawn = np.arange(count)
    if count > most:
        drawn = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    found = []
    for chunk in reader.chunks():
        rows = drawn[(drawn >= chunk.rows.start) & (drawn < chunk.rows.stop)] - chunk.start
        rows = rows[~(chunk.bad | chunk.kept)[rows]]
        found.append(np.concatenate([chunk.log_p[rows], chunk.log_q[rows]], axis=1))
    if not sum(map(len, found)):
        raise NothingChangesError(
            "`frame` must have at least one row that can be answered and that is changed, got none"
        )
    return _divided(*np.unique(np.concatenate(found), axis=0, return_counts=True))


def all_pairs(chunks: Iterable[Chunk], most: int) -> Weighted | None:
    """All distinct pairs, without rows that are left as they were; None if there are more than `most`."""
    distinct: Floats | None = None
    weights: Floats = np.zeros(0)
    for chunk in chunks:
        good = ~(chunk.bad | chunk.kept)
        pairs = np.concatenate([chunk.log_p[good], chunk.log_q[good]], axis=1)
        together = pairs if distinct is None else np.concatenate([distinct, pairs])
        distinct, place = np.unique(together, axis=0, return_inverse=True)
        counted = np.concatenate([weights, chunk.weight[good]])
        weights = np.bincount(place.ravel(), counted, len(distinct)).astype(np.float64)
        if len(distinct) > most:
            return None
    return None if distinct is None else _divided(distinct, weights)


def _divided(pairs: Floats, weights: Any) -> Weighted:
    log_p, log_q = np.split(pairs, 2, axis=1)
    return log_p, log_q, weights.astype(np.float64)
