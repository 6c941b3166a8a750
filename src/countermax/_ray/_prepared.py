"""Work in parts that all need the same preparation: each worker prepares once."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._ray._connection import connect
from countermax._ray._parts import in_parts, put_once

T = TypeVar("T")

_KEPT: dict[str, Any] = {}
"""In a worker: the function that was prepared for the job at hand."""


def in_prepared_parts(
    prepare: Callable[..., Callable[..., T]], shared: tuple[Any, ...], parts: Iterable[tuple[Any, ...]]
) -> Iterator[T]:
    """`prepare(*shared)(*part)` of each part, in order; see `in_parts`.

    Each worker fetches what is shared once, prepares it once, and keeps that until it works for another job.

    Args:
        prepare: Function that makes the function of a part from what is shared.
        shared: Values that go into the object store, once.
        parts: Arguments of each part.
    """
    ray = connect()
    try:
        packed = ray.cloudpickle.dumps((prepare, shared))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"what goes to other processes must be something that can be pickled: {reason}; use functions and classes "
            'of a module, or engine="local"'
        ) from error
    name, reference = uuid4().hex, put_once(np.frombuffer(packed, np.uint8))  # bytes that no task has to unpack again
    return in_parts(_of_part, reference, ((name, *part) for part in parts))


def _of_part(packed: NDArray[np.uint8], name: str, *part: Any) -> Any:
    if name not in _KEPT:
        _KEPT.clear()
        with jax.enable_x64(True):  # else doubles of a coupling would arrive as singles
            prepare, shared = pickle.loads(packed.data)
        _KEPT[name] = prepare(*shared)
    return _KEPT[name](*part)
