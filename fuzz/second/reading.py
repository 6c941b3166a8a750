"""Tables as the standard library reads them: every cell as it was written, or as its schema says."""

import csv
import io
import json
import re
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class MustRefuseError(Exception):
    """What was asked has no answer; an exit status of 0 would be wrong."""


class UnsureError(Exception):
    """People may differ about what this means; only the form of what comes back is judged."""


@dataclass(frozen=True)
class Token:
    """A number, or true or false, in JSON: the characters that were written."""

    text: str


@dataclass(frozen=True)
class Sheet:
    """Columns and rows; a cell is a text, a `Token`, a value of its schema, or None where nothing is there."""

    kind: str
    columns: list[str]
    rows: list[list[Any]]

    def place(self, name: str) -> int:
        """Where a column is."""
        count = self.columns.count(name)
        if count == 0:
            raise MustRefuseError(f"there is no column {name!r}")
        if count > 1:
            raise MustRefuseError(f"there are {count} columns {name!r}")
        return self.columns.index(name)

    def column(self, name: str) -> list[Any]:
        """The cells of a column."""
        place = self.place(name)
        return [row[place] for row in self.rows]


def read_sheet(name: str, content: bytes) -> Sheet:
    """A table from the bytes of a file, by its ending."""
    suffix = name.rpartition(".")[2].lower()
    readers = {"csv": _csv, "jsonl": _jsonl, "ndjson": _jsonl, "parquet": _parquet, "pq": _parquet}
    if suffix not in readers:
        raise MustRefuseError(f"{name!r} names no format")
    return readers[suffix](content)


def number(cell: Any) -> float | None:
    """A cell that holds a number; None where nothing is there."""
    if cell is None:
        return None
    if isinstance(cell, bool):
        raise UnsureError("a boolean in place of a number")
    if isinstance(cell, int | float):
        return None if cell != cell else float(cell)
    text = cell.text if isinstance(cell, Token) else str(cell)
    if isinstance(cell, Token) and text in ("true", "false"):
        raise UnsureError("a boolean in place of a number")
    if _PLAIN_NUMBER.fullmatch(text):
        return float(text)
    if isinstance(cell, str) and (_NUMBER.fullmatch(text.strip()) or text.strip().lower().lstrip("+-") in _WORDS):
        raise UnsureError(f"{text!r} is a number to some readers")
    try:
        float(text)
    except ValueError:
        raise MustRefuseError(f"{text!r} is no number") from None
    raise UnsureError(f"{text!r} is a number to some readers")


_WORDS = ("nan", "inf", "infinity", "null", "na", "n/a", "none")


def _csv(content: bytes) -> Sheet:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MustRefuseError("not UTF-8") from None
    if "\0" in text or re.search(r"\r(?!\n)", text):
        raise UnsureError("a control character that readers differ about")
    if content.startswith(b"\xef\xbb\xbf\xef\xbb\xbf"):
        raise UnsureError("two marks at the beginning")
    csv.field_size_limit(2**31)
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    except csv.Error as error:
        raise UnsureError(f"readers differ about the quotes: {error}") from None
    if not lines:
        raise MustRefuseError("empty")
    if _odd_quotes(text) or re.search(r"(^|\n)\r?\n", text.rstrip("\r\n")):
        raise UnsureError("quotes within a cell, or empty lines")
    header, *rows = lines
    if any(len(row) != len(header) for row in rows):
        raise MustRefuseError("rows of different lengths")
    return Sheet("csv", header, [[None if cell == "" else cell for cell in row] for row in rows])


def _odd_quotes(text: str) -> bool:
    """Whether a quote stands within a cell that has none around it, or a quoted cell is empty: readers differ."""
    at, size = 0, len(text)
    while at < size:
        if text[at] == '"':
            start = at = at + 1
            while at < size:
                if text[at] == '"':
                    if text[at + 1 : at + 2] != '"':
                        break
                    at += 1
                at += 1
            if at == start or text[at + 1 : at + 2] not in ("", ",", "\n", "\r"):
                return True
            at += 1
        else:
            while at < size and text[at] not in ",\n":
                if text[at] == '"':
                    return True
                at += 1
        at += 1
    return False


def _jsonl(content: bytes) -> Sheet:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise MustRefuseError("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise UnsureError("a byte order mark in JSON")
    columns: list[str] = []
    found: list[dict[str, Any]] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            value = json.loads(
                line,
                parse_float=Token,
                parse_int=Token,
                parse_constant=_constant,
                object_pairs_hook=_once,
            )
        except (ValueError, RecursionError) as error:
            raise MustRefuseError(f"not JSON: {error}") from None
        if not isinstance(value, dict):
            raise MustRefuseError("a line that is no object")
        columns += [name for name in value if name not in columns]
        found.append({name: _token(each) for name, each in value.items()})
    if not found:
        raise MustRefuseError("empty")
    return Sheet("jsonl", columns, [[row.get(name) for name in columns] for row in found])


def _constant(word: str) -> Any:
    raise UnsureError(f"{word} is no JSON, but some readers take it")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise UnsureError("a name twice in one object")
    return dict(pairs)


def _token(value: Any) -> Any:
    if isinstance(value, bool):
        return Token("true" if value else "false")
    return value


def _parquet(content: bytes) -> Sheet:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(content))
        names, columns = table.column_names, [column.to_pylist() for column in table.columns]
    except (pa.ArrowException, OSError, ValueError) as error:  # texts that are not UTF-8 among them
        raise MustRefuseError(f"not Parquet: {error}") from None
    return Sheet("parquet", names, [list(row) for row in zip(*columns, strict=True)])
