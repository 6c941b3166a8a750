"""Compiled loops: rows of couplings and their bounds, one question after the other, on the CPU.

`race`, `comonotone`, `couplings` and `bounds` have the same formulas for JAX, and say why they are right: they serve
gradients and accelerators. Here the same numbers come without them, many times as fast, for tables and for processes;
`tests/kernel` runs one set of cases through both. All compiled code is in this file, because Numba keeps what it has
compiled for as long as the file of the outermost function stays the same, and looks at no other file.

A question is a `Pair` of worlds, outcomes side by side, and the position `x` of what was seen in the factual one.
"""

from collections.abc import Callable
from math import exp, expm1, inf, log
from os import environ
from typing import Any, NamedTuple, no_type_check

import numba
import numpy as np
from jaxtyping import Float, Int

from countermax._core.compilation import OFF

GUMBEL_MAX, INVERSE_CDF, INDEPENDENT, MAXIMAL, GIVEN = 0, 1, 2, 3, 4
"""Which coupling answers; where answers are given, only bounds are left to find."""
ANY, STABLE = 100, 101
"""Which couplings bounds are over."""

_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-290  # below it, quotients of probabilities are taken from their logarithms
_FAR = 600.0  # logarithm of what is as good as infinite, yet no overflow
_HUGE = 300.0  # logarithm of a weight so far above 1 that nothing binds
_NEAR = 0.5  # logarithms less far apart have more digits in their difference than the probabilities have in theirs
_LINES_AT_ONCE = 64  # rows whose answers are turned into columns together, so that both stay in the cache


def inner(function: Callable[..., Any]) -> Any:
    """Compiled as part of the functions that call it."""
    return numba.njit(nogil=True, error_model="numpy")(function)


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled when first called, beside other threads, and kept by Numba from one process to the next."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=not environ.get(OFF), **options)(function)
    except RuntimeError:  # there is no folder to keep it in
        return numba.njit(**options)(function)


# Arrays that functions share are two-dimensional, and their rows have names: Numba counts the references to every array
# that is passed, which would take longer than the arithmetic.

P, Q, LOG_P, LOG_Q = 0, 1, 2, 3
"""Rows of a pair of worlds over the same outcomes, in the order of the line where there is one."""
PLACE, FIRST, LAST, WAITING = 0, 1, 2, 3
"""Rows of the integers that one question has room for."""
KEY, GAINED, FREE, BOUND, LIMIT, BEFORE, AFTER, CUT = 0, 1, 2, 3, 4, 5, 6, 7
"""Rows of the numbers that one question has room for."""
NUM_INTS, NUM_FLOATS = 4, 8


@inner
@no_type_check
def sort_by_key(ints, place, floats, key, size):
    """Sorts the row `place` of integers by the row `key` of numbers, ascending, both in place; ties by the integers."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, size):
            moved, its_key = ints[place, at], floats[key, at]
            hole = at
            while hole >= gap and (
                floats[key, hole - gap] > its_key
                or (floats[key, hole - gap] == its_key and ints[place, hole - gap] > moved)
            ):
                ints[place, hole], floats[key, hole] = ints[place, hole - gap], floats[key, hole - gap]
                hole -= gap
            ints[place, hole], floats[key, hole] = moved, its_key
        gap //= 3


@inner
@no_type_check
def quotient(a, b, log_a, log_b):
    """`a / b`, as good as infinite where it would overflow; `b` is possible."""
    if a > _TINY and b > _TINY:
        return a / b
    return 0.0 if log_a == -inf else exp(min(log_a - log_b, _FAR))


@inner
@no_type_check
def difference(a, b, log_a, log_b):
    """`a - b` of two probabilities, with the digits that their logarithms have."""
    apart = log_a - log_b
    if apart > _NEAR or apart < -_NEAR or apart != apart:
        return a - b
    return -a * expm1(-apart) if apart > 0 else b * expm1(apart)


# Rows of couplings: P(Y=. | X=x), written to `answer`.


@inner
@no_type_check
def write_row(kind, shared, pair, size, x, answer, ints, floats):
    """The row of a coupling; `shared` is the rate of Gumbel-max's shared clocks."""
    if kind == GUMBEL_MAX:
        total = run_race(pair, size, x if shared == 1 else -1, shared, ints, floats)
        write_race(pair, size, x, shared, total, answer, ints, floats)
    elif kind == INVERSE_CDF:
        _write_comonotone(pair, size, x, answer, ints, floats)
    elif kind == MAXIMAL:
        _write_maximal(pair, size, x, answer)
    else:
        for j in range(size):
            answer[j] = pair[Q, j]


