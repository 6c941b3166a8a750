"""A folder of results: one file for each cell, written when the cell is done and never half."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countermax._core.errors import InputError
from countermax._core.files import writable_folder, write_atomically
from countermax._version import __version__
from countermax.experiments.engine._base import Cell, Result

_FORMAT = 2


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
        """The stored result of a cell, if it has one; an error if it was made another way."""
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
        return write_atomically(path, json.dumps(content, indent=1) + "\n")

    def records(self) -> dict[str, dict[str, Record]]:
        """Everything stored, by experiment and cell."""
        found: dict[str, dict[str, Record]] = {}
        for path in sorted((self.folder / "cells").glob("*/*.json")):
            record = _read(path)
            found.setdefault(record.experiment, {})[record.cell] = record
        if not found:
            raise InputError(
                f"{self.folder} holds no stored results; `countermax reproduce` writes them, or name its --out folder"
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


def _read(path: Path) -> Record:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged ({error}); move it away and run the command again") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        made = content.get("format") if isinstance(content, dict) else None
        raise InputError(
            f"{path} has format {made}, this version reads format {_FORMAT}: names of settings and results differ, so "
            "that older folders have to be computed again; choose another folder with --out, or use the version that "
            "wrote this one"
        )
    try:
        return Record(**{key: content[key] for key in ("experiment", "cell", "settings", "made_with", "result")})
    except KeyError as error:
        raise InputError(f"{path} is damaged: {error} is missing; move it away and run the command again") from error
