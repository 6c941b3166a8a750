"""What may be written over: nothing that is read, and of what is there only the kinds of files that we write."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from countermax._core.errors import InputError
from countermax._core.files import check_writable, reason_of

GENERATOR = '<meta name="generator" content="countermax">'
"""What every page of ours says in its head."""

_HEAD = 4096
_BINARY = (b"PK", b"PAR1", b"ARROW1", b"\x89PNG", b"%PDF", b"\x1f\x8b")
_OWN_RECORDS = ({"config", "fits"}, {"labels", "answers"})


@dataclass(frozen=True)
class Kind:
    """A kind of file that we write."""

    words: str
    is_one: Callable[[bytes, Path], bool]
    """Whether a file is of this kind, by its first bytes; the path is for looking further."""


@dataclass(frozen=True)
class Output:
    """A file that a command is about to write."""

    option: str
    path: Path
    kind: Kind


def _is_table(head: bytes, _: Path) -> bool:
    """Text that begins with the names of columns: two at least, as every table of ours has, and none of them twice."""
    if b"\0" in head or head.startswith(_BINARY):
        return False
    try:
        names = next(csv.reader(io.StringIO(head.decode("utf-8-sig", "ignore"), newline="")), [])
    except csv.Error:
        return False
    whole = names[:-1]  # the last one may be cut off
    return bool(whole) and len(set(whole)) == len(whole)


def _is_sheet(head: bytes, _: Path) -> bool:
    return head.startswith(b"| ")


def _is_record(_: bytes, path: Path) -> bool:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and any(keys <= content.keys() for keys in _OWN_RECORDS)


PAGE = Kind("a page that countermax wrote", lambda head, _: GENERATOR.encode() in head)
_TABLE = Kind("a CSV table", _is_table)
_PARQUET = Kind("a Parquet table", lambda head, _: head.startswith(b"PAR1"))
_FEATHER = Kind("a Feather table", lambda head, _: head.startswith((b"ARROW1", b"FEA1")))
_LINES = Kind("a table in JSON lines", lambda head, _: head.lstrip().startswith(b"{"))
_KINDS = {
    ".html": PAGE,
    ".png": Kind("a PNG picture", lambda head, _: head.startswith(b"\x89PNG")),
    ".pdf": Kind("a PDF", lambda head, _: head.startswith(b"%PDF")),
    ".svg": Kind("an SVG picture", lambda head, _: b"<svg" in head),
    ".csv": _TABLE,
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".feather": _FEATHER,
    ".arrow": _FEATHER,
    ".jsonl": _LINES,
    ".ndjson": _LINES,
    ".npz": Kind("a file that countermax wrote", lambda head, _: head.startswith(b"PK") and b"countermax" in head),
    ".json": Kind("a record that countermax wrote", _is_record),
    ".md": Kind("a sheet", _is_sheet),
    ".tex": Kind("a sheet", lambda head, _: head.startswith(b"% ") and b"\\begin{tabular}" in head),
}
_NONE = Kind("of a kind that countermax writes", lambda *_: False)


def kind_of(path: str | Path) -> Kind:
    """The kind of file that a name ends in."""
    return _KINDS.get(Path(path).suffix.lower(), _NONE)


def check_outputs(outputs: Iterable[Output], reads: Iterable[str | Path] = (), *, overwrite: bool = False) -> None:
    """Refuses outputs that would destroy something, or that could not be written anyway.

    The same file is recognised through symbolic and hard links, and however its path is spelled.

    Args:
        outputs: Outputs that are going to be written.
        reads: Files that are read; names of something else are passed over.
        overwrite: Whether the person said that files may be lost. Two outputs in one file are refused even then.
    """
    read = {_identity(Path(each)): each for each in reads if os.path.exists(each)}
    writing: dict[tuple[object, ...], Output] = {}
    for output in outputs:
        check_writable(output.path)
        identity = _identity(output.path)
        if identity in writing:
            raise InputError(
                f"{writing[identity].option} and {output.option} must be two files, got {output.path} for both"
            )
        writing[identity] = output
        if overwrite or not output.path.exists():
            continue
        if identity in read:
            raise InputError(
                f"{output.option} must not be {read[identity]}, which is read: it would be lost; choose another name, "
                "or pass --overwrite"
            )
        if not _is_of_kind(output):
            raise InputError(
                f"{output.option} would replace {output.path}, which is not {output.kind.words}; choose another name, "
                "or pass --overwrite"
            )


def outputs_in(folder: str | Path, names: Iterable[str], option: str = "--out") -> list[Output]:
    """What is there already of the files that will be written into a folder; names may have wildcards."""
    found = [path for name in names for path in sorted(Path(folder).glob(name))]
    return [Output(option, path, kind_of(path)) for path in found]


def _is_of_kind(output: Output) -> bool:
    try:
        with output.path.open("rb") as file:
            head = file.read(_HEAD)
        return not head or output.kind.is_one(head, output.path)
    except OSError as error:
        raise InputError(f"cannot write {output.path}: {reason_of(error)}; choose another name") from error


def _identity(path: Path) -> tuple[object, ...]:
    """The same for two spellings of one file, which need not exist."""
    real = os.path.realpath(path)
    for place, rest in ((real, ()), (os.path.dirname(real), (os.path.basename(real),))):
        try:
            found = os.stat(place)
        except OSError:
            continue
        return (found.st_dev, found.st_ino, *rest)
    return (real,)
