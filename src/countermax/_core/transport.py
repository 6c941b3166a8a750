"""Exact optimal transport between two distributions: the one place that calls POT.

POT computes in double precision, in which masses below some 1e-15 of the whole are lost. Where there are such masses
the plan is found again, in whole numbers as long as it takes.
"""

from itertools import pairwise
from math import exp, floor, log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from countermax._core.checks import normalised

Floats = NDArray[np.float64]

_RESOLVED = 1e-10  # relative error of a marginal up to which POT's plan is taken as it is
_GAP = 150.0  # logarithm of a ratio of masses that is as good as infinite: further apart, they never meet in a sum
_MOST_STEPS = 10_000_000  # of the network simplex; it stops by itself far earlier


class Transport(NamedTuple):
    """A solved transport problem."""

    plan: Floats
    """[i, j]: how much mass goes from i to j; what lies below the simplex's resolution may be missing."""
    prices: Floats
    """Dual of each column: one more grain of mass in row i would go where cost minus price is least."""


class Shares(NamedTuple):
    """The cells of a plan that are used."""

    columns: NDArray[np.intp]
    rows: NDArray[np.intp]
    shares: Floats
    """Which share of the column's mass comes from the row; those of a column sum to one."""


def transport_plan(p: ArrayLike, q: ArrayLike, costs: ArrayLike) -> Transport:
    """The plan with the least total cost, by POT's network simplex, in double precision."""
    import ot

    rows, columns, matrix = (np.asarray(each, np.float64) for each in (p, q, costs))
    # The same plan without negative costs: POT takes some feasible problems that have them for infeasible ones. And
    # with costs of usual size, by a power of two: it takes very small ones for zero.
    power = _power(matrix)
    scaled = np.ldexp(matrix, -power)
    plan, found = ot.emd(
        rows / rows.sum(), columns / columns.sum(), scaled - scaled.min(), numItermax=_MOST_STEPS, log=True
    )
    return Transport(plan, np.ldexp(found["v"], power))


def transport_rows(log_p: ArrayLike, log_q: ArrayLike, costs: ArrayLike) -> Floats:
    """[i, j]: which share of row i's mass the plan with the least total cost sends to j; masses may be of any size.

    An impossible row has no mass to send; in its place stand the masses of the columns.
    """
    matrix = np.asarray(costs, np.float64)
    matrix = np.ldexp(matrix, -_power(matrix))
    logs = [normalised(np.asarray(each, np.float64)) for each in (log_p, log_q)]
    p, q = (np.exp(each) for each in logs)
    plan, prices = transport_plan(p, q, matrix)
    if not all(_is_resolved(*each) for each in ((logs[0], p, plan.sum(axis=1)), (logs[1], q, plan.sum(axis=0)))):
        plan = _exact_rows(*_whole_numbers(*logs), matrix, prices)
    sums = plan.sum(axis=1, keepdims=True)
    return np.where(sums > 0, plan, q) / np.where(sums > 0, sums, 1)


def transport_shares(log_p: ArrayLike, log_q: ArrayLike, costs: Floats) -> Shares:
    """Which share of each column's mass the plan with the least total cost takes from which row.

    `transport_rows` seen from the other side, in sparse form: a plan has no more cells than rows and columns together.
    The network simplex is quicker where the longer side stands in the rows.
    """
    logs = [normalised(np.asarray(each, np.float64)) for each in (log_p, log_q)]
    possible = np.flatnonzero(logs[1] > -np.inf)
    p, q = np.exp(logs[0]), np.exp(logs[1][possible])
    plan = transport_plan(p, q, costs if possible.size == logs[1].size else costs[:, possible]).plan
    rows, columns = np.nonzero(plan)
    amounts = plan[rows, columns]
    sums = np.bincount(columns, amounts, possible.size).astype(np.float64)
    if _is_resolved(logs[1][possible], q, sums):
        return Shares(possible[columns], rows, amounts / sums[columns])
    exact = transport_rows(logs[1][possible], logs[0], costs[:, possible].T)
    columns, rows = np.nonzero(exact)
    return Shares(possible[columns], rows, exact[columns, rows])


def _power(costs: Floats) -> int:
    """Of two, by which the largest cost is as large as one."""
    return int(np.frexp(np.abs(costs).max())[1])


