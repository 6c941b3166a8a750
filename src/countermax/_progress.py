"""Progress bars of training and of tables: silent where nobody watches."""

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, runtime_checkable

import numpy as np
from rich import progress as rich_progress
from rich.console import Console


@runtime_checkable
class _Recorded(Protocol):
    @property
    def held_out(self) -> list[float]: ...


class Progress:
    """A bar over training steps."""

    def __init__(self, label: str, steps: int, done: int, shown: bool | None):
        """Prepares the bar; `shown` None means: if the output is a terminal."""
        console = Console(stderr=True)
        self._bar = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("loss {task.fields[loss]}"),
            rich_progress.TextColumn("{task.fields[above]}"),
            rich_progress.TextColumn("{task.fields[speed]}"),
            rich_progress.TimeRemainingColumn(),
            console=console,
            disable=not (console.is_terminal if shown is None else shown),
            transient=False,
        )
        self._task = self._bar.add_task(label, total=steps, completed=done, loss="...", above="", speed="")
        self._start = done

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, done: int, histories: Sequence[_Recorded], optima: Sequence[float | None]) -> None:
        """Shows the newest entry of every history, averaged over members."""
        held_out = float(np.mean([history.held_out[-1] for history in histories]))
        known = [optimum for optimum in optima if optimum is not None]
        above = f"{100 * (held_out / np.mean(known) - 1):.2f} % above optimum" if known and np.mean(known) > 0 else ""
        task = self._bar.tasks[self._task]
        speed = f"{(done - self._start) / task.elapsed:.0f} steps/s" if task.elapsed else ""
        self._bar.update(self._task, completed=done, loss=f"{held_out:.4g}", above=above, speed=speed)


class CountProgress:
    """A bar over work that is counted: how much is done, how fast, time left."""

    def __init__(self, label: str, total: int | None, shown: bool | None, *, unit: str):
        """Prepares the bar; `shown` None means: if the output is a terminal. Where `total` is None it only counts."""
        console = Console(stderr=True)
        self._unit = unit
        self._bar = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.TextColumn(f"{{task.completed:,.0f}} {unit}"),
            rich_progress.TextColumn("{task.fields[speed]}"),
            rich_progress.TimeRemainingColumn(),
            console=console,
            disable=not (console.is_terminal if shown is None else shown),
        )
        self._task = self._bar.add_task(label, total=total, speed="")

    def __enter__(self) -> "CountProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, count: int) -> None:
        """So much more is done."""
        task = self._bar.tasks[self._task]
        done = task.completed + count
        speed = f"{done / task.elapsed:,.0f} {self._unit}/s" if task.elapsed else ""
        self._bar.update(self._task, completed=done, speed=speed)