@inner
@no_type_check
def run_race(pair, size, until, shared, ints, floats):
    """The clock `F(t)` and the share of those who stay, of each outcome that q can have; and `F(1)`.

    Args:
        pair: The worlds.
        size: How many outcomes they have.
        until: Outcome whose clock is the last that is needed; -1 for all of them.
        shared: Rate of the shared clocks.
        ints: Room.
        floats: Room; clocks are written to BEFORE, shares of those who stay to AFTER.
    """
    common, ahead = 0, 0.0  # of q's mass that has passed: first all that p cannot reach
    for j in range(size):
        floats[BEFORE, j], floats[AFTER, j] = inf, 0.0
        if pair[LOG_Q, j] == -inf:
            continue
        odds = quotient(pair[P, j], pair[Q, j], pair[LOG_P, j], pair[LOG_Q, j])
        if odds > 0:
            ints[PLACE, common], floats[KEY, common] = j, odds
            common += 1
        else:
            ahead += pair[Q, j]
            floats[BEFORE, j], floats[AFTER, j] = 0.0, 1.0
    sort_by_key(ints, PLACE, floats, KEY, common)
    own = 1 - shared
    behind = 1.0  # p's mass that is still to come
    share, other_share, clock = 0.0, 1.0, 0.0
    for each in range(common):
        j = ints[PLACE, each]
        begin = own + shared * (other_share * behind + share * ahead)
        before, other_share = share, 1 / (1 + floats[KEY, each])
        share = floats[KEY, each] * other_share
        end = own + shared * (other_share * behind + share * ahead)
        clock += (share - before) / (begin * end)
        floats[BEFORE, j], floats[AFTER, j] = clock, other_share / end
        if j == until:
            return clock
        behind = max(behind - pair[P, j], 0.0)
        ahead += pair[Q, j]
    begin = own + shared * (other_share * behind + share * ahead)
    return clock + other_share / (begin * (own + shared * ahead))


@inner
@no_type_check
def write_race(pair, size, x, shared, total, answer, ints, floats):
    """The row of `x` in a race that has been run; `total` is `F(1)`, or x's own clock where all are shared."""
    possible = floats[BEFORE, x] < inf
    clock = floats[BEFORE, x] if possible else total
    own = 1 - shared
    for j in range(size):
        if floats[BEFORE, j] < inf:
            answer[j] = shared * shared * pair[Q, j] * max(clock - floats[BEFORE, j], 0.0)
        else:
            answer[j] = 0.0
    if possible:
        answer[x] = shared * floats[AFTER, x]
    if own > 0:
        for j in range(size):
            if floats[BEFORE, j] < inf:
                answer[j] += own * pair[Q, j] * (own * total + shared * (clock + (total - floats[BEFORE, j])))


@inner
@no_type_check
def _write_maximal(pair, size, x, answer):
    """Stays as often as can be; what cannot goes by what each outcome gains, or by q where rounding hides a gain."""
    scale = 0.0  # a logarithm: 0 unless all that differs is too rare for numbers
    gained, lost = _gains(pair, size, 0.0, answer)
    if max(gained, lost) < _TINY:
        scale = -inf
        for j in range(size):
            if pair[LOG_P, j] != pair[LOG_Q, j]:
                scale = max(scale, pair[LOG_P, j], pair[LOG_Q, j])
        gained, lost = _gains(pair, size, scale, answer)
    hidden = lost - gained if lost > gained * (1 + 64 * _EPS) else 0.0
    kept = min(pair[LOG_Q, x] - pair[LOG_P, x], 0.0)
    leaving = -expm1(kept)
    for j in range(size):
        share = (answer[j] + hidden * pair[Q, j]) / (gained + hidden) if gained + hidden > 0 else pair[Q, j]
        answer[j] = leaving * share
    answer[x] += exp(kept)


