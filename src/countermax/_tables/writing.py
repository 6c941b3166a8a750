"""Writing a table chunk by chunk; a file is there with all rows, or not at all."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.files import atomic_file, begin_storing
from countermax._core.results import plain
from countermax._tables.csv import CsvTable
from countermax._tables.files import AbstractTableFile, FileRows, format_of
from countermax._tables.frames import as_frame
from countermax._tables.jsonl import JsonLinesTable

_GROUP_ROWS, _GROUP_BYTES = 2**17, 2**25  # of a row group of Parquet, at most
_CSV_SPECIAL = re.compile(r'[",\r\n\x00]|^\ufeff')
_JSON_SCALAR = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")


# A writer's `write` takes the next rows; all tables have the columns of the first. The columns come `behind` rows of a
# text file in the same format, as they stand there; the column `likeliest` is written as outcomes are in those rows.


@final
class CsvWriter:
    """Writes a CSV as RFC 4180 says, so that it reads back as it was. A spreadsheet may still take =1 for a formula."""

    def __init__(self, file: BinaryIO, source: AbstractTableFile | None):
        self._file, self._begun = file, False
        self._header, self._newline = b"", b"\n"
        if isinstance(source, CsvTable):
            self._header, self._newline = source.header, source.newline

    def write(self, table: Any, behind: FileRows | None = None, likeliest: str | None = None) -> None:
        """Rows as RFC 4180 says."""
        names = table.column_names
        if not self._begun:
            self._begun = True
            before = b"" if behind is None else self._header + b","
            self._file.write(before + ",".join(map(csv_name, names)).encode() + self._newline)
        cells = [csv_cells(name, table.column(place)) for place, name in enumerate(names)]
        for piece in lines(cells if behind is None else [behind.records, *cells], ",", self._newline):
            self._file.write(piece)


@final
class JsonLinesWriter:
    """Writes a JSON object in each line."""

    def __init__(self, file: BinaryIO, source: AbstractTableFile | None):
        self._file = file
        self._newline = source.newline if isinstance(source, JsonLinesTable) else b"\n"

    def write(self, table: Any, behind: FileRows | None = None, likeliest: str | None = None) -> None:
        """Objects, one in each line."""
        parts = ["{" if behind is None else behind.records]
        for place, name in enumerate(table.column_names):
            bare = behind.bare if behind is not None and name == likeliest else None
            values = json_values(name, table.column(place), bare)
            parts += [f"{', ' if place else ''}{_json(name)}: ", import_pyarrow().compute.fill_null(values, "null")]
        for piece in lines([*parts, "}"], "", self._newline) if table.num_rows else ():
            self._file.write(piece)


@final
class ParquetTableWriter:
    """Writes a Parquet file, in row groups of so many rows, or fewer where these are large."""

    def __init__(self, file: BinaryIO | RawIOBase, rows: int = _GROUP_ROWS):
        self._file, self._rows, self._pa = file, rows, import_pyarrow()
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._bytes = self._stored = 0

    def write(self, table: Any, behind: FileRows | None = None, likeliest: str | None = None) -> None:
        """Keeps rows until they are enough for a row group."""
        assert behind is None  # rows do not stand in Parquet as bytes
        if self._writer is None:
            schema = table.schema
            repeating = [field.name for field in schema if not self._pa.types.is_floating(field.type)]
            options = {"use_dictionary": repeating, "write_statistics": repeating, "write_batch_size": _GROUP_ROWS}
            self._writer = self._pa.parquet.ParquetWriter(self._file, schema, **options)
        self._waiting.append(table)
        self._bytes += table.nbytes
        if sum(map(len, self._waiting)) >= self._rows or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Writes what is left, and what belongs at the end of the file."""
        if self._writer is not None:
            self._flush()
            self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            together, self._waiting = self._pa.concat_tables(self._waiting), []
            self._bytes = 0
            self._writer.write_table(together, row_group_size=max(len(together), 1))
            self._stored = begin_storing(self._file, self._stored)


@contextmanager
def open_writer(
    path: str | Path, source: AbstractTableFile | None = None
) -> Iterator[CsvWriter | JsonLinesWriter | ParquetTableWriter]:
    """A file to write a table into; it appears when the block ends without an error."""
    kind = format_of(path)
    with atomic_file(path) as file:
        if kind == "parquet":
            with closing(ParquetTableWriter(file)) as writer:
                yield writer
        else:
            yield CsvWriter(file, source) if kind == "csv" else JsonLinesWriter(file, source)


def write_table(frame: Any, path: str | Path) -> None:
    """Writes a frame of any library to a file that ends in `.csv`, `.parquet` or `.jsonl`, atomically."""
    with open_writer(path) as writer:
        writer.write(as_frame(frame).to_arrow())


