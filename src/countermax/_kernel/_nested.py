"""Compiled loops for nested Gumbel-max: rows and joint laws, one pair of worlds after the other.

The formulas, and why they are right, are in `countermax.nests`; `tests/kernel` runs one set of cases through both. Here
a piece between two gains has as many nodes as its width needs, and nothing is done before the gain of what was seen.
All that these loops call is in this file, for the reason that `_loops` gives.
"""

from math import exp, inf, log, pi
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from countermax._kernel._loops import compiled, inner

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
ARRIVED, COMING, LIFT, FADING, SUM, GROWTH, PART, ARRIVING, GONE, WEIGHT, CHANCE = (
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
)
NUM_OF_NESTS = 18
# Rows of those that outcomes have room for.
P, Q, GAIN = 0, 1, 2
NUM_OF_OUTCOMES = 3


@inner
@no_type_check
def _add_logs(a, b):
    high, low = max(a, b), min(a, b)
    return high if low == -inf else high + log(1 + exp(low - high))


@inner
@no_type_check
def _share_out(nests, log_p, log_q, row, outcomes, numbers, order):
    """Shares within nests, what nests are worth, gains of all outcomes, and the outcomes by ascending gain."""
    home, parent, own, scale = nests
    size, count = home.size, parent.size
    for n in range(count):
        numbers[TOTAL_P, n], numbers[TOTAL_Q, n] = -inf, -inf
    for k in range(size):
        n = home[k]
        numbers[TOTAL_P, n] = max(numbers[TOTAL_P, n], log_p[row, k])
        numbers[TOTAL_Q, n] = max(numbers[TOTAL_Q, n], log_q[row, k])
    for n in range(count):
        numbers[ARRIVED, n], numbers[COMING, n] = 0.0, 0.0
    for k in range(size):
        n = home[k]
        if log_p[row, k] > -inf:
            numbers[ARRIVED, n] += exp(log_p[row, k] - numbers[TOTAL_P, n])
        if log_q[row, k] > -inf:
            numbers[COMING, n] += exp(log_q[row, k] - numbers[TOTAL_Q, n])
    for n in range(count):
        if numbers[TOTAL_P, n] > -inf:
            numbers[TOTAL_P, n] += log(numbers[ARRIVED, n])
        if numbers[TOTAL_Q, n] > -inf:
            numbers[TOTAL_Q, n] += log(numbers[COMING, n])
    for n in range(count - 1, 0, -1):
        outer = parent[n]
        numbers[TOTAL_P, outer] = _add_logs(numbers[TOTAL_P, outer], numbers[TOTAL_P, n])
        numbers[TOTAL_Q, outer] = _add_logs(numbers[TOTAL_Q, outer], numbers[TOTAL_Q, n])
    for n in range(count):
        numbers[ARRIVED, n], numbers[COMING, n], numbers[GONE, n] = 0.0, 0.0, 0.0
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
    for k in range(size):
        n = home[k]
        outcomes[P, k] = exp(log_p[row, k] - numbers[TOTAL_P, n]) if log_p[row, k] > -inf else 0.0
        outcomes[Q, k] = exp(log_q[row, k] - numbers[TOTAL_Q, n]) if log_q[row, k] > -inf else 0.0
        if log_q[row, k] == -inf:
            outcomes[GAIN, k] = -inf
        elif log_p[row, k] == -inf:
            outcomes[GAIN, k] = inf
        else:
            apart = (log_q[row, k] - numbers[TOTAL_Q, n]) - (log_p[row, k] - numbers[TOTAL_P, n])
            outcomes[GAIN, k] = numbers[RISE, n] + scale[n] * apart
        numbers[COMING, n] += outcomes[Q, k]
        order[k] = k
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
@no_type_check
def _arrive(k, n, outcomes, numbers):
    numbers[ARRIVED, n] += outcomes[P, k]
    numbers[COMING, n] = max(numbers[COMING, n] - outcomes[Q, k], 0.0)


@inner
@no_type_check
def _look(nests, rise, numbers):
    """All nests where the best utility rises by this much."""
    home, parent, own, scale = nests
    count = parent.size
    for n in range(count):
        if numbers[RISE, n] < inf:
            late = (rise - numbers[RISE, n]) / scale[n]
            fading = exp(-abs(late))
            if late >= 0:
                numbers[LIFT, n], numbers[FADING, n] = 0.0, fading
                numbers[SUM, n] = numbers[ARRIVED, n] + numbers[COMING, n] * fading
            else:
                numbers[LIFT, n], numbers[FADING, n] = -late, 1.0
                numbers[SUM, n] = numbers[ARRIVED, n] * fading + numbers[COMING, n]
        else:
            numbers[LIFT, n], numbers[FADING, n] = 0.0, 1.0
            numbers[SUM, n] = numbers[ARRIVED, n] + numbers[COMING, n]
    for n in range(count - 1, -1, -1):
        total = numbers[SUM, n] if numbers[SUM, n] > 0 else 1.0
        numbers[SUM, n] = total
        numbers[GROWTH, n] = numbers[LIFT, n] + log(total)
        if n:
            outer = parent[n]
            if numbers[SHARE_P, n] > -inf:
                part = exp(numbers[SHARE_P, n] + own[n] * numbers[GROWTH, n] - numbers[LIFT, outer])
            elif numbers[SHARE_Q, n] > -inf:
                part = exp(numbers[SHARE_Q, n]) * numbers[FADING, outer]
            else:
                part = 0.0
            numbers[PART, n] = part
            numbers[SUM, outer] += part
    for n in range(count):
        starts = numbers[TOTAL_P, n] > -inf
        numbers[ARRIVING, n] = numbers[FADING, n] / numbers[SUM, n] if starts else 1.0
        if n:
            outer = parent[n]
            if numbers[TOTAL_P, outer] > -inf:
                numbers[PART, n] /= numbers[SUM, outer]
            else:
                numbers[PART, n] = exp(numbers[SHARE_Q, n]) if numbers[SHARE_Q, n] > -inf else 0.0


