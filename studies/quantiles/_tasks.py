"""Pairs of worlds and losses that vector quantiles and gadgets are measured on."""

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from countermax.couplings._reference import scores_of_loss
from countermax.learning import (
    AbstractPairs,
    Disagreement,
    FixedPair,
    Loss,
    MatrixLoss,
    RandomPairs,
    Recipe,
    SquaredDifference,
)

Floats = NDArray[np.float64]


class QuantileTask(NamedTuple):
    """Pairs of worlds and a loss that is a squared distance of scores."""

    num_outcomes: int
    kind: str
    """`independent`, `mirrored` or `fixed` pairs; `disagreement` of independent ones, or the `steep` loss of them."""
    num_held_out: int

    @property
    def scores(self) -> Floats:
        """Three standard normal scores for each outcome; those behind disagreement."""
        if self.kind == "disagreement":
            return scores_of_loss(1 - np.eye(self.num_outcomes))
        return np.random.default_rng(0).normal(size=(self.num_outcomes, 3))

    @property
    def loss(self) -> Loss:
        """What is to be small."""
        if self.kind == "steep":
            squares = ((self.scores[:, None] - self.scores[None]) ** 2).sum(axis=2)
            return MatrixLoss(squares**2)
        return Disagreement() if self.kind == "disagreement" else SquaredDifference(self.scores)

    @property
    def pairs(self) -> AbstractPairs:
        """Logits uniform on [0, 8]."""
        pairs = RandomPairs(self.num_outcomes, mirrored=self.kind == "mirrored")
        return FixedPair(*pairs(jax.random.key(1))) if self.kind == "fixed" else pairs


TASKS: dict[str, QuantileTask] = {
    "three scores, 10 outcomes": QuantileTask(10, "independent", 2000),
    "three scores, 50 outcomes": QuantileTask(50, "independent", 600),
    "three scores, 150 outcomes": QuantileTask(150, "independent", 200),
    "disagreement, 50 outcomes": QuantileTask(50, "disagreement", 300),
    "mirrored, 10 outcomes": QuantileTask(10, "mirrored", 2000),
    "mirrored, 50 outcomes": QuantileTask(50, "mirrored", 600),
    "one fixed pair, 50 outcomes": QuantileTask(50, "fixed", 1),
}
"""Pairs drawn alike and independently, for which there is a floor; mirrored pairs, for which there is none; and one."""

STEEP: dict[str, QuantileTask] = {"fourth power, 10 outcomes": QuantileTask(10, "steep", 2000)}
"""The fourth power of the distance of three scores, which is no squared distance of any: there is nothing to fit."""

RECORDS = "ICU records, 47 features and fate, one pair each"
"""The most frequent choices of clinicians that the best policy would not make, all outcomes that either can reach."""
QUICK = ("three scores, 10 outcomes", "one fixed pair, 50 outcomes")
RECIPES: dict[str, Recipe] = {  # what learns beside vector quantiles, from where they end
    name: Recipe("gadget-2", steps, rate, start="vector-quantile", num_latents=None, rounds=None, batch_size=batch)
    for name, steps, rate, batch in (
        ("three scores, 10 outcomes", 3000, 3e-3, 128),
        ("three scores, 50 outcomes", 3000, 1e-3, 64),
        ("three scores, 150 outcomes", 3000, 1e-3, 32),
        ("mirrored, 10 outcomes", 3000, 3e-3, 128),
        ("mirrored, 50 outcomes", 8000, 3e-3, 64),
        ("fourth power, 10 outcomes", 3000, 3e-3, 128),
    )
}
