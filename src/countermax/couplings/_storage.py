"""One file for a coupling, trained or fixed: what its fields hold, by name, in an archive that runs nothing.

Every class says itself what its fields must hold (`__check_init__`), and `load` asks it before anything is used.
"""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from countermax._core.archive import pack, unpack
from countermax._core.errors import InputError
from countermax._core.files import check_new, write_atomically
from countermax._core.quantities import shown
from countermax.couplings._base import AbstractSampler
from countermax.couplings._gadgets import Gadget1, Gadget2
from countermax.couplings._gumbel_max import GumbelMax, SharedGumbelMax
from countermax.couplings._inverse_cdf import InverseCDF
from countermax.couplings._matrix import Comonotone, Independent, Maximal, Optimal
from countermax.couplings._nested import NestedGumbelMax
from countermax.couplings._parts import BinnedInverseCDF, Constant, Diagonal, Perceptron, ReferenceTransport, Started
from countermax.couplings._vector_quantile import VectorQuantile

_FIXED = (Comonotone, GumbelMax, Independent, InverseCDF, Maximal, Optimal, SharedGumbelMax)
_LEARNED = (Gadget1, Gadget2, NestedGumbelMax, VectorQuantile)
_PARTS = (BinnedInverseCDF, Constant, Diagonal, Perceptron, ReferenceTransport, Started)
CLASSES: dict[str, type[Any]] = {each.__name__: each for each in (*_FIXED, *_LEARNED, *_PARTS)}
"""What a file can be made of."""

_DEEPEST = 32  # parts within parts


def save(coupling: AbstractSampler, path: str | Path, *, overwrite: bool = False) -> Path:
    """Writes a coupling made of this library's parts to one file, atomically; nothing that `load` would refuse.

    Args:
        coupling: Coupling to save.
        path: File to write.
        overwrite: Whether a file that is there may be replaced.
    """
    check_new([path], overwrite=overwrite)
    arrays: list[NDArray[Any]] = []
    tree = _encode(coupling, arrays, 0)
    try:
        _Reader(arrays).coupling(tree)
        content = pack("coupling", {"tree": tree}, arrays)
    except InputError as error:
        raise InputError(f"cannot save this {type(coupling).__name__}: {error}") from error
    return write_atomically(path, content)


def load(path: str | Path) -> Any:
    """Reads what `save` wrote.

    Everything is checked before anything is used: the file's checksum, and every field against what its class says that
    it must hold. What comes back answers as the coupling that was saved.

    Raises:
        InputError: The file is damaged, of another kind, or of another release.
    """
    header, arrays = unpack(path, "coupling")
    try:
        return _Reader(arrays).coupling(header.get("tree"))
    except InputError as error:
        raise InputError(f"{path} does not hold a coupling of this release: {error}; write it again") from error


def _encode(value: Any, arrays: list[NDArray[Any]], depth: int) -> Any:
    if depth > _DEEPEST:
        raise InputError(f"cannot save parts within parts more than {_DEEPEST} deep")
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if eqx.is_array(value) or isinstance(value, np.ndarray):
        arrays.append(np.asarray(value))
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple | list):
        return {"items": [_encode(each, arrays, depth + 1) for each in value]}
    name = type(value).__name__
    if CLASSES.get(name) is not type(value):
        raise InputError(
            f"cannot save {name}: only parts of this library can be read back without its code; "
            "keep your own with equinox.tree_serialise_leaves"
        )
    named = {field.name: _encode(getattr(value, field.name), arrays, depth + 1) for field in dataclasses.fields(value)}
    return {"class": name, "fields": named}


class _Reader:
    """Turns a description into a coupling, using every array once."""

    def __init__(self, arrays: list[NDArray[Any]]):
        self._arrays: dict[int, NDArray[Any]] = dict(enumerate(arrays))

    def coupling(self, tree: Any) -> Any:
        made = self._decode(tree, 0)
        if not isinstance(made, AbstractSampler):
            raise InputError(f"it describes {_kind(made)}")
        if self._arrays:
            raise InputError(f"{len(self._arrays)} of its arrays belong to no field")
        return made

    def _decode(self, node: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise InputError(f"its parts lie more than {_DEEPEST} deep")
        match node:
            case {"value": None | bool() | int() | float() | str() as value, **rest} if not rest:
                return value
            case {"array": int() as index, **rest} if not rest:
                return self._array(index)
            case {"items": [*items], **rest} if not rest:
                return tuple(self._decode(each, depth + 1) for each in items)
            case {"class": str() as name, "fields": dict() as fields, **rest} if not rest:
                return self._module(name, {field: self._decode(each, depth + 1) for field, each in fields.items()})
        raise InputError(f"its header says {shown(node)}, which describes nothing")

    def _array(self, index: int) -> Any:
        if index not in self._arrays:
            raise InputError(f"array {shown(index)} is missing, or used twice")
        stored = self._arrays.pop(index)
        with np.errstate(over="ignore"):  # what does not fit into single precision is refused as infinite
            array = jnp.asarray(stored)
        if stored.dtype.kind in "biu" and not np.array_equal(np.asarray(array), stored):
            raise InputError(f"array {index} holds integers that are too large")
        return array

    def _module(self, name: str, fields: dict[str, Any]) -> Any:
        if name not in CLASSES:
            raise InputError(f"this release has no {shown(name)}; it has {', '.join(CLASSES)}")
        cls = CLASSES[name]
        known = {field.name for field in dataclasses.fields(cls)}
        for words, names in (("lacks", known - fields.keys()), ("has no field", fields.keys() - known)):
            if names:
                raise InputError(f"its {name} {words} {', '.join(map(shown, sorted(names)))}")
        made = object.__new__(cls)
        for field, value in fields.items():
            object.__setattr__(made, field, value)
        try:
            for each in cls.__mro__:
                if "__check_init__" in vars(each):
                    vars(each)["__check_init__"](made)
        except InputError as error:
            raise InputError(f"in its {name}, {error}") from error
        return made


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" if type(value) in CLASSES.values() else shown(value)
