"""One file that holds a JSON header and arrays, as a NumPy archive. No pickle: nothing runs on reading."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._version import __version__

_FORMAT = 2
_HEADER = "countermax"


def pack(kind: str, header: dict[str, Any], arrays: list[NDArray[Any]]) -> bytes:
    """A header and arrays as the bytes of one file."""
    about = {"format": _FORMAT, "version": __version__, "kind": kind, **header}
    buffer = io.BytesIO()
    named = {f"a{index}": array for index, array in enumerate(arrays)}
    np.savez(buffer, allow_pickle=False, **{_HEADER: np.frombuffer(json.dumps(about).encode(), np.uint8)}, **named)
    return buffer.getvalue()


def unpack(path: str | Path, kind: str) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The header and the arrays of a file that `pack` made; anything else is an error in words."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if _HEADER not in archive:
                raise InputError(f"{path} was not written by countermax")
            header: dict[str, Any] = json.loads(archive[_HEADER].tobytes())
            arrays = [archive[f"a{index}"] for index in range(len(archive.files) - 1)]
    except InputError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
        reason = "is cut off or damaged" if content[:2] == b"PK" else "was not written by countermax"
        raise InputError(f"{path} {reason}; write it again") from error
    if header["format"] != _FORMAT:
        age = "newer" if header["format"] > _FORMAT else "older"
        raise InputError(
            f"{path} was written by a release with {age} file names than {__version__} ({header['version']}); "
            "read it with that release, or write it again with this one"
        )
    if header["kind"] != kind:
        raise InputError(f"{path} holds a {header['kind']}, not a {kind}")
    return header, arrays