@inner
@no_type_check
def _gains(pair, size, scale, gain):
    """What each outcome gains, in units of `exp(scale)`, and the sums of all gains and losses."""
    gained, lost = 0.0, 0.0
    for j in range(size):
        if scale == 0:
            more = difference(pair[Q, j], pair[P, j], pair[LOG_Q, j], pair[LOG_P, j])
        elif pair[LOG_P, j] == pair[LOG_Q, j]:
            more = 0.0
        else:
            in_units = (exp(pair[LOG_Q, j] - scale), exp(pair[LOG_P, j] - scale))
            more = difference(in_units[0], in_units[1], pair[LOG_Q, j], pair[LOG_P, j])
        gain[j] = max(more, 0.0)
        gained += gain[j]
        lost += max(-more, 0.0)
    return gained, lost


@inner
@no_type_check
def _write_comonotone(pair, size, x, answer, ints, floats):
    """Which part of x's interval each of q's intervals covers, from the end of the line with less mass on the way."""
    left, right = -inf, -inf  # logarithms of the largest mass on the way
    most = _log_most(pair, size, x, 1)
    for j in range(x):
        left = max(left, _passed(pair, j, most))
    most = _log_most(pair, size, x, -1)
    for j in range(x + 1, size):
        right = max(right, _passed(pair, j, most))
    _cover(pair, size, x, -1 if right < left else 1, answer, ints, floats)


@inner
@no_type_check
def _log_most(pair, size, x, step):
    """The logarithm of no less than the mass from one end of the line through the interval of x."""
    largest = pair[LOG_P, x]
    for j in range(0 if step > 0 else x, x if step > 0 else size):
        largest = max(largest, pair[LOG_P, j])
    return largest + log(1.0 + size)


@inner
@no_type_check
def _passed(pair, j, most):
    """The logarithm of what is passed; equal outcomes may differ by what logs cannot show, and count for less."""
    log_p, log_q = pair[LOG_P, j], pair[LOG_Q, j]
    return max(log_p, min(log_q, most)) - (log(8.0) if log_p == log_q else 0.0)


