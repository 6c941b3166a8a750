"""Compiled loops for nested Gumbel-max: rows and joint laws, one pair of worlds after the other.

The formulas, and why they hold, are in `countermax._nests`; `tests/kernel` runs one set of cases through both. Here
a piece between two gains has as many nodes as its width needs, and nothing is done before the gain of what was seen.
All that these loops call is in this file, for the reason that `_loops` gives.
"""

from math import exp, inf, log, pi
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from countermax._kernel._loops import compiled, inner, jitted

_FAR = 40.0  # scales from where a nest rises, beyond which nothing is left of it
_MOST = 16  # nodes on a piece


def _rules() -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n"], Float[np.ndarray, " m"]]:
    """Nodes and weights of Gauss and Legendre by their number, and the widest piece, in scales, that it serves.

    The integrand is analytic up to a distance of pi scales from the real line, so n nodes on a piece of width w leave
    an error of `r^(-2n)`, where `(r - 1/r) / 2 = 2 pi / w`.
    """
    nodes, weights, widest = np.zeros((_MOST + 1, _MOST)), np.zeros((_MOST + 1, _MOST)), np.zeros(_MOST + 1)
    for count in range(2, _MOST + 1):
        nodes[count, :count], weights[count, :count] = np.polynomial.legendre.leggauss(count)
        ratio = 10.0 ** (8.0 / count)
        widest[count] = 4 * pi / (ratio - 1 / ratio)
    return nodes, weights, widest


_NODES, _WEIGHTS, _WIDEST = _rules()


class Nests(NamedTuple):
    """What loops have to know about a tree; nest 0 is the root, and nests come by their depth."""

    home: Int[np.ndarray, " k"]
    parent: Int[np.ndarray, " m"]
    own: Float[np.ndarray, " m"]
    """Dissimilarities; 0 for the root."""
    scale: Float[np.ndarray, " m"]


# Rows of the numbers that nests have room for.
TOTAL_P, TOTAL_Q, SHARE_P, SHARE_Q, WORTH_P, WORTH_Q, RISE = 0, 1, 2, 3, 4, 5, 6
ARRIVED, COMING, LIFT, FADING, SUM, GROWTH = 7, 8, 9, 10, 11, 12
SHARE, ARRIVING, WEIGHT, CHANCE = 13, 14, 15, 16
OWN_P, OWN_Q, HELD, HERE, STAGE, EARLY = 17, 18, 19, 20, 21, 22
NUM_OF_NESTS = 23
# Stages of a nest. Of one that has not begun, or has ended, nothing has to be computed: it is as in one of the worlds.
TO_COME, BEGUN, ENDED, IN_ONE_WORLD = 0, 1, 2, 3
# Rows of those that outcomes have room for.
P, Q, GAIN = 0, 1, 2
NUM_OF_OUTCOMES = 3


class NestRoom(NamedTuple):
    """Memory for one pair of worlds at a time."""

    outcomes: Float[np.ndarray, "3 k"]
    numbers: Float[np.ndarray, "23 m"]
    order: Int[np.ndarray, " k"]
    """The outcomes by ascending gain."""
    answer: Float[np.ndarray, " k"]
    joint: Float[np.ndarray, "k k"]
    rise: Float[np.ndarray, "k k"]
    """In cells, the mean of by how much the best utility rises; empty where nobody asks."""
    gone: Float[np.ndarray, "2 a m"]
    """What went from any nest to any other, or for a row from one nest."""
    before: Float[np.ndarray, "2 2 k m"]
    """What that was when each outcome arrived."""
    rates: Float[np.ndarray, "a m"]


@inner
def _set_rates(nests, n, rates):
    """What an outcome of nest n adds to the rate of each nest around it."""
    while n:
        rates[n] = (1 - nests.own[n]) / nests.scale[n]
        n = nests.parent[n]


@jitted
def _new_room(nests, with_joint, with_rise):
    size, count = nests.home.size, nests.parent.size
    cells, flows, rises = size if with_joint else 0, count if with_joint else 1, size if with_rise else 0
    rates = np.zeros((flows, count))
    for a in range(flows):
        _set_rates(nests, a, rates[a])
    return NestRoom(
        np.empty((NUM_OF_OUTCOMES, size)),
        np.empty((NUM_OF_NESTS, count)),
        np.empty(size, np.int64),
        np.empty(size),
        np.empty((cells, cells)),
        np.empty((rises, rises)),
        np.zeros((2, flows, count)),
        np.empty((2, 2, cells, count)),
        rates,
    )


@inner
def _add_logs(a, b):
    high, low = max(a, b), min(a, b)
    return high if low == -inf else high + log(1 + exp(low - high))


