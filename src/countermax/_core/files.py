"""Files: read whole, written so that a reader finds the old one or the new one, and never over what is read.

What is being written lies beside its target under a name that says whose it is. Where a process was killed it stays
behind, and the next one that writes into the same folder removes it.
"""

import contextlib
import functools
import glob
import os
import platform
import re
import stat
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from countermax._core.errors import InputError
from countermax._core.memory import check_memory, in_words

try:
    import fcntl
except ImportError:  # not on every system
    fcntl = None  # type: ignore[assignment]

_UNFINISHED = re.compile(r"\.countermax-([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{8}\.part")
_OLD = 3600.0  # seconds after which a file that nobody holds is left over even if some process has its number again
_unfinished: set[Path] = set()
_tidied: set[str] = set()


def read_whole(path: str | Path, *, most: int | None = None) -> bytes:
    """The bytes of a file, or an error that says why.

    A device or a pipe may never end, so only regular files are read, and no more of them than they had when they were
    opened.
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
        raise InputError(f"cannot read {path}: {reason_of(error)}") from error
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"cannot read {str(path)!r}: it is no name of a file ({error})") from error


def writable_folder(folder: str | Path) -> Path:
    """The folder, made if need be; a clear error where nothing can be written."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(f"cannot write to the folder {path}: {reason_of(error)}; choose another folder") from error
    _tidy_once(path)
    return path


