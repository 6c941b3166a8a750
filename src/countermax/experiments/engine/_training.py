"""A training on disk, inside a cell: trained once, found again afterwards."""

import json
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.files import write_atomically
from countermax.couplings import AbstractCoupling, load, save
from countermax.experiments.engine._base import CellContext, provenance
from countermax.learning import AbstractObjective, Loss, Pairs, Recipe, fit_many

_TRAINED = "trained.json"

GADGET_NAMES = {"gadget-1": "Gadget 1", "gadget-2": "Gadget 2"}
"""What sheets and pictures call the gadget of a recipe."""


def train(
    recipe: Recipe,
    scores: Sequence[NDArray[np.float64]],
    pairs: Pairs | Sequence[Pairs],
    losses: Loss | Sequence[Loss],
    *,
    seed: int,
    context: CellContext,
    objective: AbstractObjective | None = None,
    num_held_out: int = 256,
) -> tuple[list[AbstractCoupling], dict[str, Any]]:
    """Trains a gadget for each score at once, or finds them trained; also tells where and how long it took.

    Args:
        recipe: What to build and how to train it.
        scores: One for each gadget; they decide where it starts.
        pairs: Distribution of pairs, or one for each gadget.
        losses: The loss, or one for each gadget.
        seed: Seed of the parameters and of the training.
        context: Context of the cell; couplings and checkpoints go to its folder.
        objective: What is trained in place of the recipe's objective.
        num_held_out: Pairs that progress is measured on while training.

    Raises:
        KeyboardInterrupt: After Ctrl-C; the checkpoint stays, and the next call resumes from it.
    """
    record = context.folder / _TRAINED
    files = [context.folder / f"{index}.npz" for index in range(len(scores))]
    if record.exists() and all(path.exists() for path in files):
        made_with = json.loads(record.read_text())
        if made_with.pop("recipe") == recipe.settings():
            return [load(path) for path in files], made_with
    checkpoint = context.folder / "checkpoint.npz"
    start = time.perf_counter()
    each_pairs = pairs if isinstance(pairs, Sequence) else [pairs] * len(scores)
    options = recipe.fit_options()
    fits = fit_many(
        [
            recipe.build(score, each, seed + index)
            for index, (score, each) in enumerate(zip(scores, each_pairs, strict=True))
        ],
        pairs,
        losses,
        key=jax.random.key(seed),
        checkpoint=checkpoint,
        num_held_out=num_held_out,
        progress=lambda done, steps: context.advance(0.95 * done / steps),
        **(options if objective is None else {**options, "objective": objective}),
    )
    for path, each in zip(files, fits, strict=True):
        save(each.coupling, path)
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
    return [each.coupling for each in fits], made_with
