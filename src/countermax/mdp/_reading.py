"""Tables from files: of CSV the exact text of each cell, of Parquet values of the types that its schema says."""

import csv
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas, import_pyarrow
from countermax._core.memory import check_memory

if TYPE_CHECKING:
    import pandas as pd

Check: TypeAlias = Callable[[list[str]], None]

_SUFFIXES = (".csv", ".parquet")
_LONGEST_CELL = 2**31 - 1  # the largest limit that every system takes
_limit_is_ours = threading.Lock()
_BYTES_PER_BYTE, _BYTES_PER_CELL = 8, 80  # in memory, for a byte of a CSV file and for a cell of a Parquet file


def read_table(path: str | Path, wanted: Sequence[str], check: Check) -> "pd.DataFrame":
    """Some columns of a CSV or Parquet file, or an error that says why. Only an empty cell is missing.

    Args:
        path: The file.
        wanted: Columns that are read, as far as they are there.
        check: Function that may refuse the file by the names of its columns, before anything else in it is read.
    """
    source = Path(path)
    if source.suffix.lower() not in _SUFFIXES:
        raise InputError(f"cannot tell the format of {source.name!r}; end it in {' or '.join(_SUFFIXES)}")
    read = _read_parquet if source.suffix.lower() == ".parquet" else _read_csv
    try:
        return read(source, wanted, check)
    except InputError as error:
        raise InputError(f"cannot read {source}: {error}") from error
    except FileNotFoundError as error:
        raise InputError(f"cannot read {source}: no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"cannot read {source}: it must be UTF-8 text, but byte {error.start} is {error.object[error.start]:#04x}; "
            "save it as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {source}: {_told(error.strerror or error)}") from error


def _read_csv(source: Path, wanted: Sequence[str], check: Check) -> "pd.DataFrame":
    check_memory(f"reading {source}", _BYTES_PER_BYTE * source.stat().st_size, "split the file")
    try:
        with source.open(encoding="utf-8-sig", newline="") as file, _cells_of_any_length():
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            if not header:
                raise InputError("the file must begin with the names of columns, but is empty")
            check(header)
            kept = [(name, header.index(name)) for name in wanted if name in header]
            columns: dict[str, list[str | None]] = {name: [] for name, _ in kept}
            once: dict[str, str | None] = {"": None}  # a text that stands in many cells is kept once
            rows = 0
            for cells in lines:
                if len(cells) != len(header):
                    if not cells:  # an empty line
                        continue
                    raise InputError(f"row {rows} must have {len(header)} cells like the header, got {len(cells)}")
                for name, place in kept:
                    columns[name].append(once.setdefault(cells[place], cells[place]))
                rows += 1
    except csv.Error as error:
        raise InputError(f"the file must be CSV, but line {lines.line_num} is not: {error}") from error
    pandas = import_pandas()
    return pandas.DataFrame({name: pandas.Series(cells, dtype=object) for name, cells in columns.items()})


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lifts the limit that Python's reader has for all threads at once; whoever set it finds it as it was."""
    with _limit_is_ours:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _read_parquet(source: Path, wanted: Sequence[str], check: Check) -> "pd.DataFrame":
    try:
        pyarrow = import_pyarrow()
    except ImportError as error:
        raise InputError(f"Parquet needs pyarrow: {error}; or write CSV") from error
    import_pandas()
    try:
        with source.open("rb") as opened, pyarrow.parquet.ParquetFile(opened, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            check(names)
            kept = [name for name in wanted if name in names]
            cells = file.metadata.num_rows * len(kept)
            check_memory(
                f"{file.metadata.num_rows} rows of {len(kept)} columns", _BYTES_PER_CELL * cells, "split the file"
            )
            table = file.read(columns=kept)
            table.validate(full=True)  # Arrow takes it on trust that texts are UTF-8
            return table.to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the file must be Parquet that can be read, but: {_told(error)}") from error


def _told(error: object) -> str:
    return " ".join(str(error).split())[:200]
