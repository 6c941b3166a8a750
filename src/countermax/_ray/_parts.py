"""One function of many parts: each is a task, few wait at a time, and results come in the order of the parts."""

import copy
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from countermax._ray._connection import connect

T = TypeVar("T")


@runtime_checkable
class _HasMerge(Protocol):
    def merge(self, other: Any) -> None: ...


Mergeable = TypeVar("Mergeable", bound=_HasMerge)

WORKER: dict[str, Any] = {
    "num_cpus": 1,
    "max_retries": 20,  # of workers that were killed; errors of the function itself are not tried again
}
"""Options of every task: one core, and another try where a worker dies.

No environment of its own: a worker with another one would be another process, which imports and compiles again.
"""

_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
_MERGED = 16  # parts whose results are merged before they travel
_WAITING = 2  # tasks for each core: one runs, one has its data at hand


def one_thread() -> None:
    """Keeps XLA to one thread in this worker, unless it has computed something already."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _ONE_THREAD not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_ONE_THREAD}".strip()


def put_once(value: Any) -> Any:
    """A reference to a value in the object store, which each worker's machine fetches once."""
    return connect().put(value)


def in_parts(function: Callable[..., T], shared: Any, parts: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """`function(shared, *part)` of each part, in order; references among a part's entries arrive as their values.

    Parts are taken as they are needed, so that they may stream. What a task raises is raised here as it was.

    Args:
        function: Function that another process can import, or that can be pickled.
        shared: Value that all parts need, or a reference to it.
        parts: Arguments of each part.
    """
    ray = connect()
    for each in _done(ray, function, shared, parts):
        yield _result(ray, each)


def merged_in_parts(
    function: Callable[..., Mergeable], shared: Any, parts: Iterable[tuple[Any, ...]]
) -> Iterator[Mergeable]:
    """The same, with the results of parts that follow each other merged by tasks, so that few of them travel.

    Which parts are merged depends on their numbers alone.

    Args:
        function: Function whose results have a method `merge`.
        shared: Value that all parts need, or a reference to it.
        parts: Arguments of each part.
    """
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
        cause = error.cause
        if isinstance(cause, Exception):
            raise cause from error
        raise