def write_atomically(path: str | Path, content: bytes | str) -> Path:
    """Writes beside the target and then renames, so that an interruption or a full disk leaves the old file whole.

    Text becomes UTF-8; a name that came from bytes which are none is written with backslashes.
    """
    with atomic_file(path) as file:
        file.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write into, beside the target, which it replaces when all went well; after an error nothing is left.

    Where the target is a symbolic link, the file that it leads to is replaced; permissions stay as they were.
    """
    check_writable(path)
    target, old = _target(Path(path))
    _tidy_once(target.parent)
    unfinished = target.parent / f".countermax-{_host()}-{os.getpid()}-{os.urandom(4).hex()}.part"
    _unfinished.add(unfinished)
    try:
        handle = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "wb") as file:
            _lock(handle)
            yield file
            file.flush()
            os.fsync(file.fileno())
        _keep_permissions(unfinished, old)
        unfinished.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason_of(error)}; make room or choose another place") from error
    finally:
        unfinished.unlink(missing_ok=True)
        _unfinished.discard(unfinished)


def begin_storing(file: BinaryIO | RawIOBase, since: int) -> int:
    """Lets the system bring what was written since a position to the disk, so that the end has less to wait for.

    Returns the position now. The advice that nobody needs these pages is how Linux is asked; as they are still to be
    written, they stay in its cache.
    """
    now = file.tell()
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # no file of this system
            os.posix_fadvise(file.fileno(), since, now - since, os.POSIX_FADV_DONTNEED)
    return now


def check_writable(path: str | Path) -> None:
    """Finds out, before any work is done, what `atomic_file` would find out at its end."""
    target, _ = _target(Path(path))
    if not target.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {target.parent}; choose another place")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: permission denied in its folder; choose another place")


def check_outputs(
    outputs: Iterable[tuple[str, str | Path]], reads: Iterable[str | Path] = (), *, overwrite: bool = False
) -> None:
    """Refuses outputs that could not be written, that would replace what is read, or that are one file.

    The same file is recognised through symbolic and hard links, and however its path is spelled. What is read, files,
    folders and wildcards among names of something else, may be replaced with `overwrite`; two outputs are two files.
    """
    sources = [file for each in reads for file in ([each] if os.path.exists(each) else glob.glob(os.fspath(each)))]
    read = {_identity(Path(each)): each for each in sources}
    folders = {Path(each).resolve(): each for each in sources if os.path.isdir(each)}
    writing: dict[tuple[object, ...], str] = {}
    for option, path in outputs:
        check_writable(path)
        identity = _identity(Path(path))
        if identity in writing:
            raise InputError(f"{writing[identity]} and {option} must be two files, got {path} for both")
        writing[identity] = option
        if not overwrite and identity in read:
            raise InputError(
                f"{option} must not be {read[identity]}, which is read: it would be lost; choose another name, "
                "or pass overwrite=True"
            )
        inside = next((folders[each] for each in Path(path).resolve().parents if each in folders), None)
        if inside is not None:
            raise InputError(f"{option} must not lie in {inside}, which is read; choose another folder, got {path}")


def check_new(outputs: Iterable[str | Path], *, overwrite: bool) -> None:
    """Refuses to replace files that are there, whosever they are: the rule of everything that writes for a user."""
    for path in outputs:
        if not overwrite and os.path.isfile(path):
            raise InputError(f"{path} is there already; choose another name, or pass overwrite=True")


def remove_left_over(folder: str | Path) -> None:
    """Removes what killed processes left half-written in a folder and below it; what a living one writes stays."""
    for place, _, names in os.walk(folder):
        for name in names:
            _remove_if_left_over(Path(place, name))


def remove_unfinished() -> None:
    """Removes what this process has half-written, for one that ends on the spot."""
    for path in tuple(_unfinished):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def reason_of(error: OSError) -> str:
    """Why the system refused, in its own words."""
    return (error.strerror or str(error)).lower()


def _target(path: Path) -> tuple[Path, os.stat_result | None]:
    """The file that is meant, behind symbolic links, and what is known of it if it exists."""
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        old = target.stat()
    except FileNotFoundError:
        return target, None
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason_of(error)}; choose another place") from error
    if not stat.S_ISREG(old.st_mode):
        what = "is a directory" if stat.S_ISDIR(old.st_mode) else "is not a file"
        raise InputError(f"cannot write {path}: it {what}; choose another name")
    if not os.access(target, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied; choose another name")
    return target, old


def _keep_permissions(path: Path, old: os.stat_result | None) -> None:
    if old is None:
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)
        return
    if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.getuid(), os.getgid()):
        with contextlib.suppress(OSError):  # only its owner's permissions can be kept then
            os.chown(path, old.st_uid, old.st_gid)
    path.chmod(stat.S_IMODE(old.st_mode))


def _tidy_once(folder: Path) -> None:
    if str(folder) in _tidied:
        return
    _tidied.add(str(folder))
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            _remove_if_left_over(folder / name)


def _remove_if_left_over(path: Path) -> None:
    """Two conditions, as each alone can fail: nobody holds its lock, and its process is gone or it is old.

    A lock cannot be held between making a file and locking it; a process number may have been given to another process,
    or belong to another container.
    """
    named = _UNFINISHED.fullmatch(path.name)
    if named is None or named[1] != _host() or int(named[2]) == os.getpid():
        return
    with contextlib.suppress(OSError):
        old = time.time() - path.stat().st_mtime > _OLD
        if (old or not _is_alive(int(named[2]))) and not _is_locked(path):
            path.unlink(missing_ok=True)


def _lock(handle: int) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(path: Path) -> bool:
    if fcntl is None:
        return False
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@functools.cache
def _host() -> str:
    """Which machine, in eight digits: a process number means nothing on another one that shares the folder."""
    return f"{zlib.crc32(platform.node().encode(errors='replace')):08x}"


def _without_waiting(path: str, flags: int) -> int:
    """To open a pipe that nobody writes to would wait for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _identity(path: Path) -> tuple[object, ...]:
    """The same for two spellings of one file, which need not exist."""
    real = os.path.realpath(path)
    for place, rest in ((real, ()), (os.path.dirname(real), (os.path.basename(real),))):
        try:
            found = os.stat(place)
        except OSError:
            continue
        return (found.st_dev, found.st_ino, *rest)
    return (real,)
