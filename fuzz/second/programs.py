"""Answers by linear programming: slow, and nothing to get wrong. For few outcomes."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from fuzz.second.laws import World

TOLERANCE = 1e-6  # of the solver


def least_loss(p: Sequence[float], q: Sequence[float], loss: Sequence[Sequence[float]]) -> float:
    """The least expected loss of any coupling."""
    size = len(p)
    a_eq, b_eq = _marginals(p, q)
    found = linprog(np.ravel(np.asarray(loss, float)), A_eq=a_eq, b_eq=b_eq, bounds=[(0, None)] * size**2)
    assert found.success, found.message
    return float(found.fun)


def extremes(
    p: Sequence[float], q: Sequence[float], x: int, weights: Sequence[float], *, stable: bool
) -> tuple[float, float]:
    """The least and the largest sum of `weights[j] P(Y=j | X=x)`, of all couplings or of the stable ones.

    In a stable coupling an outcome changes only to one that the change of worlds favours more.
    """
    size = len(p)
    cost = np.zeros((size, size))
    cost[x] = np.asarray(weights, float) / p[x]
    cells = [
        (0, 0) if stable and i != j and q[j] * p[i] <= q[i] * p[j] * (1 + 1e-12) else (0, None)
        for i in range(size)
        for j in range(size)
    ]
    a_eq, b_eq = _marginals(p, q)
    low, high = (linprog(sign * cost.ravel(), A_eq=a_eq, b_eq=b_eq, bounds=cells) for sign in (1, -1))
    assert low.success, low.message
    assert high.success, high.message
    return float(low.fun), float(-high.fun)


def stable_bounds(p: World, q: World, x: int, score: Sequence[float] | None = None) -> list[tuple[float, float]] | None:
    """The bounds of each P(Y=j | X=x), or of one score's mean, over stable couplings; None where this is inaccurate.

    That is where there are many outcomes, where some are rare, or where two are favoured nearly alike, so that rounding
    decides whether mass may move between them.
    """
    ratios = sorted(math.log(float(b / a)) for a, b in zip(p, q, strict=True) if a and b)
    near = any(1e-15 < right - left < 1e-9 for left, right in zip(ratios, ratios[1:], strict=False))
    if len(p) > 5 or near or min(each for each in (*p, *q) if each) < 1e-3:
        return None
    floats = [float(each) for each in p], [float(each) for each in q]
    weights = [[float(j == k) for k in range(len(p))] for j in range(len(p))] if score is None else [score]
    return [extremes(*floats, x, each, stable=True) for each in weights]


def _marginals(p: Sequence[float], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    size = len(p)
    rows = np.kron(np.eye(size), np.ones(size))
    columns = np.kron(np.ones(size), np.eye(size))
    return np.concatenate([rows, columns])[:-1], np.concatenate([p, q]).astype(float)[:-1]
