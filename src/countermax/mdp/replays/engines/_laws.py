"""Rows of the counterfactual chain for single questions, compiled: what was seen against one row of the process.

Nothing is laid out over the union of two supports. Outcomes that the factual row cannot reach all have the same clock,
zero, so of Gumbel-max only the outcomes that both rows can reach are sorted; the others are plain probabilities times
one number. `race`, `comonotone` and the couplings have the same formulas for logits, gradients and outcomes of any
rarity; the tests hold one against the other.

Every function takes the factual row as a dense vector over labels, `p_of`, zero where it cannot lead, and writes the
answer for the slots of the other row. Rows lie one after the other in flat arrays; labels ascend along a row.
"""

from typing import no_type_check

from countermax.mdp.replays.engines._compiling import compiled

GUMBEL_MAX, INVERSE_CDF, INDEPENDENT, MAXIMAL = 0, 1, 2, 3
"""Which coupling answers."""


@compiled
@no_type_check
def write_row(kind, p_of, x, label, q, start, size, answer, place, key):
    """The probabilities of the slots of one row, given that the factual row led to label `x`.

    Args:
        kind: Code of the coupling that answers.
        p_of: The factual row, by label.
        x: The label seen.
        label: Labels of all rows, one after the other.
        q: Probabilities likewise.
        start: First slot of the other row.
        size: Number of slots in the other row.
        answer: Room for the answer.
        place: Room for as many integers.
        key: Room for as many numbers.
    """
    if kind == GUMBEL_MAX:
        _gumbel_max(p_of, x, label, q, start, size, answer, place, key)
    elif kind == INVERSE_CDF:
        _inverse_cdf(p_of, x, label, q, start, size, answer)
    elif kind == MAXIMAL:
        _maximal(p_of, x, label, q, start, size, answer)
    else:
        for slot in range(size):
            answer[slot] = q[start + slot]
    total = 0.0
    for slot in range(size):
        total += answer[slot]
    for slot in range(size):
        answer[slot] /= total


@compiled
@no_type_check
def sort_by_key(place, key, size):
    """Sorts places by their keys, ascending, both in place; where keys are equal, by the places themselves."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, size):
            moved, its_key = place[at], key[at]
            hole = at
            while hole >= gap and (
                key[hole - gap] > its_key or (key[hole - gap] == its_key and place[hole - gap] > moved)
            ):
                place[hole], key[hole] = place[hole - gap], key[hole - gap]
                hole -= gap
            place[hole], key[hole] = moved, its_key
        gap //= 3


@compiled
@no_type_check
def _gumbel_max(p_of, x, label, q, start, size, answer, place, key):
    """The closed form of `race.row`, with one sort of the common outcomes."""
    common = 0
    ahead = 0.0  # mass of q that has passed: first all that p cannot reach
    at_x = -1
    for slot in range(size):
        weight = p_of[label[start + slot]]
        if weight > 0:
            place[common] = slot
            key[common] = weight / q[start + slot]
            common += 1
            if label[start + slot] == x:
                at_x = slot
        else:
            ahead += q[start + slot]
    sort_by_key(place, key, common)
    behind = 1.0  # mass of p that is still to come
    before, other_before, clock = 0.0, 1.0, 0.0
    stay = 0.0
    last = common
    for each in range(common):
        slot = place[each]
        weight = p_of[label[start + slot]]
        share, other_share = weight / (weight + q[start + slot]), q[start + slot] / (weight + q[start + slot])
        here = other_share * behind + share * ahead
        clock += (share - before) / ((other_before * behind + before * ahead) * here)
        key[each] = clock
        before, other_before = share, other_share
        if slot == at_x:
            stay = other_share / here
            last = each
            break
        behind = max(behind - weight, 0.0)
        ahead += q[start + slot]
    if at_x < 0:  # x itself is impossible there: its share is one
        clock += (1 - before) / ((other_before * behind + before * ahead) * ahead)
    for slot in range(size):
        answer[slot] = 0.0 if p_of[label[start + slot]] > 0 else q[start + slot] * clock
    for each in range(last):
        answer[place[each]] = q[start + place[each]] * max(clock - key[each], 0.0)
    if at_x >= 0:
        answer[at_x] = stay


@compiled
@no_type_check
def _inverse_cdf(p_of, x, label, q, start, size, answer):
    """The part of x's interval that each slot's covers; distances are kept in two numbers each, so rare x is right."""
    high, low = 0.0, 0.0
    for each in range(x):
        high, low = _add(high, low, -p_of[each])
    width = p_of[x]
    covered = 0.0
    for slot in range(size):
        begin = high + low
        high, low = _add(high, low, q[start + slot])
        end = high + low
        part = min(end, width) - max(begin, 0.0)
        if begin >= 0 and end <= width:
            part = q[start + slot]
        part = min(max(part, 0.0), q[start + slot], width - covered)
        covered += part
        answer[slot] = part
    slot = size - 1
    while covered < width and slot >= 0:  # rounding at the end of the line
        more = min(width - covered, q[start + slot] - answer[slot])
        answer[slot] += more
        covered += more
        slot -= 1


@compiled
@no_type_check
def _add(high, low, value):
    """The sum of a number in two parts and another one, in two parts."""
    total = high + value
    back = total - high
    low += (high - (total - back)) + (value - back)
    return total, low


@compiled
@no_type_check
def _maximal(p_of, x, label, q, start, size, answer):
    """Stays as often as can be; what cannot goes by what each outcome gains."""
    gained = 0.0
    kept = 0.0
    for slot in range(size):
        answer[slot] = max(q[start + slot] - p_of[label[start + slot]], 0.0)
        gained += answer[slot]
        if label[start + slot] == x:
            kept = min(q[start + slot] / p_of[x], 1.0)
    for slot in range(size):
        share = answer[slot] / gained if gained > 0 else q[start + slot]
        answer[slot] = (1 - kept) * share + (kept if label[start + slot] == x else 0.0)
