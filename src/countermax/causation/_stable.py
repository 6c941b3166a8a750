"""Stable bounds: outcomes change only to such as the treatment favours more, in the order of their ratios."""

from functools import cache, lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from countermax.bounds._pieces import Pieces, largest_worth
from countermax.bounds._stable import ratio_tie
from countermax.causation._questions import Flags, Floats

MOST_ORDERED = 6
"""Outcomes whose orders are looked at one by one."""

_FEW = 4  # outcomes for which pieces of all orders are found in no time, whatever the worth
_FAR = 100  # below every price


@final
class Orders:
    """Pairs of worlds, sorted by the order of the ratios of their probabilities."""

    def __init__(self, control: Floats, treated: Floats, *, exact: bool = True):
        """Takes worlds, [..., outcomes]; if `exact`, equal ratios stay equal, whatever time it takes.

        Else those of many outcomes are ordered by place, which allows more couplings, never fewer.
        """
        ranks = ratio_ranks(control, treated)
        if ranks.shape[-1] > _FEW and not exact:
            ranks = np.argsort(np.argsort(ranks, axis=-1, kind="stable"), axis=-1)
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
    if len(np.unique(worth)) > 2 or len(np.unique(ranks)) < len(ranks):
        return largest_worth(worth, stable_cells(ranks))
    order = np.argsort(ranks, kind="stable")
    low, high = float(worth.min()), float(worth.max())
    ordered = _whole_pieces((worth == high)[np.ix_(order, order)].tobytes(), len(worth))
    back = np.argsort(order)
    return Pieces(low + (high - low) * ordered.here[:, back], (high - low) * ordered.there[:, back])


@lru_cache(maxsize=8192)
def _whole_pieces(ones: bytes, size: int) -> Pieces:
    """Pieces for a worth of zeros and ones, whose outcomes are in the order of their ratios.

    They are prices of rows and columns that cover the worth of every pair of an outcome and a later one, or the same.
    Prices of vertices are whole numbers. A row sees every column that a later row sees, so its price is at most one
    less than a later one's. And from the columns up to a place no row but those up to it is seen, so that one of those
    rows is tight with a later column, and the next price is at most one less than the least before. So each price is
    that least one, one more or one less.
    """
    worth = np.frombuffer(ones, bool).reshape(size, size).astype(np.int8)
    here = _prices(size)
    there, needed = np.full_like(here, -_FAR), np.full_like(here, -_FAR)
    for row in range(size):
        np.maximum(there[row:], worth[row, row:, None] - here[row], out=there[row:])
    for row in range(size):
        needed[row] = (worth[row, row:, None] - there[row:]).max(axis=0)
    best = (needed == here).all(axis=0)
    return Pieces(here[:, best].T.astype(np.float64), there[:, best].T.astype(np.float64))


@cache
def _prices(size: int) -> NDArray[np.int8]:
    """[outcomes, ways]: 0, and then one less than the least before, as much, or one more."""
    steps = np.indices((3,) * (size - 1), np.int8).reshape(size - 1, -1) - np.int8(1)
    prices = np.zeros((size, steps.shape[1]), np.int8)
    for place in range(1, size):
        prices[place] = prices[:place].min(axis=0) + steps[place - 1]
    return prices


def ratio_ranks(control: Floats, treated: Floats) -> NDArray[np.int64]:
    """Places of the outcomes by how much the treatment favours them; equal ones have one place."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(control)
        nowhere = (control <= 0) & (treated <= 0)
        ratio = np.where(nowhere, 0.0, np.log(treated) - logs)
        finite = np.isfinite(ratio)
        tie = ratio_tie(np.where(finite, ratio, 0.0), np.where(finite & ~nowhere, logs, 0.0))
        order = np.argsort(ratio, axis=-1, kind="stable")
        ordered, tie = (np.take_along_axis(each, order, axis=-1) for each in (ratio, tie))
        higher = ordered[..., 1:] - ordered[..., :-1] > np.maximum(tie[..., 1:], tie[..., :-1])
    ranks = np.concatenate([np.zeros((*ratio.shape[:-1], 1), np.int64), np.cumsum(higher, axis=-1)], axis=-1)
    result = np.empty(ratio.shape, np.int64)
    np.put_along_axis(result, order, ranks, axis=-1)
    return result


def stable_cells(ranks: NDArray[np.int64]) -> Flags:
    """Which cells a counterfactually stable coupling may have."""
    return np.asarray((ranks[None, :] > ranks[:, None]) | np.eye(len(ranks), dtype=bool))