@inner
@no_type_check
def _cover(pair, size, x, step, answer, ints, floats):
    """The parts of x's interval, found from one end of the line; see `comonotone`."""
    begin = 0 if step > 0 else size - 1
    most, width = _log_most(pair, size, x, step), pair[LOG_P, x]
    unit = 0.0
    if width < -_FAR:  # in units of the largest difference nothing that matters underflows
        unit = width
        for at in range(abs(x - begin)):
            j = begin + step * at
            cut = min(pair[LOG_Q, j], most)
            if cut != pair[LOG_P, j]:
                larger, smaller = max(cut, pair[LOG_P, j]), min(cut, pair[LOG_P, j])
                unit = max(unit, larger + log(-expm1(smaller - larger)))
    # How far beyond x's beginning each of q's intervals ends; sums are kept in two numbers, so that rare x is right.
    high, low, start, last = 0.0, 0.0, -1, 0
    for at in range(size):
        j = begin + step * at
        cut = min(pair[LOG_Q, j], most)
        end = _in_units(exp(most) if pair[LOG_Q, j] > most else pair[Q, j], cut, unit)
        if at < abs(x - begin):
            here = _in_units(pair[P, j], pair[LOG_P, j], unit)
            end = difference(end, here, cut, pair[LOG_P, j]) if cut != pair[LOG_P, j] else 0.0
        high, low = _add(high, low, end)
        floats[BEFORE, j] = high + low
        if pair[LOG_Q, j] > -inf:
            last = j
    # What of p is still to come before x is taken from the sums from its own end, where it is small.
    to_come, top, bottom = 0.0, 0.0, 0.0
    for at in range(abs(x - begin) - 1, -1, -1):
        j = begin + step * at
        floats[BEFORE, j] -= to_come
        top, bottom = _add(top, bottom, _in_units(pair[P, j], pair[LOG_P, j], unit))
        to_come = top + bottom
    for at in range(size):
        j = begin + step * at
        if pair[LOG_Q, j] > -inf and floats[BEFORE, j] > 0:
            start = j
            break
    if start < 0:
        start = last
    for j in range(size):
        floats[AFTER, j] = _most_of(pair, x, j)
    reach = min(max(floats[BEFORE, start] * exp(min(unit - width, _FAR)), 0.0), floats[AFTER, start])
    covered = 0.0
    for at in range(size):
        j = begin + step * at
        room_here = reach if j == start else floats[AFTER, j] if (j - start) * step > 0 else 0.0
        part = 0.0
        if covered < 1:
            part = room_here if covered + room_here < 1 else 1 - covered
        answer[j] = part
        covered += part
    at = abs(start - begin)
    while covered < 1 and at >= 0:  # rounding at the end of the line: it belongs to the intervals before
        j = begin + step * at
        more = min(1 - covered, floats[AFTER, j] - reach if j == start else floats[AFTER, j])
        answer[j] += more
        covered += more
        at -= 1


@inner
@no_type_check
def _most_of(pair, x, j):
    """The largest P(Y=j | X=x): `q_j / p_x`, at most one."""
    if pair[LOG_Q, j] == -inf:
        return 0.0
    return min(quotient(pair[Q, j], pair[P, x], pair[LOG_Q, j], pair[LOG_P, x]), 1.0)


@inner
@no_type_check
def _in_units(value, log_value, unit):
    return value if unit == 0 else exp(min(log_value - unit, _FAR))


@inner
@no_type_check
def _add(high, low, value):
    """The sum of a number in two parts and another one, in two parts."""
    total = high + value
    back = total - high
    low += (high - (total - back)) + (value - back)
    return total, low


# Bounds over all couplings. Amounts are in units of the probability of what was seen.


@inner
@no_type_check
def any_extremes(pair, size, x, lower, upper):
    """The least and the largest P(Y=j | X=x) for each j, and the width of the widest."""
    total = 0.0
    for j in range(size):
        upper[j] = _most_of(pair, x, j)
        lower[j] = total  # of the others: added on both sides of j, a difference would lose the digits of rare ones
        total += upper[j]
    after, widest = 0.0, 0.0
    for j in range(size - 1, -1, -1):
        lower[j] = min(max(1 - (lower[j] + after), 0.0), upper[j])
        after += upper[j]
        widest = max(widest, upper[j] - lower[j])
    return widest


@inner
@no_type_check
def filled_mean(p_x, q, start, size, worth, ints, order):
    """The mean worth of a unit of mass that fills rooms `q / p_x` one after the other, in an order among `ints`."""
    left, total = 1.0, 0.0
    for each in range(size):
        slot = ints[order, each]
        amount = min(q[start + slot] / p_x, left)
        total += amount * worth[slot]
        left -= amount
        if left <= 0:
            break
    return total + left * worth[ints[order, size - 1]]


@inner
@no_type_check
def any_mean(p_x, q, start, size, worth, sign, ints, floats):
    """The largest mean of `sign * worth` over rows that are nowhere above `q / p_x`, times `sign`."""
    for slot in range(size):
        ints[PLACE, slot] = slot
        floats[KEY, slot] = -sign * worth[slot]
    sort_by_key(ints, PLACE, floats, KEY, size)
    return filled_mean(p_x, q, start, size, worth, ints, PLACE)


