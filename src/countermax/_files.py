"""Writing files so that a reader finds the old one or the new one, never half of one."""

import os
import tempfile
from pathlib import Path

from countermax._errors import InputError


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
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {target}: {_reason(error)}; choose another place") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {_reason(error)}; make room or choose another place") from error
    finally:
        Path(name).unlink(missing_ok=True)
    return target


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
