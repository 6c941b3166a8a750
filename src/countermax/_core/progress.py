"""The progress bar of everything that takes a while: silent where nobody watches, but for lines in a log.

The logger `countermax` has them, at the level INFO: how much is done, every half a minute.
"""

import functools
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from rich import progress as rich_progress
from rich.console import Console

from countermax._core.interruption import raise_if_stopped

_LOG = logging.getLogger("countermax")
_LOGGED = 30.0  # seconds between two lines

_chosen: bool | None = None
_running: list["ProgressBar"] = []  # one that begins within another one's work is not shown
_COMPILING = "compiling (the first time takes longer)"


def show_progress(shown: bool | None) -> None:
    """Shows progress bars from now on, or none; None, the default, shows them if the output is a terminal."""
    global _chosen
    _chosen = shown


class ProgressBar:
    """A bar over work that is counted: how much is done, how fast, what was seen last, time left."""

    def __init__(
        self, label: str, total: int | float | None, shown: bool | None = None, *, unit: str = "", done: int | float = 0
    ):
        """Prepares the bar; without a total it only counts, and without a unit it shows the share that is done."""
        console, text = Console(stderr=True), rich_progress.TextColumn
        shown = False if _running else _chosen if shown is None else shown
        self._label, self._unit, self._start, self._said = label, unit, done, time.monotonic()
        self._bar = rich_progress.Progress(
            text("{task.description}"),
            rich_progress.BarColumn(bar_width=24),
            text(f"{{task.completed:,.0f}} {unit}") if unit else rich_progress.TaskProgressColumn(),
            text("{task.fields[note]}"),
            text("{task.fields[speed]}"),
            rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=not (console.is_terminal if shown is None else shown),
        )
        self._task = self._bar.add_task(label, total=total, note="", speed="")
        self._bar.update(self._task, completed=done)

    def __enter__(self) -> "ProgressBar":
        _running.append(self)
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _running.remove(self)
        self._bar.stop()

    @property
    def done(self) -> int | float:
        """How much is done."""
        return self._bar.tasks[self._task].completed

    def advance(self, count: int | float) -> None:
        """So much more is done."""
        self.update(self.done + count)

    def update(self, done: int | float, *, label: str | None = None, note: str | None = None) -> None:
        """So much is done in all; a label or a note replaces the one that is shown.

        Everything that takes long comes by here, so that being asked to stop cannot be overheard.
        """
        raise_if_stopped()
        task = self._bar.tasks[self._task]
        if time.monotonic() - self._said >= _LOGGED:
            self._said = time.monotonic()
            of_all = "" if task.total is None else f" of {task.total:,.0f}"
            _LOG.info("%s: %s%s %s", self._label, f"{done:,.0f}", of_all, self._unit)
        speed = f"{(done - self._start) / task.elapsed:,.0f} {self._unit}/s" if task.elapsed and self._unit else ""
        shown = task.fields["note"] if note is None else note
        self._bar.update(self._task, completed=done, description=label, note=shown, speed=speed)

    @contextmanager
    def noting(self, note: str) -> Iterator[None]:
        """Shows a note for a while."""
        before = self._bar.tasks[self._task].fields["note"]
        self._bar.update(self._task, note=note)
        try:
            yield
        finally:
            self._bar.update(self._task, note=before)


@contextmanager
def compiling() -> Iterator[None]:
    """Says that a program is compiled, beside the bar that runs, or in a line that goes away; on a terminal only."""
    console = Console(stderr=True)
    if _running:
        with _running[0].noting(_COMPILING):
            yield
    elif console.is_terminal if _chosen is None else _chosen:
        with console.status(_COMPILING):
            yield
    else:
        yield


@functools.cache
def tell_when_numba_compiles() -> None:
    """Says so from now on; what Numba has kept it only loads."""
    from numba.core import event

    class Told(event.Listener):
        """Functions are compiled within those that call them."""

        def __init__(self) -> None:
            self._depth, self._said = 0, ExitStack()

        def on_start(self, event: Any) -> None:
            self._depth += 1
            if self._depth == 1:
                self._said.enter_context(compiling())

        def on_end(self, event: Any) -> None:
            self._depth -= 1
            if self._depth == 0:
                self._said.close()

    event.register("numba:compile", Told())  # type: ignore[no-untyped-call]
