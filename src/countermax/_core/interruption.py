"""Being asked to stop: by Ctrl-C, or by whoever looks after the machine.

A signal becomes an exception, and exceptions get lost: in a destructor, behind a bare `except` of some library, inside
a function that compiled code calls. So a command also remembers that it was asked, and what takes long looks again.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_ECHO = 0.5  # seconds in which a second signal is the first one again: terminals and wrappers both pass it on
_asked: list[tuple[int, float]] = []


class Stopped(KeyboardInterrupt):
    """The process was asked to stop, by whichever signal."""


def listen(clean_up: Callable[[], None]) -> None:
    """Turns signals into `Stopped`; for the main thread of a command, never for a library.

    Signals that whoever started the process had it ignore stay ignored.

    Args:
        clean_up: Function that is called when a second signal ends the process on the spot.
    """

    def heed(number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if not _asked:
            _asked.append((number, now))
            raise Stopped
        if now - _asked[0][1] > _ECHO:
            clean_up()
            os._exit(stop_status())

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, heed)


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
