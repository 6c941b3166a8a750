"""Where compiled code is kept from one process to the next: for exactly this source, in a folder named after it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from platformdirs import user_cache_path

from countermax._core.compilation import OFF
from countermax._core.files import write_atomically

_HERE = Path(__file__).parent
_MOST_KEPT = 4  # releases
_DIGEST = 32


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


def kept(name: str) -> bytes | None:
    """What was kept under this name; None where that is nothing, or no longer what was written."""
    folder = folder_of_source()
    if folder is None:
        return None
    try:
        found = (folder / name).read_bytes()
    except OSError:
        return None
    digest, content = found[:_DIGEST], found[_DIGEST:]
    return content if sha256(content).digest() == digest else None


def keep(name: str, content: bytes) -> None:
    """Keeps something under a name, where that can be."""
    folder = folder_of_source()
    if folder is not None:
        with suppress(OSError):
            write_atomically(folder / name, sha256(content).digest() + content)


def _parents() -> Iterator[Path]:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    yield Path(chosen) / "countermax" if chosen else user_cache_path("countermax") / "numba"
    yield _HERE / "__pycache__" / "numba"


def _forget_the_oldest(parent: Path) -> None:
    found = sorted(parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_MOST_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
