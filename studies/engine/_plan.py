"""Computing a plan: cell after cell, or several at once; what is stored already is left alone."""

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from countermax._core.errors import InputError
from countermax._core.files import remove_left_over, remove_unfinished
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_count
from studies.engine._base import AbstractExperiment, Cell, CellContext, provenance
from studies.engine._store import DamagedError, Store

_PROCESS_BYTES = 4e8  # JAX alone, before it computes anything
_PATIENCE = 5.0  # seconds that processes get to end by themselves


class Interrupted(Exception):
    """Ctrl-C: what was finished is stored."""

    def __init__(self, done: int, total: int):
        super().__init__(f"stopped: {done} of {total} cells are stored; the same command resumes from there")


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
        experiments: Experiments by name.
        cells: The plan.
        store: Store that results are looked up in and written to.
        jobs: Number of cells that are computed at once, each in a process of its own.
        train_only: Whether to train everything and measure nothing.
        progress: Whether to show a bar over the whole plan; by default if the output is a terminal.

    Raises:
        Interrupted: By Ctrl-C.
    """
    jobs = as_count("`jobs`", jobs)
    remove_left_over(store.folder)
    pending = [cell for cell in cells if not _is_done(cell, store)]  # finds every mismatch before any work is done
    jobs = min(jobs, max(len(pending), 1))
    check_memory(f"{jobs} cells at once", jobs * _PROCESS_BYTES, "lower `jobs`")
    finished = len(cells) - len(pending)

    def note() -> str:
        return f"{finished} of {len(cells)} cells"

    def count(done: float) -> None:
        nonlocal finished
        finished += 1
        bar.update(done, note=note())

    work = sum((cell.cost for cell in pending), 0.0)
    with ProgressBar("starting", work or 1.0, progress, done=0.0 if pending else 1.0) as bar:
        bar.update(bar.done, note=note())
        if jobs > 1:
            bar.update(bar.done, label=f"{jobs} at once")
            calls = [(experiments[cell.experiment], cell, store.folder, train_only) for cell in pending]
            if _stopped_at_once(calls, jobs, lambda cell: count(bar.done + cell.cost)):
                raise Interrupted(finished, len(cells))
            return
        try:
            for cell in pending:
                before = bar.done
                bar.update(before, label=f"{cell.experiment}: {cell.name}")
                _work(experiments[cell.experiment], cell, store.folder, train_only, _advancing(bar, cell))
                count(before + cell.cost)
        except KeyboardInterrupt:
            raise Interrupted(finished, len(cells)) from None


def _stopped_at_once(calls: Sequence[tuple[Any, ...]], jobs: int, count: Callable[[Cell], None]) -> bool:
    """Computes several cells at once, and says whether that was interrupted.

    It says so instead of raising: an exception would keep the pool, and the pool its locks, until the process ends.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_end_with_parent) as pool:
        futures = {}
        try:
            for call in calls:
                futures[pool.submit(_work, *call)] = call[1]
            for future in as_completed(futures):
                future.result()
                count(futures[future])
        except KeyboardInterrupt:
            _end_processes()  # which breaks the pool, so that it drops what is left to do
            return True
        except BrokenProcessPool as error:
            raise InputError(
                "a process that computed a cell was killed, as happens where memory runs out; lower `jobs`. What was "
                "finished is stored, and the same command resumes from there"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return False


def _is_done(cell: Cell, store: Store) -> bool:
    try:
        return store.find(cell) is not None
    except DamagedError as error:
        warnings.warn(f"{error.what}; it is computed again", stacklevel=2)
        return False


def _end_with_parent() -> None:
    """Makes a process of the pool end when it is told to, or when its parent is gone, and only then.

    Ctrl-C reaches all processes of a terminal; the parent alone decides what it means. What is stored or in a
    checkpoint is whole at any time, so that nothing has to be unwound.
    """

    def end(*_: object) -> None:
        remove_unfinished()
        os._exit(128 + signal.SIGTERM)

    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        end()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=watch, daemon=True).start()


def _end_processes() -> None:
    """Ends the processes of the pool: kindly, and after a while for certain."""
    processes = multiprocessing.active_children()
    for process in processes:
        process.terminate()
    until = time.monotonic() + _PATIENCE
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        process.kill()


def _advancing(bar: ProgressBar, cell: Cell) -> Callable[[float], None]:
    before = bar.done
    return lambda fraction: bar.update(before + fraction * cell.cost)


def _work(
    experiment: AbstractExperiment,
    cell: Cell,
    folder: Path,
    train_only: bool,
    advance: Callable[[float], None] = lambda _: None,
) -> None:
    """Computes and stores one cell; in a process of its own where several run at once."""
    store = Store(folder)
    context = CellContext(store.folder_of(cell), train_only, advance)
    start = time.perf_counter()
    result = experiment.compute(cell, context)
    if result is not None:
        store.write(cell, result, {**provenance(), "seconds": round(time.perf_counter() - start, 2)})
