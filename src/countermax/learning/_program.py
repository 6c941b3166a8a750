"""What a compiled function will do, known before it runs: which program it is, and how much memory it takes."""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from countermax._core.memory import check_memory


class Program:
    """A function traced for arguments of one shape; nothing is allocated or compiled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self._jaxpr = eqx.filter_make_jaxpr(function)(*arguments)[0]
        self._arguments = [leaf for leaf in jax.tree.leaves(arguments) if eqx.is_array(leaf)]

    def check_memory(self, what: str, advice: str, *, alive: int = 4) -> None:
        """Refuses to run what would not fit."""
        equations = (each for inside in _inside(self._jaxpr) for each in getattr(inside, "jaxpr", inside).eqns)
        largest = max((_size(made.aval) for equation in equations for made in equation.outvars), default=0)
        kept = sum(_size(each.aval) for each in (*self._jaxpr.jaxpr.invars, *self._jaxpr.jaxpr.outvars))
        check_memory(what, kept + alive * largest, advice)

    def fingerprint(self, *more: Any) -> str:
        """Changes with every operation and constant of the function, with its arguments, and with `more`."""
        digest = hashlib.sha256(_without_addresses(repr(more)).encode())
        digest.update(_without_addresses(str(self._jaxpr)).encode())
        for inside in _inside(self._jaxpr):
            for constant in getattr(inside, "consts", ()):
                _add(digest, constant)
        for leaf in self._arguments:
            _add(digest, leaf)
        return digest.hexdigest()


def _inside(found: Any) -> Iterator[Any]:
    """A program and all programs within it: bodies of loops, branches, compiled functions."""
    yield found
    for equation in getattr(found, "jaxpr", found).eqns:
        for value in equation.params.values():
            for each in value if isinstance(value, tuple | list) else (value,):
                if hasattr(getattr(each, "jaxpr", each), "eqns"):
                    yield from _inside(each)


def _size(kind: Any) -> int:
    """Bytes of an array of this kind; zero for what is none."""
    if not hasattr(kind, "shape"):
        return 0
    width = 8 if jnp.issubdtype(kind.dtype, jax.dtypes.extended) else kind.dtype.itemsize
    return int(np.prod([1, *kind.shape], dtype=object)) * width


def _add(digest: Any, leaf: Any) -> None:
    if eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    digest.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())


def _without_addresses(text: str) -> str:
    """Where a function lies in memory differs from one process to the next."""
    return re.sub(r"0x[0-9a-f]+", "", text)
