"""What every study stands on: experiments as cells, a folder of results, plans that fill it, pages made from it."""

import hashlib
import json
import multiprocessing
import os
import platform
import signal
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.figure import Figure

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.files import reason_of, remove_left_over, remove_unfinished, writable_folder, write_atomically
from countermax._core.memory import check_memory
from countermax._core.page import Element, Sheet, grid, heading, paragraph, picture, preformatted, write_page
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_count
from countermax._version import __version__

PRESETS = ("quick", "published", "best")
"""`published`: the paper's settings and objective; `best`: this library's; `quick`: the whole picture in minutes."""

Result = dict[str, Any]
"""What a cell computes: plain numbers, strings, lists and mappings, as JSON has them."""
_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "±": r"$\pm$"}


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment that is computed, and stored, as a whole."""

    experiment: str
    name: str
    settings: Result
    """Everything the result depends on; a stored result counts only if it was made with the same."""
    cost: float = 1.0
    """How long it takes beside the other cells, roughly; for the time left."""


@dataclass(frozen=True)
class CellContext:
    """What a cell is given while it works."""

    folder: Path
    """Its own place for trained couplings and checkpoints."""
    train_only: bool = False
    """Stop once everything is trained; measuring can be done later, elsewhere."""
    advance: Callable[[float], None] = lambda _: None
    """Function that is told which fraction of the cell is done."""


@dataclass(frozen=True)
class Section:
    """What an experiment has to show."""

    title: str
    words: Sequence[str]
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)


class AbstractExperiment(ABC):
    """A part of the paper, or beyond it, that can be computed again."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The plan; `seeds` None means as many as the preset has."""

    @abstractmethod
    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """The result of one cell; None where only training was asked for."""

    @abstractmethod
    def section(self, stored: Mapping[str, Result]) -> Section:
        """Sheets and figures from the stored results, by cell; nothing is computed but means and ratios."""


def checked_preset(preset: str) -> str:
    """The preset, if there is one of that name."""
    if preset not in PRESETS:
        raise InputError(f"`preset` must be one of {', '.join(PRESETS)}, got {preset!r}")
    return preset


