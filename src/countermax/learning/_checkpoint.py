"""The state of a training on disk, so that it can be resumed to the same end."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy.typing import NDArray

from countermax._core.archive import pack, unpack
from countermax._core.errors import InputError
from countermax._core.files import write_atomically
from countermax.learning._history import History

_REMEDY = "move it away to start over"


class State(NamedTuple):
    """What changes while training; every leaf has a leading axis over members."""

    params: PyTree
    optimizer: PyTree
    bad_step: Int[Array, " members"]  # the first step with a non-finite loss or gradient; -1 while there is none
    total: Float[Array, " members"]  # of the objective, over the steps since the last evaluation


class Progress(NamedTuple):
    """How far a training is."""

    state: State
    histories: list[History]
    done: int


class Checkpoint:
    """The file of one training; without a path nothing is written."""

    def __init__(self, path: str | Path | None, fingerprint: str):
        self.path = None if path is None else Path(path)
        self.step: int | None = None
        """The step that the file holds; None where there is no file."""
        self._fingerprint = fingerprint

    def write(self, progress: Progress) -> None:
        """Replaces what the file holds, in one piece."""
        if self.path is None:
            return
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(progress.state)]
        seen = [
            np.asarray([getattr(each, field) for each in progress.histories], dtype)
            for field, dtype in (("step", np.int64), ("loss", np.float64), ("held_out", np.float64))
        ]
        header = {"fingerprint": self._fingerprint, "step": progress.done}
        write_atomically(self.path, pack("checkpoint", header, [*leaves, *seen]))
        self.step = progress.done

    def read(self, fresh: Progress, boundaries: range) -> Progress:
        """What the file holds; `fresh` where there is none.

        Args:
            fresh: The training before its first step.
            boundaries: The steps after which it is evaluated, but for the last one.
        """
        if self.path is None or not self.path.exists():
            return fresh
        header, arrays = unpack(self.path, "checkpoint", remedy=_REMEDY)
        if header.get("fingerprint") != self._fingerprint:
            raise InputError(
                f"{self.path} belongs to another run (other couplings, pairs, loss, key, optimizer or settings, or "
                f"other versions of the libraries): {_REMEDY}, or repeat the old settings to resume"
            )
        leaves, structure = jax.tree.flatten(fresh.state)
        done, stored, seen = header.get("step"), arrays[: len(leaves)], arrays[len(leaves) :]
        alike = len(arrays) == len(leaves) + 3 and all(
            (each.shape, each.dtype) == (wanted.shape, wanted.dtype)
            for each, wanted in zip(stored, map(_plain, leaves), strict=True)
        )
        if type(done) is not int or not 0 <= done <= boundaries.stop or not alike:
            raise InputError(f"{self.path} is damaged: it does not hold the state of this run; {_REMEDY}")
        restored = [_restored(each, leaf) for each, leaf in zip(stored, leaves, strict=True)]
        state: State = jax.tree.unflatten(structure, restored)
        wanted = [step for step in boundaries if step <= done] + [done] * (done == boundaries.stop)
        count, finite = len(fresh.histories), all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
        if any(each.shape != (count, len(wanted)) for each in seen) or (seen[0] != wanted).any() or not finite:
            raise InputError(f"{self.path} is damaged: its history is not that of {done} steps; {_REMEDY}")
        self.step = done
        steps, losses, held_out = (each.tolist() for each in seen)
        return Progress(state, [History(*each) for each in zip(steps, losses, held_out, strict=True)], done)


def _plain(leaf: Any) -> NDArray[Any]:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _restored(stored: NDArray[Any], leaf: Any) -> Any:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(stored), impl=jax.random.key_impl(leaf))
    return jnp.asarray(stored)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
