"""What an engine does: chains forwards, values and bounds backwards, one step or one row at a time too."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from countermax.mdp._arrays import Floats, Ints
from countermax.mdp.replays._course import Course


class Walked(NamedTuple):
    """Some episodes at the end of what was logged."""

    episodes: Int[np.ndarray, " m"]
    moments: Float[np.ndarray, "m s 3"]
    """Powers 0, 1 and 2 of the reward so far, where the chain is in each state."""
    path: Float[np.ndarray, "m times s"] | None
    """Where it was at every time."""


class Bounded(NamedTuple):
    """Some episodes, walked back to their first state."""

    episodes: Int[np.ndarray, " m"]
    lower: Float[np.ndarray, " m"]
    upper: Float[np.ndarray, " m"]
    """The same as `lower` where one coupling answers."""
    values: Float[np.ndarray, "2 m times s"] | None
    """What every state is worth at every time, at least and at most."""


class AbstractEngine(ABC):
    """Replays the episodes of a course, by one coupling or over many."""

    @abstractmethod
    def batches(self, rows: Ints | None = None) -> list[Ints]:
        """Parts of the episodes that are walked together, those with much in common side by side.

        Args:
            rows: [episode]: what is still to come when the log ends, by its number, for walks backwards.
        """

    @abstractmethod
    def part(self, episodes: Ints) -> tuple[NDArray, ...]:
        """What was prepared for some of the episodes, beside their part of the course."""

    @abstractmethod
    def of_part(self, course: Course, *prepared: NDArray) -> "AbstractEngine":
        """The same engine for some of the episodes, with all that was prepared for the whole log.

        Args:
            course: Course of a part, from `Course.of_part`.
            prepared: Arrays from `part`.
        """

    @abstractmethod
    def forwards(self, batch: Ints, *, path: bool) -> Walked:
        """From the first states to the end of what was logged."""

    @abstractmethod
    def carry_on(self, here: Floats, steps: Ints) -> Floats:
        """[episode, state]: where chains come to by plain rows of the process, each after a number of steps of its own.

        Args:
            here: [episode, state]: where they are.
            steps: [episode]: how many steps.
        """

    @abstractmethod
    def backwards(self, batch: Ints, to_come: Floats, rows: Ints, *, keep: bool) -> Bounded:
        """From the end of what was logged to the first states.

        Args:
            batch: Positions of the episodes.
            to_come: [row, state]: what is still to come when the log ends.
            rows: [episode]: which row each episode has.
            keep: Whether to keep the values of all states and times.
        """

    @abstractmethod
    def one_step(self, fact: int, earned: float, later: Floats, *, sign: int) -> Floats:
        """[state]: what each state is worth one step before, given what was seen there.

        Args:
            fact: Position of the transition that was seen.
            earned: Reward that it earned.
            later: [state]: what the states after it are worth.
            sign: -1 for the least, 1 for the largest worth, where couplings differ.
        """

    @abstractmethod
    def one_row(self, fact: int, earned: float, later: Floats, state: int, *, sign: int) -> Floats:
        """[action]: the same for every action in one state; zero where it is not allowed."""
