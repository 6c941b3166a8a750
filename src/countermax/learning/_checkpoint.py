"""The state of a training on disk, so that it can be resumed to the same end."""

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from countermax._core.archive import pack, unpack
from countermax._core.errors import InputError
from countermax._core.files import write_atomically
from countermax.learning._history import History


class State(NamedTuple):
    """What changes while training; every leaf has a leading axis over members."""

    params: PyTree
    optimizer: PyTree
    bad_step: Int[Array, " members"]  # the first step with a non-finite loss or gradient; -1 while there is none


def fingerprint_of(state: State, key: PRNGKeyArray, *settings: Any) -> str:
    """Changes with anything that would make a resumed run differ from an uninterrupted one."""
    words = repr((np.asarray(jax.random.key_data(key)).tolist(), settings))
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", words).encode())  # where a function lies differs by process
    for leaf in jax.tree.leaves((state, settings)):
        if eqx.is_array(leaf):
            digest.update(f"{leaf.shape} {leaf.dtype}".encode() + np.asarray(leaf).tobytes())
    return digest.hexdigest()


def write_checkpoint(path: str | Path, fingerprint: str, state: State, histories: list[History], done: int) -> None:
    header = {
        "fingerprint": fingerprint,
        "step": done,
        "histories": [{"step": each.step, "loss": each.loss, "held_out": each.held_out} for each in histories],
    }
    write_atomically(path, pack("checkpoint", header, [np.asarray(leaf) for leaf in jax.tree.leaves(state)]))


def resume(path: str | Path, fingerprint: str, state: State, count: int) -> tuple[State, list[History], int]:
    header, arrays = unpack(path, "checkpoint")
    if header["fingerprint"] != fingerprint:
        raise InputError(
            f"{path} belongs to another run (other couplings, key, steps or settings): "
            "move it away to start over, or repeat the old settings to resume"
        )
    leaves, structure = jax.tree.flatten(state)
    if len(arrays) != len(leaves) or len(header["histories"]) != count:
        raise InputError(f"{path} is damaged: it does not hold the state of this run")
    restored = jax.tree.unflatten(
        structure, [jnp.asarray(array, leaf.dtype) for array, leaf in zip(arrays, leaves, strict=True)]
    )
    return restored, [History(**each) for each in header["histories"]], header["step"]
