"""Archives taken apart, changed and put together again with a checksum that is right: damage that has to be understood.

Only this module knows how archives are laid out.
"""

import copy
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load, save

Archive = tuple[dict[str, Any], list[np.ndarray]]

_KEY, _DIGITS = "countermax", 64  # where the header is, and how long the checksum before it
_SEALED = ("format", "version", "kind")  # what the library writes into every header
_VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1.5, "x", [], {}, [1, 2], "gelu", 1e308, float("nan"))


def opened(content: bytes) -> Archive:
    """The header and the arrays."""
    named = load(content)
    text = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][_KEY][_DIGITS:]
    return json.loads(text), [named[f"a{index}"] for index in range(len(named))]


def sealed(header: dict[str, Any] | str, arrays: list[np.ndarray]) -> bytes:
    """A file whose checksum is right, whatever it holds."""
    text = header if isinstance(header, str) else json.dumps(header)
    stored = [np.asarray(each, order="C") for each in arrays]
    digest = hashlib.sha256(text.encode())
    for each in stored:
        digest.update(f"{each.dtype.str} {each.shape}\n".encode() + each.tobytes())
    return bytes(save({f"a{at}": each for at, each in enumerate(stored)}, metadata={_KEY: digest.hexdigest() + text}))


def crafted(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """The file with one thing changed, and what that is."""
    header, arrays = opened(content)
    header, arrays = copy.deepcopy(header), [array.copy() for array in arrays]
    ways: list[Callable[[], tuple[bytes, str]]] = [lambda: _field(rng, header, arrays)]
    ways += [lambda: _array(rng, header, arrays)] * (3 if arrays else 0)
    ways += [lambda: _framed(rng, content)]
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
        other = rng.choice((np.float64, np.float16, np.int32, np.int8, np.uint16, bool, np.complex64))
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


def _framed(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """The frame itself: an array that promises too much, that overlaps another, or a header that is too long."""
    length = int.from_bytes(content[:8], "little")
    frame = json.loads(content[8 : 8 + length])
    names = [name for name in frame if name != "__metadata__"]
    way = rng.randrange(4)
    if way == 0 or not names:
        return (2**62).to_bytes(8, "little") + content[8:], "a header that claims to be endless"
    name = rng.choice(names)
    if way == 1:
        frame[name] |= {"shape": [10**12], "data_offsets": [0, 8 * 10**12]}
        words = "an array that claims a trillion numbers"
    elif way == 2:
        frame[rng.choice(names)]["data_offsets"] = frame[name]["data_offsets"]
        words = "two arrays in one place"
    else:
        frame["../outside"] = frame[name]
        words = "an array of another name"
    text = json.dumps(frame).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :], words
