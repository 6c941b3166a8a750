"""The couplings that have closed forms, and bounds, replayed by compiled loops."""

from copy import copy
from typing import final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from countermax._core.progress import tell_when_numba_compiles
from countermax._kernel import _loops
from countermax._kernel._rows import kind_of
from countermax.couplings import InverseCDF
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._chains import AbstractChains, Arrived, Valued
from countermax.mdp._replays._course import Course
from countermax.mdp._replays._questions import TransitionCoupling

tell_when_numba_compiles()

_CELLS_AT_ONCE = 2**19  # episodes times states whose moments are kept at once
_BATCHES = 16  # so that all processors have work and a progress bar moves
_LEAST_CELLS = 2**15  # in a batch: less is done before a thread has begun
_MOST_ANSWERS = 2**21  # slots times transitions, above which answers are not kept
_SWEPT = 64  # slots of a row on average, up to which all rows are filled together
_OFTEN = 8  # times that a transition was seen, from which on answers are kept


@final
class CompiledChains(AbstractChains):
    """Rows from their closed forms."""

    def __init__(self, course: Course, law: TransitionCoupling | None, *, stable: bool = False):
        """For one coupling or, without one, for the bounds over all or over the stable ones."""
        kind, shared = (_loops.STABLE if stable else _loops.ANY, 1.0) if law is None else kind_of(law.coupling)
        process = _rows_of(course, _labels(course, law))
        facts, choices = course.facts, course.choices
        seen = _loops.SeenSteps(
            _own(facts.state * course.mdp.num_actions + facts.action),
            _slots(process, course),
            _own(choices.of_fact.astype(np.int64)),
            np.zeros(0) if choices.doing is None else _own(choices.doing),
            np.zeros(0, bool) if choices.steady is None else _own(choices.steady),
        )
        chosen, self._reached = _chosen(course, process, kind)
        tables, needed = _own(choices.tables), _own(course.reachable)
        self._replayed = _loops.Replayed(kind, shared, course.discount, tables, needed, process, seen, chosen)
        self._take(course, _numbered(course))
        if chosen.answers.size:
            _loops.answer_all(self._replayed, self._room())

    def batches(self, rows: Ints | None) -> list[Ints]:
        course = self._course
        order, _ = _in_common(self._keys(np.arange(len(course)), rows), course.seen)
        size = max(-(-len(order) // _BATCHES), _LEAST_CELLS // course.mdp.num_states)
        size = max(1, min(_CELLS_AT_ONCE // course.mdp.num_states, size))
        return [order[start : start + size] for start in range(0, len(order), size)]

    def prepared(self, episodes: Ints) -> tuple[NDArray, ...]:
        return (self._steps[episodes],)

    def of(self, course: Course, *prepared: NDArray) -> "CompiledChains":
        found = copy(self)
        found._take(course, *prepared)
        return found

    def _take(self, course: Course, steps: NDArray) -> None:
        """The episodes that are replayed."""
        self._course, self._steps = course, steps
        self._all = [_own(each) for each in (course.first, course.seen, course.facts.of_step, course.earned)]

    def forwards(self, batch: Ints, *, path: bool) -> Arrived:
        """Common beginnings are replayed once."""
        num_states, episodes = self._course.mdp.num_states, self._episodes(batch, None)
        moments = np.zeros((len(batch), num_states, 3))
        kept = np.zeros((len(batch) if path else 0, int(self._course.seen[batch].max()) + 1, num_states))
        stack = np.zeros((kept.shape[1], num_states, 3))
        _loops.forwards(self._replayed, episodes, stack, self._room(), moments, kept)
        return Arrived(episodes.order, moments, kept if path else None)

    def backwards(self, batch: Ints, to_come: Floats, rows: Ints, *, keep: bool) -> Valued:
        """Common ends are replayed once."""
        num_states, episodes = self._course.mdp.num_states, self._episodes(batch, rows)
        found, longest = np.zeros((2, len(batch))), int(self._course.seen[batch].max())
        kept = np.zeros((2, len(batch) if keep else 0, longest + 1, num_states))
        stack, room = np.zeros((2, longest + 1, num_states)), self._room()
        _loops.backwards(self._replayed, episodes, _own(to_come), _own(rows), stack, room, found, kept)
        return Valued(episodes.order, found[0], found[1], kept if keep else None)

    def carry_on(self, here: Floats, steps: Ints) -> Floats:
        chain, found = self._course.chain, _own(here)
        start, successor = (_own(each.astype(np.int64)) for each in (chain.indptr, chain.indices))
        _loops.carry_on(start, successor, _own(chain.data), _own(steps), found, np.zeros(found.shape[1]))
        return found

    def one_step(self, fact: int, earned: float, later: Floats) -> Floats:
        """An episode of one step."""
        one, kept = np.zeros(1, np.int64), np.zeros((2, 1, 2, len(later)))
        episodes = _loops.Episodes(one, one, one, one + 1, np.array([[fact]]), np.array([[earned]]))
        stack, room = np.zeros((2, 2, len(later))), self._room()
        _loops.backwards(self._replayed, episodes, _own(later[None]), one, stack, room, np.zeros((2, 1)), kept)
        return kept[:, 0, 0]

    def one_row(self, fact: int, earned: float, later: Floats, state: int, *, sign: int) -> Floats:
        found = np.zeros(self._course.mdp.num_actions)
        _loops.one_state_back(self._replayed, fact, earned, _own(later[None]), state, sign, self._room(), found)
        return found * self._course.mdp.allowed[state]

    @property
    def kind(self) -> int:
        """Which coupling answers, or which of them bounds are over."""
        return self._replayed.kind

    def arguments(self, batch: Ints, rows: Ints) -> tuple[_loops.Replayed, _loops.Episodes, _loops.Room]:
        """What other loops over the same episodes need, in an order in which neighbours end alike; `rows` as above."""
        return self._replayed, self._episodes(batch, rows), self._room()

    def _keys(self, batch: Ints, rows: Ints | None) -> NDArray:
        """[episode, 1 + step]: what tells episodes apart, in the order in which they are replayed."""
        course, seen = self._course, self._course.seen[batch]
        if rows is None:
            return np.concatenate([course.first[batch][:, None], self._steps[batch]], axis=1)
        turned = seen[:, None] - 1 - np.arange(int(seen.max()))
        steps = np.where(turned >= 0, np.take_along_axis(self._steps[batch], np.maximum(turned, 0), axis=1), -1)
        return np.concatenate([rows[batch][:, None], steps], axis=1)

    def _room(self) -> _loops.Room:
        return _loops.new_room(self._replayed.process, self._replayed.chosen, self._reached)

    def _episodes(self, batch: Ints, rows: Ints | None) -> _loops.Episodes:
        order, shared = _in_common(self._keys(batch, rows), self._course.seen[batch])
        return _loops.Episodes(batch[order], shared, *self._all)


def _own(values: NDArray) -> NDArray:
    """Writable C-contiguous copy, so that code is compiled once."""
    return np.array(values, order="C")


def _labels(course: Course, law: TransitionCoupling | None) -> Ints:
    """What each state is called as an outcome: where the order decides, by its place in it."""
    if law is None:
        return np.arange(course.mdp.num_states)
    order = law.coupling.order if isinstance(law.coupling, InverseCDF) else None
    return law.labels if order is None else np.argsort(np.asarray(order))[law.labels]


_KNOWN: WeakKeyDictionary[FiniteMDP, _loops.Process] = WeakKeyDictionary()
"""The rows of processes by their states' own names, which most questions are about."""


def _rows_of(course: Course, labels: Ints) -> _loops.Process:
    mdp = course.mdp
    if mdp not in _KNOWN:
        _KNOWN[mdp] = _flattened(mdp)
    rows = _KNOWN[mdp]
    if course.gains is not mdp.rewards:
        gain = course.slot_gains
        rows = rows._replace(gain=gain, variance=np.zeros(0), common_gain=_common_gain(mdp, rows, gain))
    if (labels != np.arange(mdp.num_states)).any():
        row, named = np.repeat(np.arange(len(rows.start) - 1), np.diff(rows.start)), labels[rows.successor]
        order = np.lexsort((named, row))
        rows = rows._replace(
            label=named[order].astype(np.int32),
            successor=rows.successor[order],
            chance=rows.chance[order],
            log_chance=rows.log_chance[order],
            gain=rows.gain[order],
            variance=rows.variance[order] if rows.variance.size else rows.variance,
        )
    return rows


def _flattened(mdp: FiniteMDP) -> _loops.Process:
    matrix = mdp.matrix
    rows = _loops.Process(
        matrix.indptr.astype(np.int64),
        matrix.indices,
        matrix.indices,
        matrix.data,
        np.log(matrix.data),
        mdp.slot_rewards,
        np.zeros(0) if mdp.reward_variances is None else mdp.reward_variances[mdp.probs > 0],
        _own(mdp.absorbing),
        np.zeros(0),
        mdp.num_actions,
        mdp.width,
    )
    return rows._replace(common_gain=_common_gain(mdp, rows, rows.gain))


def _chosen(course: Course, rows: _loops.Process, kind: int) -> tuple[_loops.Chosen, Ints]:
    """The rows that are chosen, prepared for what is asked, answers or bounds; and the states that they lead to."""
    mdp, tables = course.mdp, course.choices.tables
    live = (course.reachable & ~mdp.absorbing)[:, None]
    used = (tables[0] > 0) & live if len(tables) == 1 else np.zeros((mdp.num_states, mdp.num_actions), bool)
    state, action = np.nonzero(used)
    row = state * mdp.num_actions + action
    start = rows.start[row]
    sizes = rows.start[row + 1] - start
    offset = np.concatenate([[0], np.cumsum(sizes)])
    seen, total = len(course.facts.state), int(offset[-1])
    kept = kind < _loops.ANY and seen * total <= _MOST_ANSWERS and seen * _OFTEN <= int(course.seen.sum())
    swept = kind == _loops.ANY and rows.common_gain.size > 0 and total <= _SWEPT * len(state)
    slot = np.repeat(start - offset[:-1], sizes) + np.arange(total) if swept else np.zeros(0, np.int64)
    order = np.argsort(rows.successor[slot], kind="stable")
    ordered, everywhere = slot[order], np.arange(mdp.num_states + 1)
    found = _loops.Chosen(
        np.searchsorted(state, everywhere),
        row,
        tables[0][state, action],
        offset,
        np.empty((seen, total) if kept else (0, 0)),
        np.searchsorted(rows.successor[ordered], everywhere),
        np.repeat(np.arange(len(state), dtype=np.int32), sizes)[order] if swept else np.zeros(0, np.int32),
        rows.chance[ordered],
        rows.gain[ordered],
    )
    return found, np.unique(rows.successor[slot]).astype(np.int64)


def _common_gain(mdp: FiniteMDP, rows: _loops.Process, gain: Floats) -> Floats:
    """What the successor alone decides, if gains along a row differ by nothing else; else empty.

    Of rows that lead to one state only, and of those of absorbing states, nothing is asked.
    """
    if not gain.any():
        return np.zeros(mdp.num_states)
    sizes = np.diff(rows.start)
    counted = np.repeat((sizes > 1) & ~np.repeat(mdp.absorbing, mdp.num_actions), sizes)
    found = np.zeros(mdp.num_states)
    found[rows.successor[counted]] = gain[counted]
    left = found[rows.successor]
    np.subtract(gain, left, out=left)
    counted[rows.start[:-1][sizes > 0]] = False  # has none before it in its row
    return found if (left[1:] == left[:-1])[counted[1:]].all() else np.zeros(0)


def _slots(rows: _loops.Process, course: Course) -> Ints:
    """Where what was seen lies among the slots of all rows."""
    facts, mdp = course.facts, course.mdp
    row = facts.state * mdp.num_actions + facts.action
    if rows.label is rows.successor:  # by the states' own names, slots are in the order of the process
        return rows.start[row] + facts.next_slot
    successor = mdp.successors[facts[:3]]
    found = [
        start + int((rows.successor[start:stop] == wanted).argmax())
        for start, stop, wanted in zip(rows.start[row], rows.start[row + 1], successor, strict=True)
    ]
    return np.array(found, np.int64)


def _numbered(course: Course) -> NDArray[np.int32]:
    """[episode, step]: steps that are the same, in what was seen and in what it earned, have one number; -1 behind."""
    fact, earned = course.facts.of_step, course.earned
    walked = np.arange(fact.shape[1]) < course.seen[:, None]
    usual = np.zeros(len(course.facts.state) + 1)  # the last one is for steps that there are not
    usual[fact] = earned
    number, unusual = fact, walked & (usual[fact] != earned)
    if unusual.any():  # one transition earned this and that
        _, amount = np.unique(earned[unusual], return_inverse=True)
        _, pair = np.unique(fact[unusual] * (int(amount.max()) + 1) + amount, return_inverse=True)
        number = fact.copy()
        number[unusual] = len(course.facts.state) + pair
    return np.where(walked, number, -1).astype(np.int32)


def _in_common(keys: NDArray, lengths: Ints) -> tuple[Ints, Ints]:
    """An order in which neighbours begin alike, and how many steps each has in common with the one before."""
    rows = np.ascontiguousarray(keys + 1).astype(">u4")
    order = np.argsort(rows.view(np.dtype((np.void, 4 * rows.shape[1]))).ravel(), kind="stable")
    ordered, length = rows[order], lengths[order]
    alike = np.cumprod(ordered[1:] == ordered[:-1], axis=1).sum(axis=1) - 1  # the first key is where it begins
    shared = np.minimum(np.minimum(alike, length[1:]), length[:-1])
    return order, np.concatenate([[0], np.maximum(shared, 0)])
