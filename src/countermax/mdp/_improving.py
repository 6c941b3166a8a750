"""The best changes to what was done, at most so many of them: exact dynamic programming over what is left of them.

Given a logged episode, the counterfactual state is a Markov chain whose rows a coupling answers; a change takes another
action for one step. What a state is worth at a step with k changes left is the larger of what the logged action is
worth there, with k left, and what the best other action is, with one less. So all numbers of changes are found in one
walk back. Over a family of couplings, nature answers each row with its worst (or best) one; it may answer differently
for each number of changes left, which no coupling can, so worst cases are conservative.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from countermax._core.memory import check_memory
from countermax._core.threads import in_threads
from countermax._kernel import _loops, has_closed_form
from countermax.bounds import Bounds
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._changes import SAME, Changes, PathStep
from countermax.mdp._replays import _course as courses
from countermax.mdp._replays._compiled_chains import CompiledChains
from countermax.mdp._replays._course import Course
from countermax.mdp._replays._persistent import grid_of, returns_after, tail_means
from countermax.mdp._replays._questions import questions
from countermax.mdp._replays._trajectories import AnyCoupling, Trajectories

_MOST_OPENED, _MOST_KEPT = 20_000, 2**24  # beginnings of sequences: their number, and that of their probabilities


_Said: TypeAlias = tuple[tuple[int, int], ...]


class ToldSequence(NamedTuple):
    """A sequence of changes that is fixed in advance."""

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
    """The first episode of a course, by one coupling; `given` holds answers that no closed form gives, by slot.

    A sequence of changes that is followed whatever comes of it is sought best first: a beginning is worth no more than
    the best plan that reacts from there on.
    """

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

    def followed(
        self, plan: Int[np.ndarray, "t s k"], changes: int
    ) -> tuple[float, Float[np.ndarray, " t"], Float[np.ndarray, " s"]]:
        """How many changes a plan makes on average, how far the log moves the rows that it takes, and where it leads.

        How far: total variation, step by step, where no end was reached; one where all is as it was logged.
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
        where = here.sum(axis=0)
        for _ in range(int(self._course.steps[0]) - self._length):
            where = np.asarray(where @ self._course.chain)
        return number, np.minimum(away, 1), where

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
        """The best sequences of changes that are fixed in advance, by the number of changes."""
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


_KINDS = {"any": _loops.ANY, "stable": _loops.STABLE, "monotone": _loops.MONOTONE}
_ASKED_AT_ONCE = 2**18