# Bounds over counterfactually stable couplings; `bounds` says why this is right.


@inner
@no_type_check
def stable_limits(pair, size, x, ints, floats):
    """What x may send where, over the outcomes by ascending ratio `q / p`: position of x, least and most of the sum.

    Written: the order (PLACE), the first and the last position of each group of equal ratios (FIRST, LAST), and in
    units of `p_x` what each outcome has room for beside its group's limit (FREE), what counts towards it (BOUND), and
    that limit (LIMIT).
    """
    for j in range(size):
        ints[PLACE, j] = j
        floats[KEY, j] = inf if pair[LOG_P, j] == -inf else pair[LOG_Q, j] - pair[LOG_P, j]
    sort_by_key(ints, PLACE, floats, KEY, size)
    position, gains, losses = 0, 0.0, 0.0
    for at in range(size):
        j, ratio = ints[PLACE, at], floats[KEY, at]
        finite = -inf < ratio < inf
        if j == x:
            position = at
        if at == 0:
            ints[FIRST, at] = 0
        else:
            tie = max(_tie(ratio, pair[LOG_P, j]), _tie(floats[KEY, at - 1], pair[LOG_P, ints[PLACE, at - 1]]))
            ints[FIRST, at] = at if ratio - floats[KEY, at - 1] > tie else ints[FIRST, at - 1]
        weight_p = _weight(pair[P, j], pair[LOG_P, j], pair[P, x], pair[LOG_P, x])
        weight_q = _weight(pair[Q, j], pair[LOG_Q, j], pair[P, x], pair[LOG_P, x])
        heavy = max(pair[LOG_P, j], pair[LOG_Q, j]) - pair[LOG_P, x]
        if finite and heavy > _HUGE:  # one part in e^40 of such a weight may be of any size; its logarithm says which
            change = 0.0
            if ratio != 0:
                change = exp(min(heavy + log(-expm1(-abs(ratio))), 0.0))
                change = change if ratio > 0 else -change
        elif not finite:
            change = weight_q - weight_p
        else:
            change = -weight_q * expm1(-ratio) if ratio > 0 else weight_p * expm1(ratio)
        floats[GAINED, at] = min(max(change, -1.0), 1.0)
        gains += max(floats[GAINED, at], 0.0)
        losses += max(-floats[GAINED, at], 0.0)
        floats[BOUND, at] = min(weight_p, weight_q, 1.0)
    _add_hidden(pair, size, min(losses, 1.0) - min(gains, 1.0), min(max(gains, losses), 1.0), ints, floats)
    # D is summed from the end where all terms have one sign: from the left below ratio one, from the right above.
    total = 0.0
    for at in range(size - 1, -1, -1):
        ints[LAST, at] = at if at == size - 1 or ints[FIRST, at + 1] == at + 1 else ints[LAST, at + 1]
        floats[BEFORE, at] = max(total, 0.0)
        total += floats[GAINED, at]
    total = 0.0
    for at in range(size):
        total -= floats[GAINED, at]
        if floats[KEY, at] <= 0:
            floats[BEFORE, at] = max(total, 0.0)
    least, most = max(-floats[GAINED, position], 0.0), 1.0
    for at in range(size):
        until = floats[BEFORE, ints[FIRST, at] - 1] if ints[FIRST, at] > 0 else 0.0
        through = floats[BEFORE, ints[LAST, at]]
        # A group whose ratio is below one loses. Sums that were cut at 1 cannot tell, nor single ratios next to one.
        below = floats[KEY, ints[FIRST, at]] + floats[KEY, ints[LAST, at]] < 0
        floats[LIMIT, at] = min(until if below else through, 1.0)
        floats[FREE, at] = max(floats[GAINED, at], 0.0)
        if at == position:
            most = min(until - floats[GAINED, at] if below else through, 1.0)
    return position, least, most


@inner
@no_type_check
def _tie(ratio, log_p):
    """How far logarithms of ratios may lie apart by rounding only."""
    return _EPS * (64 * (1 + abs(ratio)) + 4 * abs(log_p)) if -inf < ratio < inf else 64 * _EPS


