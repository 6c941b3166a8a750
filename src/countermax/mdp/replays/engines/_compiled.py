"""The couplings that have closed forms, and bounds, walked by compiled code."""

from copy import copy
from typing import final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from countermax.couplings import AbstractSampler, GumbelMax, Independent, InverseCDF, Maximal
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._course import Course
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays.engines import _backwards, _fills, _forwards, _laws, _memory
from countermax.mdp.replays.engines._base import AbstractEngine, Bounded, Walked
from countermax.mdp.replays.engines._order import common, numbered

_CELLS_AT_ONCE = 2**19  # episodes times states whose moments are kept at once
_PARTS = 16  # so that all processors have work and a progress bar moves
_LEAST_CELLS = 2**15  # in a part: less is done before a thread has begun
_MOST_ANSWERS = 2**21  # slots times transitions, above which answers are not kept
_OFTEN = 8  # times that a transition was seen, from which on answers are kept

_KINDS: dict[type[AbstractSampler], int] = {
    GumbelMax: _laws.GUMBEL_MAX,
    InverseCDF: _laws.INVERSE_CDF,
    Independent: _laws.INDEPENDENT,
    Maximal: _laws.MAXIMAL,
}


def has_closed_form(law: TransitionCoupling | None) -> bool:
    """Whether this engine knows the coupling; bounds it does."""
    if law is None:
        return True
    coupling = law.coupling
    return type(coupling) in _KINDS


