"""How a gadget is built and trained: all of it in one value, which files describe and results store."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.seeds import as_seed
from countermax.couplings import (
    AbstractCoupling,
    BinnedInverseCDF,
    Constant,
    Diagonal,
    Gadget1,
    Gadget2,
    Perceptron,
    ReferenceTransport,
)
from countermax.couplings._parts import ACTIVATIONS, AbstractPart
from countermax.learning._objectives import OBJECTIVES, AbstractObjective, Relaxed, as_objective
from countermax.learning._references import barycenter, transport_start
from countermax.learning._settings import check_settings
from countermax.pairs import Pairs

GADGETS = ("gadget-1", "gadget-2")
STARTS = {
    "gadget-1": ("random", "gumbel-max"),
    "gadget-2": ("random", "scattered", "inverse-cdf", "inverse-cdf-by-score", "barycenter", "vector-quantile"),
}
LEARNED = "learned Gadget 2"
"""What results call a Gadget 2 that was learned beside them."""
_PARTS = ("perceptron", "constant")
_SCATTER = 3.0
_LATENTS = 64, 256  # between which their number grows with that of the outcomes
_ROUNDS, _SHARP_ROUNDS = 20, 300  # of balancing; a start that is sharp needs more of them
_constant_adam = functools.lru_cache(optax.adam)  # one object for each rate, so that its training loop compiles once


@dataclass(frozen=True)
class Recipe:
    """A gadget, where it starts and how it learns."""

    gadget: str = field(metadata={"choices": GADGETS})
    steps: int = field(default=2000, metadata={"least": 1})
    learning_rate: float = field(default=1e-2, metadata={"above": 0.0})
    start: str = field(
        default="random", metadata={"choices": tuple(dict.fromkeys((*STARTS["gadget-1"], *STARTS["gadget-2"])))}
    )
    """`random`: the network alone; `scattered`: random scores besides, so that latents differ from the beginning; or
    the fixed coupling that training begins at: `gumbel-max` (Gadget 1), `inverse-cdf` (of indices),
    `inverse-cdf-by-score`, `barycenter` or `vector-quantile` (Gadget 2), which is a sharper barycenter."""
    num_latents: int | None = field(default=20, metadata={"least": 1})
    """Number of latent causes; None for as many as the number of outcomes asks for."""
    part: str = field(default="perceptron", metadata={"choices": _PARTS})
    """What learns: a network that sees p, or constant scores that balancing alone adapts to it."""
    hidden: tuple[int, ...] = (256, 256)
    activation: str = field(default="gelu", metadata={"choices": tuple(ACTIVATIONS)})
    rounds: int | None = field(default=20, metadata={"least": 0})
    """Rounds of balancing; None for as many as the start asks for."""
    as_published: bool = False
    """The paper's network, balancing and correction in place of this library's; and Adam at a constant rate."""
    objective: str = field(default="exact", metadata={"choices": tuple(OBJECTIVES)})
    """`exact`, `reinforce`, or `relaxed`: the paper's, with 16 draws for each pair."""
    temperature: float = field(default=1.0, metadata={"above": 0.0})
    """Temperature of the relaxed objective."""
    batch_size: int = field(default=128, metadata={"least": 1})
    restarts: int = field(default=1, metadata={"least": 1})
    """Trainings where there is one fixed pair; the one with the least exact loss is kept."""

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.start not in STARTS[self.gadget]:
            raise InputError(
                f"`start` must be one of {', '.join(STARTS[self.gadget])} for {self.gadget}, got {self.start!r}"
            )

    def settings(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe with these settings."""
        return cls(**{**settings, "hidden": tuple(settings["hidden"])})

    def build(self, score: NDArray[np.float64], pairs: Pairs, seed: int) -> AbstractCoupling:
        """The gadget before training, with an outcome for each entry of the score.

        Args:
            score: One number, or one vector, for each outcome; where the gadget starts may depend on it.
            pairs: Distribution of pairs; likewise.
            seed: Seed of the parameters.
        """
        seed = as_seed("seed", seed)
        key, size = _key(1000 + seed), len(score)
        silent = self.start not in ("random", "scattered")
        if self.gadget == "gadget-1":
            if self.as_published:
                return Gadget1.as_published(size, key=key)
            start = Diagonal(size) if self.start == "gumbel-max" else None
            first, second = (self._part(size, size, each, silent) for each in jax.random.split(key))
            return Gadget1(size, key=key, part=first, other_part=second, start=start)
        if self.as_published:
            return Gadget2.as_published(size, self.latents(size), key=key)
        count, start = self.latents(size), self._start(score, pairs, seed)
        part = self._part(count, size, key, silent=silent if self.part == "constant" else start is not None)
        return Gadget2(size, count, key=key, part=part, start=start, rounds=self._rounds())

    def _part(self, num_rows: int, size: int, key: PRNGKeyArray, silent: bool) -> AbstractPart:
        if self.part == "constant":
            return Constant(num_rows, size, key=key, silent=silent)
        return Perceptron(num_rows, size, key=key, hidden=self.hidden, activation=self.activation, silent=silent)

    def latents(self, num_outcomes: int) -> int:
        """Number of latent causes for this number of outcomes."""
        if self.num_latents is not None:
            return self.num_latents
        return int(np.clip(4 * num_outcomes, *_LATENTS))

    def _rounds(self) -> int:
        sharp = self.start == "vector-quantile"
        return self.rounds if self.rounds is not None else _SHARP_ROUNDS if sharp else _ROUNDS

    def fit_options(self) -> dict[str, Any]:
        """What `fit` and `fit_many` are told."""
        return {
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
            "objective": self.make_objective(),
            "optimizer": _constant_adam(self.learning_rate) if self.as_published else None,
        }

    def make_objective(self) -> AbstractObjective:
        """The objective with its settings."""
        return Relaxed(self.temperature) if self.objective == "relaxed" else as_objective(self.objective)

    def _start(self, score: NDArray[np.float64], pairs: Pairs, seed: int) -> AbstractPart | None:
        count = self.latents(len(score))
        if self.start == "scattered":
            return Constant(count, len(score), key=_key(2000 + seed), scale=_SCATTER)
        if self.start == "inverse-cdf":
            return BinnedInverseCDF(count, np.arange(len(score), dtype=float))
        if self.start == "inverse-cdf-by-score":
            if np.ndim(score) != 1:
                raise InputError("a start at inverse-cdf-by-score needs one scalar score to put the outcomes in order")
            return BinnedInverseCDF(count, score)
        if self.start == "barycenter":
            points = barycenter(score, count, pairs, key=jax.random.key(2))
            return ReferenceTransport(points.astype(np.float32), score.astype(np.float32))
        if self.start == "vector-quantile":
            if np.ndim(score) == 1:
                return BinnedInverseCDF(count, score)
            return transport_start(score, count, pairs, key=_key(3000 + seed))
        return None


def _key(number: int) -> PRNGKeyArray:
    """The key of a number, which may exceed what a seed can be."""
    return jax.random.key(number % 2**32)