@inner
@no_type_check
def _weight(a, log_a, p_x, log_p_x):
    """A probability in units of what was seen, cut where nothing binds any more."""
    if a > _TINY and p_x > _TINY:
        return min(a / p_x, 1e130)
    return exp(min(log_a - log_p_x, _HUGE))


@inner
@no_type_check
def _add_hidden(pair, size, hidden, larger, ints, floats):
    """Gains are as large in sum as losses; what rounding hides belongs to outcomes beside which all others are rare."""
    if abs(hidden) <= 8 * _EPS * (8 + size) * larger:
        return
    most, total = -inf, 0.0
    for j in range(size):
        most = max(most, pair[LOG_P, j], pair[LOG_Q, j])
    for j in range(size):
        total += exp(max(pair[LOG_P, j], pair[LOG_Q, j]) - most)
    for at in range(size):
        j = ints[PLACE, at]
        floats[GAINED, at] += hidden * exp(max(pair[LOG_P, j], pair[LOG_Q, j]) - most) / total


@inner
@no_type_check
def stable_extremes(pair, size, x, lower, upper, ints, floats):
    """The least and the largest P(Y=j | X=x) for each j over stable couplings."""
    position, least, most = stable_limits(pair, size, x, ints, floats)
    # The least that goes to j is what the others cannot take. How much they can is the smallest cut of nested sets.
    # Sums without j are added up on both sides of it: subtracting it from the whole would lose the digits of the rest.
    total, tightest = 0.0, inf
    for at in range(size):
        is_after, starts = ints[FIRST, at] > position, ints[FIRST, at] == at
        floats[BEFORE, at] = total
        floats[AFTER, at] = 0.0 if starts else floats[AFTER, at - 1] + (floats[FREE, at - 1] if is_after else 0.0)
        total += floats[FREE, at] + floats[BOUND, at] if is_after else 0.0
    room_of_all, running, still = total, 0.0, 0.0
    for at in range(size - 1, -1, -1):
        is_after = ints[FIRST, at] > position
        running = 0.0 if ints[LAST, at] == at else running
        floats[GAINED, at] = still
        floats[AFTER, at] += running
        running += floats[FREE, at] if is_after else 0.0
        if is_after:
            still += floats[FREE, at] + floats[BOUND, at]
            if ints[FIRST, at] == at:
                still = min(still, floats[LIMIT, at] + running)
    passing, least_cut = inf, inf  # over groups that have ended
    group_limit, group_cut = inf, inf
    for at in range(size):
        j, is_after = ints[PLACE, at], ints[FIRST, at] > position
        if ints[FIRST, at] == at:
            passing, least_cut = min(passing, group_limit), min(least_cut, group_cut)
            group_limit, group_cut = inf, inf
        if not is_after:
            lower[j], upper[j] = 0.0, 0.0
            continue
        here = floats[LIMIT, at] + floats[BEFORE, ints[FIRST, at]]
        others = min(min(most, least_cut), min(here + floats[AFTER, at], floats[BEFORE, at] + floats[GAINED, at]))
        group_limit = min(group_limit, floats[LIMIT, at])
        group_cut = min(group_cut, here + floats[AFTER, at] + floats[FREE, at])
        tightest = min(tightest, group_cut)
        own = floats[FREE, at] + min(floats[BOUND, at], floats[LIMIT, at])
        upper[j] = min(max(min(passing, most, own), 0.0), 1.0)
        lower[j] = min(max(least - others, 0.0), upper[j])
    upper[x] = min(max(1 - least, 0.0), 1.0)
    lower[x] = min(max(1 - min(most, tightest, room_of_all), 0.0), upper[x])


@inner
@no_type_check
def stable_mean(pair, size, x, worth, sign, ints, floats):
    """The largest mean of `sign * worth` over stable couplings, times `sign`: the best outcomes are filled first."""
    position, least, most = stable_limits(pair, size, x, ints, floats)
    return stable_fill(pair, size, x, worth, sign, position, least, most, ints, floats)