def csv_name(name: str) -> str:
    """The name of a column as a cell of the header."""
    if "\0" in name:
        raise InputError(f"a CSV cannot hold a NUL character, but a column is called {name!r}; rename it")
    return '"' + name.replace('"', '""') + '"' if not name or _CSV_SPECIAL.search(name) else name


def csv_cells(name: str, column: Any) -> Any:
    """A column as cells, quoted where RFC 4180 asks for it; a missing value is nothing at all, an empty text "" ."""
    pa = import_pyarrow()
    texts = _as_texts(name, column)
    if not _is_text(column.type):
        return texts
    special = pa.compute.match_substring_regex(texts, '[",\r\n\\x00]|^$')
    if not pa.compute.any(special).as_py():
        return texts
    if pa.compute.any(pa.compute.match_substring(texts, "\0")).as_py():
        raise InputError(f"a CSV cannot hold the NUL character in column {name!r}; write .parquet or .jsonl instead")
    return pa.compute.if_else(special, _quoted(pa.compute.replace_substring(texts, '"', '""')), texts)


def json_values(name: str, column: Any, bare: Any = None) -> Any:
    """A column as JSON; where `bare`, a text that could be a number or a boolean is written as one."""
    pa = import_pyarrow()
    types, dtype = pa.types, column.type
    if bare is not None and _is_text(dtype):

        def label(text: str | None, alone: bool) -> str | None:
            return text if text is None or (alone and _JSON_SCALAR.fullmatch(text)) else _json(text)

        return pa.array(map(label, column.to_pylist(), bare.to_pylist()), pa.large_string())
    if types.is_floating(dtype):
        return _json_numbers(column.cast(pa.float64()))
    if types.is_integer(dtype) or types.is_boolean(dtype):
        return _as_texts(name, column)
    if _is_text(dtype) or types.is_binary(dtype) or types.is_large_binary(dtype):
        texts = _as_texts(name, column)
        if not pa.compute.any(pa.compute.match_substring_regex(texts, r'["\\[:cntrl:]]')).as_py():
            return _quoted(texts)
        column = texts
    return _json_texts(column)


def lines(parts: Sequence[Any], separator: str, end: bytes) -> list[Any]:
    """Rows as bytes, in pieces that can be written one after the other."""
    pa = import_pyarrow()
    binary = pa.large_binary()
    nothing, between, after = (pa.scalar(each, binary) for each in (b"", separator.encode(), end))
    same = [pa.scalar(part.encode(), binary) if isinstance(part, str) else part.cast(binary) for part in parts]
    join = pa.compute.binary_join_element_wise
    ended = join(join(*same, between, null_handling="replace", null_replacement=""), nothing, after)
    return [_flat(chunk) for chunk in (ended.chunks if isinstance(ended, pa.ChunkedArray) else [ended])]


def _flat(array: Any) -> Any:
    """What an array of bytes holds, one after the other."""
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return b"" if data is None or not len(array) else data[int(places[0]) : int(places[-1])]


def _is_text(dtype: Any) -> bool:
    types = import_pyarrow().types
    dtype = dtype.value_type if types.is_dictionary(dtype) else dtype
    return types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)


def _as_texts(name: str, column: Any) -> Any:
    pa = import_pyarrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column.cast(pa.string() if not _is_text(column.type) else pa.large_string()).cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # lists and the like
        return csv_cells(name, _json_texts(column))
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r} holds {column.type} that is not text; write .parquet instead") from error


def _json_texts(column: Any) -> Any:
    values = (None if value is None else _json(plain(value)) for value in column.to_pylist())
    return import_pyarrow().array(values, import_pyarrow().large_string())


def _json_numbers(column: Any) -> Any:
    """Numbers; a whole one keeps its ".0", so that the column stays one of fractions wherever it is read."""
    pa = import_pyarrow()
    compute = pa.compute
    finite = compute.if_else(compute.is_finite(column), column, None)
    texts = finite.cast(pa.string()).cast(pa.large_string())
    whole = compute.match_substring_regex(texts, "^-?[0-9]+$")
    if not compute.any(whole).as_py():
        return texts
    return compute.if_else(whole, compute.binary_join_element_wise(texts, _constant("0"), _constant(".")), texts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _quoted(texts: Any) -> Any:
    mark = _constant('"')
    return import_pyarrow().compute.binary_join_element_wise(mark, texts, mark, _constant(""))


def _constant(text: str) -> Any:
    return import_pyarrow().scalar(text, import_pyarrow().large_string())
