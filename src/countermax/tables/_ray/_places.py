"""Which Parquet files a path means, what is in them, and how they are cut into parts."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._ray import in_parts
from countermax.tables._ray._asking import difference

PART_ROWS = 2**19  # rows of a part, unless one row group has more: what is done again when a worker dies
UNFINISHED = "_UNFINISHED"
"""Name of the file that lies in a folder while it is being written."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ENDINGS = (".parquet", ".pq")
_WILD = re.compile(r"[*\[]")
_PIECES = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
_FILES_AT_ONCE = 64


class FoundFile(NamedTuple):
    """A Parquet file."""

    path: str
    size: int
    changed: int
    """When it was changed last, in nanoseconds."""
    values: tuple[tuple[str, str | None], ...]
    """What the folders that it lies in say about its rows: `year=2024`."""


class RowGroups(NamedTuple):
    """Row groups of a file that follow each other."""

    number: int
    path: str
    row_groups: tuple[int, ...]
    starts: tuple[int, ...]
    """Position in the file of the first row of each of them."""
    num_rows: int
    first_row: int
    """Position of the first row in the whole table."""
    values: tuple[tuple[str, str | None], ...]

    def where(self, row: int) -> str:
        """The file and the row group that a row of the file stands in."""
        place = max(place for place, start in enumerate(self.starts) if start <= row or place == 0)
        return f"{self.path}, row group {self.row_groups[place]}"


class Source(NamedTuple):
    """A table in Parquet files."""

    filesystem: Any
    files: list[FoundFile]
    schema: Any
    """Its columns, as an Arrow schema: those in the files, then those that folders are named after."""
    own: list[str]
    """The columns in the files."""
    folder: str | None
    """The folder all of whose files are read; None where files were named."""

    def tables(self, part: RowGroups, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Arrow tables of so many rows, the last one shorter.

        Args:
            part: Part to read.
            columns: Names of columns.
            rows: Number of rows.
        """
        pa = import_pyarrow()
        try:
            with self.filesystem.open_input_file(part.path) as raw, pa.parquet.ParquetFile(raw) as file:
                wanted = [name for name in self.own if name in columns]
                for batch in file.iter_batches(rows, row_groups=list(part.row_groups), columns=wanted):
                    batch.validate(full=True)  # Arrow takes it on trust that texts are UTF-8
                    yield self._whole(pa.Table.from_batches([batch]), part, columns)
        except (pa.ArrowException, OSError) as error:
            groups = ", ".join(map(str, part.row_groups))
            raise InputError(f"cannot read {part.path}, row group {groups}: {_first_line(error)}") from error

    def _whole(self, table: Any, part: RowGroups, columns: Sequence[str]) -> Any:
        """With what the names of folders say, in the order of the columns."""
        pa = import_pyarrow()
        for name, value in part.values:
            if name in columns:
                kind = self.schema.field(name).type
                scalar = pa.scalar(int(value) if value is not None and pa.types.is_integer(kind) else value, kind)
                table = table.append_column(name, pa.repeat(scalar, table.num_rows))
        return table.select([name for name in self.schema.names if name in columns])


def find_source(path: str | Path) -> Source:
    """The table that a path means: a Parquet file, a folder of them, or several by wildcards; local, or a URI.

    Folders that are named `column=value` give all files in them that column.
    """
    pa = import_pyarrow()
    filesystem, files, folder = _find(str(path))
    try:
        schema = pa.parquet.read_schema(files[0].path, filesystem=filesystem)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot read {files[0].path}: {_first_line(error)}") from error
    own = schema.names
    for name in [name for name, _ in files[0].values]:
        if name in own:
            raise InputError(f"the column {name!r} of {files[0].path} is also the name of a folder; rename one of them")
        found = [dict(file.values).get(name) for file in files]
        whole = all(value is None or re.fullmatch(r"-?\d{1,9}", value) for value in found)
        schema = schema.append(pa.field(name, pa.int32() if whole else pa.string()))
    return Source(filesystem, files, schema, own, folder)


def parts_of(source: Source) -> list[RowGroups]:
    """All parts, in order; the columns of all files must be the same."""
    paths = [file.path for file in source.files]
    some = [(paths[start : start + _FILES_AT_ONCE],) for start in range(0, len(paths), _FILES_AT_ONCE)]
    schema = source.schema.remove_metadata()
    for name in [name for name in schema.names if name not in source.own]:
        schema = schema.remove(schema.get_field_index(name))
    sizes = [rows for found in in_parts(_row_groups, (source.filesystem, schema, paths[0]), some) for rows in found]
    parts: list[RowGroups] = []
    first_row = 0
    for file, rows in zip(source.files, sizes, strict=True):
        for groups, starts, count in _cut(rows):
            parts.append(RowGroups(len(parts), file.path, groups, starts, count, first_row, file.values))
            first_row += count
    return parts


def _cut(rows: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Row groups that are read together: their numbers, their first rows, and how many rows they have."""
    groups: list[int] = []
    starts: list[int] = []
    count = start = 0
    for group, size in enumerate(rows):
        if groups and count + size > PART_ROWS:
            yield tuple(groups), tuple(starts), count
            groups, starts, count = [], [], 0
        groups.append(group)
        starts.append(start)
        count, start = count + size, start + size
    if groups:
        yield tuple(groups), tuple(starts), count


def _row_groups(shared: tuple[Any, Any, str], paths: list[str]) -> list[list[int]]:
    """How many rows the row groups of each file have."""
    filesystem, schema, first = shared
    pa = import_pyarrow()
    result = []
    for path in paths:
        try:
            with filesystem.open_input_file(path) as raw, pa.parquet.ParquetFile(raw) as file:
                found, metadata = file.schema_arrow.remove_metadata(), file.metadata
                rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot read {path}: {_first_line(error)}") from error
        if found.names != schema.names or found.types != schema.types:
            raise InputError(
                f"all files must have the same columns, but {path} differs from {first}: {difference(schema, found)}"
            )
        result.append(rows)
    return result


def filesystem_of(path: str) -> tuple[Any, str]:
    """The file system that a path or URI lies in, and the path there."""
    pa = import_pyarrow()
    import pyarrow.fs

    if "://" not in path:
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    try:
        return pyarrow.fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"cannot reach {path}: {_first_line(error)}") from error