@inner
@no_type_check
def _kept(nests, n, numbers):
    """By how much the probability of an outcome of nest n that has arrived is less than it was."""
    home, parent, own, scale = nests
    logs = numbers[GROWTH, 0]
    while n:
        logs += (1 - own[n]) * numbers[GROWTH, n]
        n = parent[n]
    return exp(-logs)


@inner
@no_type_check
def _step(nests, start, end, numbers):
    """Where the next piece ends, and how many nodes it needs."""
    home, parent, own, scale = nests
    window = min(end, start + 4.0)
    least = 1.0
    for n in range(1, parent.size):
        if numbers[RISE, n] < inf and scale[n] < least:
            rise, reach = numbers[RISE, n], _FAR * scale[n]
            if rise - reach < window and rise + reach > start:
                least = scale[n]
    window = min(end, start + 4.0 * least)
    if end - window < 0.1 * least:
        window = end
    width = (window - start) / least
    count = 2
    while count < _MOST and _WIDEST[count] < width:
        count += 1
    return window, count


@inner
@no_type_check
def _range(nests, numbers):
    """Where anything is left to integrate."""
    low, high = 0.0, 0.0
    for n in range(nests[1].size):
        if numbers[RISE, n] < inf:
            low, high = min(low, numbers[RISE, n]), max(high, numbers[RISE, n])
    return low - _FAR, high + _FAR


@inner
@no_type_check
def _write_row(nests, log_p, log_q, row, x, answer, outcomes, numbers, order):
    """P(Y=. | X=x)."""
    home, parent, own, scale = nests
    size, count = home.size, parent.size
    _share_out(nests, log_p, log_q, row, outcomes, numbers, order)
    low, high = _range(nests, numbers)
    for n in range(count):
        numbers[WEIGHT, n] = 0.0
    n = home[x]
    while True:
        numbers[WEIGHT, n] = (1 - own[n]) / scale[n]
        if n == 0:
            break
        n = parent[n]
    at = 0
    while True:
        k = order[at]
        _arrive(k, home[k], outcomes, numbers)
        answer[k] = 0.0
        at += 1
        if k == x:
            break
    if outcomes[Q, x] > 0 or log_q[row, x] > -inf:
        _look(nests, outcomes[GAIN, x], numbers)
        answer[x] = _kept(nests, home[x], numbers)
    start = max(outcomes[GAIN, x], low)
    while at < size:
        j = order[at]
        end = min(outcomes[GAIN, j], high)
        while start < end:
            stop, num_nodes = _step(nests, start, end, numbers)
            middle, half = (start + stop) / 2, (stop - start) / 2
            for node in range(num_nodes):
                _look(nests, middle + half * _NODES[num_nodes, node], numbers)
                weight = half * _WEIGHTS[num_nodes, node] * _kept(nests, home[x], numbers)
                numbers[CHANCE, 0] = 1.0
                numbers[GONE, 0] += weight * numbers[ARRIVING, 0]
                for n in range(1, count):
                    rate = numbers[CHANCE, parent[n]] * numbers[PART, n] + numbers[WEIGHT, n]
                    numbers[CHANCE, n] = rate
                    numbers[GONE, n] += weight * rate * numbers[ARRIVING, n]
            start = stop
        answer[j] = outcomes[Q, j] * numbers[GONE, home[j]]
        _arrive(j, home[j], outcomes, numbers)
        at += 1


