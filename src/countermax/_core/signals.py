"""Signals that wait for a good moment."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_ECHO = 0.5  # seconds in which a second signal is the first one again: terminals and wrappers both pass it on


@contextmanager
def deferred_signals() -> Iterator[Callable[[], None]]:
    """Lets SIGINT, SIGTERM and SIGHUP wait until the function that it yields is called: there their handlers run.

    A handler that raises, as Python's own does at Ctrl-C, raises wherever the program happens to be: inside a
    destructor or a callback, where the exception is lost, or between two steps that belong together. A signal that
    comes a second time does not wait, and none is lost: what is still waiting at the end is handled then.

    Handlers can be changed in the main thread only, so elsewhere nothing waits; nor do signals that Python does not
    handle.
    """
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    waiting: dict[int, float] = {}

    def wait(number: int, frame: FrameType | None) -> None:
        came = waiting.setdefault(number, time.monotonic())
        if time.monotonic() - came > _ECHO:
            del waiting[number]
            handlers[number](number, frame)

    def handle() -> None:
        while waiting:
            number = next(iter(waiting))
            del waiting[number]
            handlers[number](number, None)

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, wait)
    try:
        yield handle
    finally:
        for changed, before in handlers.items():
            signal.signal(changed, before)
        handle()
