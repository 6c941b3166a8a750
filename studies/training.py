"""A training on disk, inside a cell: trained once, found again afterwards."""

import hashlib
import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.files import write_atomically
from countermax._core.memory import check_memory
from countermax._pairs import Pairs
from countermax.couplings import AbstractCoupling, load, save
from countermax.learning import fit_many
from countermax.learning._losses import AbstractObjective, Loss
from countermax.learning._recipe import Recipe
from studies.experiments import CellContext, DamagedError, provenance, sealed, unsealed

_TRAINED, _TASK = "trained.json", "task"
_ADDRESS = re.compile("0x[0-9a-f]+")  # of a function, which differs from one process to the next
_COPIES = 4  # of all parameters while they are trained: themselves, two moments, a gradient

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
        recipe: Recipe of the gadget and its training.
        scores: One for each gadget; they decide where it starts.
        pairs: Distribution of pairs, or one for each gadget.
        losses: The loss, or one for each gadget.
        seed: Seed of the parameters and of the training.
        context: Context of the cell; couplings and checkpoints go to its folder.
        objective: Objective to train, in place of the recipe's.
        num_held_out: Number of pairs that progress is measured on while training.

    Raises:
        KeyboardInterrupt: After Ctrl-C; the checkpoint stays, and the next call resumes from it.
    """
    record = context.folder / _TRAINED
    files = [context.folder / f"{index}.npz" for index in range(len(scores))]
    checkpoint = context.folder / "checkpoint.npz"
    task = _fingerprint(recipe.settings(), scores, pairs, losses, seed, objective, num_held_out)
    found = _found(task, record, files)
    if found is not None:
        checkpoint.unlink(missing_ok=True)  # of a process that was killed after another one had finished
        return found
    start = time.perf_counter()
    each_pairs = pairs if isinstance(pairs, Sequence) else [pairs] * len(scores)
    settings: dict[str, Any] = {"num_held_out": num_held_out}
    settings |= {} if objective is None else {"objective": objective}
    first = recipe.build(scores[0], each_pairs[0], seed)
    size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(first))
    check_memory(f"{len(scores)} gadgets at once", _COPIES * size * len(scores), "lower `seeds`")
    others = list(zip(scores, each_pairs, strict=True))[1:]
    fits = fit_many(
        [first, *(recipe.build(score, each, seed + index) for index, (score, each) in enumerate(others, 1))],
        pairs,
        losses,
        recipe.training(**settings),
        key=jax.random.key(seed),
        checkpoint=checkpoint,
        report=lambda done, steps: context.advance(0.95 * done / steps),
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
    write_atomically(record, sealed({_TASK: task, **made_with}))
    checkpoint.unlink(missing_ok=True)
    return [each.coupling for each in fits], made_with


def _found(task: str, record: Path, files: Sequence[Path]) -> tuple[list[AbstractCoupling], dict[str, Any]] | None:
    """What was trained before for the same task, if it is all there."""
    if not all(path.exists() for path in (record, *files)):
        return None
    try:
        made_with = unsealed(record)
        if made_with.pop(_TASK, None) == task:
            return [load(path) for path in files], made_with
    except DamagedError as error:
        warnings.warn(f"{error.what}; training begins again", stacklevel=3)
    except InputError as error:
        warnings.warn(f"{error}; training begins again", stacklevel=3)
    return None


def _fingerprint(*task: Any) -> str:
    """Changes with anything that would make another training of it."""
    leaves, structure = jax.tree.flatten(task)
    digest = hashlib.sha256(_ADDRESS.sub("", str(structure)).encode())
    for leaf in leaves:
        array = np.asarray(leaf) if eqx.is_array_like(leaf) else None
        words = _ADDRESS.sub("", repr(leaf)) if array is None else f"{array.shape} {array.dtype}"
        digest.update(words.encode() + (b"" if array is None else array.tobytes()))
    return digest.hexdigest()
