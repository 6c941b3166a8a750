"""How a gadget is built and trained: settings that files describe and results store, and where it starts."""

import functools
import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import jax
import numpy as np
import optax
from jaxtyping import ArrayLike, PRNGKeyArray
from numpy.typing import NDArray

from countermax import couplings
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, as_choice, as_count, as_flag, as_seed, shown
from countermax._pairs import AbstractPairs, Pairs, draw_pairs, num_outcomes_of
from countermax.couplings._parts import ACTIVATIONS, AbstractPart
from countermax.couplings._reference import as_score_vectors, lloyd
from countermax.learning._fit import Training
from countermax.learning._losses import OBJECTIVES, AbstractObjective, Relaxed, as_objective


def check_settings(settings: Any) -> None:
    """Checks every field of a dataclass."""
    for each in fields(settings):
        check_setting(f"`{each.name}`", each, getattr(settings, each.name))


def check_setting(name: str, known: "Field[Any]", value: Any) -> None:
    """One value against the type of its field and its metadata: `choices`, `least`, `above`, `seed`."""
    kinds = get_args(known.type) if get_origin(known.type) is UnionType else (known.type,)
    if value is None and NoneType in kinds:
        return
    kind, limits = kinds[0], known.metadata
    if kind is str:
        as_choice(name, value, limits["choices"])
    elif kind is bool:
        as_flag(name, value)
    elif kind is int:
        if "seed" in limits:
            as_seed(name.strip("`"), value)
        else:
            as_count(name, value, least=limits["least"])
    elif kind is float:
        as_amount(name, value, **limits)
    elif kind == tuple[int, ...]:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list of positive whole numbers, got {shown(value)}")
        for each in value:
            as_count(f"every entry of {name}", each)
    elif kind == list[float]:
        check_numbers(name, value)
    else:
        check_rows(name, value)


def check_numbers(name: str, value: Any, *, finite: bool = False) -> None:
    """A list of numbers; infinities among them are for the caller to judge unless all must be finite."""
    if not isinstance(value, list) or not value:
        raise InputError(f"{name} must be a list of numbers, got {shown(value)}")
    for each in value:
        try:
            number = math.nan if isinstance(each, bool) or not isinstance(each, int | float) else float(each)
        except OverflowError:
            number = math.nan
        if math.isnan(number) or (finite and math.isinf(number)):
            raise InputError(f"{name} must be a list of numbers, but {shown(each)} is among them")


def check_rows(name: str, value: Any) -> None:
    """A list of finite numbers, or of such lists that have one length."""
    if not isinstance(value, list) or not value:
        raise InputError(f"{name} must be a list of numbers, or of lists of numbers, got {shown(value)}")
    if not isinstance(value[0], list):
        check_numbers(name, value, finite=True)
        return
    for row in value:
        check_numbers(f"every entry of {name}", row, finite=True)
    lengths = sorted({len(row) for row in value})
    if len(lengths) > 1:
        raise InputError(f"the lists in {name} must have one length, got {', '.join(map(str, lengths[:5]))}")


_BLUR = 0.005  # with hundreds of rounds of balancing; 0.05 with twenty is eleven points worse at 50 outcomes


def barycenter(
    scores: ArrayLike, num_points: int, pairs: Pairs, *, key: PRNGKeyArray, num_worlds: int = 400, num_rounds: int = 10
) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """Support points of the Wasserstein barycenter of the score distributions that the pairs induce.

    Beside them the mean squared distance to them, and the worlds that were drawn. `couplings._reference` says why they
    are the points to start from.
    """
    vectors = as_score_vectors(scores, num_outcomes_of(pairs))
    num_points, num_rounds = as_count("`num_points`", num_points), as_count("`num_rounds`", num_rounds)
    num_worlds = as_count("`num_worlds`", num_worlds, least=2)
    check_memory(
        f"transport between {num_points} points and {len(vectors)} outcomes in {num_worlds} worlds",
        8 * num_points * len(vectors) * (num_worlds + vectors.shape[1]),
        "lower the number of points or of worlds",
    )
    worlds = np.exp(np.asarray(draw_pairs(pairs, num_worlds, key=key)[0], np.float64))
    worlds /= worlds.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    mean = worlds.mean(axis=0)
    points = vectors[rng.choice(len(vectors), num_points, p=mean / mean.sum())]
    points = points + 0.1 * rng.normal(size=points.shape)
    found = lloyd(vectors, worlds, np.full(len(worlds), 1 / len(worlds)), points, num_rounds)
    return found.points, found.distance, worlds


