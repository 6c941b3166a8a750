"""Tables in files: CSV, JSON lines and Parquet, read a chunk of rows at a time.

Only what is asked about is read. Text files have no types, so outcomes are the exact characters of a cell or of a JSON
value, and what is only passed through is passed through unread: from CSV to CSV and from JSON lines to JSON lines byte
for byte, into other formats as text. Parquet has a schema, which is kept.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import digits
from typing import Any, NamedTuple, final

from countermax._core.errors import InputError, first_line
from countermax._core.extras import import_pyarrow
from countermax._core.files import reason_of
from countermax._core.labels import listed
from countermax._tables.frames import AbstractFrame, as_frame, no_column, no_rows

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")

RECORD, BARE = "\0record", "\0bare"  # names that no column has

CHUNK_BYTES = 2**27  # rows with long texts come in shorter chunks
LEAST_ROWS = 2**12  # but whole blocks of the resampling


class MoreColumnsError(InputError):
    """A row has a column that none of the first had; whoever can begins again, now that all of them are known."""


class FileRows(NamedTuple):
    """Some rows of a file."""

    table: Any
    """The columns that were asked for, as an Arrow table."""
    records: Any
    """The rows as they stand in the file, an Arrow array of bytes; None where they were not asked for."""
    bare: Any
    """Of JSON lines, for each row whether its outcome stands without quotation marks; None otherwise."""


class AbstractTableFile(ABC):
    """A table in a file, to be read."""

    kind: str

    def __init__(self, path: str | Path):
        """Looks at the names of the columns."""
        self.path = Path(path)
        self._pa = import_pyarrow()
        self._numbers: set[str] = set()
        self._outcome: str | None = None
        self._wanted: list[str] = []
        self._with_records = False
        with self._in_words():
            self.names = self._find_names()
        self._check_names()

    @property
    @abstractmethod
    def num_rows(self) -> int | None:
        """How many rows there are, where the file says so."""

    @abstractmethod
    def empty_table(self) -> Any:
        """All columns without rows."""

    @abstractmethod
    def _find_names(self) -> list[str]: ...

    @abstractmethod
    def _tables(self) -> Iterator[Any]:
        """Arrow tables of any length with the columns that are wanted, and `RECORD` and `BARE` where they are."""

    def ask(
        self,
        outcome: str | None,
        numbers: Collection[str],
        *,
        others: bool = False,
        records: bool = False,
        flags: Collection[str] = (),
    ) -> None:
        """Says which columns will be read: outcomes, numbers, flags, in a text file as text, and maybe all others.

        With `records`, rows are wanted as they stand in the file, as far as it is text.
        """
        self._outcome, self._numbers, self._with_records = outcome, set(numbers), records
        asked = {outcome, *numbers, *flags}
        self._wanted = [name for name in self.names if others or name in asked]

    def chunks(self, rows: int) -> Iterator[FileRows]:
        """Chunks of `rows` rows, the last one shorter; at least one, though it may be empty."""
        pa = self._pa
        with self._in_words():
            waiting: list[Any] = []
            count, size, empty = 0, 0, True
            for table in self._tables():
                waiting.append(table)
                count, size = count + table.num_rows, size + table.nbytes
                while count >= rows or (size > CHUNK_BYTES and count >= LEAST_ROWS):
                    most = max(LEAST_ROWS, int(count * CHUNK_BYTES / max(size, 1)) // LEAST_ROWS * LEAST_ROWS)
                    together, step = pa.concat_tables(waiting), min(rows, most)
                    yield self._rows(together.slice(0, step))
                    waiting, empty = [together.slice(step)], False
                    count, size = count - step, waiting[0].nbytes
            if not waiting:
                waiting = [self.empty_table().select(self._wanted)]
                if self._with_records:
                    none = pa.array([], pa.large_binary()), pa.array([], pa.bool_())
                    waiting = [waiting[0].append_column(RECORD, none[0]).append_column(BARE, none[1])]
            if count or empty:
                yield self._rows(pa.concat_tables(waiting))

    def _rows(self, table: Any) -> FileRows:
        found = [table.column(name) if name in table.column_names else None for name in (RECORD, BARE)]
        return FileRows(table.select(self._wanted), *found)

    def _check_names(self) -> None:
        odd = [name for name in self.names if any("\ud800" <= each <= "\udfff" for each in name)]
        if odd:
            raise InputError(f"cannot read {self.path}: the name of a column must be Unicode, got {ascii(odd[0])}")
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise InputError(f"{self.path} must have each column once, but has {listed(twice)} twice; rename one")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"cannot read {self.path}: no such file") from error
        except self._pa.ArrowException as error:
            raise InputError(f"cannot read {self.path}: {first_line(error)}") from error
        except UnicodeError as error:
            raise InputError(f"cannot read {self.path}: it holds text that is not Unicode, or is damaged") from error
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {reason_of(error)}") from error


class AbstractTextTable(AbstractTableFile):
    """A table in a text file, whose columns have no types: numbers where they are asked for, else text."""

    newline: bytes
    """What ends a line."""

    @property
    def num_rows(self) -> int | None:
        return None

    def empty_table(self) -> Any:
        pa = self._pa
        types = [pa.float64() if name in self._numbers else pa.string() for name in self.names]
        return no_rows(pa.schema(list(zip(self.names, types, strict=True))))


@final
class ParquetTable(AbstractTableFile):
    """A table in a Parquet file."""

    kind = "parquet"

    @property
    def num_rows(self) -> int | None:
        return self._open().metadata.num_rows

    def empty_table(self) -> Any:
        return no_rows(self._open().schema_arrow)

    def _find_names(self) -> list[str]:
        return list(self._open().schema_arrow.names)

    def _tables(self) -> Iterator[Any]:
        for batch in self._open().iter_batches(columns=self._wanted):
            batch.validate(full=True)  # Arrow takes it on trust that texts are UTF-8
            yield self._pa.Table.from_batches([batch])

    def _open(self) -> Any:
        return self._pa.parquet.ParquetFile(self._pa.OSFile(os.fsencode(self.path)))  # any name, also one not UTF-8


def format_of(path: str | Path, *, read: bool = False) -> str:
    """The format that a file's name says; what is to be read must be there."""
    name, suffix = Path(path).name or str(path), Path(path).suffix.lower()
    if suffix not in FORMATS:
        if read and not suffix and not Path(path).exists():
            raise InputError(f"cannot read {path}: no such file or folder")
        hint = "; compressed files are not read: unpack it first" if suffix in _COMPRESSED else ""
        hint = "; of a spreadsheet, save the sheet as CSV" if suffix in _SPREADSHEETS and read else hint
        hint = hint or "; read any other with pandas, and pass the frame" * read
        raise InputError(f"cannot tell the format from {name!r}; end it in {', '.join(FORMATS)}{hint}")
    return FORMATS[suffix]


