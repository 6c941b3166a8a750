"""Compiled loops: rows of couplings and their bounds, one question after the other, on the CPU.

`race`, `comonotone`, `couplings` and `bounds` have the same formulas for JAX, and say why they are right: they serve
gradients and accelerators. Here the same numbers come without them, many times as fast, for tables and for processes;
`tests/kernel` runs one set of cases through both. All compiled code is in this file, because Numba keeps what it has
compiled for as long as the file of the outermost function stays the same, and looks at no other file.

A question is a `Pair` of worlds, outcomes side by side, and the position `x` of what was seen in the factual one.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from math import exp, expm1, inf, log
from os import environ
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countermax._core.keeping import OFF, without_collecting

with without_collecting():
    import numba

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

GUMBEL_MAX, INVERSE_CDF, INDEPENDENT, MAXIMAL, GIVEN = 0, 1, 2, 3, 4
"""Which coupling answers; where answers are given, only bounds are left to find."""
ANY, STABLE, MONOTONE = 100, 101, 102
"""Which couplings bounds are over; the last of them have a stable observed row and are monotone."""

_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-290  # below it, quotients of probabilities are taken from their logarithms
_FAR = 600.0  # logarithm of what is as good as infinite, yet no overflow
_HUGE = 300.0  # logarithm of a weight so far above 1 that nothing binds
_NEAR = 0.5  # logarithms less far apart have more digits in their difference than the probabilities have in theirs
_FEW = 16  # outcomes that are put into order by counting
_LINES_AT_ONCE = 64  # rows whose answers are turned into columns together, so that both stay in the cache


def jitted(function: Callable[..., Any], **options: Any) -> Any:
    """Compiled, without the checks that tests put around a function."""
    return numba.njit(nogil=True, error_model="numpy", **options)(unwrap(function))


def inner(function: Callable[..., Any]) -> Any:
    """Compiled as part of the functions that call it; it asks for no memory, so nobody counts references."""
    return jitted(function, _nrt=False)


def pasted(function: Callable[..., Any]) -> Any:
    """The same, put where it is called: dozens of arrays are not passed for every row."""
    return jitted(function, _nrt=False, forceinline=True)


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled when first called, beside other threads, and kept by Numba from one process to the next."""
    options = {} if function.__name__.endswith("_lines") else {"_nrt": False}  # only tables ask for memory
    try:
        return jitted(function, cache=not environ.get(OFF), **options)
    except RuntimeError:  # there is no folder to keep it in
        return jitted(function, **options)


# Arrays that functions share are two-dimensional, and their rows have names: Numba counts the references to every array
# that is passed, which would take longer than the arithmetic.

P, Q, LOG_P, LOG_Q = 0, 1, 2, 3
"""Rows of a pair of worlds over the same outcomes, in the order of the line where there is one."""
PLACE, FIRST, LAST, WAITING = 0, 1, 2, 3
"""Rows of the integers that one question has room for."""
KEY, GAINED, FREE, BOUND, LIMIT, BEFORE, AFTER, CUT = 0, 1, 2, 3, 4, 5, 6, 7
"""Rows of the numbers that one question has room for."""
NUM_INTS, NUM_FLOATS = 4, 8


@pasted
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


@pasted
def quotient(a, b, log_a, log_b):
    """`a / b`, as good as infinite where it would overflow; `b` is possible."""
    if a > _TINY and b > _TINY:
        return a / b
    return 0.0 if log_a == -inf else exp(min(log_a - log_b, _FAR))


@inner
def difference(a, b, log_a, log_b):
    """`a - b` of two probabilities, with the digits that their logarithms have."""
    apart = log_a - log_b
    if apart > _NEAR or apart < -_NEAR or apart != apart:
        return a - b
    return -a * expm1(-apart) if apart > 0 else b * expm1(apart)


# Rows of couplings: P(Y=. | X=x), written to `answer`.


@pasted
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


@pasted
def run_race(pair, size, until, shared, ints, floats):
    """The clock `F(t)` (BEFORE) and the share of those who stay (AFTER), of each outcome that q can have; and `F(1)`.

    The clock of the outcome `until` is the last that is needed, unless that is -1.
    """
    common, ahead = 0, 0.0  # of q's mass that has passed: first all that p cannot reach
    latest = inf  # odds of the last that is needed: only those before it are put into order
    if until >= 0 and pair[LOG_Q, until] > -inf:
        latest = quotient(pair[P, until], pair[Q, until], pair[LOG_P, until], pair[LOG_Q, until])
    for j in range(size):
        floats[BEFORE, j], floats[AFTER, j] = inf, 0.0
        if pair[LOG_Q, j] == -inf:
            continue
        odds = quotient(pair[P, j], pair[Q, j], pair[LOG_P, j], pair[LOG_Q, j])
        if odds > 0:
            ints[PLACE, common], floats[KEY, common] = j, odds
            common += odds <= latest
        else:
            ahead += pair[Q, j]
            floats[BEFORE, j], floats[AFTER, j] = 0.0, 1.0
    if common <= _FEW:  # places by counting, since nobody could predict the branches of a sort
        for each in range(common):
            place, odds = 0, floats[KEY, each]
            for other in range(common):
                other_odds = floats[KEY, other]
                place += (other_odds < odds) | ((other_odds == odds) & (other < each))
            ints[FIRST, place], floats[GAINED, place] = ints[PLACE, each], odds
        for each in range(common):
            ints[PLACE, each], floats[KEY, each] = ints[FIRST, each], floats[GAINED, each]
    else:
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
        floats[BEFORE, j] = clock
        if until < 0 or j == until:
            floats[AFTER, j] = other_share / end
        if j == until:
            return clock
        behind = max(behind - pair[P, j], 0.0)
        ahead += pair[Q, j]
    begin = own + shared * (other_share * behind + share * ahead)
    return clock + other_share / (begin * (own + shared * ahead))


@pasted
def write_race(pair, size, x, shared, total, answer, ints, floats):
    """The row of `x` in a race that has been run; `total` is `F(1)`, or x's own clock where all are shared."""
    possible = floats[BEFORE, x] < inf
    clock = floats[BEFORE, x] if possible else total
    own = 1 - shared
    for j in range(size):  # without branches, which nobody could predict
        before = floats[BEFORE, j]
        gained = shared * shared * pair[Q, j] * max(clock - before, 0.0)
        answer[j] = gained if before < inf else 0.0
    if possible:
        answer[x] = shared * floats[AFTER, x]
    if own > 0:
        for j in range(size):
            if floats[BEFORE, j] < inf:
                answer[j] += own * pair[Q, j] * (own * total + shared * (clock + (total - floats[BEFORE, j])))


@inner
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
def _write_comonotone(pair, size, x, answer, ints, floats):
    """Which share of x's interval each of q's intervals covers, from the end of the line with less mass on the way."""
    left, right = -inf, -inf  # logarithms of the largest mass on the way
    most = _log_most(pair, size, x, 1)
    for j in range(x):
        left = max(left, _passed(pair, j, most))
    most = _log_most(pair, size, x, -1)
    for j in range(x + 1, size):
        right = max(right, _passed(pair, j, most))
    _cover(pair, size, x, -1 if right < left else 1, answer, ints, floats)


