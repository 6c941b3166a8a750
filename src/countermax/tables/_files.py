"""Tables in files, a chunk of rows at a time: CSV, Parquet and JSON lines."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.files import atomic_file
from countermax._core.results import plain

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}

_BLOCK_BYTES = 2**24  # of text that is parsed at a time
_CONVERSION = re.compile(r"In CSV column #(\d+): .*?conversion error to (\w+)")


class RetypedError(Exception):
    """A column turned out to hold something else than its first rows did; reading has to begin again."""


def format_of(path: str | Path) -> str:
    """The format that a file's name says."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"cannot tell the format from {Path(path).name!r}; end it in {', '.join(FORMATS)}")
    return FORMATS[suffix]


class TableFile:
    """A table in a file, to be read. Rows come in chunks of one size, whatever the blocks of the file are."""

    def __init__(self, path: str | Path, *, as_text: bool = False):
        """Looks at the columns.

        Args:
            path: The file; its ending says what it is.
            as_text: Whether a CSV's columns stay as they are written, but for those that `numbers` names: 007 keeps
                its zeros.
        """
        self.path, self.kind, self._as_text = Path(path), format_of(path), as_text
        self._pa = import_pyarrow()
        self._types: dict[str, Any] = {}
        self._numbers: set[str] = set()
        with self._in_words():
            self._schema = self._find_schema()
        self.names: list[str] = self._schema.names

    @property
    def num_rows(self) -> int | None:
        """How many rows there are, where the file says so."""
        return self._pa.parquet.ParquetFile(self.path).metadata.num_rows if self.kind == "parquet" else None

    def empty_table(self) -> Any:
        """The columns without rows."""
        return self._schema.empty_table()

    def numbers(self, names: Iterable[str]) -> None:
        """Says which columns hold numbers, whatever their first rows look like."""
        self._numbers |= set(names)
        if self.kind == "csv":
            self._types |= dict.fromkeys(self._numbers, self._pa.float64())

    def chunks(self, rows: int) -> Iterator[Any]:
        """Tables of `rows` rows, the last one shorter; at least one, though it may be empty."""
        with self._in_words():
            waiting: list[Any] = []
            count, empty = 0, True
            for batch in self._batches():
                waiting.append(batch)
                count += batch.num_rows
                while count >= rows:
                    table = self._pa.Table.from_batches(waiting)
                    yield table.slice(0, rows)
                    waiting, empty = table.slice(rows).to_batches(), False
                    count -= rows
            if count or empty:
                yield self._pa.Table.from_batches(waiting) if waiting else self._schema.empty_table()

    def _batches(self) -> Iterator[Any]:
        pa = self._pa
        if self.kind == "parquet":
            yield from pa.parquet.ParquetFile(self.path).iter_batches()
        elif self.kind == "csv":
            types = {name: pa.string() for name in self.names} if self._as_text else {}
            yield from self._csv(types | self._types)
        else:
            options = pa.json.ParseOptions(explicit_schema=self._schema)
            for block in self._json_blocks():
                yield from pa.json.read_json(io.BytesIO(block), parse_options=options).to_batches()

    def _csv(self, types: dict[str, Any]) -> Any:
        csv = self._pa.csv
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )

    def _json_blocks(self) -> Iterator[bytes]:
        """Whole lines, about a block of them at a time."""
        with self.path.open("rb") as file:
            while lines := file.readlines(_BLOCK_BYTES):
                block = b"".join(lines)
                if block.strip():
                    yield block

    def _find_schema(self) -> Any:
        """Of a CSV by its first block, of JSON lines by all of them: there a field may be a whole number at first."""
        pa = self._pa
        if self.kind == "parquet":
            return pa.parquet.ParquetFile(self.path).schema_arrow
        if self.kind == "csv":
            return self._csv({}).schema
        schemas = [pa.json.read_json(io.BytesIO(block)).schema for block in self._json_blocks()]
        if not schemas:
            raise InputError(f"{self.path} is empty")
        return pa.unify_schemas(schemas, promote_options="permissive")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"cannot read {self.path}: no such file") from error
        except (self._pa.ArrowInvalid, self._pa.ArrowTypeError) as error:
            reason = str(error).splitlines()[0]
            if match := _CONVERSION.search(reason):
                name, kind = self.names[int(match[1])], match[2]
                if name not in self._numbers and kind != "string":
                    wider = {"null": self._pa.int64(), "int64": self._pa.float64()}
                    self._types[name] = wider.get(kind, self._pa.string())
                    raise RetypedError from error
                reason = f"column {name!r} must hold numbers, and nothing where one is missing; {reason}"
            raise InputError(f"cannot read {self.path}: {reason}") from error
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {(error.strerror or str(error)).lower()}") from error


class TableWriter:
    """Writes a table chunk by chunk, in the format that a file's name says."""

    def __init__(self, path: str | Path, file: BinaryIO):
        self._kind, self._file, self._pa = format_of(path), file, import_pyarrow()
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """The next rows; all tables have the columns of the first."""
        if self._kind == "jsonl":
            rows = (json.dumps(plain(row)) for row in table.to_pylist())
            self._file.write("".join(f"{row}\n" for row in rows).encode())
            return
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)

    def _open(self, schema: Any) -> Any:
        pa = self._pa
        if self._kind == "csv":
            return pa.csv.CSVWriter(self._file, schema, write_options=pa.csv.WriteOptions(quoting_style="needed"))
        repeating = [field.name for field in schema if not pa.types.is_floating(field.type)]
        return pa.parquet.ParquetWriter(self._file, schema, use_dictionary=repeating)

    def close(self) -> None:
        """Writes what belongs at the end of a file."""
        if self._writer is not None:
            self._writer.close()


@contextmanager
def open_writer(path: str | Path) -> Iterator[TableWriter]:
    """A file to write a table into; it appears when the block ends without an error."""
    with atomic_file(path) as file:
        writer = TableWriter(path, file)
        try:
            yield writer
        finally:
            writer.close()


def write_table(table: Any, path: str | Path) -> None:
    """Writes an Arrow table to a file that ends in `.csv`, `.parquet` or `.jsonl`, atomically."""
    with open_writer(path) as writer:
        writer.write(table)