def open_table(path: str | Path) -> AbstractTableFile:
    """A table in a file, to be read; the ending of the file's name says what it is."""
    kind = format_of(path, read=True)
    if kind == "parquet":
        return ParquetTable(path)
    if kind == "csv":
        from countermax._tables.csv import CsvTable

        return CsvTable(path)
    from countermax._tables.jsonl import JsonLinesTable

    return JsonLinesTable(path)


def read_frame(data: Any, columns: Mapping[str, Hashable]) -> AbstractFrame:
    """The columns, by argument, of a frame or of a file; each must be there. In text files only weights are numbers.

    Where an argument has several columns, numbers follow its name.
    """
    if not isinstance(data, str | Path):
        frame = as_frame(data)
    else:
        file = open_table(data)
        absent = next((each for each in columns.items() if each[1] not in file.names), None)
        if absent is not None:
            raise InputError(no_column(absent[0].rstrip(digits), absent[1], file.names))
        wanted = list(dict.fromkeys(map(str, columns.values())))
        outcome = str(columns["outcome"]) if "outcome" in columns else None
        file.ask(outcome, [str(columns[each]) for each in columns if each == "weights"], flags=wanted)
        try:
            found = list(file.chunks(2**16))
        except MoreColumnsError:  # now that all of them are known
            found = list(file.chunks(2**16))
        frame = as_frame(import_pyarrow().concat_tables([rows.table for rows in found]))
        frame.untyped = isinstance(file, AbstractTextTable)
    for argument, name in columns.items():
        frame.column(argument.rstrip(digits), name)
    if not frame.num_rows:
        raise InputError("`data` must have at least one row, got none")
    return frame
