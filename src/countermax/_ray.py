"""Work in parts on Ray: a running cluster, or one inside this machine. Imported where it is asked for.

One function of many parts: each is a task, few wait at a time, and results come in the order of the parts.
"""

import copy
import logging
import os
import pickle
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_ray, on_ray

T = TypeVar("T")


@runtime_checkable
class _HasMerge(Protocol):
    def merge(self, other: Any) -> None: ...


Mergeable = TypeVar("Mergeable", bound=_HasMerge)

# Another try where a worker is killed; errors of the function itself are not tried again. No environment of its own: a
# worker with another one would be another process, which imports and compiles again.
WORKER: dict[str, Any] = {"num_cpus": 1, "max_retries": 20}

_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
_MERGED = 16  # parts whose results are merged before they travel
_WAITING = 2  # tasks for each core: one runs, one has its data at hand
_WAIT = 5.0  # seconds for an address to answer; Ray itself would try for minutes
_OBJECT_STORE = 2**30  # bytes, of an embedded Ray: work streams through it, and what does not fit is spilled to disk
_NAMED = ("auto", "local")
_KEPT: dict[str, Any] = {}  # in a worker: the function that was prepared for the job at hand


@contextmanager
def _forking() -> Iterator[None]:
    """JAX warns of forks, but those of Ray become other programs at once and wait for no lock."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork", RuntimeWarning)
        yield


@_forking()
def connect(address: str | None = None) -> Any:
    """Ray, connected: as it is already, else to the cluster at the address, else to a new one inside this machine."""
    ray = import_ray()
    if ray.is_initialized():
        return ray
    if address is not None and address not in _NAMED:
        _check_reachable(address)
    try:
        own = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE} if address is None else {}
        ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"no Ray cluster can be used at {address or 'this machine'!r}: {reason}; start one (`ray start --head`) or "
            "leave the address out"
        ) from error
    return ray


def _check_reachable(address: str) -> None:
    """Refuses an address where nobody listens."""
    place = address.rpartition("://")[2].partition("/")[0]
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError(f"`address` must be host:port, ray://host:port or auto, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_WAIT).close()
    except OSError as error:
        raise InputError(
            f"`address` must be that of a running Ray cluster, but nothing answers at {address!r} ({error}); start one "
            "(`ray start --head`), or leave the address out"
        ) from error


def one_thread() -> None:
    """Keeps XLA to one thread in this worker, unless it has computed something already."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _ONE_THREAD not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_ONE_THREAD}".strip()


def put_once(value: Any) -> Any:
    """A reference to a value in the object store, which each worker's machine fetches once."""
    return connect().put(value)


def in_parts(
    function: Callable[..., T], shared: Any, parts: Iterable[tuple[Any, ...]], *, engine: str = "ray"
) -> Iterator[T]:
    """`function(shared, *part)` of each part, in order; references among a part's entries arrive as their values.

    What is shared may be a reference too. Parts are taken as they are needed, so that they may stream. What a task
    raises is raised here as it was. The engine "local" does one part after the other in this process.
    """
    if not on_ray(engine):
        yield from (function(shared, *part) for part in parts)
        return
    ray = connect()
    for each in _done(ray, function, shared, parts):
        yield _result(ray, each)


def merged_in_parts(
    function: Callable[..., Mergeable], shared: Any, parts: Iterable[tuple[Any, ...]], *, engine: str = "ray"
) -> Iterator[Mergeable]:
    """The same, with the results of parts that follow each other merged by tasks, so that few of them travel.

    Which parts are merged depends on their numbers alone.
    """
    if not on_ray(engine):
        yield from in_parts(function, shared, parts, engine=engine)
        return
    ray = connect()
    merge = ray.remote(_merged).options(name="merge", **WORKER)
    group: list[Any] = []
    for each in _done(ray, function, shared, parts):
        group.append(each)
        if len(group) == _MERGED:
            yield _result(ray, merge.remote(*group))
            group = []
    if group:
        yield _result(ray, merge.remote(*group))


def _done(ray: Any, function: Callable[..., Any], shared: Any, parts: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """References to results that are there, in the order of the parts; few tasks wait at a time."""
    reference = shared if isinstance(shared, ray.ObjectRef) else ray.put(shared)
    task = ray.remote(_called).options(name=getattr(function, "__name__", "part"), **WORKER)
    most = max(2, _WAITING * int(ray.cluster_resources().get("CPU", 1)))
    waiting: deque[Any] = deque()
    try:
        for part in parts:
            if len(waiting) >= most:
                ray.wait([waiting[0]], fetch_local=False)
                yield waiting.popleft()
            waiting.append(task.remote(function, reference, *part))
        while waiting:
            ray.wait([waiting[0]], fetch_local=False)
            yield waiting.popleft()
    finally:
        for each in waiting:
            ray.cancel(each)


def _merged(*results: Mergeable) -> Mergeable:
    """What a worker merges, in order; what comes from the object store cannot be written to."""
    whole = copy.deepcopy(results[0])
    for each in results[1:]:
        whole.merge(each)
    return whole


def _called(function: Callable[..., T], *args: Any) -> T:
    """What a worker does."""
    one_thread()
    return function(*args)


def _result(ray: Any, reference: Any) -> Any:
    """What a task returned; what it raised, without the words that Ray puts around it."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


def in_prepared_parts(
    prepare: Callable[..., Callable[..., T]], shared: tuple[Any, ...], parts: Iterable[tuple[Any, ...]]
) -> Iterator[T]:
    """`prepare(*shared)(*part)` of each part, in order; see `in_parts`.

    Each worker fetches what is shared once, prepares it once, and keeps that until it works for another job.
    """
    ray = connect()
    try:
        packed = ray.cloudpickle.dumps((prepare, shared))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"what goes to other processes must be something that can be pickled: {reason}; use functions and classes "
            'of a module, or engine="local"'
        ) from error
    name, reference = uuid4().hex, put_once(np.frombuffer(packed, np.uint8))  # bytes that no task has to unpack again
    return in_parts(_of_part, reference, ((name, *part) for part in parts))


def _of_part(packed: NDArray[np.uint8], name: str, *part: Any) -> Any:
    if name not in _KEPT:
        _KEPT.clear()
        with jax.enable_x64(True):  # else doubles of a coupling would arrive as singles
            prepare, shared = pickle.loads(packed.data)
        _KEPT[name] = prepare(*shared)
    return _KEPT[name](*part)
