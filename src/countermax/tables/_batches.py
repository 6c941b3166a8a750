"""Many rows through one compiled program: batches of one size, and every distinct row once."""

from collections.abc import Callable

import jax
import numpy as np
from numpy.typing import NDArray

from countermax.couplings import AbstractCoupling, Gadget1, Gadget2
from countermax.tables.frames import Floats

_NUMBERS_IN_BATCH = 2**18  # arrays that stay in the cache, and a bound on the memory
_LEAST_BATCH = 256
_SHRINKAGE = 16  # between one size of batches and the next: few of them, since each is compiled
_PROBED_ROWS = 4096  # to see whether rows repeat
_MIXERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)  # odd numbers with well-spread bits

Arrays = tuple[NDArray, ...]


def in_batches(function: Callable[..., jax.Array], arrays: Arrays, numbers_in_row: int) -> Floats:
    """`function` of all rows: it takes a batch of each array and returns [columns, rows].

    The last batch is filled up, so that nothing is compiled twice. Rows that repeat are asked about once, which turns a
    trial with a million patients and two arms into a handful of questions.

    Args:
        function: Compiled once for each size of batches.
        arrays: One row each.
        numbers_in_row: How many numbers the function holds for one row at the same time.
    """
    repeats = _repeats(arrays)
    if repeats is None:
        return _all_rows(function, arrays, numbers_in_row)
    first, inverse = repeats
    return _all_rows(function, tuple(array[first] for array in arrays), numbers_in_row)[:, inverse]


def numbers_for(mechanism: AbstractCoupling, num_outcomes: int, *, law: bool = False) -> int:
    """How many numbers it takes to answer one row, or with `law` to find its whole joint law."""
    if isinstance(mechanism, Gadget1):
        return num_outcomes**3
    latents = mechanism.latent_logits.size if isinstance(mechanism, Gadget2) else 1
    return latents * num_outcomes ** (2 if law else 1)


def _all_rows(function: Callable[..., jax.Array], arrays: Arrays, numbers_in_row: int) -> Floats:
    count = len(arrays[0])
    size = max(1, 2 ** int(np.log2(max(1, _NUMBERS_IN_BATCH / numbers_in_row))))
    while size // _SHRINKAGE >= max(count, _LEAST_BATCH):
        size //= _SHRINKAGE
    parts = []
    with jax.enable_x64(True):
        for start in range(0, count, size):
            batch = [array[start : start + size] for array in arrays]
            if (short := size - len(batch[0])) > 0:
                batch = [np.concatenate([array, np.repeat(array[:1], short, axis=0)]) for array in batch]
            parts.append(function(*batch))
        return np.concatenate([np.asarray(part) for part in parts], axis=1)[:, :count]


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
