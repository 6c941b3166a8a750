"""The least and the largest mean of a row, over all couplings or over the stable ones, compiled.

`bounds` has the same for single questions, with logits, gradients and outcomes of any rarity, and says why it is right;
the tests hold one against the other. Amounts are in units of the probability of what was seen.
"""

from typing import no_type_check

import numpy as np

from countermax.mdp.replays.engines._compiling import compiled
from countermax.mdp.replays.engines._laws import sort_by_key

ANY, STABLE = 100, 101
"""Which couplings are allowed."""

_TIE = np.finfo(np.float64).eps


@compiled
@no_type_check
def any_mean(p_x, q, start, size, worth, sign, place, key):
    """The largest mean of `sign * worth` over rows that are nowhere above `q / p_x`, times `sign`.

    Args:
        p_x: The probability of what was seen.
        q: Probabilities of all rows, one after the other.
        start: First slot of the row.
        size: Number of slots in the row.
        worth: The worth of each slot.
        sign: 1 for the largest, -1 for the least mean.
        place: Room for as many integers.
        key: Room for as many numbers.
    """
    for slot in range(size):
        place[slot] = slot
        key[slot] = -sign * worth[slot]
    sort_by_key(place, key, size)
    left, total = 1.0, 0.0
    for each in range(size):
        slot = place[each]
        amount = min(q[start + slot] / p_x, left)
        total += amount * worth[slot]
        left -= amount
        if left <= 0:
            break
    return total + left * worth[place[size - 1]]


@compiled
@no_type_check
def ranked_mean(p_x, q, successor, gain, start, size, factor, later, rank, slot_at):
    """The same mean where the order of all states by worth is known.

    Args:
        p_x: The probability of what was seen.
        q: Probabilities of all rows, one after the other.
        successor: State that each slot leads to.
        gain: Reward of each slot.
        start: First slot of the row.
        size: Number of slots in the row.
        factor: Discount.
        later: [state]: what it is worth to be there.
        rank: [state]: its place in the order, the best one first.
        slot_at: [rank]: room for one integer each, all of them -1; left as it was.
    """
    for slot in range(start, start + size):
        slot_at[rank[successor[slot]]] = slot
    left, total, at, found, worth = 1.0, 0.0, 0, 0, 0.0
    while left > 0 and found < size:
        slot = slot_at[at]
        at += 1
        if slot >= 0:
            worth = gain[slot] + factor * later[successor[slot]]
            amount = min(q[slot] / p_x, left)
            total += amount * worth
            left -= amount
            found += 1
    for slot in range(start, start + size):
        slot_at[rank[successor[slot]]] = -1
    return total + left * worth


@compiled
@no_type_check
def stable_mean(p_of, x, label, q, start_p, size_p, start, size, worth, sign, ints, floats):
    """The largest mean of `sign * worth` over counterfactually stable couplings, times `sign`.

    Mass moves from x to outcomes of a larger ratio `q / p` only, the best ones first, as far as every group of equal
    ratios on the way can still pass it on. The first group is what only the factual row can reach, the last one what
    only the other row can.

    Args:
        p_of: The factual row, by label; changed on the way, and left as it was.
        x: The label seen.
        label: Labels of all rows, one after the other.
        q: Probabilities likewise.
        start_p: First slot of the factual row.
        size_p: Number of slots in the factual row.
        start: First slot of the other row.
        size: Number of slots in the other row.
        worth: The worth of each slot.
        sign: 1 for the largest, -1 for the least mean.
        ints: [3, more than slots]: room.
        floats: The same for numbers.
    """
    place, group, waiting = ints[0], ints[1], ints[2]
    key, limit, through = floats[0], floats[1], floats[2]
    p_x = p_of[x]
    common, at_x, worth_x, rest = 0, -1, 0.0, 0.0
    for slot in range(size):
        weight = p_of[label[start + slot]]
        if weight > 0:
            place[common], key[common] = slot, q[start + slot] / weight
            common += 1
            if label[start + slot] == x:
                at_x, worth_x = slot, worth[slot]
        else:
            rest += q[start + slot]
    for each in range(common):
        p_of[label[start + place[each]]] *= -1
    passed = 0.0  # what p has more than q, so far
    for each in range(size_p):
        passed += max(p_of[label[start_p + each]], 0.0)
    for each in range(common):
        p_of[label[start + place[each]]] *= -1
    sort_by_key(place, key, common)
    through[0] = passed
    last, group_x = 0, 0
    for each in range(common):
        slot, ratio = place[each], key[each]
        weight = p_of[label[start + slot]]
        tie = _TIE * (64 * (1 + abs(np.log(ratio))) + 4 * abs(np.log(weight)))
        if each == 0 or ratio - key[each - 1] > tie * ratio:
            last += 1
        group[slot] = last
        if ratio <= 1:
            passed += max(weight - q[start + slot], 0.0)
        through[last] = passed if ratio <= 1 else -1.0
        if slot == at_x:
            group_x = last
    behind = rest  # what q has more than p, from the end
    each = common - 1
    while each >= 0 and key[each] > 1:
        here = group[place[each]]
        if through[here] < 0:
            through[here] = behind
        behind += max(q[start + place[each]] - p_of[label[start + place[each]]], 0.0)
        each -= 1
    through[last + 1] = 0.0
    before = through[group_x - 1] if group_x > 0 else 0.0
    moved_x = q[start + at_x] - p_x if at_x >= 0 else -p_x
    most = before - moved_x if through[group_x] > before or at_x < 0 else through[group_x]
    most = min(max(most / p_x, 0.0), 1.0)
    least = min(max(-moved_x / p_x, 0.0), 1.0)
    for here in range(group_x + 1, last + 2):
        limit[here] = min(through[here], through[here - 1]) / p_x
    count = 0
    for slot in range(size):
        if p_of[label[start + slot]] <= 0:
            group[slot] = last + 1
        if group[slot] > group_x:
            waiting[count], key[count] = slot, -sign * worth[slot]
            count += 1
    sort_by_key(waiting, key, count)
    sent, total = 0.0, 0.0
    for each in range(count):
        slot = waiting[each]
        gain = worth[slot] - worth_x
        wanted = (most if sign * gain > 0 or at_x < 0 else least) - sent
        if wanted <= 0:
            if sent >= least:
                break
            continue
        weight, here = p_of[label[start + slot]], group[slot]
        free = max(q[start + slot] - weight, 0.0) / p_x
        amount = min(wanted, free + min(min(weight, q[start + slot]) / p_x, limit[here]))
        for on_the_way in range(group_x + 1, here):
            amount = min(amount, limit[on_the_way])
        if amount <= 0:
            continue
        for on_the_way in range(group_x + 1, here):
            limit[on_the_way] -= amount
        limit[here] -= max(amount - free, 0.0)
        sent += amount
        total += amount * gain
    return worth_x + total if at_x >= 0 else total / sent