@inner
def _total_up(nests, logs, total, numbers):
    """Logarithms of the totals of all nests."""
    for n in range(nests.parent.size):
        numbers[total, n], numbers[SUM, n] = -inf, 0.0
    for k in range(nests.home.size):
        numbers[total, nests.home[k]] = max(numbers[total, nests.home[k]], logs[k])
    for k in range(nests.home.size):
        if logs[k] > -inf:
            numbers[SUM, nests.home[k]] += exp(logs[k] - numbers[total, nests.home[k]])
    for n in range(nests.parent.size):
        if numbers[total, n] > -inf:
            numbers[total, n] += log(numbers[SUM, n])
    for n in range(nests.parent.size - 1, 0, -1):
        numbers[total, nests.parent[n]] = _add_logs(numbers[total, nests.parent[n]], numbers[total, n])


@inner
def _share_out(nests, log_p, log_q, room):
    """Shares within nests, what nests are worth, gains of all outcomes, and the outcomes by ascending gain."""
    home, parent, own, scale = nests
    outcomes, numbers, order = room.outcomes, room.numbers, room.order
    size, count = home.size, parent.size
    _total_up(nests, log_p, TOTAL_P, numbers)
    _total_up(nests, log_q, TOTAL_Q, numbers)
    for n in range(count):
        for each in (ARRIVED, COMING, HELD, HERE):
            numbers[each, n] = 0.0
        outer = parent[n]
        for total, share, worth in ((TOTAL_P, SHARE_P, WORTH_P), (TOTAL_Q, SHARE_Q, WORTH_Q)):
            if n == 0:
                numbers[share, n], numbers[worth, n] = 0.0, 0.0
            elif numbers[total, n] > -inf:
                numbers[share, n] = numbers[total, n] - numbers[total, outer]
                numbers[worth, n] = numbers[worth, outer] + scale[outer] * numbers[share, n]
            else:
                numbers[share, n], numbers[worth, n] = -inf, -inf
        both = numbers[TOTAL_P, n] > -inf and numbers[TOTAL_Q, n] > -inf
        numbers[RISE, n] = numbers[WORTH_Q, n] - numbers[WORTH_P, n] if both else inf
        numbers[STAGE, n] = TO_COME if both else IN_ONE_WORLD
        numbers[OWN_P, n] = exp(numbers[SHARE_P, n]) if numbers[SHARE_P, n] > -inf else 0.0
        numbers[OWN_Q, n] = exp(numbers[SHARE_Q, n]) if numbers[SHARE_Q, n] > -inf else 0.0
    for k in range(size):
        n = home[k]
        outcomes[P, k] = exp(log_p[k] - numbers[TOTAL_P, n]) if log_p[k] > -inf else 0.0
        outcomes[Q, k] = exp(log_q[k] - numbers[TOTAL_Q, n]) if log_q[k] > -inf else 0.0
        if log_q[k] == -inf:
            outcomes[GAIN, k] = -inf
        elif log_p[k] == -inf:
            outcomes[GAIN, k] = inf
        else:
            apart = (log_q[k] - numbers[TOTAL_Q, n]) - (log_p[k] - numbers[TOTAL_P, n])
            outcomes[GAIN, k] = numbers[RISE, n] + scale[n] * apart
        numbers[COMING, n] += outcomes[Q, k]
        numbers[HELD, n] += 1
        order[k] = k
    for n in range(count - 1, 0, -1):
        numbers[HELD, parent[n]] += numbers[HELD, n]
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, size):
            moved, hole = order[at], at
            while hole >= gap and outcomes[GAIN, order[hole - gap]] > outcomes[GAIN, moved]:
                order[hole] = order[hole - gap]
                hole -= gap
            order[hole] = moved
        gap //= 3


@inner
def _arrive(nests, k, outcomes, numbers):
    n = nests.home[k]
    numbers[ARRIVED, n] += outcomes[P, k]
    numbers[COMING, n] = max(numbers[COMING, n] - outcomes[Q, k], 0.0)
    while True:
        numbers[HERE, n] += 1
        if numbers[STAGE, n] != IN_ONE_WORLD:
            numbers[STAGE, n] = ENDED if numbers[HERE, n] == numbers[HELD, n] else BEGUN
        if n == 0:
            break
        n = nests.parent[n]