def _find(path: str) -> tuple[Any, list[FoundFile], str | None]:
    import pyarrow.fs

    wild = _WILD.search(path)
    above = path if wild is None else path[: wild.start()].rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    filesystem, base = filesystem_of(above)
    try:
        here = filesystem.get_file_info(base)
        if wild is None and here.type == pyarrow.fs.FileType.File:
            if not base.lower().endswith(_ENDINGS):
                raise InputError(
                    f'with engine="ray" tables are Parquet files, got {path}; leave the engine out to read it'
                )
            return filesystem, [FoundFile(base, here.size, here.mtime_ns or 0, ())], None
        listed = filesystem.get_file_info(pyarrow.fs.FileSelector(base, recursive=True, allow_not_found=True))
    except OSError as error:
        raise InputError(f"cannot read {path}: {_first_line(error)}") from error
    files = sorted((each for each in listed if each.type == pyarrow.fs.FileType.File), key=lambda each: each.path)
    pattern = None if wild is None else _pattern(path[len(above) :].lstrip("/") if above != "." else path)
    found = []
    for each in files:
        inside = each.path[len(base) :].lstrip("/")
        if inside.rpartition("/")[2] == UNFINISHED and wild is None:
            raise InputError(
                f"{path} is not whole: the run that writes it is not finished, or was stopped; run it again"
            )
        if any(piece.startswith((".", "_")) for piece in inside.split("/")):
            continue
        chosen = inside.lower().endswith(_ENDINGS) if pattern is None else pattern.fullmatch(inside) is not None
        if chosen:
            found.append(FoundFile(each.path, each.size, each.mtime_ns or 0, _values(inside)))
    if not found:
        what = f"no file matches {path}" if wild is not None else f"there is no Parquet file at {path}"
        raise InputError(f"{what}; name a .parquet file, a folder of them, or several by wildcards (data/*.parquet)")
    names = [name for name, _ in found[0].values]
    for file in found:
        if [name for name, _ in file.values] != names:
            raise InputError(
                f"all files must lie in folders named after the same columns, but {file.path} differs from "
                f"{found[0].path}"
            )
    return filesystem, found, base if wild is None else None


def _values(inside: str) -> tuple[tuple[str, str | None], ...]:
    """What the names of folders say: `year=2024`."""
    pairs = [piece.partition("=") for piece in inside.split("/")[:-1] if "=" in piece]
    return tuple((name, None if value == NO_VALUE else unquote(value)) for name, _, value in pairs)


def _pattern(wild: str) -> re.Pattern[str]:
    """Wildcards as in a shell: `*` is anything within a name, `**` also folders, `[ab]` one of these letters."""
    pieces = re.split(r"(\*\*/?|\*|\[[^\]]*\])", wild)
    return re.compile("".join(_PIECES.get(piece, piece if piece[:1] == "[" else re.escape(piece)) for piece in pieces))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
