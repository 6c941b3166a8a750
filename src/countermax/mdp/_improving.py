"""The best changes to what was done, at most so many of them: exact dynamic programming over what is left of them.

Given a logged episode, the counterfactual state is a Markov chain whose rows a coupling answers; a change takes another
action for one step. What a state is worth at a step with k changes left is the larger of what the logged action is
worth there, with k left, and what the best other action is, with one less. So all numbers of changes are found in one
walk back. Over a family of couplings, nature answers each row with its worst (or best) one; it may answer differently
for each number of changes left, which no coupling can, so worst cases are conservative.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int

from countermax._core.memory import check_memory
from countermax._core.threads import num_threads
from countermax._kernel import _loops, has_closed_form
from countermax.bounds import Bounds
from countermax.mdp._alone import OneEpisode, ToldSequence
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._changes import SAME, Changes
from countermax.mdp._replays import _course as courses
from countermax.mdp._replays._compiled_chains import CompiledChains
from countermax.mdp._replays._course import Course
from countermax.mdp._replays._persistent import grid_of, returns_after, tail_means
from countermax.mdp._replays._questions import Facts, questions
from countermax.mdp._replays._trajectories import AnyCoupling, Trajectories

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
        spread_threads: bool = True,
    ):
        """Computes nothing yet; rows that somebody else answered may be `given`, by fact and slot of the process."""
        self.mdp, self.setting, self.changes = model.mdp, model.setting, changes
        self._law, self._given_rows = model.law(coupling), given
        facts = model.facts
        self.course = courses.course_of(
            model.mdp, model.setting, facts, courses.as_logged(model.mdp, facts, model.setting.usual)
        )
        longest = int(self.course.seen.max())
        self.num_layers = 1 + (longest if changes.most is None else min(changes.most, longest))
        self._num_threads = num_threads() if spread_threads else 1

    @property
    def facts(self) -> Facts:
        """What was seen."""
        return self.course.facts

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
        chance = np.where(logged, self.mdp.probs[state, facts.action[fact], facts.next_slot[fact]], 1)
        share = np.cumprod(chance[:, ::-1], axis=1, dtype=np.float64)[:, ::-1]
        factors = course.discount ** np.arange(width)
        earned = np.where(logged, course.earned[:, :width], 0) * factors
        grid = grid_of(course, course.gains, np.zeros(self.mdp.num_states), self.rules.cost, self.num_layers - 1)
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
        """The best sequences of changes for one episode that are told before, by the number of changes."""
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
        if len(batches) == 1 or self._num_threads == 1:
            for batch in batches:
                ask(batch, ends, rows)
            return
        with ThreadPoolExecutor(self._num_threads) as pool:
            for each in [pool.submit(ask, batch, ends, rows) for batch in batches]:
                each.result()