@inner
def _log_most(pair, size, x, step):
    """The logarithm of no less than the mass from one end of the line through the interval of x."""
    largest = pair[LOG_P, x]
    for j in range(0 if step > 0 else x, x if step > 0 else size):
        largest = max(largest, pair[LOG_P, j])
    return largest + log(1.0 + size)


@inner
def _passed(pair, j, most):
    """The logarithm of what is passed; equal outcomes may differ by what logs cannot show, and count for less."""
    log_p, log_q = pair[LOG_P, j], pair[LOG_Q, j]
    return max(log_p, min(log_q, most)) - (log(8.0) if log_p == log_q else 0.0)


@inner
def _cover(pair, size, x, step, answer, ints, floats):
    """The shares of x's interval, found from one end of the line; see `comonotone`."""
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
        share = 0.0
        if covered < 1:
            share = room_here if covered + room_here < 1 else 1 - covered
        answer[j] = share
        covered += share
    at = abs(start - begin)
    while covered < 1 and at >= 0:  # rounding at the end of the line: it belongs to the intervals before
        j = begin + step * at
        more = min(1 - covered, floats[AFTER, j] - reach if j == start else floats[AFTER, j])
        answer[j] += more
        covered += more
        at -= 1


@pasted
def _most_of(pair, x, j):
    """The largest P(Y=j | X=x): `q_j / p_x`, at most one."""
    if pair[LOG_Q, j] == -inf:
        return 0.0
    return min(quotient(pair[Q, j], pair[P, x], pair[LOG_Q, j], pair[LOG_P, x]), 1.0)


@inner
def _in_units(value, log_value, unit):
    return value if unit == 0 else exp(min(log_value - unit, _FAR))


@inner
def _add(high, low, value):
    """The sum of a number in two parts and another one, in two parts."""
    total = high + value
    back = total - high
    low += (high - (total - back)) + (value - back)
    return total, low


# Bounds over all couplings. Amounts are in units of the probability of what was seen.


@pasted
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
def any_mean(p_x, q, start, size, worth, sign, ints, floats):
    """The largest mean of `sign * worth` over rows that are nowhere above `q / p_x`, times `sign`."""
    for slot in range(size):
        ints[PLACE, slot] = slot
        floats[KEY, slot] = -sign * worth[slot]
    sort_by_key(ints, PLACE, floats, KEY, size)
    return filled_mean(p_x, q, start, size, worth, ints, PLACE)


# Bounds over counterfactually stable couplings; `bounds` says why this is right.


@inner
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
        elif abs(ratio) > _NEAR:
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
def _tie(ratio, log_p):
    """How far logarithms of ratios may lie apart by rounding only."""
    return _EPS * (64 * (1 + abs(ratio)) + 4 * abs(log_p)) if -inf < ratio < inf else 64 * _EPS


@inner
def _weight(a, log_a, p_x, log_p_x):
    """A probability in units of what was seen, cut where nothing binds any more."""
    if a > _TINY and p_x > _TINY:
        return min(a / p_x, 1e130)
    return exp(min(log_a - log_p_x, _HUGE))


@inner
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
def stable_mean(pair, size, x, worth, sign, ints, floats):
    """The largest mean of `sign * worth` over stable couplings, times `sign`: the best outcomes are filled first."""
    position, least, most = stable_limits(pair, size, x, ints, floats)
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
    logs: bool
    """Whether worlds are given by logarithms; else a coupling answers that needs those of rare outcomes only."""


@pasted
def load(log_p, log_q, row, order, pair):
    """One pair of worlds of a table."""
    for k in range(len(order)):
        pair[LOG_P, k], pair[LOG_Q, k] = log_p[row, order[k]], log_q[row, order[k]]
        pair[P, k], pair[Q, k] = exp(pair[LOG_P, k]), exp(pair[LOG_Q, k])


@pasted
def _load_shares(p, q, row, order, pair):
    """The same of probabilities. Logarithms are those of outcomes for which quotients are taken from them, else 0."""
    for k in range(len(order)):
        pair[P, k], pair[Q, k] = p[row, order[k]], q[row, order[k]]
        pair[LOG_P, k] = 0.0 if pair[P, k] > _TINY else log(pair[P, k])
        pair[LOG_Q, k] = 0.0 if pair[Q, k] > _TINY else log(pair[Q, k])


@compiled
def share_lines(values, tolerance):
    """Divides each row by its sum, in place; False where a row is none of probabilities, and then some are divided."""
    for row in range(len(values)):
        total, good = 0.0, True
        for k in range(values.shape[1]):
            total += values[row, k]
            good &= 0 <= values[row, k] < inf
        if not (good and total > 0 and abs(total - 1) <= tolerance):
            return False
        for k in range(values.shape[1]):
            values[row, k] /= total
    return True


@compiled
def answer_lines(asked, p, q, x, out, first, begin, end):
    """Probabilities, scores, bounds over all couplings and slack of rows of a table, `out[columns, first + rows]`."""
    size, columns = len(asked.order), len(out)
    pair, ints, floats = np.empty((4, size)), np.empty((NUM_INTS, size), np.int64), np.empty((NUM_FLOATS, size))
    answer, lower, upper = np.empty(size), np.empty(size), np.empty(size)
    lines = np.empty((_LINES_AT_ONCE, columns))
    for start in range(begin, end, _LINES_AT_ONCE):
        count = min(_LINES_AT_ONCE, end - start)
        for at in range(count):
            row = start + at
            if asked.logs:
                load(p, q, row, asked.order, pair)
            else:
                _load_shares(p, q, row, asked.order, pair)
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
                out[column, first + start + at] = lines[at, column]


@compiled
def likeliest_lines(probs, best, places):
    """The place of the largest of each row's probabilities, `probs[outcomes, rows]`, the first of equal ones."""
    for row in range(len(places)):
        best[row], places[row] = probs[0, row], 0
    for outcome in range(1, len(probs)):
        for row in range(len(places)):
            more = probs[outcome, row] > best[row]
            places[row] = outcome if more else places[row]
            best[row] = probs[outcome, row] if more else best[row]


@compiled
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
def score_lines(bounds, log_p, log_q, x, scores, out, begin, end):
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
def mean_worth_lines(asked, log_p, log_q, worths, out, begin, end):
    """The mean of worths of cells, `worths[m, k, k]` in the order of the line, `out[m, rows]`."""
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


# Chains of episodes: what was logged, replayed by another policy. A common beginning, or end, is replayed once.


class Process(NamedTuple):
    """A finite process, its rows one after the other, without padding; labels ascend along a row."""

    start: Int[np.ndarray, " rows_and_one"]
    """Where the row `state * num_actions + action` starts; one more, where the last one ends."""
    label: Int[np.ndarray, " slots"]
    successor: Int[np.ndarray, " slots"]
    chance: Float[np.ndarray, " slots"]
    log_chance: Float[np.ndarray, " slots"]
    gain: Float[np.ndarray, " slots"]
    variance: Float[np.ndarray, " slots"]
    """Empty where gains do not vary."""
    ends: Bool[np.ndarray, " s"]
    common_gain: Float[np.ndarray, " s"]
    """The part of a gain that the successor alone decides, if that is all that differs along any row; else empty."""
    num_actions: int
    width: int