@inner
@no_type_check
def stable_fill(pair, size, x, worth, sign, position, least, most, ints, floats):
    """The same from limits that are known; `limit` is used up."""
    count = 0
    for at in range(size):
        if ints[FIRST, at] > position:
            ints[WAITING, count], floats[CUT, count] = at, -sign * (worth[ints[PLACE, at]] - worth[x])
            count += 1
    sort_by_key(ints, WAITING, floats, CUT, count)
    sent, total = 0.0, 0.0
    for each in range(count):
        at = ints[WAITING, each]
        wanted = (most if floats[CUT, each] < 0 else least) - sent
        if wanted <= 0:
            continue
        amount = min(wanted, floats[FREE, at] + min(floats[BOUND, at], floats[LIMIT, at]))
        group = ints[LAST, position] + 1
        while group < ints[FIRST, at]:
            amount = min(amount, floats[LIMIT, group])
            group = ints[LAST, group] + 1
        if amount <= 0:
            continue
        group = ints[LAST, position] + 1
        while group < ints[FIRST, at]:
            _lower(floats, group, ints[LAST, group], amount)
            group = ints[LAST, group] + 1
        _lower(floats, ints[FIRST, at], ints[LAST, at], max(amount - floats[FREE, at], 0.0))
        sent += amount
        total += amount * (worth[ints[PLACE, at]] - worth[x])
    if pair[LOG_Q, x] == -inf and sent > 0:
        return worth[x] + total / sent  # all of it goes
    return worth[x] + total


@inner
@no_type_check
def _lower(floats, begin, end, amount):
    """All positions of a group have one limit."""
    for at in range(begin, end + 1):
        floats[LIMIT, at] -= amount


# Tables.


class Asked(NamedTuple):
    """What every row of a table is asked."""

    kind: int
    """Which coupling answers."""
    shared: float
    """Rate of Gumbel-max's shared clocks."""
    order: Int[np.ndarray, " k"]
    """Outcomes in the order of the line."""
    place: Int[np.ndarray, " k"]
    """Where each outcome is on the line."""
    score: Float[np.ndarray, " k"]
    """In the order of the line; empty if there is none."""
    by_score: Int[np.ndarray, "2 k"]
    """Positions on the line from the worst score on, and from the best."""
    bounded: bool
    """Whether bounds are asked for."""


@inner
@no_type_check
def load(log_p, log_q, row, order, pair):
    """One pair of worlds of a table."""
    for k in range(len(order)):
        pair[LOG_P, k], pair[LOG_Q, k] = log_p[row, order[k]], log_q[row, order[k]]
        pair[P, k], pair[Q, k] = exp(pair[LOG_P, k]), exp(pair[LOG_Q, k])


@compiled
@no_type_check
def answer_lines(asked, log_p, log_q, x, out, first, begin, end):
    """Probabilities, scores, bounds over all couplings and slack of rows of a table, `out[columns, first + rows]`."""
    size, columns = len(asked.order), len(out)
    pair, ints, floats = np.empty((4, size)), np.empty((NUM_INTS, size), np.int64), np.empty((NUM_FLOATS, size))
    answer, lower, upper = np.empty(size), np.empty(size), np.empty(size)
    lines = np.empty((_LINES_AT_ONCE, columns))
    for block in range(begin, end, _LINES_AT_ONCE):
        count = min(_LINES_AT_ONCE, end - block)
        for at in range(count):
            row = block + at
            load(log_p, log_q, row, asked.order, pair)
            seen = asked.place[x[row]]
            if asked.kind == GIVEN:
                for j in range(size):
                    answer[j] = out[asked.order[j], first + row]
            else:
                write_row(asked.kind, asked.shared, pair, size, seen, answer, ints, floats)
            lines[at, columns - 1] = any_extremes(pair, size, seen, lower, upper)
            column = size
            if asked.score.size > 0:
                mean = 0.0
                for j in range(size):
                    mean += answer[j] * asked.score[j]
                lines[at, column] = mean
                column += 1
                if asked.bounded:
                    lines[at, column] = filled_mean(1.0, upper, 0, size, asked.score, asked.by_score, 0)
                    lines[at, column + 1] = filled_mean(1.0, upper, 0, size, asked.score, asked.by_score, 1)
                    column += 2
            for j in range(size):
                outcome = asked.order[j]
                lines[at, outcome] = answer[j]
                if asked.bounded:
                    lines[at, column + 2 * outcome] = lower[j]
                    lines[at, column + 2 * outcome + 1] = upper[j]
        for column in range(columns):
            for at in range(count):
                out[column, first + block + at] = lines[at, column]


