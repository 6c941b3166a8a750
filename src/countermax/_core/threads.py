"""Work on all cores of this process: results in the order of what they are of, and few of them in hand at a time."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count, environ
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")

_MOST_THREADS = 8
_AHEAD = 3  # results that wait while one who takes them is busy, so that nobody is idle
_END = object()
_here = threading.local()


def num_threads() -> int:
    """As many as processors, or as the worker of a cluster may have; one within work that has a thread already."""
    if getattr(_here, "busy", False):
        return 1
    allowed = environ.get("OMP_NUM_THREADS", "")
    return min(int(allowed) if allowed.isdecimal() and int(allowed) else cpu_count() or 1, _MOST_THREADS)


def in_threads(function: Callable[[S], T], items: Iterable[S], *, spare: int = 0) -> Iterator[T]:
    """`function` of each item, in order. The next items are taken, one at a time, while these are worked on.

    Args:
        function: Work on an item.
        items: Items, which are taken one at a time.
        spare: Number of cores that are left to whoever takes the results, where that is as much work.
    """
    count, waiting = max(num_threads() - spare, 1), deque[Future[Any]]()
    taken = iter(items)
    if num_threads() == 1:
        yield from map(function, taken)
        return

    def work(ahead: Future[Any]) -> Any:
        _here.busy = True
        item = ahead.result()
        return item if item is _END else function(item)

    with ThreadPoolExecutor(1) as reading, ThreadPoolExecutor(count) as pool:
        try:
            while True:
                while len(waiting) <= count + _AHEAD * spare:
                    waiting.append(pool.submit(work, reading.submit(next, taken, _END)))
                found = waiting.popleft().result()
                if found is _END:
                    return
                yield found
                del found  # before the next ones are taken
        finally:
            for each in waiting:
                each.cancel()
