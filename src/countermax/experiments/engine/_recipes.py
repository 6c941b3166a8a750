"""How a gadget is built and trained in an experiment: all of it in one value that is stored beside the result."""

import functools
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
import optax
from numpy.typing import NDArray

from countermax._core.files import write_atomically
from countermax.couplings import (
    AbstractCoupling,
    AbstractPart,
    BinnedInverseCDF,
    Diagonal,
    Gadget1,
    Gadget2,
    ReferenceTransport,
    load,
    save,
)
from countermax.couplings import Table as ParameterTable
from countermax.experiments.engine._base import Result, Workshop, provenance
from countermax.learning import AbstractObjective, Exact, Loss, Pairs, Relaxed, barycenter, fit_many

_TRAINED = "trained.json"
_SCATTER = 3.0
_constant_adam = functools.lru_cache(optax.adam)  # one object for each rate, so that its training loop compiles once


@dataclass(frozen=True)
class Recipe:
    """A gadget, where it starts and how it learns."""

    gadget: str
    """`Gadget 1` or `Gadget 2`."""
    steps: int
    learning_rate: float
    start: str = "random"
    """`random`: the network alone; `scattered`: a random table besides, so that latents differ from the beginning; or
    the fixed mechanism that training begins at: `Gumbel-max`, `inverse CDF` (of indices), `sorted inverse CDF` (by
    the score) or `barycenter`."""
    num_latents: int = 20
    hidden: tuple[int, ...] = (256, 256)
    rounds: int = 20
    as_published: bool = False
    """The paper's network, balancing and correction in place of this library's; and Adam at a constant rate."""
    objective: str = "exact"
    """`exact`, or `relaxed`: the paper's, at temperature 1 with 16 draws for each pair."""
    table: bool = False
    """A plain table of numbers in place of the network."""
    batch_size: int = 128
    restarts: int = 1
    """Trainings for each score where there is one fixed pair; the one with the least exact loss is kept."""

    def settings(self) -> Result:
        """As JSON has it."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def of(cls, settings: Result) -> "Recipe":
        """From what `settings` gave."""
        return cls(**{**settings, "hidden": tuple(settings["hidden"])})

    def build(self, score: NDArray[np.float64], pairs: Pairs, seed: int) -> AbstractCoupling:
        """The gadget before training; score and pairs decide where it starts."""
        key, size = jax.random.key(1000 + seed), len(score)
        if self.gadget == "Gadget 1":
            if self.as_published:
                return Gadget1.as_published(size, key=key)
            if self.table:
                first, second = (ParameterTable(size, size, key=each) for each in jax.random.split(key))
                return Gadget1(size, key=key, part=first, other_part=second)
            start = Diagonal(size) if self.start == "Gumbel-max" else None
            return Gadget1(size, key=key, hidden=self.hidden, start=start)
        if self.as_published:
            return Gadget2.as_published(size, self.num_latents, key=key)
        return Gadget2(
            size,
            self.num_latents,
            key=key,
            hidden=self.hidden,
            start=self._start(score, pairs, seed),
            rounds=self.rounds,
        )

    def _start(self, score: NDArray[np.float64], pairs: Pairs, seed: int) -> AbstractPart | None:
        if self.start == "scattered":
            return ParameterTable(self.num_latents, len(score), key=jax.random.key(2000 + seed), scale=_SCATTER)
        if self.start == "inverse CDF":
            return BinnedInverseCDF(self.num_latents, np.arange(len(score), dtype=float))
        if self.start == "sorted inverse CDF":
            return BinnedInverseCDF(self.num_latents, score)
        if self.start == "barycenter":
            points = barycenter(score, self.num_latents, pairs, key=jax.random.key(2))
            return ReferenceTransport(points.astype(np.float32), score.astype(np.float32))
        return None


def train(
    recipe: Recipe,
    scores: Sequence[NDArray[np.float64]],
    pairs: Pairs | Sequence[Pairs],
    losses: Loss | Sequence[Loss],
    *,
    seed: int,
    workshop: Workshop,
    objective: AbstractObjective | None = None,
    num_held_out: int = 256,
) -> tuple[list[AbstractCoupling], dict[str, Any]]:
    """Trains a gadget for each score at once, or finds them trained; also tells where and how long it took.

    Args:
        recipe: What to build and how to train it.
        scores: One for each gadget; they decide where it starts.
        pairs: The query distribution, or one for each gadget.
        losses: The loss, or one for each gadget.
        seed: Of the parameters and of the training.
        workshop: Where mechanisms and checkpoints go.
        objective: In place of the recipe's.
        num_held_out: Pairs that progress is measured on while training.

    Raises:
        KeyboardInterrupt: After Ctrl-C; the checkpoint stays, and the next call goes on from it.
    """
    record = workshop.folder / _TRAINED
    files = [workshop.folder / f"{index}.npz" for index in range(len(scores))]
    if record.exists() and all(path.exists() for path in files):
        made_with = json.loads(record.read_text())
        if made_with.pop("recipe") == recipe.settings():
            return [load(path) for path in files], made_with
    checkpoint = workshop.folder / "checkpoint.npz"
    start = time.perf_counter()
    each_pairs = pairs if isinstance(pairs, Sequence) else [pairs] * len(scores)
    fits = fit_many(
        [
            recipe.build(score, each, seed + index)
            for index, (score, each) in enumerate(zip(scores, each_pairs, strict=True))
        ],
        pairs,
        losses,
        key=jax.random.key(seed),
        steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        batch_size=recipe.batch_size,
        objective=objective or (Relaxed(1.0, 16) if recipe.objective == "relaxed" else Exact()),
        optimizer=_constant_adam(recipe.learning_rate) if recipe.as_published else None,
        checkpoint=checkpoint,
        num_held_out=num_held_out,
        progress=lambda done, steps: workshop.advance(0.95 * done / steps),
    )
    if fits[0].ended == "interrupted":
        raise KeyboardInterrupt
    for path, each in zip(files, fits, strict=True):
        save(each.mechanism, path)
    made_with = {
        **provenance(),
        "seconds": round(time.perf_counter() - start, 2),
        "history": {
            "step": fits[0].history.step,
            "held_out": np.mean([each.history.held_out for each in fits], axis=0).round(6).tolist(),
        },
    }
    write_atomically(record, json.dumps({"recipe": recipe.settings(), **made_with}, indent=1) + "\n")
    checkpoint.unlink(missing_ok=True)
    return [each.mechanism for each in fits], made_with