@compiled
@no_type_check
def stable_lines(asked, log_p, log_q, x, out, first, begin, end):
    """The same bounds over stable couplings, written over those over all of them."""
    size = len(asked.order)
    pair, ints, floats = np.empty((4, size)), np.empty((NUM_INTS, size), np.int64), np.empty((NUM_FLOATS, size))
    lower, upper = np.empty(size), np.empty(size)
    for row in range(begin, end):
        load(log_p, log_q, row, asked.order, pair)
        seen = asked.place[x[row]]
        column = size
        if asked.score.size > 0:
            out[column + 1, first + row] = stable_mean(pair, size, seen, asked.score, -1, ints, floats)
            out[column + 2, first + row] = stable_mean(pair, size, seen, asked.score, 1, ints, floats)
            column += 3
        stable_extremes(pair, size, seen, lower, upper, ints, floats)
        for j in range(size):
            out[column + 2 * asked.order[j], first + row] = lower[j]
            out[column + 2 * asked.order[j] + 1, first + row] = upper[j]


@compiled
@no_type_check
def score_limits(bounds, log_p, log_q, x, scores, out, begin, end):
    """The bounds of E[score(Y) | X=x] of rows with a score of their own each, `out[2, rows]`."""
    size = log_p.shape[1]
    pair, ints, floats = np.empty((4, size)), np.empty((NUM_INTS, size), np.int64), np.empty((NUM_FLOATS, size))
    order = np.arange(size)
    lower, upper = np.empty(size), np.empty(size)
    for row in range(begin, end):
        load(log_p, log_q, row, order, pair)
        score = scores[row]
        for side in range(2):
            sign = 2 * side - 1
            if bounds == STABLE:
                out[side, row] = stable_mean(pair, size, x[row], score, sign, ints, floats)
            else:
                any_extremes(pair, size, x[row], lower, upper)
                out[side, row] = any_mean(1.0, upper, 0, size, score, sign, ints, floats)


@compiled
@no_type_check
def mean_worth_lines(asked, log_p, log_q, worths, out, begin, end):
    """The mean of worths of pairs of outcomes, `worths[m, k, k]` in the order of the line, `out[m, rows]`."""
    size = len(asked.order)
    pair, ints, floats = np.empty((4, size)), np.empty((NUM_INTS, size), np.int64), np.empty((NUM_FLOATS, size))
    answer = np.empty(size)
    for row in range(begin, end):
        load(log_p, log_q, row, asked.order, pair)
        for each in range(len(worths)):
            out[each, row] = 0.0
        total = run_race(pair, size, -1, asked.shared, ints, floats) if asked.kind == GUMBEL_MAX else 0.0
        for i in range(size):
            if pair[P, i] == 0:
                continue
            if asked.kind == GUMBEL_MAX:
                write_race(pair, size, i, asked.shared, total, answer, ints, floats)
            else:
                write_row(asked.kind, asked.shared, pair, size, i, answer, ints, floats)
            for each in range(len(worths)):
                mean = 0.0
                for j in range(size):
                    mean += answer[j] * worths[each, i, j]
                out[each, row] += pair[P, i] * mean
