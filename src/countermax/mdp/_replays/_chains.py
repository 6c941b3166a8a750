"""Chains of episodes: forwards to where they arrive, backwards to what they are worth, in batches, here or on Ray.

Closed forms and bounds are computed by compiled loops, all other couplings by their own formulas. On Ray, workers get
what was prepared once, and of the episodes only those of their batches; batches are the same as on one machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import copy
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from countermax._core.threads import num_threads
from countermax._kernel import has_closed_form
from countermax._ray import connect, in_prepared_parts
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._replays._course import Course
from countermax.mdp._replays._questions import AnswerCache, TransitionCoupling

ToCome: TypeAlias = tuple[Any, ...]
"""Tables [row, state] of what is still to come when the log ends; the last entry says which row each episode has."""
Asking: TypeAlias = Callable[["AbstractChains", Course, Ints, ToCome], tuple[Any, ...]]
"""What is done with one batch: the positions of its episodes, and then what was found of them."""


class Arrived(NamedTuple):
    """Some episodes at the end of what was logged."""

    episodes: Int[np.ndarray, " m"]
    moments: Float[np.ndarray, "m s 3"]
    """Powers 0, 1 and 2 of the reward so far, where the chain is in each state."""
    path: Float[np.ndarray, "m times s"] | None
    """Where it was at every time."""


class Valued(NamedTuple):
    """Some episodes at their first state."""

    episodes: Int[np.ndarray, " m"]
    lower: Float[np.ndarray, " m"]
    upper: Float[np.ndarray, " m"]
    """The same as `lower` where one coupling answers."""
    values: Float[np.ndarray, "2 m times s"] | None
    """What every state is worth at every time, at least and at most."""


class AbstractChains(ABC):
    """Replays the episodes of a course, by one coupling or, where there is none, over all or over the stable ones."""

    @abstractmethod
    def batches(self, rows: Ints | None) -> list[Ints]:
        """Episodes that are replayed together, those with much in common side by side; `rows` as of `backwards`."""

    @abstractmethod
    def prepared(self, episodes: Ints) -> tuple[NDArray, ...]:
        """What was prepared for some of the episodes, beside their part of the course."""

    @abstractmethod
    def of(self, course: Course, *prepared: NDArray) -> "AbstractChains":
        """The same for the episodes of `Course.of_part`, with all that was prepared for the whole log."""

    @abstractmethod
    def forwards(self, batch: Ints, *, path: bool) -> Arrived:
        """From the first states to the end of what was logged."""

    @abstractmethod
    def carry_on(self, here: Floats, steps: Ints) -> Floats:
        """[episode, state]: where chains come to from `here` by plain rows of the process, after so many steps each."""

    @abstractmethod
    def backwards(self, batch: Ints, to_come: Floats, rows: Ints, *, keep: bool) -> Valued:
        """From the end of what was logged to the first states; `keep` keeps the values of all states and times.

        What is still to come when the log ends is `to_come`, [row, state], and `rows`, [episode], the row of each.
        """

    @abstractmethod
    def one_step(self, fact: int, earned: float, later: Floats) -> Floats:
        """[2, state]: what each state is worth one step before, at least and at most, given what was seen and earned.

        The states after it are worth `later`.
        """

    @abstractmethod
    def one_row(self, fact: int, earned: float, later: Floats, state: int, *, sign: int) -> Floats:
        """[action]: the same for every action in one state; zero where it is not allowed.

        Where couplings differ, `sign` is -1 for the least and 1 for the most.
        """


def chains_for(course: Course, law: TransitionCoupling | None, *, stable: bool = False) -> AbstractChains:
    """The quickest way there is for one coupling, or for bounds."""
    if law is None or has_closed_form(law.coupling):
        from countermax.mdp._replays._compiled_chains import CompiledChains

        return CompiledChains(course, law, stable=stable)
    return GeneralChains(course, law)


def each_batch(
    chains: AbstractChains, course: Course, to_come: ToCome, ask: Asking, *, backwards: bool = False, spread: bool
) -> Iterator[tuple[Any, ...]]:
    """What is found of each batch: on Ray, or in as many threads as there are processors where the code is compiled.

    `backwards` asks for values. On Ray (`spread`) other processes must be able to import what is asked, and each part
    of the episodes counts from 0, which is undone here.
    """
    batches = chains.batches(to_come[-1] if backwards else None)
    if spread:
        for batch, (episodes, *found) in zip(batches, _on_ray(chains, course, to_come, ask, batches), strict=True):
            yield batch[episodes], *found
    elif isinstance(chains, GeneralChains) or len(batches) == 1:
        for batch in batches:
            yield ask(chains, course, batch, to_come)
    else:
        with ThreadPoolExecutor(num_threads()) as pool:
            waiting = [pool.submit(ask, chains, course, batch, to_come) for batch in batches]
            try:
                for each in as_completed(waiting):
                    yield each.result()
            finally:
                for each in waiting:
                    each.cancel()


def _on_ray(
    chains: AbstractChains, course: Course, to_come: ToCome, ask: Asking, batches: list[Ints]
) -> Iterator[tuple[Any, ...]]:
    connect()
    parts = ((course.part(batch), chains.prepared(batch), _some(to_come, batch)) for batch in batches)
    if len(batches) == 1:  # quicker done than sent
        return starmap(_asking(chains, course, ask), parts)
    none = np.zeros(0, np.int64)
    nobody = course.of_part(course.part(none))
    return in_prepared_parts(_asking, (chains.of(nobody, *chains.prepared(none)), nobody, ask), parts)


def _some(to_come: ToCome, batch: Ints) -> ToCome:
    """The rows of these episodes alone."""
    *tables, rows = to_come
    kept, rows = np.unique(rows[batch], return_inverse=True)
    return *(table[kept] for table in tables), rows


def _asking(chains: AbstractChains, course: Course, ask: Asking) -> Callable[..., tuple[Any, ...]]:
    """A function that asks about some of the episodes."""

    def asked(part: dict[str, NDArray], prepared: tuple[NDArray, ...], to_come: ToCome) -> tuple[Any, ...]:
        some = course.of_part(part)
        return ask(chains.of(some, *prepared), some, np.arange(len(some)), to_come)

    return asked


_CELLS_AT_ONCE = 2**18  # episodes times states that are replayed together: what fits the processor's cache
_ROWS_AT_ONCE = 2**14


@final
class GeneralChains(AbstractChains):
    """Any coupling by its own formulas, by way of JAX: slower, and the reference for compiled loops."""

    def __init__(self, course: Course, law: TransitionCoupling):
        """For one coupling."""
        self._course = course
        self._known = AnswerCache(law, course.facts._replace(of_step=course.facts.of_step[:0]))  # whatever the episode

    def batches(self, rows: Ints | None) -> list[Ints]:
        del rows
        count, at_once = len(self._course), max(1, _CELLS_AT_ONCE // self._course.mdp.num_states)
        return [np.arange(start, min(start + at_once, count)) for start in range(0, count, at_once)]

    def prepared(self, episodes: Ints) -> tuple[NDArray, ...]:
        del episodes
        return ()

    def of(self, course: Course, *prepared: NDArray) -> "GeneralChains":
        assert not prepared
        found = copy(self)
        found._course = course
        return found

    def forwards(self, batch: Ints, *, path: bool) -> Arrived:
        course, mdp = self._course, self._course.mdp
        moments = np.zeros((len(batch), mdp.num_states, 3))
        moments[np.arange(len(batch)), course.first[batch], 0] = 1
        seen = course.seen[batch]
        kept = np.zeros((len(batch), int(seen.max()) + 1, mdp.num_states)) if path else None
        for step in range(int(seen.max()) + 1):
            if kept is not None:
                kept[:, step] = moments[:, :, 0]
            going = seen > step
            if going.any():
                moments[going] = self._pushed(batch[going], step, moments[going])
        return Arrived(batch, moments, kept)

    def _pushed(self, episodes: Ints, step: int, moments: Floats) -> Floats:
        course, mdp = self._course, self._course.mdp
        place, state = np.nonzero((moments[:, :, 0] > 0) & ~mdp.absorbing)
        table = course.choices.of_fact[course.facts.of_step[episodes[place], step]]
        entry, action = np.nonzero(choices := course.choices.tables[table, state])
        place, state, share = place[entry], state[entry], choices[entry, action]
        fact, factor = course.facts.of_step[episodes[place], step], course.discount**step
        before = moments[place, state] * share[:, None]
        same = (course.facts.state[fact] == state) & (course.facts.action[fact] == action)
        after = moments * mdp.absorbing[:, None]
        rows = self._known.rows(fact[~same], state[~same], action[~same])
        entry, slot = np.nonzero(rows)
        taken = state[~same][entry], action[~same][entry], slot
        cell = place[~same][entry] * mdp.num_states + mdp.successors[taken]
        mass, first, second = before[~same][entry].T
        gain = factor * course.gains[taken]
        spread = 0.0 if course.spreads is None else factor**2 * course.spreads[taken]
        # the expansion of (reward so far + gain) ** power
        arriving = mass, first + gain * mass, second + 2 * gain * first + (gain**2 + spread) * mass
        for power, each in enumerate(arriving):
            arrived = np.bincount(cell, rows[entry, slot] * each, minlength=len(episodes) * mdp.num_states)
            after[:, :, power] += arrived.reshape(len(episodes), -1)
        # Nothing is changed here, so nothing changes: the logged successor and the logged reward.
        place, fact = place[same], fact[same]
        mass, first, second = before[same].T
        earned = factor * course.earned[episodes[place], step]
        arrived = np.stack([mass, first + mass * earned, second + 2 * first * earned + mass * earned**2], axis=1)
        successor = mdp.successors[course.facts[:3]][fact]
        np.add.at(after, (place, successor), arrived)
        return after

    def carry_on(self, here: Floats, steps: Ints) -> Floats:
        found = here.copy()
        for step in range(int(steps.max(initial=0))):
            going = np.flatnonzero(steps > step)
            found[going] = np.asarray(found[going] @ self._course.chain)
        return found

    def backwards(self, batch: Ints, to_come: Floats, rows: Ints, *, keep: bool) -> Valued:
        """All episodes of the batch, from their ends; a chain that is shorter waits until the others are as short."""
        course, seen, later = self._course, self._course.seen[batch], to_come[rows[batch]]
        values = np.zeros((len(batch), int(seen.max()) + 1, course.mdp.num_states)) if keep else None
        for step in reversed(range(int(seen.max()) + 1)):
            going = np.flatnonzero(seen > step)
            if len(going):
                fact, earned = course.facts.of_step[batch[going], step], course.earned[batch[going], step]
                later[going] = self._back(fact, earned, later[going])
            if values is not None:
                values[:, step] = later
        found = later[np.arange(len(batch)), course.first[batch]]
        return Valued(batch, found, found, None if values is None else np.broadcast_to(values, (2, *values.shape)))

    def one_step(self, fact: int, earned: float, later: Floats) -> Floats:
        return np.broadcast_to(self._back(np.array([fact]), np.array([earned]), later[None]), (2, len(later)))

    def one_row(self, fact: int, earned: float, later: Floats, state: int, *, sign: int) -> Floats:
        del sign  # one coupling has one answer
        action = np.flatnonzero(self._course.mdp.allowed[state])
        first, worth = np.zeros(len(action), np.int64), np.zeros(self._course.mdp.num_actions)
        seen = first + fact, np.full(len(action), earned)
        worth[action] = self._worth(*seen, later[None], first, first + state, action)
        return worth

    def _back(self, fact: Ints, earned: Floats, later: Floats) -> Floats:
        """[episode, state]: one step before, each episode with what was seen there."""
        course, mdp, choices = self._course, self._course.mdp, self._course.choices
        now = course.discount * later * mdp.absorbing
        place, state = np.nonzero(np.broadcast_to(course.reachable & ~mdp.absorbing, later.shape))
        entry, action = np.nonzero(found := choices.tables[choices.of_fact[fact[place]], state])
        place, state, share = place[entry], state[entry], found[entry, action]
        worth = self._worth(fact[place], earned[place], later, place, state, action)
        np.add.at(now, (place, state), share * worth)
        return now

    def _worth(self, fact: Ints, earned: Floats, later: Floats, place: Ints, state: Ints, action: Ints) -> Floats:
        """What rows are worth: of single steps (episode, state, action)."""
        course, mdp, facts = self._course, self._course.mdp, self._course.facts
        found = np.empty(len(fact))
        for start in range(0, len(fact), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            rows = self._known.rows(fact[part], state[part], action[part])
            there = later[place[part, None], mdp.successors[state[part], action[part]]]
            gains = course.gains[state[part], action[part]] + course.discount * there
            found[part] = (rows * gains).sum(axis=1)
        same = np.flatnonzero((facts.state[fact] == state) & (facts.action[fact] == action))
        successor = mdp.successors[state[same], action[same], facts.next_slot[fact[same]]]
        found[same] = earned[same] + course.discount * later[place[same], successor]
        return found