GADGETS = ("gadget-1", "gadget-2")
STARTS = {
    "gadget-1": ("random", "gumbel-max"),
    "gadget-2": ("random", "scattered", "inverse-cdf", "inverse-cdf-by-score", "barycenter", "vector-quantile"),
}
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
        if self.start not in (starts := STARTS[self.gadget]):
            raise InputError(f"`start` must be one of {', '.join(starts)} for {self.gadget}, got {self.start!r}")

    def settings(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe with these settings."""
        return cls(**{**settings, "hidden": tuple(settings["hidden"])})

    def build(self, score: NDArray[np.float64], pairs: Pairs, seed: int) -> couplings.AbstractCoupling:
        """The gadget before training, with an outcome for each entry of the score."""
        seed = as_seed("seed", seed)
        key, size = _key(1000 + seed), len(score)
        silent = self.start not in ("random", "scattered")
        if self.gadget == "gadget-1":
            if self.as_published:
                return couplings.Gadget1.as_published(size, key=key)
            diagonal = couplings.Diagonal(size) if self.start == "gumbel-max" else None
            first, second = (self._part(size, size, each, silent) for each in jax.random.split(key))
            return couplings.Gadget1(size, key=key, part=first, other_part=second, start=diagonal)
        if self.as_published:
            return couplings.Gadget2.as_published(size, self.latents(size), key=key)
        count, start = self.latents(size), self._start(score, pairs, seed)
        part = self._part(count, size, key, silent=silent if self.part == "constant" else start is not None)
        usual = _SHARP_ROUNDS if self.start == "vector-quantile" else _ROUNDS
        rounds = usual if self.rounds is None else self.rounds
        return couplings.Gadget2(size, count, key=key, part=part, start=start, rounds=rounds)

    def _part(self, num_rows: int, size: int, key: PRNGKeyArray, silent: bool) -> AbstractPart:
        if self.part == "constant":
            return couplings.Constant(num_rows, size, key=key, silent=silent)
        return couplings.Perceptron(
            num_rows, size, key=key, hidden=self.hidden, activation=self.activation, silent=silent
        )

    def latents(self, num_outcomes: int) -> int:
        """Number of latent causes for this number of outcomes."""
        if self.num_latents is not None:
            return self.num_latents
        return int(np.clip(4 * num_outcomes, *_LATENTS))

    def training(self, **others: Any) -> Training:
        """How it is trained; other settings may be added."""
        settings: dict[str, Any] = {
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
            "objective": self.make_objective(),
            "optimizer": _constant_adam(self.learning_rate) if self.as_published else None,
        }
        return Training(**settings | others)

    def make_objective(self) -> AbstractObjective:
        """The objective with its settings."""
        return Relaxed(self.temperature) if self.objective == "relaxed" else as_objective(self.objective)

    def _start(self, score: NDArray[np.float64], pairs: Pairs, seed: int) -> AbstractPart | None:
        count = self.latents(len(score))
        if self.start == "scattered":
            return couplings.Constant(count, len(score), key=_key(2000 + seed), scale=_SCATTER)
        if self.start == "inverse-cdf":
            return couplings.BinnedInverseCDF(count, np.arange(len(score), dtype=float))
        if self.start == "inverse-cdf-by-score":
            if np.ndim(score) != 1:
                raise InputError("a start at inverse-cdf-by-score needs one scalar score to put the outcomes in order")
            return couplings.BinnedInverseCDF(count, score)
        if self.start == "barycenter":
            points, _, _ = barycenter(score, count, pairs, key=jax.random.key(2))
            return couplings.ReferenceTransport(points.astype(np.float32), score.astype(np.float32))
        if self.start == "vector-quantile":
            if np.ndim(score) == 1:
                return couplings.BinnedInverseCDF(count, score)
            key, vectors = _key(3000 + seed), np.asarray(score, np.float32)
            if isinstance(pairs, AbstractPairs) and pairs.num_distinct == 1:  # its own has atoms of other weights
                points, _, _ = barycenter(score, count, pairs, key=key)
            else:
                points = np.asarray(couplings.VectorQuantile.fit(vectors, pairs, key=key, num_atoms=count).points)
            return couplings.ReferenceTransport(points.astype(np.float32), vectors, blur=_BLUR)
        return None


def _key(number: int) -> PRNGKeyArray:
    """The key of a number, which may exceed what a seed can be."""
    return jax.random.key(number % 2**32)
