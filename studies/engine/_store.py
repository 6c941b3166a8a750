"""A folder of results: one file for each cell, written when the cell is done and never half.

Each file carries a SHA-256 over its contents, so that numbers which were damaged or edited are never drawn.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countermax._core.errors import InputError
from countermax._core.files import reason_of, writable_folder, write_atomically
from countermax._version import __version__
from studies.engine._base import Cell, Result

_FORMAT = 3
_UNSEALED_FORMAT = 2  # the same without a checksum
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

    def seal(self) -> list[Path]:
        """Adds checksums to what a release without them stored; returns the files that were changed."""
        changed = []
        for path in self._paths():
            content = _content(path)
            if isinstance(content, dict) and content.get("format") == _UNSEALED_FORMAT and _SEAL not in content:
                _record(path, content)
                changed.append(write_atomically(path, sealed({**content, "format": _FORMAT})))
            else:
                _read(path)
        return changed

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
    if made == _UNSEALED_FORMAT and _SEAL not in content:
        raise InputError(
            f"{path} has no checksum, as it is from an older release; `python -m studies seal FOLDER` adds one to "
            "each file of a folder that you trust"
        )
    if isinstance(made, int) and made < _UNSEALED_FORMAT:
        raise InputError(
            f"{path} has format {made}, this version reads format {_FORMAT}: names of settings and results differ, so "
            "that older folders have to be computed again; choose another folder with --out, or use the version that "
            "wrote this one"
        )
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
