"""What was compiled is kept from one process to the next; JAX is not imported for it, since many answers need none."""

import contextlib
import functools
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

OFF = "COUNTERMAX_NO_CACHE"
"""Set to keep nothing that was compiled."""
_MOST_KEPT = 400  # files of compiled programs; the oldest are thrown away
_FOLDER = "jax_compilation_cache_dir"
_KEEP_ALL = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}


@functools.cache
def keep_compiled() -> None:
    """Keeps compiled programs in the user's cache folder, so that the next process need not compile them again.

    JAX has one such folder for a process: one that `JAX_COMPILATION_CACHE_DIR` names is respected, and
    `COUNTERMAX_NO_CACHE=1` keeps nothing. Where JAX is not imported yet, it will find all this in the environment.
    """
    jax = sys.modules.get("jax")
    if os.environ.get(OFF) or (jax.config.values[_FOLDER] if jax else os.environ.get(_FOLDER.upper())) is not None:
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
    settings = {_FOLDER: str(folder), **_KEEP_ALL}
    if jax is None:
        os.environ.update({name.upper(): str(value) for name, value in settings.items()})
        return
    from jax.experimental.compilation_cache import compilation_cache

    for name, value in settings.items():
        jax.config.update(name, value)
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