class SeenSteps(NamedTuple):
    """The distinct transitions of a log."""

    row: Int[np.ndarray, " f"]
    """The row of the process that they are of."""
    slot: Int[np.ndarray, " f"]
    """Among the slots of all rows."""
    table: Int[np.ndarray, " f"]
    """Which table of choices holds then."""
    doing: Float[np.ndarray, " f"]
    """How likely what was done was; empty where the tables are all that there is to know."""
    steady: Bool[np.ndarray, " f"]
    """Where the same is done as was; beside `doing`."""


class Chosen(NamedTuple):
    """The rows that a policy chooses, where it is one policy at all steps; else empty."""

    first: Int[np.ndarray, " s_and_one"]
    """The number of the first such row of each state; one more, how many there are."""
    row: Int[np.ndarray, " r"]
    share: Float[np.ndarray, " r"]
    """How often the policy chooses it."""
    offset: Int[np.ndarray, " r_and_one"]
    """Where its slots start among those of all rows that are chosen."""
    answers: Float[np.ndarray, "f slots"]
    """What a coupling answers, for whatever was seen; without rows where episodes have too little in common."""
    arrival: Int[np.ndarray, " s_and_one"]
    """Where the slots that lead to each state start, in an order of their own; for bounds over all couplings."""
    number: Int[np.ndarray, " slots"]
    """The number of the row that each of these belongs to."""
    chance: Float[np.ndarray, " slots"]
    gain: Float[np.ndarray, " slots"]


class Replayed(NamedTuple):
    """What is replayed: a process, what was seen of it, another policy, and a coupling or the bounds over many."""

    kind: int
    shared: float
    """Rate of Gumbel-max's shared clocks."""
    factor: float
    """Discount."""
    tables: Float[np.ndarray, "t s a"]
    """Choices; where actions are coupled, the target policy is the first table."""
    needed: Bool[np.ndarray, " s"]
    """Where a chain can be at all."""
    process: Process
    facts: SeenSteps
    chosen: Chosen


class Episodes(NamedTuple):
    """Episodes in an order in which neighbours have much in common."""

    order: Int[np.ndarray, " m"]
    common: Int[np.ndarray, " m"]
    """How many steps each has in common with the one before it in the order."""
    first: Int[np.ndarray, " n"]
    length: Int[np.ndarray, " n"]
    """How many steps are replayed."""
    fact: Int[np.ndarray, "n t"]
    earned: Float[np.ndarray, "n t"]


class Room(NamedTuple):
    """Memory for one row at a time, so that none is asked for on the way."""

    factual: Float[np.ndarray, "2 l"]
    """The factual row by label, and its logarithm, while a step is taken; else nothing."""
    pair: Float[np.ndarray, "4 w"]
    ints: Int[np.ndarray, "4 w"]
    floats: Float[np.ndarray, "8 w"]
    answer: Float[np.ndarray, " w"]
    worth: Float[np.ndarray, " w"]
    by_action: Float[np.ndarray, "2 a"]
    """Shares and worths of the actions in one state."""
    states: Int[np.ndarray, "3 s"]
    """All states by worth, the rank of each, and room for one slot each, -1 between calls."""
    reached: Int[np.ndarray, "2 k"]
    """The states that a policy reaches, by what they were worth last time, from below and from above."""
    state_key: Float[np.ndarray, "1 s"]
    by_row: Float[np.ndarray, "2 r"]
    """What is left and what has come together, of each row that is chosen."""


AT, RANK, SLOT = 0, 1, 2
LEFT, TOTAL = 0, 1
WIDE = 24
"""Successors from which on a look at all states in a common order, row by row, is quickest."""


def new_room(process: Process, chosen: Chosen, reached: Int[np.ndarray, " k"]) -> Room:
    """Memory for the rows of a process, and for those that are chosen."""
    num_states, num_actions = len(process.ends), process.num_actions
    width = max(2 * process.width, num_actions)
    nothing = np.full(int(process.label.max(initial=0)) + 1, -np.inf)
    return Room(
        np.stack([np.zeros_like(nothing), nothing]),
        np.zeros((4, width)),
        np.zeros((NUM_INTS, width), np.int64),
        np.zeros((NUM_FLOATS, width)),
        np.zeros(width),
        np.zeros(width),
        np.zeros((2, num_actions)),
        np.full((3, num_states), -1),
        np.stack([reached, reached]),
        np.zeros((1, num_states)),
        np.zeros((2, len(chosen.row))),
    )


@pasted
def _remember(process, row, factual):
    """Writes the factual row by label."""
    for slot in range(process.start[row], process.start[row + 1]):
        factual[P, process.label[slot]] = process.chance[slot]
        factual[1, process.label[slot]] = process.log_chance[slot]


@pasted
def _forget(process, row, factual):
    """Removes it."""
    for slot in range(process.start[row], process.start[row + 1]):
        factual[P, process.label[slot]], factual[1, process.label[slot]] = 0.0, -inf


@pasted
def _meet_slots(process, row, x_slot, room):
    """A pair of worlds over the slots of one row, and what was seen behind them where that row cannot lead there.

    Enough where nothing depends on outcomes that only the factual row can reach. Returns how many there are, and
    where x is.
    """
    start = process.start[row]
    size = process.start[row + 1] - start
    x = size
    for slot in range(size):
        label = process.label[start + slot]
        room.pair[P, slot], room.pair[LOG_P, slot] = room.factual[P, label], room.factual[1, label]
        room.pair[Q, slot], room.pair[LOG_Q, slot] = process.chance[start + slot], process.log_chance[start + slot]
        if label == process.label[x_slot]:
            x = slot
    if x < size:
        return size, x
    room.pair[P, x], room.pair[LOG_P, x] = process.chance[x_slot], process.log_chance[x_slot]
    room.pair[Q, x], room.pair[LOG_Q, x] = 0.0, -inf
    return size + 1, x


@pasted
def _meet_all(process, here, there, x_slot, room):
    """A pair of worlds over all outcomes that one row of the process or another one can reach, in their order.

    Written to WAITING: where each slot of the other row is among them.
    """
    at, x = 0, 0
    one, one_end = process.start[here], process.start[here + 1]
    start, end = process.start[there], process.start[there + 1]
    other = start
    while one < one_end or other < end:
        in_one = one < one_end and (other >= end or process.label[one] <= process.label[other])
        in_other = other < end and (one >= one_end or process.label[other] <= process.label[one])
        room.pair[P, at], room.pair[LOG_P, at] = 0.0, -inf
        room.pair[Q, at], room.pair[LOG_Q, at] = 0.0, -inf
        if in_one:
            room.pair[P, at], room.pair[LOG_P, at] = process.chance[one], process.log_chance[one]
            if one == x_slot:
                x = at
            one += 1
        if in_other:
            room.pair[Q, at], room.pair[LOG_Q, at] = process.chance[other], process.log_chance[other]
            room.ints[WAITING, other - start] = at
            other += 1
        at += 1
    return at, x


