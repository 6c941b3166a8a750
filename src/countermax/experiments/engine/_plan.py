"""Computing a plan: cell after cell, or several at once; what is stored already is left alone."""

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from rich import progress as rich_progress
from rich.console import Console

from countermax._core.errors import InputError
from countermax.experiments.engine._base import AbstractExperiment, Cell, Workshop, provenance
from countermax.experiments.engine._store import Store


class Interrupted(Exception):
    """Ctrl-C: what was finished is stored."""

    def __init__(self, done: int, total: int):
        super().__init__(f"stopped: {done} of {total} cells are stored; the same command goes on from there")


def run_plan(
    experiments: Mapping[str, AbstractExperiment],
    cells: Sequence[Cell],
    store: Store,
    *,
    jobs: int = 1,
    train_only: bool = False,
    progress: bool | None = None,
) -> None:
    """Computes the cells that are not stored yet, and stores each as soon as it is done.

    Args:
        experiments: By name.
        cells: The plan.
        store: Where results are found and go.
        jobs: How many cells to compute at once, each in a process of its own.
        train_only: Train everything and measure nothing.
        progress: Whether to show a bar over the whole plan; by default if the output is a terminal.

    Raises:
        Interrupted: By Ctrl-C.
    """
    if jobs < 1:
        raise InputError(f"`jobs` must be at least 1, got {jobs}")
    pending = [cell for cell in cells if store.find(cell) is None]  # finds every mismatch before any work is done
    console = Console(stderr=True)
    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(bar_width=24),
        rich_progress.TaskProgressColumn(),
        rich_progress.TextColumn("{task.fields[done]} of {task.fields[cells]} cells"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        disable=not (console.is_terminal if progress is None else progress),
    )
    finished = len(cells) - len(pending)
    with bar:
        costs = sum(cell.cost for cell in pending)
        task = bar.add_task(
            "starting", total=costs or 1, completed=0 if pending else 1, done=finished, cells=len(cells)
        )
        try:
            if jobs == 1 or len(pending) <= 1:
                for cell in pending:
                    bar.update(task, description=_label(cell))
                    before = bar.tasks[task].completed
                    _work(experiments[cell.experiment], cell, store.folder, train_only, _advancing(bar, task, cell))
                    finished += 1
                    bar.update(task, completed=before + cell.cost, done=finished)
                return
            with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
                futures = {
                    pool.submit(_work, experiments[cell.experiment], cell, store.folder, train_only): cell
                    for cell in pending
                }
                bar.update(task, description=f"{jobs} at once")
                try:
                    for future in as_completed(futures):
                        future.result()
                        finished += 1
                        bar.update(task, advance=futures[future].cost, done=finished)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        except KeyboardInterrupt:
            raise Interrupted(finished, len(cells)) from None


def _advancing(bar: rich_progress.Progress, task: rich_progress.TaskID, cell: Cell) -> Callable[[float], None]:
    before = bar.tasks[task].completed
    return lambda fraction: bar.update(task, completed=before + fraction * cell.cost)


def _label(cell: Cell) -> str:
    return f"{cell.experiment}: {cell.name}"


def _work(
    experiment: AbstractExperiment,
    cell: Cell,
    folder: Path,
    train_only: bool,
    advance: Callable[[float], None] | None = None,
) -> None:
    """Computes and stores one cell; in a process of its own where several run at once."""
    store = Store(folder)
    workshop = Workshop(store.workplace(cell), train_only)
    if advance is not None:
        workshop = replace(workshop, advance=advance)
    start = time.perf_counter()
    result = experiment.compute(cell, workshop)
    if result is not None:
        store.write(cell, result, {**provenance(), "seconds": round(time.perf_counter() - start, 2)})
