"""One file that holds a JSON header and arrays, as a NumPy archive with a checksum. Nothing in it runs on reading.

Members are stored, not compressed, so that no file can become larger than it is, and every size is compared with the
bytes that are there before anything is made of them. The SHA-256 over the other members finds damage; it is no
signature, so that what the header says is checked by whoever uses it.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.quantities import shown
from countermax._core.reading import read_whole
from countermax._version import __version__

_FORMAT = 3
_HEADER = "countermax"
_CHECKSUM = "sha256"
_LARGEST_HEADER = 2**24
_MOST_MEMBERS = 100_000


def pack(kind: str, header: Mapping[str, Any], arrays: list[NDArray[Any]]) -> bytes:
    """A header and arrays as the bytes of one file; the same contents give the same bytes."""
    about = {"format": _FORMAT, "version": __version__, "kind": kind, **header}
    text = np.frombuffer(json.dumps(about, allow_nan=False).encode(), np.uint8)
    named = {_HEADER: text, **{f"a{index}": array for index, array in enumerate(arrays)}}
    members = {name: _packed(array) for name, array in named.items()}
    members[_CHECKSUM] = _packed(np.frombuffer(_checksum(members), np.uint8))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content)
    return buffer.getvalue()


def unpack(path: str | Path, kind: str, *, remedy: str = "write it again") -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The header and the arrays of a file that `pack` made; anything else is an error that says why.

    Args:
        path: The file.
        kind: Kind of contents that the file must hold.
        remedy: Advice for a file that is damaged or of an older release.
    """
    content = read_whole(path)
    if content[:2] != b"PK":
        raise InputError(f"{path} was not written by countermax; {remedy}")
    try:
        members = _members(content)
        header = _parsed(_unpacked(members[_HEADER])) if _HEADER in members else None
    except Exception as error:  # whatever foreign bytes make a parser raise, it means the same
        raise InputError(f"{path} is cut off or damaged ({_reason(error)}); {remedy}") from error
    if header is None:
        raise InputError(f"{path} was not written by countermax; {remedy}")
    _check_release(path, header, remedy)
    checksum = members.pop(_CHECKSUM, None)
    if checksum is None or checksum != _packed(np.frombuffer(_checksum(members), np.uint8)):
        raise InputError(f"{path} is damaged: its contents are not those of its checksum; {remedy}")
    if header["kind"] != kind:
        raise InputError(f"{path} holds a {_brief(header['kind'])}, not a {kind}")
    names = [f"a{index}" for index in range(len(members) - 1)]
    try:
        return header, [_unpacked(members[name]) for name in names]
    except Exception as error:
        raise InputError(f"{path} is damaged ({_reason(error)}); {remedy}") from error


def _check_release(path: str | Path, header: dict[str, Any], remedy: str) -> None:
    made, version = header.get("format"), header.get("version")
    if type(made) is not int or type(version) is not str or type(header.get("kind")) is not str:
        raise InputError(f"{path} is damaged: its header does not say what it holds; {remedy}")
    if made != _FORMAT:
        what = "a newer release reads it" if made > _FORMAT else f"read it with that release, or {remedy}"
        raise InputError(
            f"{path} was written by countermax {_brief(version)}, in file format {shown(made)}; this is countermax "
            f"{__version__}, which reads format {_FORMAT}: {what}"
        )


def written_by(header: Mapping[str, Any]) -> str:
    """Words for a message about a file of another release; empty for one of this release."""
    version = header["version"]
    return "" if version == __version__ else f" (written by countermax {_brief(version)}, this is {__version__})"


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = archive.infolist()
        if len(found) > _MOST_MEMBERS:
            raise ValueError(f"{len(found)} members")
        if any(each.compress_type != zipfile.ZIP_STORED for each in found):
            raise ValueError("its members are compressed")
        if sum(each.file_size for each in found) > len(content):
            raise ValueError("its members would be larger than the file")
        members = {each.filename.removesuffix(".npy"): archive.read(each) for each in found}
    if len(members) != len(found):
        raise ValueError("two members have one name")
    return members


def _checksum(members: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256()
    for name, content in sorted(members.items()):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.digest()


def _parsed(text: NDArray[Any]) -> dict[str, Any]:
    if text.size > _LARGEST_HEADER:
        raise ValueError("its header is too large")
    header = json.loads(text.tobytes(), object_pairs_hook=_unique, parse_constant=_refuse)
    if not isinstance(header, dict):
        raise ValueError("its header is no mapping")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key of its header is there twice")
    return dict(pairs)


def _refuse(constant: str) -> None:
    raise ValueError(f"its header holds {constant}")


def _packed(array: NDArray[Any]) -> bytes:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InputError(f"cannot store numbers of the type {array.dtype}; convert them to single or double precision")
    buffer = io.BytesIO()
    little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _unpacked(content: bytes) -> NDArray[Any]:
    """The array, once its header is known to describe exactly the bytes that follow."""
    buffer = io.BytesIO(content)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ValueError("an array is of another version")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(buffer)
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or by_columns:
        raise ValueError(f"an array is of the type {dtype}")
    count = 1
    for size in shape:
        count *= size
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(content) - buffer.tell():
        raise ValueError("an array is not as long as it says")
    array = np.frombuffer(content[buffer.tell() :], dtype).reshape(shape)
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError("an array of truths holds neither true nor false")
    return array.astype(dtype.newbyteorder("="), copy=False)


def _reason(error: Exception) -> str:
    return _brief(str(error)) or type(error).__name__


def _brief(text: str) -> str:
    """A text for a message: in one line, and short."""
    plain = repr(text)[1:-1]
    return plain if len(plain) <= 80 else f"{plain[:77]}..."
