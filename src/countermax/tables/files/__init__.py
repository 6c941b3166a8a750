"""Tables in files: CSV, JSON lines and Parquet, read and written a chunk of rows at a time.

Only what is asked about is read. Text files have no types, so outcomes are the exact characters of a cell or of a JSON
value, and what is only passed through is passed through unread: from CSV to CSV and from JSON lines to JSON lines byte
for byte, into other formats as text. Parquet has a schema, which is kept.
"""

from pathlib import Path

from countermax.tables.files._base import AbstractTableFile as AbstractTableFile
from countermax.tables.files._base import MoreColumnsError as MoreColumnsError
from countermax.tables.files._base import Rows as Rows
from countermax.tables.files._formats import format_of as format_of
from countermax.tables.files._writers import ParquetTableWriter as ParquetTableWriter
from countermax.tables.files._writers import open_writer as open_writer
from countermax.tables.files._writers import write_table as write_table


def open_table(path: str | Path) -> AbstractTableFile:
    """A table in a file, to be read; the ending of the file's name says what it is."""
    kind = format_of(path)
    if kind == "parquet":
        from countermax.tables.files._parquet import ParquetTable

        return ParquetTable(path)
    if kind == "csv":
        from countermax.tables.files._csv import CsvTable

        return CsvTable(path)
    from countermax.tables.files._jsonl import JsonLinesTable

    return JsonLinesTable(path)