@final
class CompiledEngine(AbstractEngine):
    """Rows from their closed forms over the outcomes that two rows have in common."""

    def __init__(self, course: Course, law: TransitionCoupling | None, *, stable: bool = False):
        """For one coupling, or for the bounds over all or over the stable ones.

        Args:
            course: Course to replay.
            law: One coupling; None for bounds.
            stable: Whether bounds are over stable couplings only.
        """
        self._kind = (_fills.STABLE if stable else _fills.ANY) if law is None else _KINDS[type(law.coupling)]
        self._rows = _rows_of(course, _labels(course, law))
        facts, choices = course.facts, course.choices
        self._seen = _memory.Seen(
            _own(facts.state),
            _own(facts.action),
            _slots(self._rows, course),
            _own(choices.of_fact.astype(np.int64)),
            np.zeros(0) if choices.doing is None else _own(choices.doing),
            np.zeros(0, bool) if choices.steady is None else _own(choices.steady),
        )
        self._reachable = _own(course.reachable)
        self._take(course, numbered(course))
        self._tables = _own(choices.tables)
        self._chosen = _chosen(course, self._rows, self._kind)
        if self._chosen.answers.size:
            _forwards.answer_all(self._kind, self._rows, self._seen, self._chosen, 0, len(facts.state), self._room())

    def batches(self, rows: Ints | None = None) -> list[Ints]:
        """Neighbours in the order of what was seen, from the beginning or from the end."""
        course = self._course
        order, _ = common(self._keys(np.arange(len(course)), rows), course.seen)
        part = max(-(-len(order) // _PARTS), _LEAST_CELLS // course.mdp.num_states)
        at_once = max(1, min(_CELLS_AT_ONCE // course.mdp.num_states, part))
        return [order[start : start + at_once] for start in range(0, len(order), at_once)]

    def part(self, episodes: Ints) -> tuple[NDArray, ...]:
        """The numbers of their steps, which decide the order in which they are walked."""
        return (self._steps[episodes],)

    def of_part(self, course: Course, *prepared: NDArray) -> "CompiledEngine":
        """With the rows and answers that are prepared."""
        found = copy(self)
        found._take(course, *prepared)
        return found

    def _take(self, course: Course, steps: NDArray) -> None:
        """The episodes that are walked."""
        self._course, self._steps = course, steps
        self._episodes = [_own(each) for each in (course.first, course.seen, course.facts.of_step, course.earned)]

    def forwards(self, batch: Ints, *, path: bool) -> Walked:
        """Common beginnings are walked once."""
        course, mdp = self._course, self._course.mdp
        walk = self._walk(batch, None)
        moments = np.zeros((len(batch), mdp.num_states, 3))
        kept = np.zeros((len(batch) if path else 0, int(course.seen[batch].max()) + 1, mdp.num_states))
        stack = np.zeros((kept.shape[1], mdp.num_states, 3))
        _forwards.forwards(
            self._kind, self._rows, self._seen, self._chosen, walk, self._tables, course.discount, 0, len(batch),
            stack, self._room(), moments, kept,
        )  # fmt: skip
        return Walked(walk.order, moments, kept if path else None)

    def backwards(self, batch: Ints, to_come: Floats, rows: Ints, *, keep: bool) -> Bounded:
        """Common ends are walked once."""
        course, mdp = self._course, self._course.mdp
        walk = self._walk(batch, rows)
        lower, upper = np.zeros(len(batch)), np.zeros(len(batch))
        longest = int(course.seen[batch].max())
        stacks = np.zeros((2, len(batch) if keep else 0, longest + 1, mdp.num_states))
        low, high = np.zeros((2, longest + 1, mdp.num_states))
        _backwards.backwards(
            self._kind, self._rows, self._seen, self._chosen, walk, self._tables, course.discount, self._reachable,
            _own(to_come), _own(rows), 0, len(batch), low, high, self._room(), lower, upper, stacks,
        )  # fmt: skip
        return Bounded(walk.order, lower, upper, stacks if keep else None)

    def carry_on(self, here: Floats, steps: Ints) -> Floats:
        """Each chain by itself, until it changes no more."""
        chain, found = self._course.chain, _own(here)
        start, successor = (_own(each.astype(np.int64)) for each in (chain.indptr, chain.indices))
        _forwards.carry_on(start, successor, _own(chain.data), _own(steps), found, np.zeros(found.shape[1]))
        return found

    def _keys(self, batch: Ints, rows: Ints | None) -> NDArray:
        """[episode, 1 + step]: what tells episodes apart, in the order in which they are walked."""
        course, seen = self._course, self._course.seen[batch]
        if rows is None:
            return np.concatenate([course.first[batch][:, None], self._steps[batch]], axis=1)
        turned = seen[:, None] - 1 - np.arange(int(seen.max()))
        steps = np.where(turned >= 0, np.take_along_axis(self._steps[batch], np.maximum(turned, 0), axis=1), -1)
        return np.concatenate([rows[batch][:, None], steps], axis=1)

    def _room(self) -> _memory.Room:
        return _memory.scratch(self._rows, self._chosen)

    def _walk(self, batch: Ints, rows: Ints | None) -> _memory.Walk:
        course = self._course
        order, shared = common(self._keys(batch, rows), course.seen[batch])
        first, seen, fact, earned = self._episodes
        return _memory.Walk(batch[order], shared, first, seen, fact, earned)

    def one_step(self, fact: int, earned: float, later: Floats, *, sign: int) -> Floats:
        """One call of what the walk back is made of."""
        course, stack = self._course, np.stack([later, later])
        _backwards.pull(
            self._kind, self._rows, self._seen, self._chosen, fact, earned, self._tables, course.discount,
            self._reachable, stack, 0, sign, self._room(),
        )  # fmt: skip
        return stack[1]

    def one_row(self, fact: int, earned: float, later: Floats, state: int, *, sign: int) -> Floats:
        """The same for one state."""
        course, found = self._course, np.zeros(self._course.mdp.num_actions)
        allowed, worth = _own(course.mdp.allowed), _own(later[None])
        _backwards.pull_actions(
            self._kind, self._rows, self._seen, self._chosen, fact, earned, allowed, course.discount, worth, state,
            sign, self._room(), found,
        )  # fmt: skip
        return found


def _own(values: NDArray) -> NDArray:
    """A copy that can be written to: compiled code is another one for each kind of memory, and one will do."""
    return np.array(values, order="C")


def _labels(course: Course, law: TransitionCoupling | None) -> Ints:
    """What each state is called as an outcome: where the order decides, by its place in it."""
    if law is None:
        return np.arange(course.mdp.num_states)
    order = law.coupling.order if isinstance(law.coupling, InverseCDF) else None
    return law.labels if order is None else np.argsort(np.asarray(order))[law.labels]


_KNOWN: WeakKeyDictionary[FiniteMDP, _memory.FlatRows] = WeakKeyDictionary()
"""The rows of processes by their states' own names, which most questions are about."""


def _rows_of(course: Course, labels: Ints) -> _memory.FlatRows:
    mdp = course.mdp
    if mdp not in _KNOWN:
        _KNOWN[mdp] = _flattened(mdp)
    rows = _KNOWN[mdp]
    if course.gains is not mdp.rewards:
        gain = course.gains[mdp.probs > 0]  # where it is one number for all, it takes no memory, and need not
        rows = rows._replace(gain=gain, variance=np.zeros(0), common_gain=_common_gain(mdp, rows, gain))
    if (labels != np.arange(mdp.num_states)).any():
        row, named = np.repeat(np.arange(len(rows.start) - 1), np.diff(rows.start)), labels[rows.successor]
        order = np.lexsort((named, row))
        rows = rows._replace(
            label=named[order].astype(np.int32),
            successor=rows.successor[order],
            chance=rows.chance[order],
            gain=rows.gain[order],
            variance=rows.variance[order] if rows.variance.size else rows.variance,
            num_labels=int(labels.max()) + 1,
        )
    return rows


def _flattened(mdp: FiniteMDP) -> _memory.FlatRows:
    possible, matrix = mdp.possible, mdp.matrix

    def flat(values: NDArray) -> NDArray:
        return values.reshape(-1, mdp.width)[possible]

    rows = _memory.FlatRows(
        matrix.indptr.astype(np.int64),
        matrix.indices,
        matrix.indices,
        matrix.data,
        flat(mdp.rewards),
        np.zeros(0) if mdp.reward_variances is None else flat(mdp.reward_variances),
        _own(mdp.absorbing),
        mdp.num_actions,
        mdp.width,
        mdp.num_states,
        np.zeros(0),
    )
    return rows._replace(common_gain=_common_gain(mdp, rows, rows.gain))


def _chosen(course: Course, rows: _memory.FlatRows, kind: int) -> _memory.Chosen:
    """The rows that are chosen, prepared for what is asked: answers of a coupling, or bounds over all of them."""
    mdp, tables = course.mdp, course.choices.tables
    live = (course.reachable & ~mdp.absorbing)[:, None]
    used = (tables[0] > 0) & live if len(tables) == 1 else np.zeros((mdp.num_states, mdp.num_actions), bool)
    state, action = map(_own, np.nonzero(used))
    start = rows.start[state * mdp.num_actions + action]
    sizes = rows.start[state * mdp.num_actions + action + 1] - start
    offset = np.concatenate([[0], np.cumsum(sizes)])
    seen, total = len(course.facts.state), int(offset[-1])
    kept = kind < _fills.ANY and seen * total <= _MOST_ANSWERS and seen * _OFTEN <= int(course.seen.sum())
    swept = kind == _fills.ANY and rows.common_gain.size > 0 and total <= _backwards.WIDE * len(state)
    slot = np.repeat(start - offset[:-1], sizes) + np.arange(total) if swept else np.zeros(0, np.int64)
    order = np.argsort(rows.successor[slot], kind="stable")
    ordered, everywhere = slot[order], np.arange(mdp.num_states + 1)
    return _memory.Chosen(
        np.searchsorted(state, everywhere),
        state,
        action,
        tables[0][state, action],
        offset,
        np.empty((seen, total) if kept else (0, 0)),
        np.unique(rows.successor[slot]).astype(np.int64),
        np.searchsorted(rows.successor[ordered], everywhere),
        np.repeat(np.arange(len(state), dtype=np.int32), sizes)[order] if swept else np.zeros(0, np.int32),
        rows.chance[ordered],
        rows.gain[ordered],
    )


def _common_gain(mdp: FiniteMDP, rows: _memory.FlatRows, gain: Floats) -> Floats:
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


def _slots(rows: _memory.FlatRows, course: Course) -> Ints:
    """Where what was seen lies among the slots of all rows."""
    facts, mdp = course.facts, course.mdp
    row = facts.state * mdp.num_actions + facts.action
    if rows.successor is mdp.matrix.indices:  # by the states' own names, slots are in the order of the process
        return rows.start[row] + facts.next_slot
    successor = mdp.successors[facts.state, facts.action, facts.next_slot]
    found = [
        start + int((rows.successor[start:stop] == wanted).argmax())
        for start, stop, wanted in zip(rows.start[row], rows.start[row + 1], successor, strict=True)
    ]
    return np.array(found, np.int64)
