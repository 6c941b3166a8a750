"""Reading a whole file of ours: a regular one, of a size that makes sense."""

import os
import stat
from pathlib import Path

from countermax._core.errors import InputError
from countermax._core.memory import check_memory, in_words


def read_whole(path: str | Path, *, most: int | None = None) -> bytes:
    """The bytes of a file, or an error that says why.

    A device or a pipe may never end, so only regular files are read, and no more of them than they had when they were
    opened.

    Args:
        path: The file.
        most: The largest size that makes sense, in bytes; by default what memory allows.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise InputError(f"cannot read {path}: it is a device or a pipe, not a file; copy it into one")
            if most is not None and about.st_size > most:
                raise InputError(f"cannot read {path}: it has {in_words(about.st_size)}, more than {in_words(most)}")
            check_memory(f"reading {path}", 3 * about.st_size, "choose a smaller file")
            return file.read(about.st_size)
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {str(path)!r}: it is no name of a file ({error})") from error


def _without_waiting(path: str, flags: int) -> int:
    """To open a pipe that nobody writes to would wait for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