@inner
@no_type_check
def _write_joint(nests, log_p, log_q, row, joint, rise, outcomes, numbers, order, rates, gone, before):
    """P(X=i, Y=j) in `joint`; in `rise`, unless it is empty, the mean of by how much the best utility rises, in cells.

    One walk over all pieces: what went from any nest to any other, `gone`, and what it was when each outcome arrived.
    """
    home, parent, own, scale = nests
    size, count = home.size, parent.size
    with_rise = rise.size > 0
    _share_out(nests, log_p, log_q, row, outcomes, numbers, order)
    low, high = _range(nests, numbers)
    gone[:] = 0.0
    start = max(low, outcomes[GAIN, order[0]])  # before, nobody has arrived who could leave
    for at in range(size):
        j = order[at]
        end = min(outcomes[GAIN, j], high)
        while start < end:
            stop, num_nodes = _step(nests, start, end, numbers)
            middle, half = (start + stop) / 2, (stop - start) / 2
            for node in range(num_nodes):
                place = middle + half * _NODES[num_nodes, node]
                _look(nests, place, numbers)
                numbers[CHANCE, 0] = numbers[GROWTH, 0]
                for n in range(1, count):
                    numbers[CHANCE, n] = numbers[CHANCE, parent[n]] + (1 - own[n]) * numbers[GROWTH, n]
                for a in range(count):
                    weight = half * _WEIGHTS[num_nodes, node] * exp(-numbers[CHANCE, a])
                    for b in range(count):
                        rate = 1.0 if b == 0 else numbers[WEIGHT, parent[b]] * numbers[PART, b] + rates[a, b]
                        numbers[WEIGHT, b] = rate
                        flow = weight * rate * numbers[ARRIVING, b]
                        gone[0, a, b] += flow
                        if with_rise:
                            gone[1, a, b] += place * flow
            start = stop
        n = home[j]
        _arrive(j, n, outcomes, numbers)
        for other in range(count):
            for kind in range(2):
                before[kind, 0, j, other] = gone[kind, n, other]
                before[kind, 1, j, other] = gone[kind, other, n]
        joint[j, j] = 0.0
        if -inf < outcomes[GAIN, j] < inf:
            _look(nests, outcomes[GAIN, j], numbers)
            joint[j, j] = exp(log_p[row, j]) * _kept(nests, n, numbers)
        if with_rise:
            rise[j, j] = joint[j, j] * outcomes[GAIN, j] if joint[j, j] > 0 else 0.0
        for back in range(at):
            i = order[back]
            weight = exp(log_p[row, i]) * outcomes[Q, j]
            joint[j, i] = 0.0
            joint[i, j] = weight * max(before[0, 1, j, home[i]] - before[0, 0, i, n], 0.0)
            if with_rise:
                rise[j, i] = 0.0
                rise[i, j] = weight * (before[1, 1, j, home[i]] - before[1, 0, i, n])


@compiled
@no_type_check
def row_lines(nests, log_p, log_q, x, out, first, begin, end):
    """Rows of P(Y=. | X=x), each written down a column of `out`."""
    size, count = nests[0].size, nests[1].size
    outcomes, numbers = np.empty((NUM_OF_OUTCOMES, size)), np.empty((NUM_OF_NESTS, count))
    order, answer = np.empty(size, np.int64), np.empty(size)
    for row in range(begin, end):
        _write_row(nests, log_p, log_q, row, x[row], answer, outcomes, numbers, order)
        for j in range(size):
            out[j, first + row] = answer[j]


@compiled
@no_type_check
def joint_lines(nests, log_p, log_q, weight, shift, out, strip, begin, end):
    """Sums of weighed joint laws, of their squares, and of by how much the best utility rises, into `out[strip]`.

    `shift` is added to every rise. Where `out` has no third layer, no rise is asked for.
    """
    size, count = nests[0].size, nests[1].size
    outcomes, numbers = np.empty((NUM_OF_OUTCOMES, size)), np.empty((NUM_OF_NESTS, count))
    order, joint = np.empty(size, np.int64), np.empty((size, size))
    rise = np.empty((size, size) if out.shape[1] > 2 else (0, 0))
    gone, before, rates = np.zeros((2, count, count)), np.empty((2, 2, size, count)), np.zeros((count, count))
    home, parent, own, scale = nests
    for a in range(count):
        n = a
        while n:
            rates[a, n] = (1 - own[n]) / scale[n]
            n = parent[n]
    for row in range(begin, end):
        _write_joint(nests, log_p, log_q, row, joint, rise, outcomes, numbers, order, rates, gone, before)
        for i in range(size):
            for j in range(size):
                cell = weight[row] * joint[i, j]
                out[strip, 0, i, j] += cell
                out[strip, 1, i, j] += cell * cell
                if out.shape[1] > 2:
                    out[strip, 2, i, j] += weight[row] * rise[i, j] + shift[row] * cell


@compiled
@no_type_check
def worth_lines(nests, log_p, log_q, worths, out, begin, end):
    """E[worth(X, Y)] for each worth and each pair of worlds."""
    size, count = nests[0].size, nests[1].size
    outcomes, numbers = np.empty((NUM_OF_OUTCOMES, size)), np.empty((NUM_OF_NESTS, count))
    order, joint, rise = np.empty(size, np.int64), np.empty((size, size)), np.empty((0, 0))
    gone, before, rates = np.zeros((2, count, count)), np.empty((2, 2, size, count)), np.zeros((count, count))
    home, parent, own, scale = nests
    for a in range(count):
        n = a
        while n:
            rates[a, n] = (1 - own[n]) / scale[n]
            n = parent[n]
    for row in range(begin, end):
        _write_joint(nests, log_p, log_q, row, joint, rise, outcomes, numbers, order, rates, gone, before)
        for place in range(len(worths)):
            total = 0.0
            for i in range(size):
                for j in range(size):
                    total += worths[place, i, j] * joint[i, j]
            out[place, row] = total
