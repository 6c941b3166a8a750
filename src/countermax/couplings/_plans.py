"""Transport plans of worlds from a common reference: solved on the host, and kept while they are asked again."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.threads import in_threads
from countermax._core.transport import transport_shares
from countermax._core.types import LogProbs


def on_host(
    function: Callable[..., np.ndarray], *arrays: Array, shape: tuple[int, ...], batched: bool = False
) -> Array:
    """Calls a NumPy function from traced code, passing the bits of its floats.

    JAX runs callbacks in threads of its own, where `jax.enable_x64` may not hold and doubles would be cut to singles on
    the way in and refused on the way out. Integers pass unharmed.

    `shape` is that of the answer to one example. A `batched` function takes a batch at once, with leading axes on every
    argument, of length one where all examples share it; others are called for one example after the other.
    """
    dtype = arrays[0].dtype
    words = dtype.itemsize // 4

    def call(*bits: ArrayLike) -> np.ndarray:
        floats = [np.ascontiguousarray(each).view(dtype).reshape(each.shape[:-1]) for each in map(np.asarray, bits)]
        result = np.ascontiguousarray(function(*floats), dtype)
        return result.view(np.uint32).reshape(*result.shape, words)

    as_bits = [jax.lax.bitcast_convert_type(each, jnp.uint32).reshape(*each.shape, words) for each in arrays]
    result = jax.pure_callback(
        call,
        jax.ShapeDtypeStruct((*shape, words), jnp.uint32),
        *as_bits,
        vmap_method="expand_dims" if batched else "sequential",
    )
    return jax.lax.bitcast_convert_type(result if words > 1 else result[..., 0], dtype)


Floats = NDArray[np.floating[Any]]

TIE_BREAKING = 1e-9
"""Share of the largest cost that separates cells whose costs would otherwise let two plans be equally good.

With one optimum a plan moves continuously with its world; it costs no more than this much more than the least."""

_MOST_KEPT = 64 * 2**20  # bytes of plans that are kept
_GOLDEN = 0.6180339887498949


@jax.custom_jvp
def shares(
    log_p: LogProbs, log_weights: Float[Array, " n"], points: Float[Array, "n d"], scores: Float[Array, "k d"]
) -> Float[Array, "k n"]:
    """[x, a]: which share of outcome x comes from atom a, in the world's plan of least squared distance.

    It is a vertex of the transport polytope: no more than n + k - 1 entries are above zero.
    """
    return on_host(_solve, log_p, log_weights, points, scores, shape=(log_p.size, log_weights.size), batched=True)


@shares.defjvp
def _refuse_gradient(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """The bits that go to the host carry no derivative, and zero would be a wrong one."""
    raise InputError(
        "`VectorQuantile` of several scores has no gradient; hold its answer still with jax.lax.stop_gradient on what "
        "goes into it, or train a Gadget2 that starts from it"
    )


def squared_distances(points: Floats, scores: Floats) -> NDArray[np.float64]:
    """[a, x]: the squared distance from each point to each score."""
    differences = points.astype(np.float64)[:, None, :] - scores.astype(np.float64)[None, :, :]
    return np.asarray((differences**2).sum(axis=2), np.float64)


def with_ties_broken(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The costs, scaled to one, with differences so small that they matter between equals only."""
    rows, columns = (np.arange(1.0, 1 + size) for size in costs.shape)
    generic = np.mod(np.sqrt(rows + 1)[:, None] * columns[None, :] * _GOLDEN, 1.0)
    largest = costs.max()
    return costs / (largest if largest > 0 else 1.0) + TIE_BREAKING * generic


def _solve(log_p: Floats, log_weights: Floats, points: Floats, scores: Floats) -> Floats:
    """A batch of plans; axes before the last one or two are examples, of length one where all share what is in them."""
    batch = np.broadcast_shapes(log_p.shape[:-1], log_weights.shape[:-1], points.shape[:-2], scores.shape[:-2])
    worlds = np.broadcast_to(log_p, (*batch, log_p.shape[-1]))
    result = np.zeros((*batch, log_p.shape[-1], log_weights.shape[-1]), log_p.dtype)
    places = list(np.ndindex(*batch))

    def plan(place: tuple[int, ...]) -> tuple[NDArray[Any], ...]:
        reference = _KEPT.reference(_at(log_weights, place, 1), _at(points, place, 2), _at(scores, place, 2))
        return _KEPT.plan(reference, np.ascontiguousarray(worlds[place]))

    plans = map(plan, places) if len(places) == 1 else in_threads(plan, places)
    for place, (outcomes, atoms, found) in zip(places, plans, strict=True):
        result[(*place, outcomes, atoms)] = found
    return result


def _at(array: Floats, place: tuple[int, ...], ndim: int) -> Floats:
    lead = array.shape[: array.ndim - ndim]
    return array[tuple(min(each, size - 1) for each, size in zip(place[len(place) - len(lead) :], lead, strict=True))]


class _Reference:
    """The side of a plan that all worlds share."""

    def __init__(self, name: bytes, log_weights: Floats, points: Floats, scores: Floats):
        self.name = name
        self.log_weights = log_weights.astype(np.float64)
        self.costs = with_ties_broken(squared_distances(points, scores))


class _Kept:
    """Plans that were asked for lately; they depend on world and reference alone, so that any can be used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[bytes, bytes], tuple[NDArray[Any], ...]] = OrderedDict()
        self._size = 0
        self._last: _Reference | None = None

    def reference(self, log_weights: Floats, points: Floats, scores: Floats) -> _Reference:
        """The reference with its costs; those of the last one are at hand."""
        digest = blake2b(digest_size=16)
        for each in (log_weights, points, scores):
            digest.update(repr((each.shape, each.dtype.str)).encode())
            digest.update(np.ascontiguousarray(each).tobytes())
        name, last = digest.digest(), self._last
        if last is None or last.name != name:
            last = self._last = _Reference(name, log_weights, points, scores)
        return last

    def plan(self, reference: _Reference, log_p: Floats) -> tuple[NDArray[Any], ...]:
        """The outcomes, atoms and shares of one world's plan."""
        key = (reference.name, log_p.tobytes())
        with self._lock:
            if key in self._plans:
                self._plans.move_to_end(key)
                return self._plans[key]
        made = transport_shares(reference.log_weights, log_p, reference.costs)
        assert len(made.shares) < sum(reference.costs.shape), "a plan of least cost must be a vertex"
        with self._lock:
            if key not in self._plans:
                self._plans[key] = made
                self._size += _bytes(made)
                while self._size > _MOST_KEPT and len(self._plans) > 1:
                    self._size -= _bytes(self._plans.popitem(last=False)[1])
        return made


def _bytes(plan: tuple[NDArray[Any], ...]) -> int:
    return sum(each.nbytes for each in plan)


_KEPT = _Kept()
