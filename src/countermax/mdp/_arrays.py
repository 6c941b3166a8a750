"""Arrays and numbers as users write them down: their types, and the checks that all of them share."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import MOST_SHOWN, as_amount, as_count, shown

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Values: TypeAlias = ArrayLike | Sequence[Any]
"""An array as users write it down: an array, a number, a list, a list of lists."""

SUM_TOLERANCE = 1e-6
MOST_REWARD = 1e100
"""Squares of sums of such rewards are still finite."""

_MOST_STEPS = 10**6  # a recursion takes at least microseconds for each step


def as_floats(name: str, values: Values) -> Floats:
    """Numbers in double precision, the same memory where they are that already; text is not read as numbers."""
    array = _as_array(name, values, "numbers")
    try:
        if array.dtype == object and not any(each is None or isinstance(each, str | bytes) for each in array.flat):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"`{name}` must hold numbers, got {shown(values)}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"`{name}` must hold numbers, got {shown(values)}")
    return array.astype(np.float64, copy=False)


def as_finite(name: str, values: Values) -> Floats:
    """Numbers that are neither infinite nor missing; the first other one is named with its place."""
    array = as_floats(name, values)
    bad = ~np.isfinite(array)
    if bad.any():
        place = int(bad.argmax())
        raise InputError(f"`{name}` must hold finite numbers, got {array.ravel()[place]:g} at entry {place}")
    return array


def as_integers(name: str, values: Values) -> Ints:
    """Integers; other numbers are refused, not rounded."""
    array = _as_array(name, values, "integers")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"`{name}` must hold integers, got {array.dtype}")
    if array.dtype == np.uint64 and (array > np.iinfo(np.int64).max).any():
        raise InputError(f"`{name}` must hold integers below 2**63, got {array.max()}")
    return array.astype(np.int64, copy=False)


def as_indices(name: str, values: Values, size: int) -> Ints:
    """Integers in 0..size-1; the first other one is named with its place."""
    array = as_integers(name, values)
    bad = (array < 0) | (array >= size)
    if bad.any():
        place = int(bad.argmax())
        raise InputError(f"`{name}` must lie in 0..{size - 1}, got {array.ravel()[place]} at entry {place}")
    return array


def as_index(name: str, value: Any, size: int) -> int:
    """One integer in 0..size-1."""
    index = as_indices(name, value, size)
    if index.ndim != 0:
        raise InputError(f"`{name}` must be one index, got shape {index.shape}")
    return int(index)


def as_counts(counts: Values) -> Ints:
    """Whole numbers that are not negative."""
    array = as_floats("counts", counts)
    bad = ~((array >= 0) & (array <= 2**53)) | (array != np.floor(array))
    if bad.any():
        raise InputError(f"`counts` must hold whole numbers, got {array.ravel()[bad.argmax()]:g}")
    return array.astype(np.int64)


def as_booleans(name: str, values: Values) -> NDArray[np.bool_]:
    """Truth values; numbers are not taken for them."""
    array = _as_array(name, values, "booleans")
    if array.dtype != bool:
        raise InputError(f"`{name}` must hold booleans, got {array.dtype}")
    return array


def as_mask(name: str, states: Values | None, size: int) -> NDArray[np.bool_]:
    """A mask over states, from a mask or from indices."""
    if states is None:
        return np.zeros(size, bool)
    array = _as_array(name, states, "states, or whether each is one")
    if array.dtype == bool:
        if array.shape != (size,):
            raise InputError(f"`{name}` must mark each of {size} states, got shape {array.shape}")
        return array.copy()
    mask = np.zeros(size, bool)
    mask[as_indices(name, np.atleast_1d(array), size)] = True
    return mask


def as_start(start: Values, num_states: int) -> Floats:
    """A distribution of first states, from one or from a single state's index."""
    array = _as_array("start", start, "probabilities, or one state")
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer):
        return one_hot(as_index("start", array, num_states), num_states)
    probs = as_floats("start", start)
    if probs.shape != (num_states,):
        raise InputError(f"`start` must have one probability for each of {num_states} states, got shape {probs.shape}")
    bad = ~((probs >= 0) & (probs < np.inf))
    if bad.any():
        state = int(bad.argmax())
        raise InputError(f"`start` must be finite and not negative, got {probs[state]:g} for state {state}")
    with np.errstate(over="ignore"):  # told below, in words
        total = probs.sum()
    if not abs(total - 1) <= SUM_TOLERANCE:
        raise InputError(f"`start` must sum to one, got {total:.6g}")
    return probs / total


def one_hot(place: int, size: int) -> Floats:
    """A row of an identity matrix, without the matrix."""
    return (np.arange(size) == place).astype(np.float64)


def as_horizon(horizon: int, *, least: int = 0) -> int:
    """A number of steps."""
    return as_count("`horizon`", horizon, least=least, most=_MOST_STEPS)


def checked_discount(discount: float) -> float:
    """A factor by which rewards lose worth with time."""
    return as_amount("`discount`", discount, least=0.0, most=1.0)


def check_sizes(num_states: int, num_actions: int, width: int = 1) -> None:
    """Refuses numbers of states and actions whose arrays would not fit into memory."""
    check_memory(
        f"{num_states} states and {num_actions} actions with {width} successors each",
        64 * num_states * num_actions * width,
        "lower the number of states or actions, or number those that occur",
    )
    if num_states * num_actions * num_states >= 2**62:
        raise InputError(f"a process must have fewer transitions than 2**62, got {num_states} states")


def _as_array(name: str, values: Values, what: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:  # ragged, say
        raise InputError(f"`{name}` must hold {what}, got {shown(values)}") from error


def plainly(name: object) -> str:
    """A name in a message: as it is where that can be read, and else as Python would write it."""
    text = str(name)
    readable = text.isprintable() and text == text.strip() and 0 < len(text) <= MOST_SHOWN
    return text if readable else shown(text)


def frozen(values: NDArray) -> NDArray:
    """An array that nobody else can write to: a copy, unless it is one of ours already."""
    if not values.flags.writeable and values.flags.owndata:
        return values
    copied = np.array(values)
    copied.setflags(write=False)
    return copied
