"""Being asked to stop: by Ctrl-C, or by whoever looks after the machine.

A signal that becomes an exception can get lost: in a destructor, behind a bare `except` of some library, or in a module
that is being loaded, where it may even bring the process down. So a command ends on the spot, and only where there is
something to be put in order first, within `unwinding`, an exception is raised. A command also remembers that it was
asked, and what takes long looks again. In a library, signals wait for a good moment (`deferred_signals`).
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_ECHO = 0.5  # seconds in which a second signal is the first one again: terminals and wrappers both pass it on
_SHOW_CURSOR = b"\x1b[?25h"  # a progress bar hides it
_asked: list[tuple[int, float]] = []
_unwound: list[None] = []
_left: list[Callable[[], str]] = []


class Stopped(KeyboardInterrupt):
    """The process was asked to stop, by whichever signal."""


def listen(clean_up: Callable[[], None]) -> None:
    """Lets signals end the process as they should; for the main thread of a command, never for a library.

    Signals that whoever started the process had it ignore stay ignored. `clean_up` is called before it ends.
    """

    def heed(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not _asked:
            _asked.append((number, now))
            if _unwound and not _is_importing(frame):
                raise Stopped
        elif now - _asked[0][1] <= _ECHO:
            return
        with contextlib.suppress(Exception):
            clean_up()
        with contextlib.suppress(OSError):
            words = f"countermax: {_last_words()}\n".encode(errors="backslashreplace")
            os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + words)
        os._exit(stop_status())

    def tell(lost: Any) -> None:
        if not isinstance(lost.exc_value, Stopped):
            sys.__unraisablehook__(lost)

    sys.unraisablehook = tell  # what is heeded in the end need not be reported as lost
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, heed)


@contextmanager
def leaving(told: Callable[[], str]) -> Iterator[None]:
    """A block that, if it is interrupted, leaves something behind: `told` says what."""
    _left.append(told)
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise Stopped(_last_words()) from stopped
    finally:
        _left.pop()


def _last_words() -> str:
    return "; ".join(filter(None, ("interrupted", *(told() for told in _left))))


@contextmanager
def unwinding() -> Iterator[None]:
    """A block in which a signal raises `Stopped`; only a second one ends the process on the spot."""
    _unwound.append(None)
    try:
        yield
    finally:
        _unwound.pop()


def ignore_signals() -> None:
    """From here on nothing interrupts: the process is about to end anyway."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def was_asked_to_stop() -> bool:
    """Whether a signal came, whatever became of the exception."""
    return bool(_asked)


def raise_if_stopped() -> None:
    """Raises `Stopped` again where the first one got lost."""
    if _asked:
        raise Stopped


def stop_status() -> int:
    """Exit status after the signal that came: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + (_asked[0][0] if _asked else signal.SIGINT)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


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