@pasted
def write_answer(replayed, fact, row, answer, offset, room):
    """The probabilities of the slots of one row, given what was seen; the factual row is remembered."""
    process, x_slot = replayed.process, replayed.facts.slot[fact]
    count = process.start[row + 1] - process.start[row]
    if replayed.kind == INVERSE_CDF:
        size, x = _meet_all(process, replayed.facts.row[fact], row, x_slot, room)
    else:
        size, x = _meet_slots(process, row, x_slot, room)
    write_row(replayed.kind, replayed.shared, room.pair, size, x, room.answer, room.ints, room.floats)
    if replayed.kind == INVERSE_CDF:
        for slot in range(count):  # not behind itself: a slot is no later in its row than among all
            room.answer[slot] = room.answer[room.ints[WAITING, slot]]
    total = 0.0
    for slot in range(count):
        total += room.answer[slot]
    for slot in range(count):
        answer[offset + slot] = room.answer[slot] / total


@compiled
def answer_all(replayed, room):
    """What a coupling answers for every row that is chosen, whatever was seen; written to `chosen.answers`."""
    chosen = replayed.chosen
    for fact in range(len(replayed.facts.row)):
        _remember(replayed.process, replayed.facts.row[fact], room.factual)
        for number in range(len(chosen.row)):
            write_answer(replayed, fact, chosen.row[number], chosen.answers[fact], chosen.offset[number], room)
        _forget(replayed.process, replayed.facts.row[fact], room.factual)


@compiled
def forwards(replayed, episodes, stack, room, moments, path):
    """From the first states to the end of what was logged; episodes with common beginnings are side by side.

    Written: `moments[place, state, 3]`, the powers 0, 1, 2 of the reward so far, where a chain is there; and the
    distributions `path[place, time, state]`, unless it is empty. `stack[time, state, 3]` is room for one episode.
    """
    num_states = stack.shape[1]
    for at in range(len(episodes.order)):
        one = episodes.order[at]
        length = episodes.length[one]
        begun = episodes.common[at] if at > 0 else 0
        if begun == 0:
            stack[0] = 0.0
            stack[0, episodes.first[one], 0] = 1.0
        for step in range(begun, length):
            weight = replayed.factor**step
            _push(replayed, episodes.fact[one, step], weight * episodes.earned[one, step], weight, stack, step, room)
        for c in range(num_states):
            for power in range(3):
                moments[at, c, power] = stack[length, c, power]
        if path.shape[0] > 0:
            for step in range(length + 1):
                for c in range(num_states):
                    path[at, step, c] = stack[step, c, 0]


@pasted
def _push(replayed, fact, earned, weight, stack, step, room):
    """One step of one chain: moments before and after."""
    process, facts, chosen = replayed.process, replayed.facts, replayed.chosen
    varies, known, table = process.variance.size > 0, chosen.answers.size > 0, facts.table[fact]
    for c in range(stack.shape[1]):
        for power in range(3):
            stack[step + 1, c, power] = 0.0
    if not known:
        _remember(process, facts.row[fact], room.factual)
    for c in range(stack.shape[1]):
        if stack[step, c, 0] == 0:
            continue
        if process.ends[c]:
            for power in range(3):
                stack[step + 1, c, power] += stack[step, c, power]
            continue
        number = chosen.first[c] if known else 0
        for b in range(process.num_actions):
            share = replayed.tables[table, c, b]
            if share == 0:
                continue
            number += 1
            row = c * process.num_actions + b
            mass, first, second = stack[step, c, 0] * share, stack[step, c, 1] * share, stack[step, c, 2] * share
            if row == facts.row[fact]:  # nothing is changed here, so nothing changes
                j = process.successor[facts.slot[fact]]
                stack[step + 1, j, 0] += mass
                stack[step + 1, j, 1] += first + mass * earned
                stack[step + 1, j, 2] += second + 2 * earned * first + mass * earned * earned
                continue
            offset, start = 0, process.start[row]
            if known:
                offset = chosen.offset[number - 1]
            else:
                write_answer(replayed, fact, row, room.worth, 0, room)
            for slot in range(process.start[row + 1] - start):
                chance = chosen.answers[fact, offset + slot] if known else room.worth[slot]
                if chance > 0:
                    gain, j = weight * process.gain[start + slot], process.successor[start + slot]
                    square = gain * gain
                    if varies:
                        square += weight * weight * process.variance[start + slot]
                    stack[step + 1, j, 0] += chance * mass
                    stack[step + 1, j, 1] += chance * (first + mass * gain)
                    stack[step + 1, j, 2] += chance * (second + 2 * gain * first + mass * square)
    if not known:
        _forget(process, facts.row[fact], room.factual)


@compiled
def carry_on(start, successor, chance, steps, here, after):
    """Carries chains `here[place, state]` on by the rows of a policy, `steps[place]` steps each, in place.

    The row of each state starts at `start[state]`; its slots lead to `successor`. `after[state]` is room.
    """
    num_states = here.shape[1]
    for place in range(len(here)):
        for _ in range(steps[place]):
            after[:] = 0.0
            for c in range(num_states):
                mass = here[place, c]
                if mass > 0:
                    for slot in range(start[c], start[c + 1]):
                        after[successor[slot]] += mass * chance[slot]
            same = True
            for c in range(num_states):
                same = same and after[c] == here[place, c]
                here[place, c] = after[c]
            if same:  # and so it stays
                break


@compiled
def backwards(replayed, episodes, ends, end_of, stack, room, found, kept):
    """From the end of what was logged to the first states; episodes with common ends are side by side.

    What is still to come when an episode's log ends is `ends[end_of[episode]]`. Written: its value, at least and at
    most, the same twice where a coupling answers, `found[2, place]`; and those of all states and times,
    `kept[2, place, time, state]`, unless it is empty. `stack[2, time, state]` is room for one episode.
    """
    num_states, num_sides = stack.shape[2], 2 if replayed.kind >= ANY else 1
    for at in range(len(episodes.order)):
        one = episodes.order[at]
        length = episodes.length[one]
        begun = episodes.common[at] if at > 0 else 0
        for side in range(num_sides):
            if begun == 0:
                for c in range(num_states):
                    stack[side, 0, c] = ends[end_of[one], c]
            for back in range(begun, length):
                step = length - 1 - back
                fact, earned = episodes.fact[one, step], episodes.earned[one, step]
                _pull(replayed, fact, earned, stack[side], back, 2 * side - 1, room)
        for side in range(2):
            its = side if num_sides == 2 else 0
            found[side, at] = stack[its, length, episodes.first[one]]
            if kept.shape[1] > 0:
                for back in range(length + 1):
                    for c in range(num_states):
                        kept[side, at, length - back, c] = stack[its, back, c]


