"""One file for a trained mechanism: arrays and a JSON header in a NumPy archive. No pickle: nothing runs on load."""

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from countermax import couplings
from countermax._errors import InputError
from countermax._files import write_atomically
from countermax._version import __version__
from countermax.couplings import AbstractSampler

_FORMAT = 1
_HEADER = "countermax"
_CLASSES: dict[str, type[Any]] = {
    name: value
    for name, value in vars(couplings).items()
    if isinstance(value, type) and issubclass(value, eqx.Module) and not name.startswith("Abstract")
}


def save(mechanism: AbstractSampler, path: str | Path) -> Path:
    """Writes a mechanism made of this library's parts to one file, atomically."""
    arrays: list[NDArray[Any]] = []
    return write_atomically(path, pack("mechanism", {"tree": _encode(mechanism, arrays)}, arrays))


def load(path: str | Path) -> Any:
    """Reads what `save` wrote, with this release or an earlier one."""
    header, arrays = unpack(path, "mechanism")
    try:
        return _decode(header["tree"], arrays)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: its header does not describe a mechanism ({error})") from error


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
    if header["format"] > _FORMAT:
        raise InputError(
            f"{path} was written by countermax {header['version']}, which is newer than {__version__}: upgrade"
        )
    if header["kind"] != kind:
        raise InputError(f"{path} holds a {header['kind']}, not a {kind}")
    return header, arrays


def _encode(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if eqx.is_array(value) or isinstance(value, np.ndarray):
        arrays.append(np.asarray(value))
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple | list):
        return {"items": [_encode(each, arrays) for each in value]}
    name = type(value).__name__
    if _CLASSES.get(name) is not type(value):
        raise InputError(
            f"cannot save {name}: only parts of this library can be read back without its code; "
            "keep your own with equinox.tree_serialise_leaves"
        )
    fields = {field.name: _encode(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
    return {"class": name, "fields": fields}


def _decode(node: dict[str, Any], arrays: list[NDArray[Any]]) -> Any:
    if "value" in node:
        return node["value"]
    if "array" in node:
        return jnp.asarray(arrays[node["array"]])
    if "items" in node:
        return tuple(_decode(each, arrays) for each in node["items"])
    cls = _CLASSES[node["class"]]
    value = object.__new__(cls)
    for name, field in node["fields"].items():
        object.__setattr__(value, name, _decode(field, arrays))
    return value
