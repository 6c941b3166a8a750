"""Chains of episodes walked backwards, compiled; a common end is walked once."""

from typing import no_type_check

import numpy as np

from countermax.mdp.replays.engines._compiling import compiled
from countermax.mdp.replays.engines._fills import ANY, STABLE, any_mean, ranked_mean, stable_mean
from countermax.mdp.replays.engines._laws import sort_by_key, write_row
from countermax.mdp.replays.engines._memory import fill_p

WIDE = 24
"""Successors from which on a look at all states in a common order, row by row, is quickest."""


@compiled
@no_type_check
def backwards(
    kind, rows, seen, chosen, walk, tables, factor, needed, ends, end_of, begin, end, low, high, room,
    lower, upper, stacks,
):  # fmt: skip
    """From the end of what was logged to the first states: values under a coupling, or their bounds.

    Args:
        kind: Code of the coupling that answers, or of the couplings that are allowed.
        rows: The process.
        seen: The distinct transitions of the log.
        chosen: The rows of the policy.
        walk: The episodes, those with common ends side by side.
        tables: [table, state, action]: choices; where actions are coupled, the target policy is the first.
        factor: Discount.
        needed: [state]: where a chain can be at all.
        ends: [end, state]: what is still to come when the log ends.
        end_of: [episode]: which of them.
        begin: The first place in the order.
        end: Position after the last.
        low: [time, state]: room for the values of one episode, from its end.
        high: The same.
        room: Room for one row.
        lower: [place]: where to write; the value where a coupling answers.
        upper: [place]: the same.
        stacks: [2, place, time, state] or empty: where to write the values of all states and times.
    """
    num_states = len(rows.ends)
    for at in range(begin, end):
        one = walk.order[at]
        length = walk.length[one]
        begun = walk.shared[at] if at > begin else 0
        if begun == 0:
            for c in range(num_states):
                low[0, c] = high[0, c] = ends[end_of[one], c]
        for back in range(begun, length):
            step = length - 1 - back
            fact, earned = walk.fact[one, step], walk.earned[one, step]
            pull(kind, rows, seen, chosen, fact, earned, tables, factor, needed, low, back, -1, room)
            if kind >= ANY:
                pull(kind, rows, seen, chosen, fact, earned, tables, factor, needed, high, back, 1, room)
        lower[at - begin] = low[length, walk.first[one]]
        upper[at - begin] = high[length, walk.first[one]] if kind >= ANY else lower[at - begin]
        if stacks.shape[1] > 0:
            for back in range(length + 1):
                for c in range(num_states):
                    stacks[0, at - begin, length - back, c] = low[back, c]
                    stacks[1, at - begin, length - back, c] = high[back, c] if kind >= ANY else low[back, c]


@compiled
@no_type_check
def pull(kind, rows, seen, chosen, fact, earned, tables, factor, needed, stack, back, sign, room):
    """One step back: what each state is worth, `stack[back + 1]`, from what the states after it are, `stack[back]`."""
    if kind == ANY and chosen.row.size > 0:
        _sweep(rows, seen, chosen, fact, earned, factor, stack, back, sign, room)
        return
    s, a, table = seen.state[fact], seen.action[fact], seen.table[fact]
    coupled, ranked = seen.doing.size > 0, uses_ranks(kind, rows)
    if ranked:
        rank_states(rows, factor, stack, back, sign, room)
    fill_p(rows, s, a, room.p_of, 1.0)
    for c in range(len(rows.ends)):
        now = factor * stack[back, c] if rows.ends[c] else 0.0
        if needed[c] and not rows.ends[c]:
            count = 0
            for b in range(rows.num_actions):
                share = tables[table, c, b]
                if share > 0:
                    room.share[count] = share
                    room.by_action[count] = row_worth(
                        kind, rows, s, a, seen.slot[fact], earned, factor, stack, back, c, b, sign, ranked, room
                    )
                    now += share * room.by_action[count]
                    count += 1
            if coupled and c == s and seen.steady[fact]:
                now = earned + factor * stack[back, rows.successor[seen.slot[fact]]]
            elif coupled:  # by any coupling
                now = any_mean(
                    seen.doing[fact], room.share, 0, count, room.by_action, sign, room.action_at, room.action_key
                )
        stack[back + 1, c] = now
    fill_p(rows, s, a, room.p_of, 0.0)


