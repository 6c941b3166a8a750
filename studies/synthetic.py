"""The pairs, scores and recipes of the paper's synthetic experiments."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._pairs import AbstractPairs
from countermax.learning import FixedPair, RandomPairs, SquaredDifference
from countermax.learning._recipe import Recipe
from studies.experiments import checked_preset
from studies.training import GADGET_NAMES

NUM_OUTCOMES = 10
PROJECTED = "best projected inverse CDF"
FLOOR = "floor of any mechanism (estimate)"  # its key in stored cells
FITTED_TO_ALL = "256 points fitted to the worlds themselves"  # what it is, and is called
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


_GADGETS = ("gadget-1", "gadget-2")


def published_recipe(gadget: str, steps: int, learning_rate: float, num_latents: int = 20) -> Recipe:
    """A gadget as the paper trained it."""
    return Recipe(
        gadget,
        steps,
        learning_rate,
        num_latents=num_latents,
        hidden=(1024, 1024),
        rounds=10,
        as_published=True,
        objective="relaxed",
        batch_size=64,
    )


_ONE_PAIR = [
    Recipe("gadget-1", 3000, 1e-1, part="constant", restarts=8),
    Recipe("gadget-2", 1500, 1e-2, num_latents=32, hidden=(128, 128), rounds=10, restarts=4),
]
_QUICK_ONE_PAIR = [
    replace(_ONE_PAIR[0], steps=400, restarts=1),
    replace(_ONE_PAIR[1], steps=400, num_latents=20, hidden=(64, 64), restarts=1),
]
_QUICK_MANY_PAIRS = [
    Recipe("gadget-1", 200, 1e-2, hidden=(64, 64), batch_size=8),
    Recipe("gadget-2", 300, 1e-2, hidden=(64, 64), batch_size=16, rounds=10),
]
_BY_SCORE = replace(_ONE_PAIR[1], start="inverse-cdf-by-score", steps=1000, learning_rate=3e-3, rounds=20, restarts=1)
_VECTOR = Recipe("gadget-2", 1200, 1e-2, num_latents=64, batch_size=64)
# Gumbel-max is a stationary point of the probability of a changed outcome: a network that starts near it stays there.
_MAXIMAL = Recipe("gadget-2", 1500, 3e-3, start="scattered", num_latents=100, batch_size=64)


def table1_recipes(preset: str) -> dict[str, list[Recipe]]:
    """The recipes of each column."""
    if checked_preset(preset) == "published":
        many = [published_recipe("gadget-1", 50_000, 1e-4), published_recipe("gadget-2", 50_000, 1e-3)]
        one = [published_recipe(gadget, 3_000, 1e-5) for gadget in _GADGETS]
        return {"independent": many, "mirrored": many, "monotone": one, "non-monotone": one, "vector": many[1:]}
    if preset == "quick":
        many, one = _QUICK_MANY_PAIRS, _QUICK_ONE_PAIR
        vector = [replace(many[1], num_latents=32)]
        return {"independent": many, "mirrored": many, "monotone": one, "non-monotone": one, "vector": vector}
    many = [
        Recipe("gadget-1", 3000, 3e-3),
        Recipe("gadget-2", 2400, 1e-2, num_latents=32),
        Recipe("gadget-2", 800, 3e-3, start="inverse-cdf"),
    ]
    one = [*_ONE_PAIR, _BY_SCORE]
    return {
        "independent": [*many, Recipe("gadget-1", 3000, 1e-3, start="gumbel-max")],
        "mirrored": many,
        "monotone": one,
        "non-monotone": one,
        "vector": [_VECTOR, replace(_VECTOR, start="barycenter", steps=800, learning_rate=3e-3)],
    }


def maximality_recipe(preset: str) -> Recipe:
    """The same at every noise scale."""
    return {
        "quick": replace(
            _MAXIMAL, steps=150, learning_rate=1e-2, num_latents=20, hidden=(64, 64), batch_size=16, rounds=10
        ),
        "published": published_recipe("gadget-2", 10_000, 1e-5, num_latents=100),
        "best": _MAXIMAL,
    }[checked_preset(preset)]


def couplings_recipes(preset: str) -> list[Recipe]:
    """Both gadgets, on one pair."""
    return {
        "quick": _QUICK_ONE_PAIR,
        "published": [published_recipe(gadget, 2_000, 1e-5) for gadget in _GADGETS],
        "best": _ONE_PAIR,
    }[checked_preset(preset)]
