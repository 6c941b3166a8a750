"""Many rows through one compiled program: batches of one size, and every distinct row once."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from numpy.typing import NDArray

from countermax._core.memory import check_memory

# Of the largest array in a batch: it stays in the cache, and a single question costs milliseconds. One size for all
# questions: another one is another program, whose last bits may differ.
_NUMBERS_IN_BATCH = 2**15
_PROBED_ROWS = 4096  # to see whether rows repeat
_TRACED_ROWS = 1009  # a prime, so that an axis of this length is the axis of rows
_ARRAYS_AT_ONCE = 4  # of the largest kind
_MIXERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)  # odd numbers with well-spread bits

Arrays = tuple[NDArray, ...]
Floats = NDArray[np.float64]


def in_batches(function: Callable[..., jax.Array], fixed: tuple[Any, ...], arrays: Arrays) -> Floats:
    """`function(*fixed, *batch)` of all rows: it takes a batch of each array and returns [columns, rows].

    All batches have one size, and the last one is filled up: nothing is compiled twice, and a row's numbers are the
    same to the last bit whichever rows come with it. Rows that repeat are asked about once, which turns a trial with a
    million patients and two arms into a handful of questions. The function is compiled by `equinox.filter_jit`.
    """
    repeats = _repeats(arrays)
    if repeats is None:
        return _all_rows(function, fixed, arrays)
    first, inverse = repeats
    return _all_rows(function, fixed, tuple(array[first] for array in arrays))[:, inverse]


def _all_rows(function: Callable[..., jax.Array], fixed: tuple[Any, ...], arrays: Arrays) -> Floats:
    count = len(arrays[0])
    found = []
    with jax.enable_x64(True):
        numbers = numbers_in_row(function, fixed, arrays)
        outcomes = arrays[0].shape[1]
        check_memory(f"a row with {outcomes:,} outcomes", _ARRAYS_AT_ONCE * 8 * numbers, "merge rare outcomes")
        size = max(1, 2 ** int(np.log2(max(1, _NUMBERS_IN_BATCH / numbers))))
        for start in range(0, count, size):
            batch = [array[start : start + size] for array in arrays]
            if (short := size - len(batch[0])) > 0:
                batch = [np.concatenate([array, np.repeat(array[:1], short, axis=0)]) for array in batch]
            found.append(function(*fixed, *batch))
        return np.concatenate([np.asarray(each) for each in found], axis=1)[:, :count]


def numbers_in_row(function: Callable[..., jax.Array], fixed: tuple[Any, ...], arrays: Arrays) -> int:
    """How many numbers of one row the largest array inside the function holds.

    That depends on the couplings, somebody's own among them, so it is read off the traced program. A trace takes longer
    than a small question; it is kept for all questions of the same shape.
    """
    leaves, structure = jax.tree.flatten(fixed)
    shapes = [jax.ShapeDtypeStruct((_TRACED_ROWS, *array.shape[1:]), array.dtype) for array in arrays]
    kinds = [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array | np.ndarray) else leaf
        for leaf in leaves
    ]
    return _traced_numbers(function, structure, tuple(kinds), tuple(shapes))


@lru_cache(maxsize=256)
def _traced_numbers(
    function: Callable[..., jax.Array], structure: Any, kinds: tuple[Any, ...], shapes: tuple[jax.ShapeDtypeStruct, ...]
) -> int:
    fixed = jax.tree.unflatten(structure, kinds)
    program, _, _ = eqx.filter_make_jaxpr(function)(*fixed, *shapes)
    return max(_sizes(program.jaxpr), default=1)


def _sizes(program: Jaxpr) -> Iterator[int]:
    """For each array that has an axis of rows: how many numbers a row has."""
    for step in program.eqns:
        for each in step.outvars:
            shape = getattr(each.aval, "shape", ())
            if _TRACED_ROWS in shape:
                yield int(np.prod(shape)) // _TRACED_ROWS
        for inner in jax.tree.leaves(list(step.params.values())):
            if isinstance(inner, ClosedJaxpr | Jaxpr):
                yield from _sizes(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def _repeats(arrays: Arrays) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The first of each group of equal rows and the group of each row; None where hardly any row repeats."""
    count = len(arrays[0])
    hashes = _hashes(tuple(array[:_PROBED_ROWS] for array in arrays))
    if len(np.unique(hashes)) > 0.98 * len(hashes):
        return None
    hashes = _hashes(arrays)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) > 0.9 * count or any((array != array[first][inverse]).any() for array in arrays):
        return None  # no gain, or two different rows with one hash
    return first, inverse


def _hashes(arrays: Arrays) -> NDArray[np.uint64]:
    total = np.zeros(len(arrays[0]), np.uint64)
    multiplier, step = (np.uint64(each) for each in _MIXERS)
    for array in arrays:
        words = np.ascontiguousarray(array).view(np.uint64)
        for column in words.reshape(len(array), -1).T:
            total = (total ^ column) * multiplier
            total ^= total >> np.uint64(29)
            with np.errstate(over="ignore"):
                multiplier = np.uint64((int(multiplier) * int(step)) % 2**64)
    return total
