"""How soon the first answer comes: programs compiled quickly, and loaded whole where they were kept."""

import contextlib
import functools
import hashlib
import io
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache
from jaxlib import xla_client
from jaxlib.version import __version__ as jaxlib_version

from countermax._core.files import write_atomically
from countermax._core.keeping import OFF, keep_compiled
from countermax._core.progress import compiling
from countermax._version import __version__

T = TypeVar("T")

_MOST_LOADED = 128  # programs of a function that stay in memory
_SOURCES = Path(__file__).parents[1]
_STEADY = ("builtins", "collections", "countermax", "equinox", "jax", "jaxlib", "numpy")  # whose versions are known
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
if jaxlib_version.startswith(("0.8.", "0.9.", "0.10.")):  # an option that XLA does not know is an error
    _QUICK |= {"xla_cpu_use_fusion_emitters": False}


def quickly_compiled(function: Callable[..., T], *, many_numbers: bool = False) -> Callable[..., T]:
    """Compiles a function for the CPU without XLA's costly optimisations, for programs that run once.

    As with `equinox.filter_jit`, arrays among the arguments are traced and everything else is static. Where compiled
    programs are kept, the next process loads this one whole: to trace it would take several times as long.
    """
    options = _QUICK | ({"xla_backend_optimization_level": 1} if many_numbers else {})

    @functools.cache  # not before it is called: looking for devices takes a while
    def compiled() -> Any:
        return jax.jit(run, static_argnums=1, compiler_options=options if jax.default_backend() == "cpu" else None)

    def run(arrays: list[Any], rest: tuple[Any, Any]) -> T:
        return function(*_arguments(arrays, rest))

    programs: dict[Any, Any] = {}

    def program(arrays: list[Any], kinds: tuple[Any, ...], rest: tuple[Any, Any]) -> Any:
        path = _place_of(function, options, _arguments(kinds, rest))
        if path is None:
            return compiled().lower(arrays, rest).compile()
        found = _loaded(path, arrays)
        if found is None:
            with _compiled_here(), compiling():
                found = compiled().lower(arrays, rest).compile()
            _keep(path, found, arrays)
        return found

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> T:
        keep_compiled()
        leaves, structure = jax.tree.flatten(arguments)
        traced = [isinstance(leaf, np.ndarray | np.generic) or eqx.is_array(leaf) for leaf in leaves]
        arrays = [leaf if is_array else None for leaf, is_array in zip(leaves, traced, strict=True)]
        rest = structure, tuple(None if is_array else leaf for leaf, is_array in zip(leaves, traced, strict=True))
        if jax.default_backend() != "cpu" or jax.device_count() > 1:
            return compiled()(arrays, rest)
        kinds = tuple(None if each is None else jax.typeof(each) for each in arrays)
        key = kinds, rest, jax.config.values["jax_enable_x64"]
        if key not in programs:
            if len(programs) == _MOST_LOADED:
                programs.clear()
            programs[key] = program(arrays, kinds, rest)
        found: T = programs[key](arrays)
        return found

    return wrapped


def _arguments(arrays: Sequence[Any], rest: tuple[Any, Any]) -> Any:
    """The arguments from their two halves: each leaf is an array or static."""
    structure, static = rest
    leaves = [other if array is None else array for array, other in zip(arrays, static, strict=True)]
    return jax.tree.unflatten(structure, leaves)


# A kept program is never out of date, because its file is named after all that it is made from: the library's sources
# (by time and size, as Python does for bytecode), the versions of the others, settings, processor, and the arguments.


class _Described(pickle.Pickler):
    """Writes down what a program is made from; refuses code that may change while its name stays."""

    def reducer_override(self, each: Any) -> Any:
        if isinstance(each, type | FunctionType) and each.__module__.partition(".")[0] not in _STEADY:
            raise pickle.PicklingError(f"{each} may change")
        return (str, (str(each),)) if isinstance(each, jax.core.ShapedArray) else NotImplemented


def _place_of(function: Callable[..., Any], options: Any, arguments: Any) -> Path | None:
    """The file of a program; None for one that is not kept."""
    folder, code = jax.config.values["jax_compilation_cache_dir"], getattr(function, "__code__", None)
    if folder is None or os.environ.get(OFF) or not os.path.isdir(folder) or code is None or code.co_freevars:
        return None
    name, text = f"{function.__module__}.{function.__qualname__}", io.BytesIO()
    if not name.startswith("countermax."):
        return None
    try:
        _Described(text).dump((name, options, _surroundings(), sorted(jax.config.values.items()), arguments))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return Path(folder) / f"{code.co_name}-{hashlib.sha256(text.getvalue()).hexdigest()}.program"


@functools.cache
def _surroundings() -> tuple[Any, ...]:
    """What all programs of a process have in common."""
    sources = sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in _SOURCES.rglob("*.py"))
    versions = __version__, jax.__version__, jaxlib_version, eqx.__version__, np.__version__
    processor = xla_client.get_topology_for_devices(jax.devices()).fingerprint()
    return sources, versions, processor, os.environ.get("XLA_FLAGS")


@contextlib.contextmanager
def _compiled_here() -> Iterator[None]:
    """Without JAX's own folder: what was loaded from there cannot be stored again."""
    was_on = jax.config.values["jax_enable_compilation_cache"]
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", was_on)
        compilation_cache.reset_cache()


def _keep(path: Path, program: jax.stages.Compiled, arrays: list[Any]) -> None:
    """Stores a program if it gives the same numbers once it is loaded."""
    with contextlib.suppress(Exception):  # the answer does not depend on it
        found, _, structure = serialize_executable.serialize(program)
        like = jax.tree.unflatten(structure, range(structure.num_leaves))
        kept = zlib.compress(pickle.dumps((found, like)), 1)
        again = _read(kept, arrays)
        first, second = (
            [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(run(arrays))] for run in (program, again)
        )
        if first == second:
            write_atomically(path, kept)


def _loaded(path: Path, arrays: list[Any]) -> Any:
    """A program that was kept; None if there is none, or what is there is damaged."""
    try:
        return _read(path.read_bytes(), arrays)
    except Exception:  # whatever is wrong with it, it can be compiled again
        return None


def _read(kept: bytes, arrays: list[Any]) -> Any:
    found, like = pickle.loads(zlib.decompress(kept))
    structures = jax.tree.structure(((arrays,), {})), jax.tree.structure(like)
    return serialize_executable.deserialize_and_load(found, *structures)
