"""Computing a plan: cell after cell, or several at once; what is stored already is left alone."""

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.experiments.engine._base import AbstractExperiment, Cell, CellContext, provenance
from countermax.experiments.engine._store import Store


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
    if jobs < 1:
        raise InputError(f"`jobs` must be at least 1, got {jobs}")
    pending = [cell for cell in cells if store.find(cell) is None]  # finds every mismatch before any work is done
    finished = len(cells) - len(pending)

    def note() -> str:
        return f"{finished} of {len(cells)} cells"

    work = sum((cell.cost for cell in pending), 0.0)
    with ProgressBar("starting", work or 1.0, progress, done=0.0 if pending else 1.0) as bar:
        bar.update(bar.done, note=note())
        try:
            if jobs == 1 or len(pending) <= 1:
                for cell in pending:
                    before = bar.done
                    bar.update(before, label=f"{cell.experiment}: {cell.name}")
                    _work(experiments[cell.experiment], cell, store.folder, train_only, _advancing(bar, cell))
                    finished += 1
                    bar.update(before + cell.cost, note=note())
                return
            with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
                futures = {
                    pool.submit(_work, experiments[cell.experiment], cell, store.folder, train_only): cell
                    for cell in pending
                }
                bar.update(bar.done, label=f"{jobs} at once")
                try:
                    for future in as_completed(futures):
                        future.result()
                        finished += 1
                        bar.update(bar.done + futures[future].cost, note=note())
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        except KeyboardInterrupt:
            raise Interrupted(finished, len(cells)) from None


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