@compiled
@no_type_check
def _sweep(rows, seen, chosen, fact, earned, factor, stack, back, sign, room):
    """The same over all couplings: the states in one order, and every row takes what it can from each of them."""
    s, a, x_slot = seen.state[fact], seen.action[fact], seen.slot[fact]
    p_x = rows.chance[x_slot]
    order, key, left, total = room.reached_at[0 if sign < 0 else 1], room.state_key, room.left, room.total
    for at in range(len(order)):
        key[at] = -sign * (rows.common_gain[order[at]] + factor * stack[back, order[at]])
    sort_by_key(order, key, len(order))
    left[:] = p_x
    total[:] = 0.0
    for at in range(len(order)):
        j = order[at]
        later = factor * stack[back, j]
        for slot in range(chosen.arrival[j], chosen.arrival[j + 1]):
            number = chosen.row[slot]
            amount = min(chosen.chance[slot], left[number])
            total[number] += amount * (chosen.gain[slot] + later)
            left[number] -= amount
    for c in range(len(rows.ends)):
        now = factor * stack[back, c] if rows.ends[c] else 0.0
        begin = chosen.first[c]
        size = chosen.first[c + 1] - begin
        for each in range(size):
            number = begin + each
            if c == s and chosen.action[number] == a:  # nothing is changed here, so nothing changes
                worth = earned + factor * stack[back, rows.successor[x_slot]]
            else:
                if left[number] > 0:  # rounding
                    total[number] += left[number] * _last_worth(
                        rows, c, chosen.action[number], factor, stack, back, sign
                    )
                worth = total[number] / p_x
            room.share[each], room.by_action[each] = chosen.share[number], worth
            now += chosen.share[number] * worth
        if seen.doing.size > 0 and size > 0:
            if c == s and seen.steady[fact]:
                now = earned + factor * stack[back, rows.successor[x_slot]]
            else:  # by any coupling
                now = any_mean(
                    seen.doing[fact], room.share, 0, size, room.by_action, sign, room.action_at, room.action_key
                )
        stack[back + 1, c] = now


@compiled
@no_type_check
def _last_worth(rows, c, b, factor, stack, back, sign):
    """What the last slot to be filled is worth: the least, or the largest where the least is sought."""
    row = c * rows.num_actions + b
    found = np.inf
    for slot in range(rows.start[row], rows.start[row + 1]):
        found = min(found, sign * (rows.gain[slot] + factor * stack[back, rows.successor[slot]]))
    return sign * found


@compiled
@no_type_check
def pull_actions(kind, rows, seen, chosen, fact, earned, allowed, factor, stack, state, sign, room, found):
    """What each action is worth in one state, from what the states after it are, `stack[0]`."""
    ranked = uses_ranks(kind, rows)
    s, a = seen.state[fact], seen.action[fact]
    if ranked:
        rank_states(rows, factor, stack, 0, sign, room)
    fill_p(rows, s, a, room.p_of, 1.0)
    for b in range(rows.num_actions):
        if allowed[state, b]:
            found[b] = row_worth(
                kind, rows, s, a, seen.slot[fact], earned, factor, stack, 0, state, b, sign, ranked, room
            )


@compiled
@no_type_check
def uses_ranks(kind, rows):
    """Whether one order of the states serves all rows, and is worth its while."""
    return kind == ANY and rows.width > WIDE and rows.common_gain.size > 0


@compiled
@no_type_check
def rank_states(rows, factor, stack, back, sign, room):
    """The order of all states by worth."""
    for c in range(len(rows.ends)):
        room.state_at[c] = c
        room.state_key[c] = -sign * (rows.common_gain[c] + factor * stack[back, c])
    sort_by_key(room.state_at, room.state_key, len(rows.ends))
    for place in range(len(rows.ends)):
        room.rank[room.state_at[place]] = place


@compiled
@no_type_check
def row_worth(kind, rows, s, a, x_slot, earned, factor, stack, back, c, b, sign, ranked, room):
    """What one row is worth: under a coupling, or at least or at most."""
    if c == s and b == a:  # nothing is changed here, so nothing changes
        return earned + factor * stack[back, rows.successor[x_slot]]
    start = rows.start[c * rows.num_actions + b]
    size = rows.start[c * rows.num_actions + b + 1] - start
    x = rows.label[x_slot]
    p_x = room.p_of[x]
    if ranked:
        return ranked_mean(
            p_x, rows.chance, rows.successor, rows.gain, start, size, factor, stack[back], room.rank, room.slot_at
        )
    worth = room.worth
    for slot in range(size):
        worth[slot] = rows.gain[start + slot] + factor * stack[back, rows.successor[start + slot]]
    if kind == ANY:
        return any_mean(p_x, rows.chance, start, size, worth, sign, room.ints[0], room.floats[0])
    if kind == STABLE:
        row = s * rows.num_actions + a
        start_p = rows.start[row]
        return stable_mean(
            room.p_of, x, rows.label, rows.chance, start_p, rows.start[row + 1] - start_p, start, size, worth, sign,
            room.ints, room.floats,
        )  # fmt: skip
    answer = room.floats[1]
    write_row(kind, room.p_of, x, rows.label, rows.chance, start, size, answer, room.ints[0], room.floats[0])
    total = 0.0
    for slot in range(size):
        total += answer[slot] * worth[slot]
    return total