@pasted
def _pull(replayed, fact, earned, stack, back, sign, room):
    """One step back: what each state is worth, `stack[back + 1]`, from what the states after it are, `stack[back]`."""
    process, facts = replayed.process, replayed.facts
    if replayed.kind == ANY and replayed.chosen.number.size > 0:
        _sweep(replayed, fact, earned, stack, back, sign, room)
        return
    table = facts.table[fact]
    if _uses_ranks(replayed):
        _rank_states(replayed, stack, back, sign, room)
    if replayed.kind < ANY:
        _remember(process, facts.row[fact], room.factual)
    for c in range(len(process.ends)):
        now = replayed.factor * stack[back, c] if process.ends[c] else 0.0
        if replayed.needed[c] and not process.ends[c]:
            count = 0
            for b in range(process.num_actions):
                share = replayed.tables[table, c, b]
                if share > 0:
                    row = c * process.num_actions + b
                    worth = _row_worth(replayed, fact, earned, stack, back, row, sign, room)
                    room.by_action[0, count], room.by_action[1, count] = share, worth
                    now += share * worth
                    count += 1
            if facts.doing.size > 0:
                now = _coupled_actions(replayed, fact, earned, stack, back, c, count, sign, room)
        stack[back + 1, c] = now
    if replayed.kind < ANY:
        _forget(process, facts.row[fact], room.factual)


@inner
def _coupled_actions(replayed, fact, earned, stack, back, c, count, sign, room):
    """What a state is worth where actions are coupled too, by any coupling."""
    process, facts = replayed.process, replayed.facts
    if c == facts.row[fact] // process.num_actions and facts.steady[fact]:
        return earned + replayed.factor * stack[back, process.successor[facts.slot[fact]]]
    return any_mean(facts.doing[fact], room.by_action[0], 0, count, room.by_action[1], sign, room.ints, room.floats)


@pasted
def _sweep(replayed, fact, earned, stack, back, sign, room):
    """The same over all couplings: the states in one order, and every row takes what it can from each of them."""
    process, facts, chosen, factor = replayed.process, replayed.facts, replayed.chosen, replayed.factor
    x_slot = facts.slot[fact]
    p_x, stayed = process.chance[x_slot], earned + factor * stack[back, process.successor[x_slot]]
    side = 0 if sign < 0 else 1
    count = room.reached.shape[1]
    for at in range(count):
        j = room.reached[side, at]
        room.state_key[0, at] = -sign * (process.common_gain[j] + factor * stack[back, j])
    sort_by_key(room.reached, side, room.state_key, 0, count)
    for number in range(len(chosen.row)):
        room.by_row[LEFT, number], room.by_row[TOTAL, number] = p_x, 0.0
    for at in range(count):
        j = room.reached[side, at]
        later = factor * stack[back, j]
        for slot in range(chosen.arrival[j], chosen.arrival[j + 1]):
            number = chosen.number[slot]
            amount = min(chosen.chance[slot], room.by_row[LEFT, number])
            room.by_row[TOTAL, number] += amount * (chosen.gain[slot] + later)
            room.by_row[LEFT, number] -= amount
    for c in range(len(process.ends)):
        now = factor * stack[back, c] if process.ends[c] else 0.0
        size = chosen.first[c + 1] - chosen.first[c]
        for each in range(size):
            number = chosen.first[c] + each
            if chosen.row[number] == facts.row[fact]:  # nothing is changed here, so nothing changes
                worth = stayed
            else:
                left = room.by_row[LEFT, number]
                if left > 0:  # rounding
                    room.by_row[TOTAL, number] += left * _last_worth(replayed, chosen.row[number], stack, back, sign)
                worth = room.by_row[TOTAL, number] / p_x
            room.by_action[0, each], room.by_action[1, each] = chosen.share[number], worth
            now += chosen.share[number] * worth
        if facts.doing.size > 0 and size > 0:
            now = _coupled_actions(replayed, fact, earned, stack, back, c, size, sign, room)
        stack[back + 1, c] = now


@inner
def _last_worth(replayed, row, stack, back, sign):
    """What the last slot to be filled is worth: the least, or the largest where the least is sought."""
    process, found = replayed.process, inf
    for slot in range(process.start[row], process.start[row + 1]):
        found = min(found, sign * (process.gain[slot] + replayed.factor * stack[back, process.successor[slot]]))
    return sign * found


@compiled
def one_state_back(replayed, fact, earned, stack, state, sign, room, found):
    """What each action that has a row is worth in one state, from what the states after it are, `stack[0]`."""
    if _uses_ranks(replayed):
        _rank_states(replayed, stack, 0, sign, room)
    process = replayed.process
    _remember(process, replayed.facts.row[fact], room.factual)
    for b in range(process.num_actions):
        row = state * process.num_actions + b
        if process.start[row + 1] > process.start[row]:
            found[b] = _row_worth(replayed, fact, earned, stack, 0, row, sign, room)


@inner
def _uses_ranks(replayed):
    """Whether one order of the states serves all rows, and is worth its while."""
    process = replayed.process
    return replayed.kind == ANY and process.width > WIDE and process.common_gain.size > 0


@inner
def _rank_states(replayed, stack, back, sign, room):
    """The order of all states by worth."""
    process = replayed.process
    for c in range(len(process.ends)):
        room.states[AT, c] = c
        room.state_key[0, c] = -sign * (process.common_gain[c] + replayed.factor * stack[back, c])
    sort_by_key(room.states, AT, room.state_key, 0, len(process.ends))
    for place in range(len(process.ends)):
        room.states[RANK, room.states[AT, place]] = place


@pasted
def _row_worth(replayed, fact, earned, stack, back, row, sign, room):
    """What one row is worth: under a coupling, or at least or at most."""
    process, facts, factor = replayed.process, replayed.facts, replayed.factor
    x_slot = facts.slot[fact]
    if row == facts.row[fact]:  # nothing is changed here, so nothing changes
        return earned + factor * stack[back, process.successor[x_slot]]
    if _uses_ranks(replayed):
        return _ranked_mean(replayed, process.chance[x_slot], row, stack, back, room)
    start = process.start[row]
    size = process.start[row + 1] - start
    if replayed.kind == ANY:
        for slot in range(size):
            room.worth[slot] = process.gain[start + slot] + factor * stack[back, process.successor[start + slot]]
        return any_mean(process.chance[x_slot], process.chance, start, size, room.worth, sign, room.ints, room.floats)
    if replayed.kind == STABLE:
        both, x = _meet_all(process, facts.row[fact], row, x_slot, room)
        room.worth[x] = 0.0  # where the other row cannot lead there
        for slot in range(size):
            worth = process.gain[start + slot] + factor * stack[back, process.successor[start + slot]]
            room.worth[room.ints[WAITING, slot]] = worth
        return stable_mean(room.pair, both, x, room.worth, sign, room.ints, room.floats)
    write_answer(replayed, fact, row, room.worth, 0, room)
    mean = 0.0
    for slot in range(size):
        mean += room.worth[slot] * (process.gain[start + slot] + factor * stack[back, process.successor[start + slot]])
    return mean


