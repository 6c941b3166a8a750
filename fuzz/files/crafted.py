"""Archives taken apart, changed and put together again with a checksum that is right: damage that has to be understood.

Only this module knows how archives are laid out.
"""

import copy
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Archive = tuple[dict[str, Any], list[np.ndarray]]

_HEADER, _CHECKSUM = "countermax", "sha256"
_SEALED = ("format", "version", "kind")  # what the library writes into every header
_VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1.5, "x", [], {}, [1, 2], "gelu", 1e308, float("nan"))


def opened(content: bytes) -> Archive:
    """The header and the arrays."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        header = json.loads(archive[_HEADER].tobytes())
        count = sum(name not in (_HEADER, _CHECKSUM) for name in archive.files)
        return header, [archive[f"a{index}"] for index in range(count)]


def sealed(header: dict[str, Any] | str, arrays: list[np.ndarray]) -> bytes:
    """A file whose checksum is right, whatever it holds."""
    text = header if isinstance(header, str) else json.dumps(header)
    named = {_HEADER: np.frombuffer(text.encode(), np.uint8), **{f"a{at}": each for at, each in enumerate(arrays)}}
    members = {name: _packed(array) for name, array in named.items()}
    digest = hashlib.sha256()
    for name, content in sorted(members.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    members[_CHECKSUM] = _packed(np.frombuffer(digest.digest(), np.uint8))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content)
    return out.getvalue()


def _packed(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return out.getvalue()


def crafted(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """The file with one thing changed, and what that is."""
    header, arrays = opened(content)
    header, arrays = copy.deepcopy(header), [array.copy() for array in arrays]
    ways: list[Callable[[], tuple[bytes, str]]] = [lambda: _field(rng, header, arrays)]
    ways += [lambda: _array(rng, header, arrays)] * (3 if arrays else 0)
    ways += [lambda: _zipped(rng, content)]
    return rng.choice(ways)()


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree of lists and mappings."""
    found = [path]
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, each in items:
        found += _places(each, (*path, key))
    return found


def _field(rng: random.Random, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[bytes, str]:
    """One field of the header is another, or gone."""
    own = [each for each in _places(header) if each and each[0] not in _SEALED]
    path = rng.choice(own if own and rng.random() < 0.9 else [(name,) for name in _SEALED])
    node: Any = header
    for key in path[:-1]:
        node = node[key]
    way = rng.randrange(5)
    if way == 0:
        del node[path[-1]]
        words = f"{path} is gone"
    elif way == 1 and isinstance(node, dict):
        node["more"] = rng.choice(_VALUES)
        words = f"something more beside {path}"
    elif way == 2 and isinstance(node[path[-1]], str):
        node[path[-1]] = rng.choice(("GumbelMax", "Optimal", "Perceptron", "object", "Gadget2", "", "__class__"))
        words = f"{path} is called {node[path[-1]]!r}"
    elif way == 3 and rng.random() < 0.2:
        node[path[-1]] = "deep"
        text = json.dumps(header).replace('"deep"', "[" * 20_000 + "]" * 20_000, 1)
        return sealed(text, arrays), f"{path} is 20,000 lists deep"
    else:
        node[path[-1]] = rng.choice(_VALUES)
        words = f"{path} is {node[path[-1]]!r}"
    return sealed(header, arrays), words


def _array(rng: random.Random, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[bytes, str]:
    """One array is another: its numbers, its shape, its type, or not there."""
    place = rng.randrange(len(arrays))
    array = arrays[place]
    way = rng.randrange(12)
    floats = np.issubdtype(array.dtype, np.floating)
    if way < 3 and array.size:
        changed = array.astype(array.dtype if floats else np.int64).reshape(-1).copy()
        at = rng.randrange(changed.size)
        value = rng.choice((np.nan, np.inf, -np.inf, 1e30, 0.0)) if floats else rng.choice((-1, 10**6, 0, changed[0]))
        changed[at] = value
        arrays[place], words = changed.reshape(array.shape).astype(array.dtype), f"holds {value} at {at}"
    elif way == 3:
        arrays[place], words = array.reshape(-1), "is flat"
    elif way == 4:
        arrays[place], words = array[None], "has one more axis"
    elif way == 5:
        arrays[place], words = array.T.copy(), "is transposed"
    elif way == 6:
        arrays[place], words = array[..., :-1] if array.ndim else array.reshape(0), "has one entry less"
    elif way == 7:
        other = rng.choice((np.float64, np.float16, np.int32, np.int8, np.complex128, bool, "U5", "S3", ">f4"))
        with np.errstate(all="ignore"):
            arrays[place], words = np.nan_to_num(array).astype(other), f"holds {other}"
    elif way == 8:
        arrays[place], words = np.zeros((0, *array.shape[1:]), array.dtype), "is empty"
    elif way == 9:
        del arrays[place]
        words = "is gone"
    elif way == 10:
        arrays.append(array)
        words = "is there twice"
    else:
        with np.errstate(all="ignore"):
            arrays[place], words = (array * np.asarray(1e30 if floats else 3)).astype(array.dtype), "is far too large"
    return sealed(header, arrays), f"array {place} {words}"


def _zipped(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """The archive itself: an entry that promises too much, that is there twice, or that unpacks to gigabytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    way = rng.randrange(5)
    name = rng.choice(list(parts))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, part in parts.items():
            if each != name or way != 3:
                archive.writestr(_entry(each), part)
        if way == 0:
            size = 1_500_000_000
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (size // 4,)})
            with archive.open(_entry("a99.npy"), "w", force_zip64=True) as file:
                file.write(head.getvalue())
                for _ in range(size // 2**22):
                    file.write(bytes(2**22))
            words = "an entry that unpacks to gigabytes"
        elif way == 1:
            head = io.BytesIO()
            shape = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
            np.lib.format.write_array_header_1_0(head, shape)
            archive.writestr(_entry("a98.npy"), head.getvalue())
            words = "an entry that claims a trillion numbers"
        elif way == 2:
            archive.writestr(_entry("../outside.npy"), b"x")
            words = "an entry outside of the folder"
        elif way == 3:
            words = f"{name} is gone"
        else:
            pickled = (
                b"\x93NUMPY\x01\x00v\x00"
                + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117)
                + b"\n"
            )
            archive.writestr(_entry("a97.npy"), pickled + b"cos\nsystem\n(S'touch pwned'\ntR.")
            words = "an entry with a pickle"
    return out.getvalue(), words


def _entry(name: str) -> zipfile.ZipInfo:
    """An entry that does not tell the time, so that a seed makes the same bytes."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
