"""Calls of NumPy functions from compiled code."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike


def on_host(
    function: Callable[..., np.ndarray], *arrays: Array, shape: tuple[int, ...], batched: bool = False
) -> Array:
    """Calls a NumPy function from traced code, passing the bits of its floats.

    JAX runs callbacks in threads of its own, where `jax.enable_x64` may not hold and doubles would be cut to singles on
    the way in and refused on the way out. Integers pass unharmed.

    Args:
        function: Function to call; it gets arrays of one dtype and returns one.
        *arrays: Arrays that it gets, all of one floating-point type.
        shape: Shape of what it returns for one example.
        batched: Whether it takes a batch at once, with leading axes on every argument, of length one where all
            examples share it; otherwise `jax.vmap` calls it for one example after the other.
    """
    dtype = arrays[0].dtype
    words = dtype.itemsize // 4

    def call(*bits: ArrayLike) -> np.ndarray:
        floats = [np.ascontiguousarray(each).view(dtype).reshape(each.shape[:-1]) for each in map(np.asarray, bits)]
        result = np.ascontiguousarray(function(*floats), dtype)
        return result.view(np.uint32).reshape(*result.shape, words)

    as_bits = [jax.lax.bitcast_convert_type(each, jnp.uint32).reshape(*each.shape, words) for each in arrays]
    result = jax.pure_callback(
        call,
        jax.ShapeDtypeStruct((*shape, words), jnp.uint32),
        *as_bits,
        vmap_method="expand_dims" if batched else "sequential",
    )
    return jax.lax.bitcast_convert_type(result if words > 1 else result[..., 0], dtype)
