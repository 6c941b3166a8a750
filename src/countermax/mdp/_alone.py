"""One episode with changes, row by row: how far its log reaches, its most likely path, and sequences told before.

A sequence of changes that is followed whatever comes of it is sought best first: a beginning is worth no more than the
best plan that reacts from there on.
"""

from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from countermax._core.memory import check_memory
from countermax._kernel import _loops
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._changes import PathStep
from countermax.mdp._replays._course import Course

_MOST_OPENED, _MOST_KEPT = 20_000, 2**24  # beginnings of sequences: their number, and that of their probabilities


_Said: TypeAlias = tuple[tuple[int, int], ...]


class ToldSequence(NamedTuple):
    """A sequence of changes that is told before."""

    changes: _Said
    """Steps and actions."""
    value: float
    gap: float
    """How much better another one could be at most; zero where this is the best."""


class _Step(NamedTuple):
    """What may be done at one step; rows are numbered state * num_actions + action."""

    to: sparse.csr_array
    """[row, state]: where each leads."""
    gain: Float[np.ndarray, " rows"]
    far: Float[np.ndarray, " rows"]
    """Total variation to the plain row; infinite where what was logged is done."""
    usual: Float[np.ndarray, "s a"]
    """What is done where nothing is changed; nothing at ends."""
    cost: Float[np.ndarray, " a"]
    may: Bool[np.ndarray, "s a"]

    def doing(self, done: Int[np.ndarray, " s"] | int) -> Floats:
        """[state, action]: shares of the actions, if this takes the place of what was done, by state; -1 for none."""
        instead = np.broadcast_to(done, len(self.usual))
        shares = np.where(instead[:, None] >= 0, np.arange(self.usual.shape[1]) == instead[:, None], self.usual)
        return shares * self.usual.any(axis=1, keepdims=True)