def provenance() -> dict[str, str]:
    """Which versions, on which kind of device."""
    import jax

    found = {"countermax": __version__, "python": platform.python_version(), "device": jax.devices()[0].device_kind}
    for package in ("jax", "equinox", "optax", "numpy", "POT"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


_FORMAT = 3
_SEAL = "sha256"
_FIELDS: dict[str, type] = {"experiment": str, "cell": str, "settings": dict, "made_with": dict, "result": dict}


class DamagedError(InputError):
    """A file of ours whose contents are not what was written."""

    def __init__(self, path: Path, how: str):
        self.what = f"{path} is damaged{how}"
        super().__init__(f"{self.what}; move it away, and `python -m studies` computes it again")


@dataclass(frozen=True)
class Record:
    """A stored result with everything that belongs to it."""

    experiment: str
    cell: str
    settings: Result
    made_with: dict[str, Any]
    """Versions, device, seconds."""
    result: Result


class Store:
    """Reads and writes the cells of a folder."""

    def __init__(self, folder: str | Path):
        """Names the folder; nothing is touched yet."""
        self.folder = Path(folder)

    def folder_of(self, cell: Cell) -> Path:
        """Where a cell keeps trained couplings and checkpoints."""
        return writable_folder(self.folder / "trained" / cell.experiment / cell.name)

    def find(self, cell: Cell) -> Record | None:
        """The stored result of a cell, if it has one; an error if it is damaged, or was made another way."""
        path = self._path(cell.experiment, cell.name)
        if not path.exists():
            return None
        record = _read(path)
        made_by = record.made_with.get("countermax")
        remedy = "choose another folder with --out, or move that file away to compute it again"
        if made_by != __version__:
            raise InputError(f"{path} was made by countermax {made_by}, this is {__version__}; {remedy}")
        old, new = dict(_leaves(record.settings)), dict(_leaves(cell.settings))
        for key in sorted({*old, *new}):
            was, now = (json.dumps(each.get(key)) for each in (old, new))
            if was != now:
                raise InputError(f"{path} was made with {key} = {was}, this run has {now}; {remedy}")
        return record

    def write(self, cell: Cell, result: Result, made_with: dict[str, Any]) -> Path:
        """Stores a result."""
        path = self._path(cell.experiment, cell.name)
        writable_folder(path.parent)
        content = {
            "format": _FORMAT,
            "experiment": cell.experiment,
            "cell": cell.name,
            "settings": cell.settings,
            "made_with": made_with,
            "result": result,
        }
        return write_atomically(path, sealed(content))

    def records(self) -> dict[str, dict[str, Record]]:
        """Everything stored, by experiment and cell."""
        found: dict[str, dict[str, Record]] = {}
        for path in self._paths():
            record = _read(path)
            found.setdefault(record.experiment, {})[record.cell] = record
        return found

    def _paths(self) -> list[Path]:
        found = sorted((self.folder / "cells").glob("*/*.json"))
        if not found:
            raise InputError(
                f"{self.folder} holds no stored results; `python -m studies` writes them, or name its --out folder"
            )
        return found

    def _path(self, experiment: str, name: str) -> Path:
        return self.folder / "cells" / experiment / f"{name}.json"


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings one by one; those of a recipe are called `recipe.steps` and so on."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def sealed(content: Mapping[str, Any]) -> str:
    """The text of a file that says what its contents have to be."""
    as_read = json.loads(json.dumps(content))  # JSON has fewer kinds of keys and sequences
    return json.dumps({_SEAL: _digest(as_read), **as_read}, indent=1) + "\n"


def unsealed(path: Path) -> dict[str, Any]:
    """The contents of a file that `sealed` made; an error if they are not what was written."""
    return _opened(path, _content(path))


def _opened(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or _SEAL not in content:
        raise DamagedError(path, ": it has no checksum")
    seal = content.pop(_SEAL)
    if seal != _digest(content):
        raise DamagedError(path, " or was edited: its contents do not have its checksum")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Of the values, whatever lines and spaces are between them."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason_of(error)}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f" ({error})") from error


def _read(path: Path) -> Record:
    content = _content(path)
    made = content.get("format") if isinstance(content, dict) else None
    content = _opened(path, content)
    if made != _FORMAT:
        raise InputError(
            f"{path} has format {made}, this version reads format {_FORMAT}; use the version that wrote it"
        )
    return _record(path, content)


def _record(path: Path, content: Mapping[str, Any]) -> Record:
    for key, kind in _FIELDS.items():
        if not isinstance(content.get(key), kind):
            raise DamagedError(path, f": {key!r} is missing")
    record = Record(**{key: content[key] for key in _FIELDS})
    if (record.experiment, record.cell) != (path.parent.name, path.stem):
        raise DamagedError(path, f": it holds the cell {record.cell!r} of {record.experiment!r}, under another name")
    return record


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
) -> None:
    """Computes the cells that are not stored yet, and stores each as soon as it is done.

    Args:
        experiments: Experiments by name.
        cells: The plan.
        store: Store that results are looked up in and written to.
        jobs: Number of cells that are computed at once, each in a process of its own.
        train_only: Whether to train everything and measure nothing.

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
    with ProgressBar("starting", work or 1.0, done=0.0 if pending else 1.0) as bar:
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


_PAGE = "index.html"


def write_documents(experiments: Mapping[str, AbstractExperiment], store: Store) -> list[Path]:
    """Writes sheets (Markdown, LaTeX, CSV), figures (PNG, PDF) and `index.html`; returns what was written."""
    records = {name: found for name, found in store.records().items() if name in experiments}
    sections = {
        name: _section(experiments[name], {cell: record.result for cell, record in records[name].items()}, store)
        for name in experiments
        if name in records
    }
    content: dict[Path, str | bytes] = {}
    pictures: dict[str, bytes] = {}
    for section in sections.values():
        for name, sheet in section.sheets.items():
            for suffix, text in ((".md", sheet.markdown()), (".tex", latex(sheet)), (".csv", sheet.csv())):
                content[store.folder / "sheets" / f"{name}{suffix}"] = text
        for name, figure in section.figures.items():
            pictures[name] = plotting.picture(figure)
            content[store.folder / "figures" / f"{name}.png"] = pictures[name]
            content[store.folder / "figures" / f"{name}.pdf"] = plotting.picture(figure, ".pdf")
    page = store.folder / _PAGE
    for folder in ("sheets", "figures"):
        writable_folder(store.folder / folder)
    written = [write_atomically(path, each) for path, each in content.items()]
    return [*written, _write_page(page, sections, pictures, records)]


def _section(experiment: AbstractExperiment, stored: Mapping[str, Result], store: Store) -> Section:
    """What the experiment shows; a plan that was stopped may lack a cell without which there is nothing to show."""
    try:
        return experiment.section(stored)
    except (TypeError, AttributeError) as error:
        raise InputError(
            f"{store.folder} has cells of {experiment.name} with contents of another kind than they are made "
            "with; move them away, and the command that made the folder computes them again"
        ) from error
    except (LookupError, ArithmeticError, ValueError) as error:  # the contents of cells have been checked
        raise InputError(
            f"{store.folder} lacks cells of {experiment.name} without which nothing can be drawn, it has only "
            f"{', '.join(stored)}; the command that made the folder computes what is missing"
        ) from error


def latex(sheet: Sheet) -> str:
    """A sheet for a paper; needs the package booktabs."""
    alignment = "".join("r" if form else "l" for form in sheet.formats)
    head, *body = [" & ".join(map(_escaped, line)) + r" \\" for line in (sheet.columns, *sheet.shown())]
    top, middle, bottom = r"\toprule", r"\midrule", r"\bottomrule"
    lines = [rf"\begin{{tabular}}{{{alignment}}}", top, head, middle, *body, bottom, r"\end{tabular}"]
    return f"% {sheet.caption}\n" + "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _write_page(
    path: Path,
    sections: Mapping[str, Section],
    pictures: Mapping[str, bytes],
    records: Mapping[str, Mapping[str, Record]],
) -> Path:
    elements: list[Element] = []
    for name, section in sections.items():
        elements.append(heading(section.title))
        elements += [paragraph(words) for words in section.words]
        elements += [picture(pictures[each], each.replace("_", " ")) for each in section.figures]
        for sheet in section.sheets.values():
            elements.append(paragraph(sheet.caption, note=True))
            elements.append(grid(sheet.columns, sheet.shown()))
        elements.append(preformatted("Configuration, versions and devices", _configuration(records[name])))
    return write_page(path, "Learning generalized Gumbel-max causal mechanisms, reproduced", elements)


def _configuration(records: Mapping[str, Record]) -> str:
    """A line for each cell."""
    shown = {
        name: {"settings": record.settings, "made_with": record.made_with, **_training(record)}
        for name, record in records.items()
    }
    return "\n".join(f"{name}: {json.dumps(each)}" for name, each in shown.items())


def _training(record: Record) -> dict[str, dict[str, object]]:
    trained = record.result.get("trained")
    return {} if trained is None else {"trained": {key: trained[key] for key in trained if key != "history"}}
