"""Chains of episodes walked forwards, compiled; a common beginning is walked once."""

from typing import no_type_check

from countermax.mdp.replays.engines._compiling import compiled
from countermax.mdp.replays.engines._laws import write_row
from countermax.mdp.replays.engines._memory import fill_p


@compiled
@no_type_check
def forwards(kind, rows, seen, chosen, walk, tables, factor, begin, end, stack, room, moments, path):
    """From the first states to the end of what was logged.

    Args:
        kind: Code of the coupling that answers.
        rows: The process.
        seen: The distinct transitions of the log.
        chosen: The rows of the policy.
        walk: The episodes.
        tables: [table, state, action]: choices.
        factor: Discount.
        begin: The first place in the order.
        end: Position after the last.
        stack: [time, state, 3]: room for the moments of one episode.
        room: Room for one row.
        moments: [place, state, 3]: where to write the powers 0, 1, 2 of the reward so far, where a chain is there.
        path: [place, time, state] or empty: where to write distributions.
    """
    num_states = len(rows.ends)
    p_of, answer, key, place = room.p_of, room.floats[0], room.floats[1], room.ints[0]
    for at in range(begin, end):
        one = walk.order[at]
        length = walk.length[one]
        begun = walk.shared[at] if at > begin else 0
        if begun == 0:
            for c in range(num_states):
                for power in range(3):
                    stack[0, c, power] = 0.0
            stack[0, walk.first[one], 0] = 1.0
        for step in range(begun, length):
            fact = walk.fact[one, step]
            weight = factor**step
            _push(
                kind, rows, seen, chosen, fact, weight * walk.earned[one, step], weight, tables, stack, step,
                p_of, answer, place, key,
            )  # fmt: skip
        for c in range(num_states):
            for power in range(3):
                moments[at - begin, c, power] = stack[length, c, power]
        if path.shape[0] > 0:
            for step in range(length + 1):
                for c in range(num_states):
                    path[at - begin, step, c] = stack[step, c, 0]


@compiled
@no_type_check
def _push(kind, rows, seen, chosen, fact, earned, weight, tables, stack, step, p_of, answer, place, key):
    """One step of one chain: moments before and after."""
    s, a, x_slot, table = seen.state[fact], seen.action[fact], seen.slot[fact], seen.table[fact]
    x, varies, known = rows.label[x_slot], rows.variance.size > 0, chosen.answers.size > 0
    for c in range(len(rows.ends)):
        for power in range(3):
            stack[step + 1, c, power] = 0.0
    if not known:
        fill_p(rows, s, a, p_of, 1.0)
    for c in range(len(rows.ends)):
        if stack[step, c, 0] == 0:
            continue
        if rows.ends[c]:
            for power in range(3):
                stack[step + 1, c, power] += stack[step, c, power]
            continue
        number = chosen.first[c] if known else 0
        for b in range(rows.num_actions):
            share = tables[table, c, b]
            if share == 0:
                continue
            number += 1
            mass, first, second = stack[step, c, 0] * share, stack[step, c, 1] * share, stack[step, c, 2] * share
            if c == s and b == a:  # nothing is changed here, so nothing changes
                j = rows.successor[x_slot]
                stack[step + 1, j, 0] += mass
                stack[step + 1, j, 1] += first + mass * earned
                stack[step + 1, j, 2] += second + 2 * earned * first + mass * earned * earned
                continue
            start = rows.start[c * rows.num_actions + b]
            size = rows.start[c * rows.num_actions + b + 1] - start
            offset = 0
            if known:
                answer, offset = chosen.answers[fact], chosen.offset[number - 1]
            else:
                write_row(kind, p_of, x, rows.label, rows.chance, start, size, answer, place, key)
            for slot in range(size):
                chance = answer[offset + slot]
                if chance > 0:
                    gain, j = weight * rows.gain[start + slot], rows.successor[start + slot]
                    square = gain * gain
                    if varies:
                        square += weight * weight * rows.variance[start + slot]
                    stack[step + 1, j, 0] += chance * mass
                    stack[step + 1, j, 1] += chance * (first + mass * gain)
                    stack[step + 1, j, 2] += chance * (second + 2 * gain * first + mass * square)
    if not known:
        fill_p(rows, s, a, p_of, 0.0)


@compiled
@no_type_check
def answer_all(kind, rows, seen, chosen, begin, end, room):
    """What a coupling answers for every row that is chosen, whatever was seen.

    Args:
        kind: Code of the coupling that answers.
        rows: The process.
        seen: The distinct transitions of the log.
        chosen: The rows of the policy; answers are written there.
        begin: The first transition.
        end: Position after the last.
        room: Room for one row.
    """
    p_of, key, place = room.p_of, room.floats[1], room.ints[0]
    for fact in range(begin, end):
        s, a = seen.state[fact], seen.action[fact]
        fill_p(rows, s, a, p_of, 1.0)
        for number in range(len(chosen.state)):
            start = rows.start[chosen.state[number] * rows.num_actions + chosen.action[number]]
            offset = chosen.offset[number]
            size = chosen.offset[number + 1] - offset
            answer = chosen.answers[fact, offset : offset + size]
            write_row(kind, p_of, rows.label[seen.slot[fact]], rows.label, rows.chance, start, size, answer, place, key)
        fill_p(rows, s, a, p_of, 0.0)


@compiled
@no_type_check
def carry_on(start, successor, chance, steps, here, after):
    """Carries chains on by plain rows, each for a number of steps of its own, in place.

    Args:
        start: [state and one]: where the row of each state starts, under the policy.
        successor: State that each slot leads to.
        chance: Probability of each slot.
        steps: [place]: how many steps.
        here: [place, state]: where chains are.
        after: [state]: room.
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
