"""Work in parts: by threads of this process, or on Ray, a running cluster or one inside this machine.

One function of many parts: each is a task, few wait at a time, and results come in the order of the parts. A Ray inside
this machine listens on the loopback interface only, asks for a token where it can, and leaves no file behind.
"""

import atexit
import copy
import glob
import logging
import os
import pickle
import secrets
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError, first_line
from countermax._core.extras import import_ray, on_ray
from countermax._core.threads import in_threads
from countermax._version import __version__

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
_PATIENCE = 60.0  # seconds without a result after which it is said that tasks wait
_LONGEST_PLACE = 40  # letters of a temporary folder: sockets lie in it, whose names must be short
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
    """Ray, connected: as it is already, else to the cluster at the address, else to a new one inside this machine.

    Without an address the variable RAY_ADDRESS has it, as everywhere in Ray.
    """
    ray = import_ray()
    if ray.is_initialized():
        return ray
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address not in _NAMED:
        _check_reachable(address)
    try:
        own = _inside() if address == "local" else {}
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        place = "this machine" if address == "local" else address
        raise InputError(
            f"no Ray cluster can be used at {place!r}: {first_line(error)}; start one (`ray start --head`) or leave "
            "the address out"
        ) from error
    return ray


def _inside() -> dict[str, Any]:
    """Settings of a Ray that only this user of this machine can reach, and whose files go when the process ends."""
    import ray._private.ray_constants as constants

    # The address given to `ray.init` does not bind anything. This does, as Ray has it by default on other systems.
    constants.ENABLE_RAY_CLUSTER = False
    os.environ[constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        with suppress(AttributeError):  # of an older Ray
            import_ray()._raylet.Config.initialize("")  # reads the variables again
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) <= _LONGEST_PLACE else "/tmp"
    for left in glob.glob(f"{place}/countermax-ray-*-*"):
        owner = left.split("-")[-2]
        if owner.isdecimal() and not os.path.exists(f"/proc/{owner}") and os.path.exists("/proc/self"):
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
    folder = tempfile.mkdtemp(prefix=f"countermax-ray-{os.getpid()}-", dir=place)
    atexit.register(_leave, folder)
    return {
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": folder,
    }


def _leave(folder: str) -> None:
    import_ray().shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def _check_reachable(address: str) -> None:
    """Refuses an address where nobody listens."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError(f"`address` must be host:port of a Ray cluster, or auto, got {address!r}")
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
    return connect().put(_Sent(value))


class _Sent:
    """What arrives as its value, and with all its digits: a worker's JAX would make singles of doubles."""

    def __init__(self, value: Any):
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        arrays: list[pickle.PickleBuffer] = []  # which nobody has to copy
        packed = import_ray().cloudpickle.dumps(self._value, protocol=5, buffer_callback=arrays.append)
        return _received, (packed, arrays)


def _received(packed: bytes | memoryview, arrays: list[Any]) -> Any:
    import jax

    with jax.enable_x64(True):  # else doubles of a coupling would arrive as singles
        return pickle.loads(packed, buffers=arrays)


def in_parts(
    function: Callable[..., T], shared: Any, parts: Iterable[tuple[Any, ...]], *, engine: str = "ray"
) -> Generator[T, None, None]:
    """`function(shared, *part)` of each part, in order; references among a part's entries arrive as their values.

    What is shared may be a reference too. Parts are taken as they are needed, so that they may stream. What a task
    raises is raised here as it was. The engine "local" does them in threads of this process.
    """
    if not on_ray(engine):
        yield from in_threads(lambda part: function(shared, *part), parts)
        return
    ray = connect()
    with closing(_done(ray, function, shared, parts)) as done:  # after an error nobody waits for the rest
        for each in done:
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
    with closing(_done(ray, function, shared, parts)) as done:
        while group := list(islice(done, _MERGED)):
            yield _result(ray, merge.remote(*group))


def _done(
    ray: Any, function: Callable[..., Any], shared: Any, parts: Iterable[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    """References to results that are there, in the order of the parts; whichever task is done makes room for another.

    The cluster is looked at again and again, since machines may join it.
    """
    reference = shared if isinstance(shared, ray.ObjectRef) else put_once(shared)
    task = ray.remote(_called).options(name=getattr(function, "__name__", "part"), **WORKER)
    tasks = enumerate(task.remote(__version__, function, reference, *part) for part in parts)
    running: dict[Any, int] = {}
    ready: dict[int, Any] = {}
    given = 0
    try:
        while True:
            cores = int(ray.cluster_resources().get("CPU", 0))
            for number, each in islice(tasks, max(2, _WAITING * cores) - len(running)):
                running[each] = number
            if not running:
                return
            done, _ = ray.wait(list(running), timeout=_PATIENCE if cores else _WAIT, fetch_local=False)
            if not done and not given:
                free = int(ray.available_resources().get("CPU", 0))
                warnings.warn(f"the Ray cluster has {cores} cores, {free} of them free; waiting for one", stacklevel=2)
            for each in done:
                ready[running.pop(each)] = each
            while given in ready:
                yield ready.pop(given)
                given += 1
    finally:
        for each in running if ray.is_initialized() else ():  # else it would start again
            ray.cancel(each)


def _merged(*results: Mergeable) -> Mergeable:
    """What a worker merges, in order; what comes from the object store cannot be written to."""
    whole = copy.deepcopy(results[0])
    for each in results[1:]:
        whole.merge(each)
    return whole


def _called(version: str, function: Callable[..., T], *args: Any) -> T:
    """What a worker does."""
    if version != __version__:
        raise InputError(
            f"all machines must have the same version of countermax, but {socket.gethostname()} has {__version__} and "
            f"the one that asks {version}; install {version} there"
        )
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
        raise InputError(
            f"what goes to other processes must be something that can be pickled: {first_line(error)}; use functions "
            'and classes of a module, or engine="local"'
        ) from error
    name, reference = uuid4().hex, put_once(np.frombuffer(packed, np.uint8))  # bytes that no task has to unpack again
    return in_parts(_of_part, reference, ((name, *part) for part in parts))


def _of_part(packed: NDArray[np.uint8], name: str, *part: Any) -> Any:
    if name not in _KEPT:
        _KEPT.clear()
        prepare, shared = _received(packed.data, [])
        _KEPT[name] = prepare(*shared)
    return _KEPT[name](*part)
