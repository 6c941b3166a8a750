"""Chains of episodes: forwards to where they arrive, backwards to what they are worth, in batches, here or on Ray.

Closed forms and bounds are computed by compiled loops, all other couplings by their own formulas. On Ray, workers get
what was prepared once, and of the episodes only those of their batches; batches are the same as on one machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from countermax._core.threads import num_threads
from countermax._kernel import has_closed_form
from countermax._ray import connect, in_prepared_parts
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._replays._course import Course
from countermax.mdp._replays._questions import TransitionCoupling

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
    def batches(self, rows: Ints | None = None) -> list[Ints]:
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
    from countermax.mdp._replays._general_chains import GeneralChains

    return GeneralChains(course, law)


def each_batch(
    chains: AbstractChains, course: Course, to_come: ToCome, ask: Asking, *, backwards: bool = False, spread: bool
) -> Iterator[tuple[Any, ...]]:
    """What is found of each batch: on Ray, or in as many threads as there are processors where the code is compiled.

    `backwards` asks for values. On Ray (`spread`) other processes must be able to import what is asked, and each part
    of the episodes counts from 0, which is undone here.
    """
    from countermax.mdp._replays._general_chains import GeneralChains

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
