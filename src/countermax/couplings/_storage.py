"""One file for a coupling, trained or fixed: what its fields hold, by name, in an archive that runs nothing."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from countermax._core.archive import pack, unpack
from countermax._core.errors import InputError
from countermax._core.files import write_atomically
from countermax.couplings import parts
from countermax.couplings._base import AbstractSampler
from countermax.couplings._comonotone import Comonotone
from countermax.couplings._gadget1 import Gadget1
from countermax.couplings._gadget2 import Gadget2
from countermax.couplings._gumbel_max import GumbelMax
from countermax.couplings._independent import Independent
from countermax.couplings._inverse_cdf import InverseCDF
from countermax.couplings._maximal import Maximal
from countermax.couplings._optimal import Optimal

_COUPLINGS = (Comonotone, Gadget1, Gadget2, GumbelMax, Independent, InverseCDF, Maximal, Optimal)
_PARTS = (
    parts.BinnedInverseCDF,
    parts.Constant,
    parts.Diagonal,
    parts.Perceptron,
    parts.ReferenceTransport,
    parts.Started,
)
_CLASSES: dict[str, type[Any]] = {each.__name__: each for each in (*_COUPLINGS, *_PARTS)}


def save(coupling: AbstractSampler, path: str | Path) -> Path:
    """Writes a coupling made of this library's parts to one file, atomically."""
    arrays: list[NDArray[Any]] = []
    return write_atomically(path, pack("coupling", {"tree": _encode(coupling, arrays)}, arrays))


def load(path: str | Path) -> Any:
    """Reads what `save` wrote."""
    header, arrays = unpack(path, "coupling")
    try:
        return _decode(header["tree"], arrays)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: its header does not describe a coupling ({error})") from error


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