def _is_resolved(logs: Floats, masses: Floats, found: Floats) -> bool:
    return bool((np.abs(found - masses) <= _RESOLVED * masses)[logs > -np.inf].all() and masses[logs > -np.inf].all())


def _whole_numbers(log_p: Floats, log_q: Floats) -> tuple[list[int], list[int]]:
    """Both sides' masses in whole numbers with one sum.

    Gaps that are as good as infinite are shortened, so that the numbers have some thousand digits at most. What the two
    sums differ by is rounding; the largest mass takes it.
    """
    together = np.concatenate([log_p, log_q])
    levels = np.unique(together[together > -np.inf])[::-1]
    places = np.cumsum(np.minimum(-np.diff(levels, prepend=levels[0]), _GAP + log(len(together))))
    lowest = floor(-places[-1] / log(2))

    def whole(mass: float) -> int:
        place = -float(places[np.searchsorted(-levels, -mass)])
        power = floor(place / log(2))
        return int(exp(place - power * log(2)) * 2**53) << (power - lowest)

    p, q = ([whole(each) if each > -np.inf else 0 for each in side] for side in (log_p, log_q))
    less = p if sum(p) < sum(q) else q
    less[less.index(max(less))] += abs(sum(p) - sum(q))
    return p, q


def _exact_rows(p: list[int], q: list[int], costs: Floats, prices: Floats) -> Floats:
    """The same rows by successive shortest paths: amounts are whole numbers, so none is too small to count.

    The prices say which cells are worth using, and only what they leave open has to be searched for.
    """
    supply, demand = list(p), list(q)
    open_columns = np.array([each > 0 for each in demand])
    prices = np.where(open_columns, prices, 0.0)
    rents = np.where(open_columns, costs - prices, np.inf).min(axis=1)
    flow: list[dict[int, int]] = [{} for _ in demand]  # by column, then row
    for source in sorted(range(len(supply)), key=supply.__getitem__, reverse=True):
        while supply[source]:
            path = _cheapest_path(source, demand, flow, costs, rents, prices, open_columns)
            returned = [(column, row) for (_, column), (row, _) in pairwise(path)]
            amount = min(supply[source], demand[path[-1][1]], *(flow[column][row] for column, row in returned))
            for column, row in returned:
                flow[column][row] -= amount
            for row, column in path:
                flow[column][row] = flow[column].get(row, 0) + amount
            supply[source] -= amount
            demand[path[-1][1]] -= amount
    rows = np.zeros(costs.shape)
    for column, amounts in enumerate(flow):
        for row, amount in amounts.items():
            rows[row, column] = amount / p[row]
    return rows


def _cheapest_path(
    source: int,
    demand: list[int],
    flow: list[dict[int, int]],
    costs: Floats,
    rents: Floats,
    prices: Floats,
    open_columns: NDArray[np.bool_],
) -> list[tuple[int, int]]:
    """Cells to use, from a row with mass left to a column with room left; between two of them mass is taken back.

    By Dijkstra's algorithm on reduced costs, which it keeps from falling below zero: `rents` and `prices` are updated.
    """
    distance, via = np.full(len(demand), np.inf), np.full(len(demand), source)
    passed, given_up, waiting = {source: 0.0}, {source: -1}, open_columns.copy()
    rows = [source]
    while True:
        for row in rows:
            through = passed[row] + np.maximum(costs[row] - rents[row] - prices, 0)
            nearer = waiting & (through < distance)
            distance[nearer], via[nearer] = through[nearer], row
        column = int(np.where(waiting, distance, np.inf).argmin())
        waiting[column] = False
        if demand[column]:
            break
        rows = [row for row, amount in flow[column].items() if amount and row not in passed]
        passed.update(dict.fromkeys(rows, float(distance[column])))
        given_up.update(dict.fromkeys(rows, column))
    end = float(distance[column])
    for row, before in passed.items():
        rents[row] += end - before
    done = open_columns & ~waiting
    prices[done] -= end - distance[done]
    path = [(int(via[column]), column)]
    while path[-1][0] != source:
        column = given_up[path[-1][0]]
        path.append((int(via[column]), column))
    return path[::-1]