@final
class ChangedEpisodes:
    """Changes to the episodes of a log, in one process, by one coupling."""

    def __init__(
        self,
        model: Trajectories,
        coupling: AnyCoupling,
        changes: Changes,
        *,
        given: Float[np.ndarray, "f slots"] | None = None,
    ):
        """Computes nothing yet; rows that somebody else answered may be `given`, by fact and slot of the process."""
        self.mdp, self.setting, self.changes = model.mdp, model.setting, changes
        self._law, self._given_rows = model.law(coupling), given
        self.facts = model.facts
        self.course = courses.course_of(
            model.mdp, model.setting, self.facts, courses.as_logged(model.mdp, self.facts, model.setting.usual)
        )
        longest = int(self.course.seen.max())
        self.num_layers = 1 + (longest if changes.most is None else min(changes.most, longest))

    @cached_property
    def rules(self) -> _loops.Rules:
        """What may be changed."""
        largest = max(float(np.abs(self.course.gains).max()), float(np.abs(self.course.earned).max(initial=0)))
        return self.changes.rules(self.mdp, SAME * max(largest * self.course.horizon, np.finfo(float).tiny))

    @cached_property
    def _needed(self) -> Bool[np.ndarray, " s"]:
        """Where changes can lead at all."""
        choices = self.course.choices
        return replace(self.course, choices=choices._replace(after=self.mdp.allowed.astype(np.float64))).reachable

    @cached_property
    def _given(self) -> Floats:
        """[fact, slot]: answers that no closed form gives."""
        if self._given_rows is not None:
            return self._given_rows
        if has_closed_form(self._law.coupling):
            return np.zeros((0, 0))
        live = self.mdp.allowed & (self._needed & ~self.mdp.absorbing)[:, None]
        state, action = np.nonzero(live)
        count, rows = len(self.facts.state), state * self.mdp.num_actions + action
        slots = self.mdp.matrix.indptr
        check_memory(
            f"answers to {count} transitions for {len(state)} rows", 8 * count * int(slots[-1]), "ask fewer episodes"
        )
        found = np.zeros((count, int(slots[-1])))
        fact, place = np.divmod(np.arange(count * len(state)), len(state))
        own = (self.facts.state[fact] == state[place]) & (self.facts.action[fact] == action[place])
        fact, place = fact[~own], place[~own]
        for start in range(0, len(fact), _ASKED_AT_ONCE):
            some = slice(start, start + _ASKED_AT_ONCE)
            answers = self._law.answers(questions(self.facts, fact[some], state[place[some]], action[place[some]]))
            entry, slot = np.nonzero(self.mdp.probs[state[place[some]], action[place[some]]])
            found[fact[some][entry], slots[rows[place[some]]][entry] + slot] = answers[entry, slot]
        return found

    def best(self) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n t s k"]]:
        """The values of the best plans and the plans, for every number of changes; by the aim of `changes`."""
        if self.changes.plan == "fixed":
            return self._best_sequences()
        if self.changes.aim == "coupling":
            return self._backwards(self._by_coupling, sign=1)
        return self._backwards(self._over(self.changes.aim, -1), sign=-1)

    def guaranteed(self, family: str) -> tuple[Bounds, Int[np.ndarray, "n t s k"]]:
        """The largest worst case of any plan over a family of couplings, and the largest best case; and the first plan.

        Nature may answer differently for each number of changes left.
        """
        lower, plan = self._backwards(self._over(family, -1), sign=-1)
        return Bounds(lower, self._backwards(self._over(family, 1), sign=1)[0]), plan

    def limits(self, plan: Int[np.ndarray, "n t s k"], family: str) -> Bounds:
        """What plans are worth over a family of couplings, [episode, changes]: at least and at most."""
        found = [self._backwards(self._over(family, sign), sign=sign, plan=plan)[0] for sign in (-1, 1)]
        return Bounds(*found)

    def persistent(self, plan: Int[np.ndarray, "n t s k"], asked: Bool[np.ndarray, "n k"]) -> Bounds:
        """What plans are worth if chance may persist across steps, [episode, changes]: at least and at most.

        Both worlds are one up to the first change; from there on the rule is that of replays, in `_persistent`. Plans
        that are not asked about stand as no change at all.
        """
        return Bounds(*(self._tail_means(plan, asked, sign) for sign in (-1, 1)))

    def _tail_means(self, plan: Int[np.ndarray, "n t s k"], asked: Bool[np.ndarray, "n k"], sign: int) -> Floats:
        course, chains, _, _ = self._over("any", sign)
        facts, width, side = self.facts, plan.shape[1], 0 if sign < 0 else 1
        logged = np.arange(width) < course.seen[:, None]
        fact = np.where(logged, facts.of_step[:, :width], 0)
        state = facts.state[fact]
        done = (plan[np.arange(len(course))[:, None], np.arange(width), state] >= 0) & logged[:, :, None]
        parting = np.where(done.any(axis=1) & asked, done.argmax(axis=1), -1)
        chance = np.where(logged, self.mdp.probs[facts[:3]][fact], 1)
        share = np.cumprod(chance[:, ::-1], axis=1, dtype=np.float64)[:, ::-1]
        factors = course.discount ** np.arange(width)
        earned = np.where(logged, course.earned[:, :width], 0) * factors
        grid = grid_of(course, np.zeros(self.mdp.num_states), self.rules.cost, self.num_layers - 1)
        end_mass, end_limit, end_of = returns_after(course, grid)
        shape = 2, self.mdp.num_states, self.num_layers, len(grid.points)
        values = np.zeros(parting.shape)

        def one(batch: Ints, ends: Floats, rows: Ints) -> None:
            replayed, episodes, room = self._arguments(chains, _loops.ANY, batch, rows)
            spread = _loops.Spread(
                float(grid.points[0]), grid.step, end_mass, end_limit, np.zeros(shape), np.zeros((*shape[:3], 2))
            )
            found, limits = np.zeros((len(batch), *shape[2:])), np.zeros((len(batch), self.num_layers, 2))
            its = plan[episodes.order], parting
            _loops.change_spread(replayed, self.rules, episodes, end_of, *its, spread, self._spare(room), found, limits)
            place, k = np.nonzero(parting[episodes.order] >= 0)
            some = episodes.order[place]
            at = parting[some, k]
            tails = tail_means(grid, found[place, k], share[some, at], limits[place, k, side], sign)
            before = (earned[some] * (np.arange(width) < at[:, None])).sum(axis=1)
            values[some, k] = before + factors[at] * tails

        self._each(chains, course, one)
        same = self.values(np.full_like(plan[:, :, :, :1], -1))
        return np.where(parting >= 0, values, same)

    def most_of(self, plan: Int[np.ndarray, "n t s k"], rewards: Floats) -> Float[np.ndarray, "n k"]:
        """The largest sum of other rewards that plans may come to, under any coupling; changes cost nothing there."""
        course = courses.course_of(self.mdp, self.setting, self.facts, self.course.choices, rewards)
        chains = CompiledChains(course, None)
        free = self.rules._replace(cost=np.zeros_like(self.rules.cost))
        return self._backwards((course, chains, _loops.ANY, np.zeros((0, 0))), sign=1, plan=plan, rules=free)[0]

    def values(self, plan: Int[np.ndarray, "n t s k"], tiny: float = 0.0) -> Float[np.ndarray, "n k"]:
        """What plans are worth by the coupling, [episode, changes]; masses below `tiny` are dropped."""
        course, chains, kind, given = self._by_coupling
        layers = plan.shape[3]
        found = np.zeros((len(course), layers))

        def one(batch: Ints, ends: Floats, rows: Ints) -> None:
            replayed, episodes, room = self._arguments(chains, kind, batch, rows)
            here, spare = np.zeros((2, self.mdp.num_states, layers, layers)), self._spare(room, layers)
            some, asked = np.zeros((len(batch), layers)), plan[episodes.order]
            _loops.change_forwards(
                replayed, given, self.rules, episodes, ends, rows, asked, tiny, here, room, spare, some
            )
            found[episodes.order] = some

        self._each(chains, course, one)
        return found

    def sequences(self) -> tuple[ToldSequence, ...]:
        """The best sequences of changes for one episode that are fixed in advance, by the number of changes."""
        return self.alone.sequences(self.num_layers)

    @cached_property
    def alone(self) -> OneEpisode:
        """The first episode, row by row."""
        course, chains, kind, given = self._by_coupling
        nobody = np.zeros(1, np.int64)
        replayed, _, room = self._arguments(chains, kind, nobody, nobody)
        return OneEpisode(course, replayed, room, self.rules, given)

    def plan_of(self, told: Sequence[ToldSequence]) -> Int[np.ndarray, "1 t s k"]:
        """Sequences as plans: where an action cannot be taken, what was done stays."""
        plan = np.full((1, int(self.course.seen[0]), self.mdp.num_states, self.num_layers), -1, np.int16)
        for changes, each in enumerate(told):
            for step, action in each.changes:
                plan[0, step, self.rules.may[:, action], changes] = action
        return plan

    def _best_sequences(self) -> tuple[Floats, Any]:
        """The same for every episode, one after the other."""
        count = len(self.course)
        values, plan = np.zeros((count, self.num_layers)), self._no_plan(count)
        for episode in range(count):
            alone = self if count == 1 else self._alone(episode)
            told = alone.sequences()
            told += told[-1:] * (self.num_layers - len(told))
            own = alone.plan_of(told[: alone.num_layers])
            values[episode] = [each.value for each in told]
            plan[episode, : own.shape[1], :, : own.shape[3]] = own[0]
            plan[episode, : own.shape[1], :, own.shape[3] :] = own[0, :, :, -1:]
        return values, plan

    def _alone(self, episode: int) -> "ChangedEpisodes":
        one = replace(self.setting, log=self.setting.log.select([episode]))
        return ChangedEpisodes(Trajectories(self.mdp, one, quiet=True), self._law.answering, self.changes)

    @cached_property
    def _by_coupling(self) -> tuple[Course, CompiledChains, int, Floats]:
        if self._given_rows is None and has_closed_form(self._law.coupling):
            chains = CompiledChains(self.course, self._law)
            return self.course, chains, chains.kind, np.zeros((0, 0))
        return self.course, CompiledChains(self.course, None), _loops.GIVEN, self._given

    def _over(self, family: str, sign: int) -> tuple[Course, CompiledChains, int, Floats]:
        """The episodes over a family of couplings; where rewards vary, with the least or the largest of them."""
        course = self.course
        if self.setting.varying is not None:
            gains = self.setting.varying.of(self.mdp)[0 if sign < 0 else 1]
            course = replace(course, gains=gains, spreads=None)
        return course, CompiledChains(course, None), _KINDS[family], np.zeros((0, 0))

    def _arguments(
        self, chains: CompiledChains, kind: int, batch: Ints, rows: Ints
    ) -> tuple[_loops.Replayed, _loops.Episodes, _loops.Room]:
        replayed, episodes, room = chains.arguments(batch, rows)
        return replayed._replace(kind=kind, needed=self._needed), episodes, room

    def _spare(self, room: _loops.Room, layers: int = 0) -> _loops.LayerRoom:
        actions, layers, width = self.mdp.num_actions, layers or self.num_layers, len(room.answer)
        one, two = np.zeros((actions + 1, layers)), np.zeros((actions + 1, layers))
        reach = np.zeros((int(self.course.seen.max()) + 1, self.mdp.num_states, layers), bool)
        hope, leaving = np.full(reach.shape[:2], np.inf), np.zeros((layers, layers))
        return _loops.LayerRoom(one, two, np.zeros(actions), hope, np.zeros(width), leaving, reach[0, 0].copy(), reach)

    def _no_plan(self, count: int) -> Int[np.ndarray, "n t s k"]:
        shape = (count, int(self.course.seen.max()), self.mdp.num_states, self.num_layers)
        check_memory(
            f"plans of {self.num_layers - 1} changes for {count} episodes over {self.mdp.num_states} states",
            4 * int(np.prod(shape)),
            "allow fewer changes, or ask about fewer episodes",
        )
        return np.full(shape, -1, np.int16)

    def _backwards(
        self,
        asked: tuple[Course, CompiledChains, int, Floats],
        *,
        sign: int,
        plan: Int[np.ndarray, "n t s k"] | None = None,
        rules: _loops.Rules | None = None,
    ) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n t s k"]]:
        course, chains, kind, given = asked
        planned, ruled = plan is not None, rules or self.rules
        found = np.zeros((len(course), self.num_layers))
        made = self._no_plan(len(course)) if plan is None else plan

        def one(batch: Ints, ends: Floats, rows: Ints) -> None:
            replayed, episodes, room = self._arguments(chains, kind, batch, rows)
            times = int(course.seen[batch].max()) + 1
            shape = (times, self.mdp.num_states, self.num_layers)
            stack, used, choice = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int16)
            some, own = np.zeros((len(batch), self.num_layers)), made[episodes.order]
            _loops.change_backwards(
                replayed, given, ruled, episodes, ends, rows, sign, planned, stack, used, choice, own, room,
                self._spare(room), some,
            )  # fmt: skip
            found[episodes.order] = some
            if not planned:
                made[episodes.order] = own

        self._each(chains, course, one)
        return found, made

    def _each(self, chains: CompiledChains, course: Course, ask: Callable[[Ints, Floats, Ints], None]) -> None:
        """Asks about batches of episodes, beside each other."""
        ends, rows = course.to_come()
        ends, rows = np.array(ends, order="C"), np.array(rows)
        batches = chains.batches(rows)
        for _ in (map if len(batches) == 1 else in_threads)(lambda batch: ask(batch, ends, rows), batches):
            pass
