"""The tasks of the paper's Table 1, and one where no fixed coupling is optimal."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.learning import AbstractPairs, FixedPair, RandomPairs, SquaredDifference
from studies.engine import GADGET_NAMES

NUM_OUTCOMES = 10
NUM_TRIALS = 10  # draws of the score in the columns with one fixed pair


@dataclass(frozen=True)
class Published:
    """A value in the paper and the error it prints: over seeds where pairs are random, else over trials."""

    value: float
    error: float


@dataclass(frozen=True)
class Table1Task:
    """A distribution of pairs and one or more scores, each to be learned from scratch."""

    name: str
    pairs: AbstractPairs
    scores: tuple[NDArray[np.float64], ...]
    published: dict[str, Published] = field(default_factory=dict)

    @property
    def is_fixed(self) -> bool:
        """Whether there is one pair only; what is measured is then a variance."""
        return isinstance(self.pairs, FixedPair)

    @property
    def losses(self) -> list[SquaredDifference]:
        """One for each score."""
        return [SquaredDifference(score) for score in self.scores]


TASKS = ("independent", "mirrored", "monotone", "non-monotone", "vector")

_ROWS = ("independent", "Gumbel-max", "inverse CDF", "optimal", *GADGET_NAMES.values())
_PUBLISHED = {  # Table 1 of the paper: values, then errors, in the order of the rows
    "independent": ((16.51, 14.02, 8.14, 8.14, 14.05, 8.76), (0.01, 0.01, 0.01, 0.01, 0.01, 0.03)),
    "mirrored": ((21.34, 18.84, 12.59, 12.59, 16.67, 13.47), (0.10, 0.09, 0.09, 0.09, 0.45, 0.09)),
    "monotone": ((2.73, 2.46, 0.60, 0.60, 1.42, 2.00), (0.39, 0.35, 0.10, 0.10, 0.22, 0.30)),
    "non-monotone": ((0.83, 0.50, 0.91, 0.11, 0.26, 0.21), (0.10, 0.06, 0.12, 0.02, 0.03, 0.03)),
}


def task(name: str) -> Table1Task:
    """A task by name."""
    if name not in TASKS:
        raise InputError(f"the task must be one of {', '.join(TASKS)}, got {name!r}")
    if name == "vector":
        return Table1Task(name, RandomPairs(NUM_OUTCOMES), (np.random.default_rng(0).normal(size=(NUM_OUTCOMES, 3)),))
    values, errors = _PUBLISHED[name]
    published = {row: Published(*both) for row, both in zip(_ROWS, zip(values, errors, strict=True), strict=True)}
    if name in ("independent", "mirrored"):
        pairs = RandomPairs(NUM_OUTCOMES, mirrored=name == "mirrored")
        return Table1Task(name, pairs, (np.arange(NUM_OUTCOMES, dtype=float),), published)
    which = ("monotone", "non-monotone").index(name)
    scores = tuple(published_scores(trial)[which] for trial in range(NUM_TRIALS))
    return Table1Task(name, opposed_pair(), scores, published)


def opposed_pair() -> FixedPair:
    """The pair of the fixed columns: low outcomes are likely in one world, high ones in the other."""
    return FixedPair(np.arange(NUM_OUTCOMES, 0, -1) / 4, np.arange(NUM_OUTCOMES) / 4)


def published_scores(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A monotone and a non-monotone score, from the legacy generator that the published values used."""
    random = np.random.RandomState(seed)  # noqa: NPY002
    monotone = np.cumsum(random.uniform(size=NUM_OUTCOMES))
    return monotone, np.sin(30 * random.normal(size=NUM_OUTCOMES))


def squared_mean_effect(pair: FixedPair, score: NDArray[np.float64]) -> float:
    """What turns the expected squared difference of a scalar score into the variance of the effect."""
    p, q = (np.exp(np.asarray(each, np.float64)) for each in (pair.p, pair.q))
    return float(p / p.sum() @ score - q / q.sum() @ score) ** 2
