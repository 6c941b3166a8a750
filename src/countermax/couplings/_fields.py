"""What the fields of couplings and parts must hold, said once: constructors and `load` ask the same questions.

A class asks them in `__check_init__`, which Equinox calls after every `__init__`, and `load` after setting the fields.
Of values that are traced only types and shapes are known there.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from countermax._core.checks import as_floats, fail_if, is_traced, not_finite
from countermax._core.errors import InputError
from countermax._core.quantities import shown

_INTEGERS = (jnp.int32, jnp.int64)

LARGEST_SCORE = 1e30
"""Scores up to here keep every answer finite in single precision: what is added to them does not overflow."""


def check_floats(name: str, value: Any, ndim: int, *, most: float | None = None) -> None:
    """A field of finite numbers, at least one, in single or double precision."""
    if not eqx.is_array(value) or value.dtype not in (jnp.float32, jnp.float64):
        raise InputError(f"`{name}` must be an array in single or double precision, got {_kind(value)}")
    if value.ndim != ndim or value.size == 0:
        raise InputError(f"`{name}` must have {ndim} dimensions and not be empty, got shape {value.shape}")
    if is_traced(value):
        return
    sizes = np.abs(np.asarray(value))
    if not np.isfinite(sizes).all():
        raise InputError(f"`{name}` must be finite")
    if most is not None and sizes.max() > most:
        raise InputError(f"`{name}` must not exceed {most:g}, got {sizes.max():g}")


def as_vectors(name: str, value: Any) -> Array:
    """One finite vector for each outcome or point; numbers are vectors of one."""
    array = as_floats(name, jnp.asarray(value)[:, None] if np.ndim(value) == 1 else value, 2)
    if array.size == 0:
        raise InputError(f"`{name}` must be one vector for each of them, got shape {array.shape}")
    return fail_if(array, not_finite, f"`{name}` must be finite")


def check_alike(points: Array, scores: Array) -> None:
    """Two fields of vectors of one dimension."""
    if points.shape[1] != scores.shape[1]:
        dimensions = f"{points.shape[1]} and {scores.shape[1]}"
        raise InputError(f"`points` and `scores` must have the same dimension, got {dimensions}")


def as_permutation(name: str, order: Any) -> Array:
    """The indices 0..k-1 in some order."""
    try:
        array = jnp.asarray(order)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"`{name}` must be a list of integers, got {shown(order)}") from error
    if array.ndim != 1 or array.size == 0 or not jnp.issubdtype(array.dtype, jnp.integer):
        raise InputError(
            f"`{name}` must be a list of integers that names each of the outcomes 0..k-1 once, "
            f"got shape {array.shape} and dtype {array.dtype}"
        )
    if array.dtype not in _INTEGERS:
        array = array.astype(int)
    listed = f"{array.size} others" if is_traced(array) or array.size > 20 else np.asarray(array).tolist()
    found = "" if is_traced(array) else f", got {listed}"
    places = np.arange(array.size)
    message = f"`{name}` must name each of the outcomes 0..k-1 once{found}"
    return fail_if(array, lambda each: (each[each.argsort()] != places).any(), message)


def check_permutation(name: str, value: Any) -> None:
    """A field that holds the indices 0..k-1 in some order."""
    if not eqx.is_array(value) or value.dtype not in _INTEGERS:
        raise InputError(f"`{name}` must be an array of integers, got {_kind(value)}")
    if not is_traced(value):
        as_permutation(name, value)


def check_matrix(name: str, part: Any, num_rows: int, num_outcomes: int) -> None:
    """A field with a part that yields a matrix of that shape for that number of outcomes."""
    if not callable(part):
        raise InputError(f"`{name}` must be a part, got {_kind(part)}")
    try:
        matrix = eqx.filter_eval_shape(part, jax.ShapeDtypeStruct((num_outcomes,), jnp.zeros(0).dtype))
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"`{name}` must take log-probabilities of {num_outcomes} outcomes, but: {reason}") from error
    shape = getattr(matrix, "shape", None)
    if shape != (num_rows, num_outcomes):
        raise InputError(f"`{name}` must yield a matrix of shape {(num_rows, num_outcomes)}, got {shape}")


def _kind(value: Any) -> str:
    return f"an array of {value.dtype}" if eqx.is_array(value) else shown(value)