@inner
def _ranked_mean(replayed, p_x, row, stack, back, room):
    """The mean of `any_mean` where the order of all states by worth is known."""
    process = replayed.process
    start, end = process.start[row], process.start[row + 1]
    for slot in range(start, end):
        room.states[SLOT, room.states[RANK, process.successor[slot]]] = slot
    left, total, at, found, worth = 1.0, 0.0, 0, 0, 0.0
    while left > 0 and found < end - start:
        slot = room.states[SLOT, at]
        at += 1
        if slot >= 0:
            worth = process.gain[slot] + replayed.factor * stack[back, process.successor[slot]]
            amount = min(process.chance[slot] / p_x, left)
            total += amount * worth
            left -= amount
            found += 1
    for slot in range(start, end):
        room.states[SLOT, room.states[RANK, process.successor[slot]]] = -1
    return total + left * worth


# Changes: what was done, except at some steps. Values are kept for every number of changes that are left, side by side.


class Rules(NamedTuple):
    """What may be changed, and what that costs."""

    cost: Float[np.ndarray, "a a"]
    """By what was done and what would be done instead."""
    may: Bool[np.ndarray, "s a"]
    """What may be done instead."""
    small: float
    """Values that differ by less are the same."""
    within: float
    """Total variation between the answered and the plain row, above which the log informs; -inf: whatever it is."""
    ahead: float
    """Steps after which a row must be able to lead to one that the log informs, if it is none itself."""
    fixed: bool
    """Whether plans are sequences that are fixed in advance: they do not depend on how many changes are left."""


class LayerRoom(NamedTuple):
    """Memory for what rows are worth with every number of changes left."""

    worth: Float[np.ndarray, "a_and_one k"]
    """By action; at last what was done."""
    used: Float[np.ndarray, "a_and_one k"]
    """How many changes are made on average."""
    wait: Float[np.ndarray, " a"]
    """Steps until the log may inform again; none where it informs this row."""
    hope: Float[np.ndarray, "times s"]
    """The same for states."""
    answer: Float[np.ndarray, " w"]
    leaving: Float[np.ndarray, "k k"]
    wanted: Bool[np.ndarray, " k"]
    """Which numbers of changes left are asked about."""
    reach: Bool[np.ndarray, "times s k"]
    """Where a plan that is given can lead at all."""


@inner
def monotone_mean(pair, size, x, worth, sign, ints, floats):
    """The largest mean of `sign * worth` over rows of the family, times `sign`; it is a box.

    What was seen is at least as likely as it would be anyway; other outcomes are impossible where the change favours
    them no more than what was seen, at most as likely as anyway where they could have been seen, and else at most
    `q / p_x`. Nothing is asked of a row that shares no outcome with the factual one.
    """
    shared = False
    for j in range(size):
        shared = shared or (pair[P, j] > 0 and pair[Q, j] > 0)
    ratio = quotient(pair[Q, x], pair[P, x], pair[LOG_Q, x], pair[LOG_P, x])
    left, total = 1.0, 0.0
    for j in range(size):
        room_here = _most_of(pair, x, j)
        if shared:
            if j == x:
                total += pair[Q, x] * worth[x]
                left -= pair[Q, x]
                room_here -= pair[Q, x]
            elif pair[P, j] > 0:
                stays = ratio >= quotient(pair[Q, j], pair[P, j], pair[LOG_Q, j], pair[LOG_P, j])
                room_here = 0.0 if stays else pair[Q, j]
        floats[FREE, j], floats[KEY, j], ints[PLACE, j] = room_here, -sign * worth[j], j
    sort_by_key(ints, PLACE, floats, KEY, size)
    last = 0.0
    for each in range(size):
        j = ints[PLACE, each]
        if floats[FREE, j] > 0:
            last = worth[j]
            amount = min(floats[FREE, j], left)
            total += amount * last
            left -= amount
    return total + left * last


@inner
def _family_worth(replayed, fact, row, stack, back, layer, sign, room):
    """What one row is worth at least or at most, with so many changes left."""
    process, facts, factor = replayed.process, replayed.facts, replayed.factor
    x_slot, start = facts.slot[fact], process.start[row]
    size = process.start[row + 1] - start
    if replayed.kind == ANY:
        for slot in range(size):
            room.worth[slot] = process.gain[start + slot] + factor * stack[back, process.successor[start + slot], layer]
        return any_mean(process.chance[x_slot], process.chance, start, size, room.worth, sign, room.ints, room.floats)
    if replayed.kind == STABLE:
        both, x = _meet_all(process, facts.row[fact], row, x_slot, room)
    else:
        both, x = _meet_slots(process, row, x_slot, room)
    room.worth[x] = 0.0  # where the other row cannot lead there
    for slot in range(size):
        worth = process.gain[start + slot] + factor * stack[back, process.successor[start + slot], layer]
        room.worth[room.ints[WAITING, slot] if replayed.kind == STABLE else slot] = worth
    if replayed.kind == STABLE:
        return stable_mean(room.pair, both, x, room.worth, sign, room.ints, room.floats)
    return monotone_mean(room.pair, both, x, room.worth, sign, room.ints, room.floats)


@inner
def _load_answer(replayed, given, fact, row, room, spare):
    """Writes the answered row, and returns how far it is from the plain one."""
    process, start = replayed.process, replayed.process.start[row]
    size = process.start[row + 1] - start
    if given.size > 0:
        for slot in range(size):
            spare.answer[slot] = given[fact, start + slot]
    else:
        write_answer(replayed, fact, row, spare.answer, 0, room)
    distance = 0.0
    for slot in range(size):
        distance += abs(spare.answer[slot] - process.chance[start + slot])
    return 0.5 * distance


@inner
def _layers_back(replayed, given, fact, earned, stack, used, back, b, row, sign, within, room, spare):
    """What one row is worth for every number of changes left."""
    process, facts, factor = replayed.process, replayed.facts, replayed.factor
    layers = stack.shape[2]
    if row == facts.row[fact]:  # nothing is changed here, so nothing changes
        j = process.successor[facts.slot[fact]]
        for k in range(layers):
            spare.worth[b, k], spare.used[b, k] = earned + factor * stack[back, j, k], used[back, j, k]
        spare.wait[b] = 0.0
        return
    if replayed.kind >= ANY:
        for k in range(layers):
            spare.worth[b, k], spare.used[b, k] = 0.0, 0.0
            if spare.wanted[k]:
                spare.worth[b, k] = _family_worth(replayed, fact, row, stack, back, k, sign, room)
        spare.wait[b] = 0.0
        return
    spare.wait[b] = 0.0 if _load_answer(replayed, given, fact, row, room, spare) > within else inf
    for k in range(layers):
        spare.worth[b, k], spare.used[b, k] = 0.0, 0.0
    start = process.start[row]
    for slot in range(process.start[row + 1] - start):
        chance = spare.answer[slot]
        if chance > 0:
            gain, j = process.gain[start + slot], process.successor[start + slot]
            spare.wait[b] = min(spare.wait[b], 1 + spare.hope[back, j])
            for k in range(layers):
                spare.worth[b, k] += chance * (gain + factor * stack[back, j, k])
                spare.used[b, k] += chance * used[back, j, k]


