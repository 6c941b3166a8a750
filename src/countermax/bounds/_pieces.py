"""The bounds of E[worth(X, Y)] over all couplings, for any worth of a pair of outcomes: the linear pieces of an LP.

The largest mean worth is a transport problem. Its dual has one polyhedron for all worlds, `f_i + g_j >= worth_ij`, and
its vertices are finitely many: the largest mean is the least of `p f + q g` over them. So the vertices are found once,
and then thousands of pairs of worlds cost a product of matrices. Vertices are spanning trees of tight cells; from one
all others are reached by exchanging an edge.
"""

from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError

Floats = NDArray[np.float64]

MOST_PIECES = 4000
_JITTER = 1e-7  # breaks ties between trees; potentials are those of the worth itself
# Products of this size stay on one thread, and in a processor's own memory: larger ones are divided among all cores,
# whose threads then wait for each other, several times as long on a busy machine.
_AT_ONCE, _FEWEST_AT_ONCE = 2**18, 64  # multiplications, and worlds that are looked at together
_MOST_COVERED = 12  # rows of a matrix of zeros and ones, all sets of which are tried


class Pieces(NamedTuple):
    """A concave function of two worlds: the least of linear ones."""

    here: Floats
    """[pieces, outcomes]: what each outcome's mass in the factual world counts."""
    there: Floats

    def least(self, p: Floats, q: Floats) -> Floats:
        """The largest mean worth; of masses as well as of probabilities."""
        # Pieces run first: a minimum over the last of few columns takes ten times as long. And only so many worlds at a
        # time: five times as fast as all at once.
        worlds = np.concatenate([each.reshape(-1, each.shape[-1]).T for each in (p, q)])
        pieces = np.concatenate([self.here, self.there], axis=1)
        found = np.empty(worlds.shape[1])
        step = max(_FEWEST_AT_ONCE, _AT_ONCE // pieces.size)
        for start in range(0, len(found), step):
            some = slice(start, start + step)
            np.min(pieces @ worlds[:, some], axis=0, out=found[some])
        return found.reshape(p.shape[:-1])

    def values_of(self, some: slice, p: Floats, q: Floats) -> Floats:
        """Some of the pieces."""
        return np.asarray(p @ self.here[some].T + q @ self.there[some].T)


def num_pieces(worth: Floats) -> int:
    """How many pieces have to be looked at."""
    worth = np.asarray(worth, np.float64)
    return _num_pieces(worth.tobytes(), worth.shape)


@lru_cache(maxsize=4096)
def _num_pieces(data: bytes, shape: tuple[int, int]) -> int:
    worth = np.frombuffer(data).reshape(shape)
    rows, columns = (len(np.unique(each, axis=0)) for each in (worth, worth.T))
    if len(np.unique(worth)) > 2:
        return comb(rows + columns - 2, rows - 1)
    return rows + 1 if _nested(worth) else 2**rows if rows <= _MOST_COVERED else 2 * MOST_PIECES * rows


def largest_worth(worth: Floats, allowed: NDArray[np.bool_] | None = None) -> Pieces:
    """Pieces of the largest E[worth(X, Y)] over couplings that have allowed cells only; by default all are.

    The largest mean of worlds between which there is no such coupling is far below every worth.
    """
    worth = np.asarray(worth, np.float64)
    if allowed is not None:  # a penalty that no detour is worth
        penalty = 4 * max(worth.shape) * max(float(np.ptp(worth)), 1.0)
        worth = np.where(allowed, worth, worth.min() - penalty)
    if num_pieces(worth) > MOST_PIECES:
        raise InputError(
            f"a worth for each pair of {len(worth)} outcomes must have at most {MOST_PIECES:,} linear pieces, got up "
            f"to {num_pieces(worth):,}; merge outcomes that are worth the same"
        )
    return _pieces(worth.tobytes(), worth.shape)


@lru_cache(maxsize=4096)
def _pieces(data: bytes, shape: tuple[int, int]) -> Pieces:
    worth = np.frombuffer(data).reshape(shape)
    rows, row_of = np.unique(worth, axis=0, return_inverse=True)
    small, column_of = np.unique(rows.T, axis=0, return_inverse=True)
    here, there = _vertices(small.T) if len(np.unique(worth)) > 2 else _covers(small.T)
    return Pieces(here[:, row_of.ravel()], there[:, column_of.ravel()])


def _nested(worth: Floats) -> bool:
    """Whether rows with more that is worth the most have it wherever rows with less have it: thresholds of a score."""
    most = worth == worth.max()
    return bool((np.diff(most[np.argsort(most.sum(axis=1))].astype(int), axis=0) >= 0).all())


def _covers(worth: Floats) -> tuple[Floats, Floats]:
    """For two values of worth: the sets of rows and columns that cover all cells of the larger value (Koenig)."""
    low, high = float(worth.min()), float(worth.max())
    ones = (worth == high) & (high > low)
    size = len(ones)
    if _nested(worth):
        rows = np.tril(np.ones((size + 1, size)), -1)[:, np.argsort(np.argsort(-ones.sum(axis=1), kind="stable"))]
    else:
        rows = (np.arange(2**size)[:, None] >> np.arange(size) & 1).astype(np.float64)
    columns = ((1 - rows) @ ones > 0).astype(np.float64)
    _, places = np.unique(np.concatenate([rows, columns], axis=1), axis=0, return_index=True)
    return low + (high - low) * rows[places], (high - low) * columns[places]


def _vertices(worth: Floats) -> tuple[Floats, Floats]:
    """All vertices of the dual, up to a shift between rows and columns."""
    num_rows, num_columns = worth.shape
    scale = max(float(np.ptp(worth)), 1e-300)
    jittered = worth + _JITTER * scale * np.random.default_rng(0).random(worth.shape)
    columns = jittered[0]
    tree = {(0, column) for column in range(num_columns)}
    tree |= {(row, int((jittered[row] - columns).argmax())) for row in range(1, num_rows)}
    start = frozenset(tree)
    seen, waiting, found = {start}, [start], []
    while waiting:
        current = waiting.pop()
        f, g = _potentials(current, jittered)
        exact = _potentials(current, worth)[1]
        found.append(np.concatenate([(worth - exact[None, :]).max(axis=1), exact]))
        slack = f[:, None] + g[None, :] - jittered
        for edge in current:
            rows, cols = _component(current - {edge}, edge[0], num_rows, num_columns)
            outside = np.where(~rows[:, None] & cols[None, :], slack, np.inf)
            place = int(outside.argmin())
            if outside.flat[place] == np.inf:
                continue  # an edge without an end
            other = (current - {edge}) | {divmod(place, num_columns)}
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    vertices = np.stack(found)
    vertices = vertices[np.unique(np.round(vertices / scale, 9), axis=0, return_index=True)[1]]
    return vertices[:, :num_rows], vertices[:, num_rows:]


def _potentials(tree: Any, worth: Floats) -> tuple[Floats, Floats]:
    """Numbers for rows and columns that add up to the worth along the tree; the first row's is zero."""
    f, g = np.full(worth.shape[0], np.nan), np.full(worth.shape[1], np.nan)
    f[0], rest = 0.0, list(tree)
    while rest:
        left = []
        for row, column in rest:
            if f[row] == f[row]:
                g[column] = worth[row, column] - f[row]
            elif g[column] == g[column]:
                f[row] = worth[row, column] - g[column]
            else:
                left.append((row, column))
        rest = left
    return f, g


def _component(edges: Any, row: int, num_rows: int, num_columns: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The rows and columns that a row is connected with."""
    rows, columns = np.zeros(num_rows, bool), np.zeros(num_columns, bool)
    rows[row], grown = True, True
    while grown:
        grown = False
        for one, other in edges:
            if rows[one] != columns[other]:
                rows[one] = columns[other] = grown = True
    return rows, columns
