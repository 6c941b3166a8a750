"""The pairs of worlds that a frame's rows hold: what a coupling can be trained on."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from countermax._core.errors import InputError
from countermax._core.quantities import as_count, as_seed
from countermax._tables.frames import Codes, Floats, as_frame
from countermax.learning import ObservedPairs
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._rows import Chunk, Question, RowReader

MOST_PAIRS = 4096

Weighted = tuple[Floats, Floats, Floats]
"""Distinct pairs of log-probabilities, and in how many rows each stands."""


class AbstractRows(ABC):
    """All rows of a table, wherever they are, for questions that look at them more than once."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def some_pairs(self) -> Weighted:
        """Distinct pairs of at most `MOST_PAIRS` rows that were drawn."""

    @abstractmethod
    def all_pairs(self, most: int) -> Weighted | None:
        """All distinct pairs; None if there are more than `most`."""


@final
class LocalRows(AbstractRows):
    """Rows of a frame."""

    def __init__(self, reader: RowReader):
        self._reader = reader

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._reader.frame.num_rows

    def some_pairs(self) -> Weighted:
        """Distinct pairs of at most `MOST_PAIRS` rows that were drawn."""
        return some_pairs(self._reader)

    def all_pairs(self, most: int) -> Weighted | None:
        """All distinct pairs; None if there are more than `most`."""
        return all_pairs(self._reader.chunks(), most)


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
    max_pairs = as_count("`max_pairs`", max_pairs)
    seed = as_seed("seed", seed)
    reader = RowReader(as_frame(frame), Question(None, factual, counterfactual, labels, normalise, "raise"))
    log_p, log_q, weights = some_pairs(reader, max_pairs, seed)
    return ObservedPairs(jnp.asarray(log_p), jnp.asarray(log_q), weights)


def some_pairs(reader: RowReader, most: int = MOST_PAIRS, seed: int = 0) -> Weighted:
    """Distinct pairs of at most `most` rows, drawn without replacement; those left as they were do not count."""
    return distinct([pairs_of(reader.chunks(), drawn_rows(reader.frame.num_rows, most, seed))])


def drawn_rows(count: int, most: int = MOST_PAIRS, seed: int = 0) -> Codes:
    """Positions of at most `most` rows of a table, in order, drawn without replacement."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def pairs_of(chunks: Iterable[Chunk], drawn: Codes, first_row: int = 0) -> Floats:
    """Pairs side by side, in the rows that were drawn.

    Args:
        chunks: Rows.
        drawn: Positions of the rows in the whole table.
        first_row: Position of the first chunk there.
    """
    found = []
    for chunk in chunks:
        start, stop = first_row + chunk.rows.start, first_row + chunk.rows.stop
        rows = drawn[(drawn >= start) & (drawn < stop)] - start
        rows = rows[~(chunk.bad | chunk.kept)[rows]]
        found.append(np.concatenate([chunk.log_p[rows], chunk.log_q[rows]], axis=1))
    return np.concatenate(found) if found else np.zeros((0, 0))


def distinct(found: Iterable[Floats]) -> Weighted:
    """Distinct pairs of all that were found, and how often each was."""
    some = [each for each in found if len(each)]
    if not some:
        raise NothingChangesError(
            "`frame` must have at least one row that can be answered and that is changed, got none"
        )
    return _divided(*np.unique(np.concatenate(some), axis=0, return_counts=True))


def all_pairs(chunks: Iterable[Chunk], most: int) -> Weighted | None:
    """All distinct pairs, without rows that are left as they were; None if there are more than `most`."""

    def of_chunks() -> Iterator[Weighted]:
        for chunk in chunks:
            good = ~(chunk.bad | chunk.kept)
            yield chunk.log_p[good], chunk.log_q[good], chunk.weight[good]

    return together(of_chunks(), most)


def together(parts: Iterable[Weighted | None], most: int) -> Weighted | None:
    """Distinct pairs among those of all parts, weights added up; None if there are more than `most`."""
    pairs: Floats | None = None
    weights: Floats = np.zeros(0)
    for part in parts:
        if part is None:
            return None
        new = np.concatenate(part[:2], axis=1)
        pairs, place = np.unique(new if pairs is None else np.concatenate([pairs, new]), axis=0, return_inverse=True)
        counted = np.concatenate([weights, part[2]])
        weights = np.bincount(place.ravel(), counted, len(pairs)).astype(np.float64)
        if len(pairs) > most:
            return None
    return None if pairs is None else _divided(pairs, weights)


def _divided(pairs: Floats, weights: Any) -> Weighted:
    log_p, log_q = np.split(pairs, 2, axis=1)
    return log_p, log_q, weights.astype(np.float64)
