"""Arrays as people write them down: their types, and the checks that all of them share."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Values: TypeAlias = ArrayLike | Sequence[Any]
"""An array as people write it down: an array, a number, a list, a list of lists."""

SUM_TOLERANCE = 1e-6


def as_floats(name: str, values: Values) -> Floats:
    """Numbers in double precision."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers, got {str(values)[:60]!r}") from error


def as_indices(name: str, values: Values, size: int) -> Ints:
    """Integers in 0..size-1; the first other one is named with its place."""
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"`{name}` must hold integers, got {array.dtype}")
    bad = (array < 0) | (array >= size)
    if bad.any():
        place = int(bad.argmax())
        raise InputError(f"`{name}` must lie in 0..{size - 1}, got {array.ravel()[place]} at entry {place}")
    return array.astype(np.int64)


def as_counts(counts: Values) -> Ints:
    """Whole numbers that are not negative."""
    array = as_floats("counts", counts)
    bad = ~(array >= 0) | (array != np.floor(array))
    if bad.any():
        raise InputError(f"`counts` must hold whole numbers, got {array.ravel()[bad.argmax()]:g}")
    return array.astype(np.int64)


def as_mask(name: str, states: Values | None, size: int) -> NDArray[np.bool_]:
    """A mask over states, from a mask or from indices."""
    if states is None:
        return np.zeros(size, bool)
    array = np.asarray(states)
    if array.dtype == bool:
        if array.shape != (size,):
            raise InputError(f"`{name}` must mark each of {size} states, got shape {array.shape}")
        return array.copy()
    mask = np.zeros(size, bool)
    mask[as_indices(name, np.atleast_1d(array), size)] = True
    return mask


def as_start(start: Values, num_states: int) -> Floats:
    """A distribution of first states, from one or from a single state's index."""
    array = np.asarray(start)
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer):
        return np.eye(num_states)[as_indices("start", array, num_states)]
    probs = as_floats("start", start)
    if probs.shape != (num_states,):
        raise InputError(f"`start` must have one probability for each of {num_states} states, got shape {probs.shape}")
    bad = ~((probs >= 0) & (probs < np.inf))
    if bad.any():
        state = int(bad.argmax())
        raise InputError(f"`start` must be finite and not negative, got {probs[state]:g} for state {state}")
    if not abs(probs.sum() - 1) <= SUM_TOLERANCE:
        raise InputError(f"`start` must sum to one, got {probs.sum():.6g}")
    return probs / probs.sum()


def as_horizon(horizon: int) -> int:
    """A number of steps."""
    if horizon < 0:
        raise InputError(f"`horizon` must not be negative, got {horizon}")
    return horizon


def checked_discount(discount: float) -> float:
    """A factor by which rewards lose worth with time."""
    if not 0 <= discount <= 1:
        raise InputError(f"`discount` must lie in [0, 1], got {discount}")
    return float(discount)


def check_names(argument: str, names: Sequence[str] | None, size: int) -> None:
    """Refuses names that are not one for each, or not all different."""
    if names is not None and (len(names) != size or len(set(names)) != size):
        raise InputError(f"`{argument}` must hold {size} different names, got {len(set(names))} in {len(names)}")


def spoken(kind: str, index: int, names: Sequence[str] | None) -> str:
    """A state or an action for readers: its name, or its index where there is none."""
    return f"{kind} {index}" if names is None else names[index]


def named(kind: str, index: int, names: Sequence[str] | None) -> str:
    """A state or an action for messages: its index, and its name where there is one."""
    return f"{kind} {index}" if names is None else f"{kind} {index} ({names[index]})"
