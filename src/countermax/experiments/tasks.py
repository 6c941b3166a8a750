"""The tasks of the paper's Table 1, and one where no fixed mechanism is optimal."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from countermax._errors import InputError
from countermax.losses import SquaredDifference
from countermax.pairs import AbstractPairs, FixedPair, RandomPairs

NUM_OUTCOMES = 10
NUM_TRIALS = 10  # draws of the score in the columns with one fixed pair


@dataclass(frozen=True)
class Task:
    """A query distribution and one or more scores, each to be learned from scratch."""

    name: str
    pairs: AbstractPairs
    scores: tuple[NDArray[np.float64], ...]
    published: dict[str, float]
    """The paper's figures."""

    @property
    def is_fixed(self) -> bool:
        """Whether there is one pair only; the figure of merit is then a variance."""
        return isinstance(self.pairs, FixedPair)

    @property
    def losses(self) -> list[SquaredDifference]:
        """One for each score."""
        return [SquaredDifference(score) for score in self.scores]


def task(name: str) -> Task:
    """A task by name."""
    if name not in TASKS:
        raise InputError(f"the task must be one of {', '.join(TASKS)}, got {name!r}")
    index = np.arange(NUM_OUTCOMES, dtype=float)
    if name == "independent":
        published = {"independent": 16.51, "Gumbel-max": 14.02, "optimum": 8.14, "Gadget 1": 14.05, "Gadget 2": 8.76}
        return Task(name, RandomPairs(NUM_OUTCOMES), (index,), published)
    if name == "mirrored":
        published = {"independent": 21.34, "Gumbel-max": 18.84, "optimum": 12.59, "Gadget 1": 16.67, "Gadget 2": 13.47}
        return Task(name, RandomPairs(NUM_OUTCOMES, mirrored=True), (index,), published)
    if name == "vector":
        scores = np.random.default_rng(0).normal(size=(NUM_OUTCOMES, 3))
        return Task(name, RandomPairs(NUM_OUTCOMES), (scores,), {})
    pair = FixedPair(np.arange(NUM_OUTCOMES, 0, -1) / 4, np.arange(NUM_OUTCOMES) / 4)
    both = [_paper_scores(trial) for trial in range(NUM_TRIALS)]
    if name == "monotone":
        published = {"independent": 2.73, "Gumbel-max": 2.46, "optimum": 0.60, "Gadget 1": 1.42, "Gadget 2": 2.00}
        return Task(name, pair, tuple(first for first, _ in both), published)
    published = {"independent": 0.83, "Gumbel-max": 0.50, "optimum": 0.11, "Gadget 1": 0.26, "Gadget 2": 0.21}
    return Task(name, pair, tuple(second for _, second in both), published)


def _paper_scores(trial: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scores of one trial, from the legacy generator that the published figures used."""
    random = np.random.RandomState(trial)  # noqa: NPY002
    monotone = np.cumsum(random.uniform(size=NUM_OUTCOMES))
    return monotone, np.sin(30 * random.normal(size=NUM_OUTCOMES))


TASKS = ("independent", "mirrored", "monotone", "non-monotone", "vector")