@inner
def _look(nests, rise, numbers):
    """All nests where the best utility rises by this much."""
    home, parent, own, scale = nests
    count = parent.size
    for n in range(count):
        numbers[LIFT, n], numbers[FADING, n], numbers[EARLY, n] = 0.0, 1.0, 1.0
        if numbers[STAGE, n] == BEGUN:
            late = (rise - numbers[RISE, n]) / scale[n]
            fading = exp(-abs(late))
            if late >= 0:
                numbers[FADING, n] = fading
                numbers[SUM, n] = numbers[ARRIVED, n] + numbers[COMING, n] * fading
            else:
                numbers[LIFT, n], numbers[EARLY, n] = -late, fading
                numbers[SUM, n] = numbers[ARRIVED, n] * fading + numbers[COMING, n]
        else:
            if numbers[STAGE, n] == TO_COME:
                numbers[LIFT, n] = (numbers[RISE, n] - rise) / scale[n]
            numbers[SUM, n] = numbers[ARRIVED, n] + numbers[COMING, n]
    for n in range(count - 1, -1, -1):
        numbers[GROWTH, n] = numbers[LIFT, n]
        if numbers[STAGE, n] == BEGUN:
            numbers[GROWTH, n] += log(numbers[SUM, n])
        elif numbers[STAGE, n] != IN_ONE_WORLD or numbers[SUM, n] <= 0:
            numbers[SUM, n] = 1.0
        if n:
            outer = parent[n]
            if numbers[STAGE, n] == BEGUN:
                share = exp(numbers[SHARE_P, n] + own[n] * numbers[GROWTH, n] - numbers[LIFT, outer])
            elif numbers[STAGE, n] == TO_COME or numbers[TOTAL_P, n] == -inf:
                share = numbers[OWN_Q, n] * numbers[FADING, outer]
            else:
                share = numbers[OWN_P, n] * numbers[EARLY, outer]
            numbers[SHARE, n] = share
            numbers[SUM, outer] += share
    for n in range(count):
        starts = numbers[TOTAL_P, n] > -inf
        numbers[ARRIVING, n] = numbers[FADING, n] / numbers[SUM, n] if starts else 1.0
        if n:
            outer = parent[n]
            kept = numbers[TOTAL_P, outer] > -inf
            numbers[SHARE, n] = numbers[SHARE, n] / numbers[SUM, outer] if kept else numbers[OWN_Q, n]


@inner
def _kept(nests, n, numbers):
    """By how much the probability of an outcome of nest n that has arrived is less than it was."""
    logs = numbers[GROWTH, 0]
    while n:
        logs += (1 - nests.own[n]) * numbers[GROWTH, n]
        n = nests.parent[n]
    return exp(-logs)


@inner
def _step(nests, start, end, numbers):
    """Where the next piece ends, and how many nodes it needs."""
    window = min(end, start + 4.0)
    least = 1.0
    for n in range(1, nests.parent.size):
        if numbers[STAGE, n] == BEGUN and nests.scale[n] < least:
            rise, reach = numbers[RISE, n], _FAR * nests.scale[n]
            if rise - reach < window and rise + reach > start:
                least = nests.scale[n]
    window = min(end, start + 4.0 * least)
    if end - window < 0.1 * least:
        window = end
    width = (window - start) / least
    count = 2
    while count < _MOST and _WIDEST[count] < width:
        count += 1
    return window, count


@inner
def _range(nests, numbers):
    """Where anything is left to integrate."""
    low, high = 0.0, 0.0
    for n in range(nests.parent.size):
        if numbers[RISE, n] < inf:
            low, high = min(low, numbers[RISE, n]), max(high, numbers[RISE, n])
    return low - _FAR, high + _FAR


@inner
def _integrate(nests, start, end, first, last, room):
    """Adds to `gone` what leaves nests from the first on, before the last, while the best utility rises so far."""
    parent, own, numbers, gone, rates = nests.parent, nests.own, room.numbers, room.gone, room.rates
    with_rise = room.rise.size > 0
    while start < end:
        stop, num_nodes = _step(nests, start, end, numbers)
        middle, half = (start + stop) / 2, (stop - start) / 2
        start = stop
        for node in range(num_nodes):
            place = middle + half * _NODES[num_nodes, node]
            _look(nests, place, numbers)
            numbers[CHANCE, 0] = numbers[GROWTH, 0]
            for n in range(1, last):
                numbers[CHANCE, n] = numbers[CHANCE, parent[n]] + (1 - own[n]) * numbers[GROWTH, n]
            numbers[WEIGHT, 0] = 1.0
            for a in range(first, last):
                if numbers[STAGE, a] == TO_COME:  # nobody is there who could leave
                    continue
                weight = half * _WEIGHTS[num_nodes, node] * exp(-numbers[CHANCE, a])
                for b in range(parent.size):
                    if b:
                        numbers[WEIGHT, b] = numbers[WEIGHT, parent[b]] * numbers[SHARE, b] + rates[a - first, b]
                    flow = weight * numbers[WEIGHT, b] * numbers[ARRIVING, b]
                    gone[0, a - first, b] += flow
                    if with_rise:
                        gone[1, a - first, b] += place * flow