@inner
def _want_layers(rules, share, c, b, logged, planned, plan, at, step, spare):
    """Marks the numbers of changes left at which anybody may do this here; says whether there are any."""
    found = False
    for k in range(len(spare.wanted)):
        spare.wanted[k] = not planned
    if not planned:
        return share > 0 or (rules.may[c, b] and b != logged)
    for k in range(len(spare.wanted)):
        done = plan[at, step, c, k]
        if spare.reach[step, c, k] and (done == b or (done < 0 and share > 0)):
            spare.wanted[k if done < 0 or rules.fixed else k - 1] = True
            found = True
    return found


@inner
def _mark_reached(replayed, rules, episodes, one, plan, at, together, spare):
    """Where a plan can lead: by plain rows, whose outcomes are all that any coupling can answer with.

    What was logged follows from what was logged, if both worlds draw `together` at each step.
    """
    process, facts, reach, layers = replayed.process, replayed.facts, spare.reach, spare.reach.shape[2]
    length = episodes.length[one]
    for step in range(length + 1):
        reach[step] = False
    for k in range(layers):
        reach[0, episodes.first[one], k] = True
    for step in range(length):
        fact = episodes.fact[one, step]
        for c in range(reach.shape[1]):
            if process.ends[c]:
                continue
            for k in range(layers):
                if not reach[step, c, k]:
                    continue
                done = plan[at, step, c, k]
                after = k if done < 0 or rules.fixed else k - 1
                for b in range(process.num_actions):
                    if b != done and (done >= 0 or replayed.tables[facts.table[fact], c, b] == 0):
                        continue
                    row = c * process.num_actions + b
                    if together and row == facts.row[fact]:
                        reach[step + 1, process.successor[facts.slot[fact]], after] = True
                        continue
                    for slot in range(process.start[row], process.start[row + 1]):
                        reach[step + 1, process.successor[slot], after] = True


@pasted
def _change_back(
    replayed, given, rules, fact, earned, stack, used, choice, back, sign, planned, plan, at, step, room, spare
):
    """One step back: values, changes on average, and what to do, for every number of changes left."""
    process, facts, layers = replayed.process, replayed.facts, stack.shape[2]
    logged, table, num_actions = facts.row[fact] % process.num_actions, facts.table[fact], process.num_actions
    remembered = replayed.kind == MONOTONE or (replayed.kind < ANY and given.size == 0)
    if remembered:
        _remember(process, facts.row[fact], room.factual)
    for c in range(len(process.ends)):
        spare.hope[back + 1, c] = inf
        for k in range(layers):
            choice[back, c, k], used[back + 1, c, k], stack[back + 1, c, k] = -1, 0.0, 0.0
        if process.ends[c]:
            for k in range(layers):
                stack[back + 1, c, k] = replayed.factor * stack[back, c, k]
        if process.ends[c] or not replayed.needed[c]:
            continue
        informed = True
        for k in range(layers):
            spare.worth[num_actions, k], spare.used[num_actions, k] = 0.0, 0.0
        for b in range(num_actions):
            row = c * num_actions + b
            if process.start[row + 1] == process.start[row]:
                continue
            share = replayed.tables[table, c, b]
            if not _want_layers(rules, share, c, b, logged, planned, plan, at, step, spare):
                continue
            _layers_back(replayed, given, fact, earned, stack, used, back, b, row, sign, rules.within, room, spare)
            spare.hope[back + 1, c] = min(spare.hope[back + 1, c], spare.wait[b])
            if share > 0:
                informed = informed and spare.wait[b] <= rules.ahead
                for k in range(layers):
                    spare.worth[num_actions, k] += share * spare.worth[b, k]
                    spare.used[num_actions, k] += share * spare.used[b, k]
        for k in range(layers):
            best, fewest, done = spare.worth[num_actions, k], spare.used[num_actions, k], -1
            if planned:
                done = plan[at, step, c, k] if spare.reach[step, c, k] else -1
                if done >= 0:
                    best = spare.worth[done, k if rules.fixed else k - 1] - rules.cost[logged, done]
            else:
                if not informed:
                    best = -inf
                for b in range(num_actions):
                    if k == 0 or b == logged or not rules.may[c, b] or spare.wait[b] > rules.ahead:
                        continue
                    worth, number = spare.worth[b, k - 1] - rules.cost[logged, b], spare.used[b, k - 1] + 1
                    alike = abs(worth - best) <= rules.small
                    if (worth > best and not alike) or (alike and number < fewest - 1e-9):
                        best, fewest, done = worth, number, b
            stack[back + 1, c, k], used[back + 1, c, k], choice[back, c, k] = best, fewest, done
    if remembered:
        _forget(process, facts.row[fact], room.factual)


@compiled
def change_backwards(
    replayed, given, rules, episodes, ends, end_of, sign, planned, stack, used, choice, plan, room, spare, found
):
    """The best changes of episodes, or what those of a plan are worth, for every number of changes left.

    Written: values at the first states, `found[place, k]`; without a plan that is given (`planned`), the best one,
    `plan[place, step, state, k]`: an action, or -1 for what was done. `stack`, `used`, `choice` are room for one
    episode, `[time, state, k]`. Answers of a coupling may be `given[fact, slot]`.
    """
    num_states, layers = stack.shape[1], stack.shape[2]
    for at in range(len(episodes.order)):
        one = episodes.order[at]
        length = episodes.length[one]
        begun = episodes.common[at] if at > 0 and not planned else 0
        if planned:
            _mark_reached(replayed, rules, episodes, one, plan, at, True, spare)
        if begun == 0:
            for c in range(num_states):
                for k in range(layers):
                    stack[0, c, k], used[0, c, k] = ends[end_of[one], c], 0.0
        for back in range(begun, length):
            step = length - 1 - back
            fact, earned = episodes.fact[one, step], episodes.earned[one, step]
            _change_back(
                replayed, given, rules, fact, earned, stack, used, choice, back, sign, planned, plan, at, step, room,
                spare,
            )  # fmt: skip
        for k in range(layers):
            found[at, k] = stack[length, episodes.first[one], k]
        if not planned:
            for back in range(length):
                for c in range(num_states):
                    for k in range(layers):
                        plan[at, length - 1 - back, c, k] = choice[back, c, k]


