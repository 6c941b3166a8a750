"""How soon the first answer comes: programs compiled quickly, and kept from one process to the next."""

import contextlib
import functools
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from jaxlib.version import __version__ as jaxlib_version

T = TypeVar("T")

OFF = "COUNTERMAX_NO_CACHE"
"""Set to keep nothing that was compiled."""
_MOST_KEPT = 400  # compiled programs; the oldest are thrown away
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
if jaxlib_version.startswith(("0.8.", "0.9.", "0.10.")):  # an option that XLA does not know is an error
    _QUICK |= {"xla_cpu_use_fusion_emitters": False}


@functools.cache
def keep_compiled() -> None:
    """Keeps compiled programs in the user's cache folder, so that the next process need not compile them again.

    JAX has one such folder for a process: one that `JAX_COMPILATION_CACHE_DIR` names is respected, and
    `COUNTERMAX_NO_CACHE=1` keeps nothing.
    """
    if os.environ.get(OFF) or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    from platformdirs import user_cache_path

    folder = user_cache_path("countermax") / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written to is no reason to fail
        return
    _forget_the_oldest(folder)
    # JAX writes an entry in place, so that a reader may meet half of one: it then compiles again, and need not say so.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # what was compiled before has found none


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """For an import: it makes no garbage, and among all that JAX has made the search for some takes as long again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _forget_the_oldest(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process may have been quicker
        kept = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[_MOST_KEPT:]:
            path.unlink(missing_ok=True)


def quickly_compiled(function: Callable[..., T], *, many_numbers: bool = False) -> Callable[..., T]:
    """Compiles a function for the CPU without XLA's costly optimisations, for programs that run once.

    As with `equinox.filter_jit`, arrays among the arguments are traced and everything else is static.
    """
    options = _QUICK | ({"xla_backend_optimization_level": 1} if many_numbers else {})

    @functools.partial(jax.jit, static_argnums=1, compiler_options=options if jax.default_backend() == "cpu" else None)
    def run(arrays: list[Any], rest: tuple[Any, Any]) -> T:
        structure, static = rest
        leaves = [other if array is None else array for array, other in zip(arrays, static, strict=True)]
        return function(*jax.tree.unflatten(structure, leaves))

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> T:
        keep_compiled()
        leaves, structure = jax.tree.flatten(arguments)
        traced = [isinstance(leaf, np.ndarray | np.generic) or eqx.is_array(leaf) for leaf in leaves]
        arrays = [leaf if is_array else None for leaf, is_array in zip(leaves, traced, strict=True)]
        static = tuple(None if is_array else leaf for leaf, is_array in zip(leaves, traced, strict=True))
        return run(arrays, (structure, static))

    return wrapped
