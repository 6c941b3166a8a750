"""Numbers as people write them down, as arrays, and logits as log-probabilities."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError


def as_array(name: str, value: Any, ndim: int, batches: str = "use jax.vmap for batches") -> Any:
    """Real numbers of `ndim` dimensions: an array of JAX's as it is, everything else as NumPy's.

    Args:
        name: Name of the argument in error messages.
        value: Value that was given.
        ndim: Number of dimensions that it must have: up to two.
        batches: Advice for an array with more dimensions.
    """
    kind = {0: "one number", 1: "a vector", 2: "a matrix"}[ndim]
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"`{name}` must be {kind} of numbers, got a masked array with {value.mask.sum()} missing")
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list, say, with traced numbers in it
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be {kind}{_of_numbers(ndim)}, got {shortened(value)}") from error
    if array.dtype == bool or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise InputError(f"`{name}` must hold real numbers, got {array.dtype}")
    if not _is_number(array.dtype):
        raise InputError(f"`{name}` must be {kind}{_of_numbers(ndim)}, got {shortened(value)}")
    if array.ndim != ndim:
        hint = f"; {batches}" if array.ndim > ndim else ""
        raise InputError(f"`{name}` must be {kind}, got shape {array.shape}{hint}")
    return array


def _of_numbers(ndim: int) -> str:
    return " of numbers" if ndim else ""


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating) or dtype == np.longdouble


def float_dtype(dtype: Any) -> Any:
    """The precision to compute in: JAX's default for integers, single for less than that."""
    if not jnp.issubdtype(dtype, jnp.integer) and np.dtype(dtype).itemsize <= 4:
        return np.dtype(np.float32)
    return jax.dtypes.canonicalize_dtype(np.float64)


def normalised(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-probabilities; what an outcome that is nearly certain lacks to certainty keeps its digits."""
    likeliest = logits.argmax()
    with np.errstate(over="ignore"):  # further apart than the largest number: impossible, as far as numbers go
        shifted = logits - logits[likeliest]
    others = np.exp(shifted)
    others[likeliest] = 0
    return shifted - np.log1p(others.sum())


def log_softmax(logits: Float[Array, " k"]) -> Float[Array, " k"]:
    """The same of traced logits."""
    likeliest = jnp.argmax(logits)
    shifted = logits - logits[likeliest]
    others = jnp.where(jnp.arange(logits.size) == likeliest, 0, jnp.exp(shifted))
    return shifted - jnp.log1p(others.sum())


def shortened(value: object) -> str:
    """A value for a message: in one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # thousands of digits, which Python does not print
        return f"a {type(value).__name__} with thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."