class OneEpisode:
    """The first episode of a course, by one coupling; `given` holds answers that no closed form gives, by slot."""

    def __init__(
        self, course: Course, replayed: _loops.Replayed, room: _loops.Room, rules: _loops.Rules, given: Floats
    ):
        """Answers every row that changes can lead to."""
        self._course, self._rules, self._length = course, rules, int(course.seen[0])
        self._ends, self._first = course.mdp.absorbing, int(course.first[0])
        reach, self._steps = np.zeros(course.mdp.num_states, bool), list[_Step]()
        reach[self._first] = True
        for step in range(self._length):
            self._steps.append(self._rows(replayed, room, given, reach, step))
            reach = (reach & self._ends) | (np.diff(self._steps[-1].to.tocsc().indptr) > 0)

    def _rows(
        self, replayed: _loops.Replayed, room: _loops.Room, given: Floats, reach: Bool[np.ndarray, " s"], step: int
    ) -> _Step:
        process, mdp, fact = replayed.process, self._course.mdp, int(self._course.facts.of_step[0, step])
        logged, seen = int(replayed.facts.row[fact]), int(replayed.facts.slot[fact])
        live = reach & ~self._ends
        sizes = np.diff(process.start) * np.repeat(live, mdp.num_actions)
        rows, starts = np.flatnonzero(sizes), np.concatenate([[0], np.cumsum(sizes)])
        check_memory(
            f"{self._length} steps of {starts[-1]} answers", 24 * self._length * int(starts[-1]), "cut the log"
        )
        row = np.repeat(np.arange(len(sizes)), sizes)
        slot = np.arange(int(starts[-1])) - starts[row] + process.start[row]
        if given.size:
            answers = given[fact, slot]
        else:
            some = replayed.chosen._replace(
                row=rows.astype(np.int64), offset=starts[rows], answers=np.zeros((1, len(slot)))
            )
            facts = replayed.facts._replace(
                **{name: getattr(replayed.facts, name)[fact : fact + 1] for name in ("row", "slot", "table")}
            )
            _loops.answer_all(replayed._replace(facts=facts, chosen=some), room)
            answers = some.answers[0]
        far = np.bincount(row, np.abs(answers - process.chance[slot]), minlength=len(sizes)) / 2
        answers = np.where(row == logged, slot == seen, answers)
        gain = np.bincount(row, answers * process.gain[slot], minlength=len(sizes))
        far[logged], gain[logged] = np.inf, self._course.earned[0, step]
        to = sparse.csr_array((answers, process.successor[slot], starts), shape=(len(sizes), mdp.num_states))
        to.eliminate_zeros()
        action = logged % mdp.num_actions
        may = self._rules.may & live[:, None] & (np.arange(mdp.num_actions) != action)
        usual = replayed.tables[replayed.facts.table[fact]] * live[:, None]
        return _Step(to, gain, far, usual, self._rules.cost[action], may)

    def followed(self, plan: Int[np.ndarray, "t s k"], changes: int) -> tuple[float, Float[np.ndarray, " t"]]:
        """How many changes a plan makes on average, and how far the log moves the rows that it takes, step by step.

        Total variation, where no end was reached; one where all is as it was logged.
        """
        here, number, away = np.zeros((changes + 1, len(self._ends))), 0.0, np.zeros(self._length)
        here[changes, self._first] = 1
        for step, rows in enumerate(self._steps):
            later, live = here * self._ends, float(here[:, ~self._ends].sum()) or 1.0
            for left in np.flatnonzero(here.any(axis=1)).tolist():
                done = plan[step, :, left]
                mass = here[left][:, None] * rows.doing(done)
                for changed in (False, True):
                    taken = (mass * ((done >= 0) == changed)[:, None]).ravel()
                    later[left - (changed and not self._rules.fixed)] += taken @ rows.to
                    away[step] += taken @ np.minimum(rows.far, 1) / live
                number += float(mass[done >= 0].sum())
            here = later
        return number, np.minimum(away, 1)

    def likeliest(self, plan: Int[np.ndarray, "t s k"], changes: int) -> tuple[tuple[PathStep, ...], float]:
        """The most likely path up to the end of the log, and its probability (Viterbi)."""
        num_states, num_actions = self._steps[0].usual.shape
        best, before = np.zeros((changes + 1, num_states)), list[Ints]()
        best[changes, self._first] = 1
        for step, rows in enumerate(self._steps):
            later, came = best * self._ends, np.zeros((3, changes + 1, num_states), np.int64)
            came[0], came[1], came[2] = np.arange(num_states), np.arange(changes + 1)[:, None], -1
            for left in np.flatnonzero(best.any(axis=1)).tolist():
                done = plan[step, :, left]
                weight = (best[left][:, None] * rows.doing(done)).ravel()
                for changed in (False, True):
                    chosen = np.flatnonzero(weight * np.repeat((done >= 0) == changed, num_actions))
                    after = left - (changed and not self._rules.fixed)
                    ways = rows.to[chosen].tocoo()
                    chance = weight[chosen][ways.row] * ways.data
                    order = np.argsort(chance, kind="stable")  # of several ways to one state the last stays
                    order = order[chance[order] > later[after][ways.col[order]]]
                    row, state = chosen[ways.row[order]], ways.col[order]
                    later[after, state] = chance[order]
                    came[0, after, state], came[1, after, state] = row // num_actions, left
                    came[2, after, state] = row % num_actions
            best = later
            before.append(came)
        left, state = (int(each) for each in np.unravel_index(int(best.argmax()), best.shape))
        chance, found = float(best[left, state]), [PathStep(self._length, state, -1, False)]
        for step in reversed(range(self._length)):
            state, left, action = (int(each) for each in before[step][:, left, state])
            found.append(PathStep(step, state, action, action >= 0 and int(plan[step, state, left]) >= 0))
        return tuple(reversed(found)), chance

    def sequences(self, num_layers: int) -> tuple[ToldSequence, ...]:
        """The best sequences of changes that are told before, by the number of changes."""
        worth, least = self._worth(num_layers)
        found = [ToldSequence((), least, 0.0)]
        for changes in range(1, num_layers):
            said, value, bound = self._search(worth, changes)
            before, gap = found[-1], bound - max(value, found[-1].value)
            gap = gap if gap > self._rules.small else 0.0
            better = value > before.value + self._rules.small  # else fewer changes do as well
            found.append(ToldSequence(said, value, gap) if better else before._replace(gap=gap))
        return tuple(found)

    def _worth(self, num_layers: int) -> tuple[list[Float[np.ndarray, "s options k"]], float]:
        """What actions are worth, and behind them what was done, with so many changes left after it."""
        num_states, num_actions = self._steps[0].usual.shape
        check_memory(
            "values of all actions at all steps",
            8 * self._length * num_states * (num_actions + 1) * num_layers,
            "allow fewer changes",
        )
        ends, of = self._course.to_come()
        later, found = np.repeat(ends[of[0]][:, None], num_layers, axis=1), list[Floats]()
        for rows in reversed(self._steps):
            each = rows.gain[:, None] + self._course.discount * (rows.to @ later)
            each = each.reshape(num_states, num_actions, -1)
            stay = np.einsum("sa,sak->sk", rows.usual, each) + self._ends[:, None] * self._course.discount * later
            each = np.where(rows.may[:, :, None], each - rows.cost[:, None], stay[:, None])
            found.append(np.concatenate([each, stay[:, None]], axis=1))
            later = stay.copy()
            later[:, 1:] = np.maximum(stay[:, 1:], each[:, :, :-1].max(axis=1))
        return found[::-1], float(later[self._first, 0])

    def _search(self, worth: list[Float[np.ndarray, "s options k"]], changes: int) -> tuple[_Said, float, float]:
        """The best sequence that was found, its value, and a bound on all of them."""
        num_states, num_actions = self._steps[0].usual.shape
        start = np.zeros(num_states)
        start[self._first] = 1
        moves, room = dict[tuple[int, int], tuple[sparse.csr_array, Floats]](), _MOST_KEPT // num_states
        best: _Said = ()
        value, count, opened = -np.inf, 0, 0
        waiting = [(-np.inf, -changes, 0, 0, num_actions, start, 0.0, best)]
        while waiting:
            bound, left, _, step, option, here, earned, said = heappop(waiting)
            if step == self._length or not left:
                return said, -bound, -bound
            if opened >= max(2, min(_MOST_OPENED, room)):
                return best, value, -bound
            opened += 1
            if step:
                if (step, option) not in moves:
                    moves[step, option] = self._move(step - 1, option)
                matrix, gains = moves[step, option]
                earned += self._course.discount ** (step - 1) * float(here @ gains)
                here = here @ matrix + here * self._ends
            there = np.flatnonzero(here)
            bounds = earned + self._course.discount**step * np.tensordot(here[there], worth[step][there], 1)
            possible = self._steps[step].may[there].any(axis=0)
            for told in (*np.flatnonzero(possible).tolist(), num_actions):
                after, count = -left - (told < num_actions), count + 1
                so_far = (*said, (step, told)) if told < num_actions else said
                most = float(bounds[told, after])
                if most > value and (step + 1 == self._length or not after):
                    best, value = so_far, most
                heappush(waiting, (-most, -after, count, step + 1, told, here, earned, so_far))
        raise AssertionError("no sequence was left")

    def _move(self, step: int, option: int) -> tuple[sparse.csr_array, Floats]:
        """[state, state]: where a step leads if this is told, and what it earns; what cannot be done is not."""
        rows = self._steps[step]
        num_states, num_actions = rows.usual.shape
        can = rows.may[:, option] if option < num_actions else np.zeros(num_states, bool)
        shares = rows.doing(np.where(can, option, -1))
        state, action = np.nonzero(shares)
        taking = sparse.csr_array(
            (shares[state, action], (state, state * num_actions + action)), shape=(num_states, shares.size)
        )
        costs = can * rows.cost[option] if option < num_actions else 0.0
        return sparse.csr_array(taking @ rows.to), taking @ rows.gain - costs
