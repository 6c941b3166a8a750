"""Work in parts that all need the same preparation: each worker prepares once."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import jax

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
    connect()
    try:
        reference = put_once((prepare, shared))
    except TypeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"what goes to other processes must be something that can be pickled: {reason}; use functions and classes "
            'of a module, or engine="local"'
        ) from error
    return in_parts(_of_part, (uuid4().hex, [reference]), parts)  # in a list, it is not fetched for every part


def _of_part(job: tuple[str, list[Any]], *part: Any) -> Any:
    name, (reference,) = job
    if name not in _KEPT:
        import ray

        _KEPT.clear()
        with jax.enable_x64(True):  # else doubles of a coupling would arrive as singles
            prepare, shared = ray.get(reference)
        _KEPT[name] = prepare(*shared)
    return _KEPT[name](*part)
