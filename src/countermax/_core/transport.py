"""Exact optimal transport between two distributions: the one place that calls POT."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_MOST_STEPS = 10_000_000  # of the network simplex; it stops by itself far earlier


class Transport(NamedTuple):
    """A solved transport problem."""

    plan: Floats
    """[i, j]: how much mass goes from i to j; what lies below the simplex's resolution may be missing."""
    prices: Floats
    """Dual of each column: one more grain of mass in row i would go where cost minus price is least."""


def transport_plan(p: ArrayLike, q: ArrayLike, costs: ArrayLike) -> Transport:
    """The plan with the least total cost, by POT's network simplex, in double precision.

    Args:
        p: Masses of the rows; scaled to sum to one.
        q: Masses of the columns; scaled to sum to one.
        costs: Cost of each cell; may be negative.
    """
    import ot

    rows, columns, matrix = (np.asarray(each, np.float64) for each in (p, q, costs))
    # The same plan without negative costs: POT takes some feasible problems that have them for infeasible ones.
    shifted = matrix - matrix.min()
    plan, log = ot.emd(rows / rows.sum(), columns / columns.sum(), shifted, numItermax=_MOST_STEPS, log=True)
    return Transport(plan, log["v"])
