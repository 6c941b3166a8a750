"""Functions compiled by Numba, kept from one process to the next for exactly this source.

Numba looks at the file of a function, not at the files of what it calls, and reads what it has kept before it asks
whether that is still right. So what is kept lies in a folder named after the source of all compiled code: another
release has another folder, and meets nothing of this one.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from platformdirs import user_cache_path

from countermax._core.compilation import OFF

_HERE = Path(__file__).parent
_MOST_KEPT = 4  # releases


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function when it is first called; it runs beside other threads, and is kept where that can be."""
    folder = folder_of_source()
    if folder is None:
        return numba.njit(nogil=True)(function)
    settings: Any = numba.config
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no file with the source, or it cannot be kept there
        return numba.njit(nogil=True)(function)
    finally:
        settings.CACHE_DIR = before


@cache
def folder_of_source() -> Path | None:
    """Where code compiled from this source is kept; None where nothing can be, or should be."""
    if os.environ.get(OFF):
        return None
    source = sha256()
    for path in sorted(_HERE.glob("*.py")):
        source.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for parent in _parents():
        folder = parent / source.hexdigest()[:16]
        with suppress(OSError):  # a folder that cannot be written to is no reason to fail
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
            with suppress(OSError):  # another process may have been quicker
                _forget_the_oldest(parent)
            return folder
    return None


def _parents() -> Iterator[Path]:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    yield Path(chosen) / "countermax" if chosen else user_cache_path("countermax") / "numba"
    yield _HERE / "__pycache__" / "numba"


def _forget_the_oldest(parent: Path) -> None:
    kept = sorted(parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[_MOST_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
