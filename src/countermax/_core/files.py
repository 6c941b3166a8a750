"""Writing files so that a reader finds the old one or the new one, never half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from countermax._core.errors import InputError


def writable_folder(folder: str | Path) -> Path:
    """The folder, made if need be; an error in words where nothing can be written."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(f"cannot write to the folder {path}: {_reason(error)}; choose another folder") from error
    return path


def write_atomically(path: str | Path, content: bytes | str) -> Path:
    """Writes beside the target and then renames, so that an interruption or a full disk leaves the old file whole."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write into, beside the target, which it replaces when all went well; after an error nothing is left."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {target}: {_reason(error)}; choose another place") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {_reason(error)}; make room or choose another place") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
