"""Numbers as people write them down, as arrays: what is no number is refused in words."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from countermax._core.errors import InputError


def as_array(name: str, value: Any, ndim: int) -> Any:
    """Real numbers of `ndim` dimensions: an array of JAX's as it is, everything else as NumPy's."""
    kind = {1: "a vector", 2: "a matrix"}[ndim]
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"`{name}` must be {kind} of numbers, got a masked array with {value.mask.sum()} missing")
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list, say, with traced numbers in it
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be {kind} of numbers, got {shortened(value)}") from error
    if array.dtype == bool or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise InputError(f"`{name}` must hold real numbers, got {array.dtype}")
    if not _is_number(array.dtype):
        raise InputError(f"`{name}` must be {kind} of numbers, got {shortened(value)}")
    if array.ndim != ndim:
        hint = "; use jax.vmap for batches" if array.ndim > ndim else ""
        raise InputError(f"`{name}` must be {kind}, got shape {array.shape}{hint}")
    return array


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating) or dtype == np.longdouble


def float_dtype(dtype: Any) -> Any:
    """The precision to compute in: JAX's default for integers, single for less than that."""
    if jnp.issubdtype(dtype, jnp.integer) or np.dtype(dtype).itemsize > 8:
        dtype = np.float64
    return jax.dtypes.canonicalize_dtype(jnp.promote_types(dtype, jnp.float32))


def shortened(value: object) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
