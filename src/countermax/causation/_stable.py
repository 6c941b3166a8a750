"""Stable bounds: outcomes change only to such as the treatment favours more, in the order of their ratios."""

from typing import final

import numpy as np
from numpy.typing import NDArray

from countermax.bounds import largest_worth
from countermax.causation._questions import Flags, Floats

_SAME = 1e-12


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
        pieces = largest_worth(worth, stable_pairs(pattern))
        result[orders.rows[some]] = pieces.least(orders.control[some], orders.treated[some])
        start = end
    return result.reshape(orders.shape)


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
