"""Stable bounds: outcomes change only to such as the treatment favours more, in the order of their ratios."""

from functools import cache, lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from countermax.bounds import Pieces, largest_worth
from countermax.causation._questions import Flags, Floats

MOST_ORDERED = 6
"""Outcomes whose orders are looked at one by one."""

_FEW = 4  # outcomes for which pieces of all orders are found in no time, whatever the worth
_SAME = 1e-12
_LEVELS = 4  # of whole numbers that are tried as prices of outcomes


@final
class Orders:
    """Pairs of worlds, sorted by the order of the ratios of their probabilities."""

    def __init__(self, control: Floats, treated: Floats):
        """Takes worlds, [..., outcomes]."""
        ranks = ratio_ranks(control, treated)
        self.shape = ranks.shape[:-1]
        flat = ranks.reshape(-1, ranks.shape[-1])
        code = flat @ flat.shape[1] ** np.arange(flat.shape[1])
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        self.patterns = flat[first]
        self.rows = np.argsort(which.ravel(), kind="stable")
        self.ends = np.cumsum(np.bincount(which.ravel(), minlength=len(first)))
        self.control, self.treated = (
            np.broadcast_to(each, ranks.shape).reshape(flat.shape)[self.rows] for each in (control, treated)
        )


def largest_stable(worth: Floats, orders: Orders) -> Floats:
    """The largest mean worth over couplings in which outcomes change only to such as the treatment favours more."""
    result, start = np.empty(len(orders.rows)), 0
    for pattern, end in zip(orders.patterns, orders.ends, strict=True):
        some = slice(start, end)
        pieces = pieces_of_order(worth, pattern)
        result[orders.rows[some]] = pieces.least(orders.control[some], orders.treated[some])
        start = end
    return result.reshape(orders.shape)


def has_pieces(worth: Floats) -> bool:
    """Whether stable bounds of many worlds can be found in a time that a person would wait."""
    return len(worth) <= _FEW or (len(worth) <= MOST_ORDERED and len(np.unique(worth)) <= 2)


def pieces_of_order(worth: Floats, ranks: NDArray[np.int64]) -> Pieces:
    """Pieces of the largest mean worth over couplings that are stable for this order of ratios."""
    if len(worth) <= _FEW or len(np.unique(worth)) > 2:
        return largest_worth(worth, stable_pairs(ranks))
    return _whole_pieces((worth == worth.max()).tobytes(), ranks.tobytes(), float(worth.min()), float(worth.max()))


@lru_cache(maxsize=4096)
def _whole_pieces(ones: bytes, ranks: bytes, low: float, high: float) -> Pieces:
    """The same for a worth with two values, among prices that are small whole numbers.

    Prices of such a transport problem are whole numbers. Any that cover the worth of all pairs give a bound that holds;
    of those that are tried, the best are kept: prices of rows and columns none of which can be lowered.
    """
    order = np.frombuffer(ranks, np.int64)
    size = len(order)
    worth = np.frombuffer(ones, bool).reshape(size, size).astype(np.int8)
    pairs = [(i, j) for i, j in zip(*np.nonzero(stable_pairs(order)), strict=True)]
    here = _prices(size)
    there = np.full_like(here, -_LEVELS)
    for i, j in pairs:
        np.maximum(there[j], worth[i, j] - here[i], out=there[j])
    needed = np.full_like(here, -_LEVELS)
    for i, j in pairs:
        np.maximum(needed[i], worth[i, j] - there[j], out=needed[i])
    best = (needed == here).all(axis=0)
    span = high - low
    return Pieces(low + span * here[:, best].T.astype(np.float64), span * there[:, best].T.astype(np.float64))


@cache
def _prices(size: int) -> NDArray[np.int8]:
    """[outcomes, ways]: whole numbers from 0 on, the least of which is 0."""
    ways = np.indices((_LEVELS,) * size, np.int8).reshape(size, -1)
    return np.ascontiguousarray(ways[:, ways.min(axis=0) == 0])


def ratio_ranks(control: Floats, treated: Floats) -> NDArray[np.int64]:
    """Places of the outcomes by how much the treatment favours them; equal ones have one place."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(control > 0, treated / control, np.where(treated > 0, np.inf, 1.0))
    order = np.argsort(ratio, axis=-1, kind="stable")
    ordered = np.take_along_axis(ratio, order, axis=-1)
    with np.errstate(invalid="ignore"):
        higher = ordered[..., 1:] > ordered[..., :-1] * (1 + _SAME)
    ranks = np.concatenate([np.zeros((*ratio.shape[:-1], 1), np.int64), np.cumsum(higher, axis=-1)], axis=-1)
    result = np.empty(ratio.shape, np.int64)
    np.put_along_axis(result, order, ranks, axis=-1)
    return result


def stable_pairs(ranks: NDArray[np.int64]) -> Flags:
    """Which pairs a counterfactually stable coupling may have."""
    return np.asarray((ranks[None, :] > ranks[:, None]) | np.eye(len(ranks), dtype=bool))
