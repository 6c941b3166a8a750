"""Writing a table chunk by chunk; a file is there with all rows, or not at all."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, final

from countermax._core.extras import import_pyarrow
from countermax._core.files import atomic_file
from countermax.tables.files._base import AbstractTableFile, Rows
from countermax.tables.files._cells import csv_cells, csv_name, json_name, json_values, lines, or_null
from countermax.tables.files._csv import CsvTable
from countermax.tables.files._formats import format_of
from countermax.tables.files._jsonl import JsonLinesTable


class AbstractWriter(ABC):
    """Writes a table."""

    @abstractmethod
    def write(self, table: Any, behind: Rows | None = None, likeliest: str | None = None) -> None:
        """The next rows; all tables have the columns of the first.

        Args:
            table: Columns.
            behind: Rows of a text file in the same format, as they stand there; the columns come behind them.
            likeliest: The column that is written as outcomes are in those rows.
        """

    @abstractmethod
    def close(self) -> None:
        """Writes what belongs at the end of a file."""


@final
class CsvWriter(AbstractWriter):
    """Writes a CSV as RFC 4180 says, so that it reads back as it was. A spreadsheet may still take =1 for a formula."""

    def __init__(self, file: BinaryIO, source: AbstractTableFile | None):
        self._file, self._begun = file, False
        self._header, self._newline = b"", b"\n"
        if isinstance(source, CsvTable):
            self._header, self._newline = source.header, source.newline

    def write(self, table: Any, behind: Rows | None = None, likeliest: str | None = None) -> None:
        """The next rows."""
        names = table.column_names
        if not self._begun:
            self._begun = True
            before = b"" if behind is None else self._header + b","
            self._file.write(before + ",".join(map(csv_name, names)).encode() + self._newline)
        cells = [csv_cells(name, table.column(place)) for place, name in enumerate(names)]
        for piece in lines(cells if behind is None else [behind.records, *cells], ",", self._newline):
            self._file.write(piece)

    def close(self) -> None:
        """Nothing belongs at the end."""


@final
class JsonLinesWriter(AbstractWriter):
    """Writes a JSON object in each line."""

    def __init__(self, file: BinaryIO, source: AbstractTableFile | None):
        self._file = file
        self._newline = source.newline if isinstance(source, JsonLinesTable) else b"\n"

    def write(self, table: Any, behind: Rows | None = None, likeliest: str | None = None) -> None:
        """The next rows."""
        parts = ["{" if behind is None else behind.records]
        for place, name in enumerate(table.column_names):
            bare = behind.bare if behind is not None and name == likeliest else None
            values = json_values(name, table.column(place), bare)
            parts += [f"{', ' if place else ''}{json_name(name)}: ", or_null(values)]
        for piece in lines([*parts, "}"], "", self._newline) if table.num_rows else ():
            self._file.write(piece)

    def close(self) -> None:
        """Nothing belongs at the end."""


@final
class ParquetTableWriter(AbstractWriter):
    """Writes a Parquet file."""

    def __init__(self, file: BinaryIO):
        self._file, self._pa = file, import_pyarrow()
        self._writer: Any = None

    def write(self, table: Any, behind: Rows | None = None, likeliest: str | None = None) -> None:
        """The next rows."""
        assert behind is None  # rows do not stand in Parquet as bytes
        if self._writer is None:
            schema = table.schema
            repeating = [field.name for field in schema if not self._pa.types.is_floating(field.type)]
            self._writer = self._pa.parquet.ParquetWriter(self._file, schema, use_dictionary=repeating)
        self._writer.write_table(table)

    def close(self) -> None:
        """Writes what Parquet has at the end of a file."""
        if self._writer is not None:
            self._writer.close()


@contextmanager
def open_writer(path: str | Path, source: AbstractTableFile | None = None) -> Iterator[AbstractWriter]:
    """A file to write a table into; it appears when the block ends without an error.

    Args:
        path: The file; its ending says what it is.
        source: The file that rows come from, where they are written as they stand there.
    """
    kind = format_of(path)
    with atomic_file(path) as file:
        writer: AbstractWriter
        if kind == "parquet":
            writer = ParquetTableWriter(file)
        else:
            writer = CsvWriter(file, source) if kind == "csv" else JsonLinesWriter(file, source)
        try:
            yield writer
        finally:
            writer.close()


def write_table(table: Any, path: str | Path) -> None:
    """Writes an Arrow table to a file that ends in `.csv`, `.parquet` or `.jsonl`, atomically."""
    with open_writer(path) as writer:
        writer.write(table)