@compiled
def change_forwards(replayed, given, rules, episodes, ends, end_of, plan, tiny, here, room, spare, found):
    """Follows plans: from the first states to the end of what was logged, for every number of changes at the start.

    Written: values `found[place, k]`. Masses below `tiny` are dropped. `here[2, state, k, k]` is room: by the number of
    changes at the start, and what is left of them.
    """
    process, facts = replayed.process, replayed.facts
    num_states, layers, num_actions = here.shape[1], here.shape[2], process.num_actions
    for at in range(len(episodes.order)):
        one = episodes.order[at]
        length, now = episodes.length[one], 0
        here[0] = 0.0
        for k in range(layers):
            here[0, episodes.first[one], k, k] = 1.0
            found[at, k] = 0.0
        for step in range(length):
            fact, weight = episodes.fact[one, step], replayed.factor**step
            earned, table = episodes.earned[one, step], facts.table[fact]
            logged = facts.row[fact] % num_actions
            if given.size == 0:
                _remember(process, facts.row[fact], room.factual)
            here[1 - now] = 0.0
            for c in range(num_states):
                mass = 0.0
                for k in range(layers):
                    for left in range(layers):
                        mass += here[now, c, k, left]
                if mass <= tiny:
                    continue
                if process.ends[c]:
                    for k in range(layers):
                        for left in range(layers):
                            here[1 - now, c, k, left] += here[now, c, k, left]
                    continue
                for b in range(num_actions):
                    any_leaving, share = False, replayed.tables[table, c, b]
                    spare.leaving[:] = 0.0
                    for k in range(layers):
                        for left in range(layers):
                            amount = here[now, c, k, left]
                            if amount == 0:
                                continue
                            done = plan[at, step, c, left]
                            if done < 0:
                                spare.leaving[k, left] += amount * share
                                any_leaving = any_leaving or share > 0
                            elif done == b:
                                spare.leaving[k, left if rules.fixed else left - 1] += amount
                                found[at, k] -= weight * amount * rules.cost[logged, b]
                                any_leaving = True
                    if not any_leaving:
                        continue
                    row = c * num_actions + b
                    if row == facts.row[fact]:  # nothing is changed here, so nothing changes
                        j = process.successor[facts.slot[fact]]
                        for k in range(layers):
                            for left in range(layers):
                                amount = spare.leaving[k, left]
                                here[1 - now, j, k, left] += amount
                                found[at, k] += weight * amount * earned
                        continue
                    _load_answer(replayed, given, fact, row, room, spare)
                    start, gain = process.start[row], 0.0
                    for slot in range(process.start[row + 1] - start):
                        chance, j = spare.answer[slot], process.successor[start + slot]
                        if chance > 0:
                            gain += chance * process.gain[start + slot]
                            for k in range(layers):
                                for left in range(k + 1):
                                    here[1 - now, j, k, left] += chance * spare.leaving[k, left]
                    for k in range(layers):
                        for left in range(k + 1):
                            found[at, k] += weight * gain * spare.leaving[k, left]
            if given.size == 0:
                _forget(process, facts.row[fact], room.factual)
            now = 1 - now
        weight = replayed.factor**length
        for c in range(num_states):
            for k in range(layers):
                for left in range(layers):
                    found[at, k] += weight * here[now, c, k, left] * ends[end_of[one], c]


class Spread(NamedTuple):
    """Distributions of what is still to come, over a grid, and the least and the largest that can come."""

    low: float
    """The first point."""
    step: float
    end_mass: Float[np.ndarray, "rows s points"]
    """When the log ends, by what is still to come; `end_limit` likewise."""
    end_limit: Float[np.ndarray, "rows s 2"]
    mass: Float[np.ndarray, "2 s k points"]
    """Room for two steps; `limit` likewise."""
    limit: Float[np.ndarray, "2 s k 2"]


@inner
def _copy(source, target):
    for place in range(len(source)):
        target[place] = source[place]


@inner
def _spread_row(replayed, spread, row, c, k, after, share, price, now):
    """Adds what comes after one row, on plain rows; what falls between two points is split, its mean kept."""
    process, points, factor = replayed.process, spread.mass.shape[3], replayed.factor
    for slot in range(process.start[row], process.start[row + 1]):
        j, gain, weight = process.successor[slot], process.gain[slot] - price, share * process.chance[slot]
        spread.limit[1 - now, c, k, 0] = min(
            spread.limit[1 - now, c, k, 0], gain + factor * spread.limit[now, j, after, 0]
        )
        spread.limit[1 - now, c, k, 1] = max(
            spread.limit[1 - now, c, k, 1], gain + factor * spread.limit[now, j, after, 1]
        )
        for point in range(points):
            amount = weight * spread.mass[now, j, after, point]
            if amount > 0:
                at = (gain + (factor - 1) * spread.low) / spread.step + factor * point
                below = int(np.floor(at + 1e-9))
                rest = max(at - below, 0.0)
                if rest < 1e-9:
                    rest = 0.0
                spread.mass[1 - now, c, k, below] += amount * (1 - rest)
                if rest > 0:
                    spread.mass[1 - now, c, k, below + 1] += amount * rest


@compiled
def change_spread(replayed, rules, episodes, end_of, plan, parting, spread, spare, found, limits):
    """How returns are distributed under plans from where both worlds part on, if nothing else is known of them.

    Written: `found[place, k, point]`, and the least and the largest, `limits[place, k, 2]`. Worlds part in the logged
    state at `parting[episode, k]`; -1: never.
    """
    process, facts, num_states = replayed.process, replayed.facts, spread.mass.shape[1]
    for at in range(len(episodes.order)):
        one, now, first = episodes.order[at], 0, episodes.length[episodes.order[at]]
        for k in range(spare.reach.shape[2]):
            first = min(first, parting[one, k] if parting[one, k] >= 0 else first)
        if first == episodes.length[one]:
            continue
        _mark_reached(replayed, rules, episodes, one, plan, at, False, spare)
        for c in range(num_states):
            for k in range(spare.reach.shape[2]):
                _copy(spread.end_mass[end_of[one], c], spread.mass[now, c, k])
                _copy(spread.end_limit[end_of[one], c], spread.limit[now, c, k])
        for step in range(episodes.length[one] - 1, first - 1, -1):
            fact = episodes.fact[one, step]
            logged, table = facts.row[fact] % process.num_actions, facts.table[fact]
            for c in range(num_states):
                for k in range(spare.reach.shape[2]):
                    if process.ends[c]:
                        _copy(spread.mass[now, c, k], spread.mass[1 - now, c, k])
                        _copy(spread.limit[now, c, k], spread.limit[1 - now, c, k])
                    if process.ends[c] or not spare.reach[step, c, k]:
                        continue
                    spread.mass[1 - now, c, k] = 0.0
                    spread.limit[1 - now, c, k, 0], spread.limit[1 - now, c, k, 1] = inf, -inf
                    done = plan[at, step, c, k]
                    after = k if done < 0 or rules.fixed else k - 1
                    price = rules.cost[logged, done] if done >= 0 else 0.0
                    for b in range(process.num_actions):
                        share = replayed.tables[table, c, b] if done < 0 else 1.0 * (b == done)
                        if share > 0:
                            _spread_row(replayed, spread, c * process.num_actions + b, c, k, after, share, price, now)
            now = 1 - now
            for k in range(spare.reach.shape[2]):
                if parting[one, k] == step:
                    c = facts.row[fact] // process.num_actions
                    _copy(spread.mass[now, c, k], found[at, k])
                    _copy(spread.limit[now, c, k], limits[at, k])
