"""One file that holds a JSON header and arrays: safetensors with a checksum. Nothing in it runs on reading.

safetensors compares every size with the bytes that are there before anything is made of them. The SHA-256 finds damage;
it is no signature, so that what the header says is checked by whoever uses it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.files import read_whole
from countermax._version import __version__

_FORMAT = 1
_KEY = "countermax"
_DIGITS = 64  # of the checksum, which stands before the header


def pack(kind: str, header: Mapping[str, Any], arrays: list[NDArray[Any]]) -> bytes:
    """A header and arrays as the bytes of one file; the same contents give the same bytes."""
    from safetensors.numpy import save

    text = json.dumps({"format": _FORMAT, "version": __version__, "kind": kind, **header}, allow_nan=False)
    stored = [_little(each) for each in arrays]
    named = {f"a{index}": each for index, each in enumerate(stored)}
    return bytes(save(named, metadata={_KEY: _checksum(text, stored) + text}))


def unpack(path: str | Path, kind: str, *, remedy: str = "write it again") -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The header and the arrays of a file that `pack` made; anything else is an error that says why."""
    from safetensors.numpy import load

    content = read_whole(path)
    try:
        named = load(content)
        arrays = [named[f"a{index}"] for index in range(len(named))]
        sealed = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][_KEY]
        text = sealed[_DIGITS:]
        if sealed[:_DIGITS] != _checksum(text, arrays):
            raise ValueError("its contents are not those of its checksum")
        header = json.loads(text)
        made, version, found = (header[name] for name in ("format", "version", "kind"))
    except Exception as error:  # whatever foreign bytes make a parser raise, it means the same
        raise InputError(
            f"{path} is damaged, or not a file of countermax ({_brief(error) or type(error).__name__}); {remedy}"
        ) from error
    if made != _FORMAT:
        raise InputError(
            f"{path} was written by countermax {_brief(version)} in another file format; this is countermax "
            f"{__version__}: {remedy}"
        )
    if found != kind:
        raise InputError(f"{path} holds a {_brief(found)}, not a {kind}")
    return header, arrays


def _little(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InputError(f"cannot store numbers of the type {array.dtype}; convert them to single or double precision")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _checksum(text: str, arrays: list[NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for each in arrays:
        digest.update(f"{each.dtype.str} {each.shape}\n".encode())
        digest.update(each.tobytes())
    return digest.hexdigest()


def _brief(value: object) -> str:
    """Anything for a message: in one line, and short."""
    plain = repr(str(value)[:200])[1:-1]
    return plain if len(plain) <= 80 else f"{plain[:77]}..."