@inner
def _write_row(nests, log_p, log_q, x, room):
    """P(Y=. | X=x) in `answer`."""
    home, outcomes, numbers, order, answer = nests.home, room.outcomes, room.numbers, room.order, room.answer
    _share_out(nests, log_p, log_q, room)
    low, high = _range(nests, numbers)
    room.gone[:], room.rates[:] = 0.0, 0.0
    _set_rates(nests, home[x], room.rates[0])
    at = 0
    while True:
        k = order[at]
        _arrive(nests, k, outcomes, numbers)
        answer[k] = 0.0
        at += 1
        if k == x:
            break
    if log_q[x] > -inf:
        _look(nests, outcomes[GAIN, x], numbers)
        answer[x] = _kept(nests, home[x], numbers)
    start = max(outcomes[GAIN, x], low)
    for later in range(at, home.size):
        j = order[later]
        end = min(outcomes[GAIN, j], high)
        _integrate(nests, start, end, home[x], home[x] + 1, room)
        start = max(start, end)
        answer[j] = outcomes[Q, j] * room.gone[0, 0, home[j]]
        _arrive(nests, j, outcomes, numbers)


@inner
def _write_joint(nests, log_p, log_q, room):
    """P(X=i, Y=j) in `joint`, and `rise` unless it is empty, by one walk over all pieces."""
    home, outcomes, numbers, order = nests.home, room.outcomes, room.numbers, room.order
    joint, rise, gone, before = room.joint, room.rise, room.gone, room.before
    count, with_rise = nests.parent.size, rise.size > 0
    _share_out(nests, log_p, log_q, room)
    low, high = _range(nests, numbers)
    gone[:] = 0.0
    start = max(low, outcomes[GAIN, order[0]])  # before, nobody has arrived who could leave
    for at in range(home.size):
        j = order[at]
        end = min(outcomes[GAIN, j], high)
        _integrate(nests, start, end, 0, count, room)
        start = max(start, end)
        n = home[j]
        _arrive(nests, j, outcomes, numbers)
        for other in range(count):
            for kind in range(2):
                before[kind, 0, j, other] = gone[kind, n, other]
                before[kind, 1, j, other] = gone[kind, other, n]
        joint[j, j] = 0.0
        if -inf < outcomes[GAIN, j] < inf:
            _look(nests, outcomes[GAIN, j], numbers)
            joint[j, j] = exp(log_p[j]) * _kept(nests, n, numbers)
        if with_rise:
            rise[j, j] = joint[j, j] * outcomes[GAIN, j] if joint[j, j] > 0 else 0.0
        for back in range(at):
            i = order[back]
            weight = exp(log_p[i]) * outcomes[Q, j]
            joint[j, i] = 0.0
            joint[i, j] = weight * max(before[0, 1, j, home[i]] - before[0, 0, i, n], 0.0)
            if with_rise:
                rise[j, i] = 0.0
                rise[i, j] = weight * (before[1, 1, j, home[i]] - before[1, 0, i, n])


@compiled
def row_lines(nests, log_p, log_q, x, out, first, begin, end):
    """Rows of P(Y=. | X=x), each written down a column of `out`."""
    room = _new_room(nests, False, False)
    for row in range(begin, end):
        _write_row(nests, log_p[row], log_q[row], x[row], room)
        for j in range(len(room.answer)):
            out[j, first + row] = room.answer[j]


@compiled
def joint_lines(nests, log_p, log_q, weight, shift, out, begin, end):
    """Sums of weighed joint laws, of their squares, and of by how much the best utility rises, into `out`.

    `shift` is added to every rise. Where `out` has no third layer, no rise is asked for.
    """
    room = _new_room(nests, True, len(out) > 2)
    for row in range(begin, end):
        _write_joint(nests, log_p[row], log_q[row], room)
        for i in range(len(room.joint)):
            for j in range(len(room.joint)):
                cell = weight[row] * room.joint[i, j]
                out[0, i, j] += cell
                out[1, i, j] += cell * cell
                if len(out) > 2:
                    out[2, i, j] += weight[row] * room.rise[i, j] + shift[row] * cell


@compiled
def worth_lines(nests, log_p, log_q, worths, out, begin, end):
    """E[worth(X, Y)] for each worth and each pair of worlds."""
    room = _new_room(nests, True, False)
    for row in range(begin, end):
        _write_joint(nests, log_p[row], log_q[row], room)
        for place in range(len(worths)):
            total = 0.0
            for i in range(len(room.joint)):
                for j in range(len(room.joint)):
                    total += worths[place, i, j] * room.joint[i, j]
            out[place, row] = total
