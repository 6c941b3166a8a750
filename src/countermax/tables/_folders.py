"""Folders of Parquet files: which files a path means, how they are cut into parts, and answers written part by part.

A folder that is written holds each part or not, and all of them when `_SUCCESS` is there; after an interruption the
same call does what is left. Parts are read and written here, or on Ray's workers.
"""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, final
from urllib.parse import quote, unquote

import equinox as eqx
import jax
import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.files import atomic_file, remove_left_over, writable_folder
from countermax._core.labels import listed
from countermax._core.progress import ProgressBar
from countermax._ray import in_parts, merged_in_parts
from countermax._tables.files import FORMATS
from countermax._tables.writing import ParquetTableWriter
from countermax._version import __version__
from countermax.couplings import AbstractCoupling
from countermax.tables._answers import AnswerColumns
from countermax.tables._notes import count_notes
from countermax.tables._reading import CHUNK_ROWS, Chunk, Question, RowCounts, RowReader
from countermax.tables._sources import (
    AbstractSource,
    Answered,
    Asking,
    OfChunks,
    T,
    ask,
    check_file,
    check_named,
    difference,
    is_file,
    needed_columns,
    together,
    write_file,
)

PART_ROWS = 2**19  # rows of a part, unless one row group has more: what is done again when a worker dies
SUCCESS, UNFINISHED, _RECORDS = "_SUCCESS", "_UNFINISHED", "_parts"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ENDINGS = (".parquet", ".pq")
_WILD = re.compile(r"[*\[]")
_PIECES = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
_FILES_AT_ONCE = 64
_MOST_FOLDERS = 1000  # that a part's rows may be divided into
_LEAST_WRITTEN = 2**13  # rows of a row group, where rows are divided


@final
class FolderSource(AbstractSource):
    """Parquet files: one, a folder of them, or several by wildcards; local, or in an object store."""

    def __init__(self, path: str, question: Question, engine: str):
        check_named(question, "dataset")
        self.question, self._engine, self._path = question, engine, path
        self._files = find_files(path)
        self._asking, self.reader = ask(question, self._files.schema, self._first_rows)

    @property
    def num_rows(self) -> int:
        return sum(part.num_rows for part in self._parts)

    def __str__(self) -> str:
        return f"{self._path} ({len(self._files.files):,} Parquet files)"

    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[T]:
        """Parts of `PART_ROWS` rows."""
        names, parts = needed_columns(self.question, self.reader), list(zip(self._parts, strict=True))
        sent = self._files, self._asking.narrowed(names), function, shared
        with ProgressBar("reading", len(parts), unit="parts") as bar:
            for found in (merged_in_parts if merge else in_parts)(_of_part, sent, parts, engine=self._engine):
                yield found
                bar.advance(1)

    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """An Arrow table."""
        sent = self._files, self._asking, function, shared
        parts = in_parts(_mapped_part, sent, list(zip(self._parts, strict=True)), engine=self._engine)
        found = [table for part in parts for table in part]
        return together(found or [function(shared, self._empty)])

    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        """Writes a folder of Parquet files; here, and without `partition_by`, also one file of any format."""
        if self._engine == "local" and is_file(target, partition_by):
            return self._write_file(target, columns, overwrite)
        if self._engine == "local" and Path(target).suffix.lower() in FORMATS:
            check_file(target, (), partition_by, overwrite)
        names = self._files.schema.names
        for name in partition_by:
            if name not in names:
                raise InputError(f"`partition_by` must name columns, got {name!r}; they are {listed(names)}")
        folder = Folder.at(target)
        _check_apart(self._files, folder)
        identity = _identity(self._files, self.question, columns, partition_by)
        output = AnswerFolder(folder, identity, overwrite=overwrite)
        whole = output.manifest
        if whole is None:
            schema = columns.of(self._empty).schema
            job = _Job(self._files, self._asking, columns, schema, folder, tuple(partition_by))
            records = self._all_records(job, output)
            files = {name for record in records for name in record["files"]}
            counts = {name: sum(record[name] for record in records) for name in ("num_rows", "num_unchanged")}
            counts["num_files"] = len(files)
            whole = output.finish({"countermax": __version__, **columns.metadata, **counts}, files)
        else:
            output.tidy()
        notes = (*whole["notes"], *count_notes(RowCounts(num_unchanged=whole["num_unchanged"])))
        return Answered(whole["num_rows"], whole["num_unchanged"], whole["coupling"], notes)

    def _write_file(self, target: str, columns: AnswerColumns, overwrite: bool) -> Answered:
        check_file(target, [file.path for file in self._files.files], (), overwrite)
        if not self.num_rows:
            return write_file(target, columns, [(self._empty, None)])
        readers = (reader for part in self._parts for reader in _readers(self._files, self._asking, part))
        return write_file(target, columns, ((reader, None) for reader in readers))

    def _all_records(self, job: "_Job", output: "AnswerFolder") -> list[dict[str, Any]]:
        """What was written of each part, those that were there already among them."""
        records = dict(output.done)
        left = [part for part in self._parts if part.number not in records]
        total = self.num_rows
        done = total - sum(part.num_rows for part in left)
        with ProgressBar("counterfactuals", total, unit="rows", done=done) as bar:
            found = in_parts(_answer_part, job, zip(left, strict=True), engine=self._engine)
            for part, record in zip(left, found, strict=True):
                records[part.number] = record
                bar.advance(part.num_rows)
        if not self._parts:  # files without rows: their answer has columns all the same
            with job.folder.writing(part_name(0)) as file, closing(ParquetTableWriter(file)) as writer:
                writer.write(job.schema.empty_table())
            return [{"num_rows": 0, "num_unchanged": 0, "files": [part_name(0)]}]
        return [records[part.number] for part in self._parts]

    @property
    def _empty(self) -> RowReader:
        """A reader of all columns without rows."""
        return self._asking.reader(self._files.schema.empty_table())

    @cached_property
    def _parts(self) -> "list[RowGroups]":
        return parts_of(self._files, self._engine)

    def _first_rows(self) -> Any:
        """Some rows, of the first file that has any."""
        parts, schema = self._parts, self._files.schema
        return next(self._files.tables(parts[0], schema.names, CHUNK_ROWS)) if parts else schema.empty_table()


def _readers(files: "ParquetFiles", asking: Asking, part: "RowGroups") -> Iterator[RowReader]:
    first_row = part.starts[0]
    for table in files.tables(part, asking.schema.names, CHUNK_ROWS):
        yield asking.reader(table, first_row, part.where)
        first_row += table.num_rows


def _of_part(shared: tuple[Any, ...], part: "RowGroups") -> Any:
    """What a worker computes of a part's rows."""
    files, asking, function, value = shared

    def chunks() -> Iterator[Chunk]:
        start = 0
        for reader in _readers(files, asking, part):
            for chunk in reader.chunks():
                yield chunk.moved(start)
            start += reader.frame.num_rows

    return function(value, part.first_row, chunks())


def _mapped_part(shared: tuple[Any, ...], part: "RowGroups") -> list[Any]:
    files, asking, function, value = shared
    return [function(value, reader) for reader in _readers(files, asking, part)]


@dataclass(frozen=True, eq=False)
class _Job:
    """What workers need to answer parts."""

    files: "ParquetFiles"
    asking: Asking
    columns: AnswerColumns
    schema: Any
    """The columns of the answer, as an Arrow schema."""
    folder: "Folder"
    partition_by: tuple[str, ...]


def _answer_part(job: _Job, part: "RowGroups") -> dict[str, Any]:
    """Answers a part and writes it; its record is written last."""
    before = job.columns.num_unchanged
    with ExitStack() as stack:  # after an error nothing appears of what was being written
        writers = _Writers(job, part, stack)
        for reader in _readers(job.files, job.asking, part):
            found = job.columns.of(reader)
            found = found if found.schema.equals(job.schema) else found.cast(job.schema)
            writers.write(found.replace_schema_metadata(job.schema.metadata))
        names = writers.close()
    unchanged = job.columns.num_unchanged - before
    record = {"number": part.number, "num_rows": part.num_rows, "num_unchanged": unchanged, "files": names}
    job.folder.write_record(record_name(part.number), record)
    return record


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


class ParquetFiles(NamedTuple):
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
        """Arrow tables of so many rows, the last one shorter."""
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


def find_files(path: str | Path) -> ParquetFiles:
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
    return ParquetFiles(filesystem, files, schema, own, folder)


def parts_of(source: ParquetFiles, engine: str) -> list[RowGroups]:
    """All parts, in order; the columns of all files must be the same."""
    paths = [file.path for file in source.files]
    some = [(paths[start : start + _FILES_AT_ONCE],) for start in range(0, len(paths), _FILES_AT_ONCE)]
    schema = import_pyarrow().schema([source.schema.field(name) for name in source.own])
    shared = source.filesystem, schema, paths[0]
    sizes = [rows for found in in_parts(_row_groups, shared, some, engine=engine) for rows in found]
    parts: list[RowGroups] = []
    first_row = 0
    for file, rows in zip(source.files, sizes, strict=True):
        for groups, starts, count in _groups(rows):
            parts.append(RowGroups(len(parts), file.path, groups, starts, count, first_row, file.values))
            first_row += count
    return parts


def _groups(rows: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Row groups that are read together: their numbers, their first rows, and how many rows they have."""
    starts = [0, *accumulate(rows)]
    first = 0
    for group in range(1, len(rows) + 1):
        if group == len(rows) or starts[group + 1] - starts[first] > PART_ROWS:
            yield tuple(range(first, group)), tuple(starts[first:group]), starts[group] - starts[first]
            first = group


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
            differs = f"{path} differs from {first}: {difference(schema, found)}"
            raise InputError(f"all files must have the same columns, but {differs}")
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
                raise InputError(f'with engine="ray" tables are Parquet files, got {path}; leave the engine out')
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
            raise InputError(f"{path} is not whole: the run that writes it was stopped, or goes on; run it again")
        if any(piece.startswith((".", "_")) for piece in inside.split("/")):
            continue
        chosen = inside.lower().endswith(_ENDINGS) if pattern is None else pattern.fullmatch(inside) is not None
        if chosen:
            found.append(FoundFile(each.path, each.size, each.mtime_ns or 0, _values(inside)))
    if not found:
        what = f"no file matches {path}" if wild is not None else f"there is no Parquet file at {path}"
        raise InputError(f"{what}; name a .parquet file, a folder of them, or several by wildcards (data/*.parquet)")
    for file in found:
        if [name for name, _ in file.values] != [name for name, _ in found[0].values]:
            differs = f"{file.path} differs from {found[0].path}"
            raise InputError(f"all files must lie in folders named after the same columns, but {differs}")
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


@dataclass(frozen=True)
class Folder:
    """A folder, local or in an object store."""

    filesystem: Any
    path: str

    @classmethod
    def at(cls, path: str) -> "Folder":
        """The folder at a path or URI, which need not be there yet."""
        return cls(*filesystem_of(path.rstrip("/") or path))

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file system."""
        return self.filesystem.type_name == "local"

    def names(self) -> set[str]:
        """All files in it and below it, but for hidden ones."""
        import pyarrow.fs

        selector = pyarrow.fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        files = [each.path for each in self.filesystem.get_file_info(selector) if each.type == pyarrow.fs.FileType.File]
        inside = (path[len(self.path) :].lstrip("/") for path in files)
        return {name for name in inside if not posixpath.basename(name).startswith(".")}

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file in it, which appears when it is whole; in an object store that is how all files are."""
        path = posixpath.join(self.path, name)
        self.filesystem.create_dir(posixpath.dirname(path), recursive=True)
        if self.is_local:
            with atomic_file(path) as file:
                yield file
        else:
            with self.filesystem.open_output_stream(path) as stream:
                yield stream

    def write_record(self, name: str, record: dict[str, Any]) -> None:
        """Writes a JSON file."""
        with self.writing(name) as file:
            file.write(f"{json.dumps(record, indent=2)}\n".encode())

    def read_record(self, name: str) -> dict[str, Any]:
        """A JSON file; empty where it cannot be read."""
        try:
            with self.filesystem.open_input_stream(posixpath.join(self.path, name)) as stream:
                found = json.loads(stream.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(posixpath.join(self.path, name))


class AnswerFolder:
    """A folder that answers one question: begun, resumed or whole."""

    def __init__(self, folder: Folder, question: str, *, overwrite: bool):
        """Looks at what is there; refuses to destroy it, or to mix two questions."""
        self._folder, self._question = folder, question
        if folder.is_local:
            writable_folder(folder.path)
            remove_left_over(folder.path)
        names = folder.names()
        marks = [folder.read_record(name).get("question") for name in (SUCCESS, UNFINISHED) if name in names]
        if names and not marks:
            raise InputError(f"{folder.path} must be empty, or a folder that countermax has begun; choose another one")
        if marks and question not in marks:
            begun = SUCCESS in names or any(name.startswith(f"{_RECORDS}/") for name in names)
            if begun and not overwrite:
                raise InputError(
                    f"{folder.path} holds the answer to another question, or to one about other rows; choose another "
                    "folder, or pass --overwrite"
                )
            self._clear(names)
            names = {UNFINISHED}
        whole = folder.read_record(SUCCESS) if SUCCESS in names else {}
        self.manifest: dict[str, Any] | None = whole if whole.get("question") == question else None
        """What `_SUCCESS` says, where the answer is there already."""
        self.done: dict[int, dict[str, Any]] = {}
        """Records of parts that are there, by number."""
        if self.manifest is not None:
            return
        if UNFINISHED not in names:
            folder.write_record(UNFINISHED, {"question": question})
        for name in sorted(name for name in names if name.startswith(f"{_RECORDS}/")):
            record = folder.read_record(name)
            if record and names.issuperset(record["files"]):
                self.done[record["number"]] = record

    def finish(self, manifest: dict[str, Any], files: Collection[str]) -> dict[str, Any]:
        """Says that all is there, and tidies up."""
        for name in self._folder.names():
            if is_ours(name) and name not in files:
                self._folder.remove(name)
        whole = {"question": self._question} | manifest
        self._folder.write_record(SUCCESS, whole)
        self.tidy()
        return whole

    def tidy(self) -> None:
        """Removes what only a run that is not finished needs."""
        with suppress(OSError):
            self._folder.filesystem.delete_dir(posixpath.join(self._folder.path, _RECORDS))
        self._folder.remove(UNFINISHED)

    def _clear(self, names: set[str]) -> None:
        """Removes what was written for another question, the sign that it is whole first."""
        ours = {SUCCESS, UNFINISHED, *(name for name in names if is_ours(name) or name.startswith(f"{_RECORDS}/"))}
        other = sorted(names - ours)
        if other:
            raise InputError(f"{self._folder.path} holds {other[0]!r}, which countermax did not write; remove it first")
        self._folder.remove(SUCCESS)
        self._folder.write_record(UNFINISHED, {"question": self._question})
        for name in sorted(ours - {SUCCESS, UNFINISHED}):
            self._folder.remove(name)


def part_name(number: int) -> str:
    """The name of the file that holds a part's rows: names sort as rows do."""
    return f"part-{number:08d}.parquet"


def record_name(number: int) -> str:
    """The name of the file that says that a part is there."""
    return f"{_RECORDS}/{number:08d}.json"


def is_ours(name: str) -> bool:
    """Whether a file in the folder is one of parts."""
    base = posixpath.basename(name)
    return base.startswith("part-") and base.endswith(".parquet") and base[5:-8].isdigit()


class _Writers:
    """The files that a part's rows go into: one, or one for each combination of values."""

    def __init__(self, job: _Job, part: RowGroups, stack: ExitStack):
        self._job, self._part, self._stack = job, part, stack
        self._open: dict[str, ParquetTableWriter] = {}
        self._waiting: dict[str, list[Any]] = {}

    def write(self, table: Any) -> None:
        """The next rows."""
        if not self._job.partition_by:
            self._writer(part_name(self._part.number)).write(table)
            return
        for place, rows in _divided(table, self._job.partition_by):
            name = f"{place}/{part_name(self._part.number)}"
            waiting = self._waiting.setdefault(name, [])
            waiting.append(rows)
            if sum(each.num_rows for each in waiting) >= _LEAST_WRITTEN:
                self._flush(name)

    def close(self) -> list[str]:
        """Writes what is left; returns the names of the files."""
        for name in list(self._waiting):
            self._flush(name)
        for writer in self._open.values():
            writer.close()
        return list(self._open)

    def _flush(self, name: str) -> None:
        self._writer(name).write(import_pyarrow().concat_tables(self._waiting.pop(name)))

    def _writer(self, name: str) -> ParquetTableWriter:
        if name not in self._open:
            if len(self._open) == _MOST_FOLDERS:
                most = f"got more than {_MOST_FOLDERS} in {self._part.path}"
                raise InputError(f"`partition_by` must name columns with few values, {most}")
            self._open[name] = ParquetTableWriter(self._stack.enter_context(self._job.folder.writing(name)))
        return self._open[name]


def _divided(table: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Rows by the folder that they go into, without the columns that name it."""
    pa = import_pyarrow()
    columns = [table.column(name).combine_chunks().dictionary_encode() for name in names]
    codes = np.zeros(table.num_rows, np.int64)
    for column in columns:
        here = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        codes = codes * (len(column.dictionary) + 1) + here
    rest = table.drop_columns(list(names))
    result = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        values = [column[int(rows[0])].as_py() for column in columns]
        texts = [NO_VALUE if value is None else quote(str(value), safe=" ") for value in values]
        place = "/".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))
        result.append((place, rest.take(pa.array(rows))))
    return result


def _check_apart(source: ParquetFiles, folder: Folder) -> None:
    """Refuses a folder whose files would be read as rows."""
    if not folder.is_local or source.filesystem.type_name != "local":
        return
    out = os.path.realpath(folder.path)
    if os.path.isfile(out):
        raise InputError(f"the target must be a folder, but {folder.path} is a file")
    if source.folder is not None and out.startswith(os.path.realpath(source.folder) + os.sep):
        raise InputError(f"the target must not lie in {source.folder}, which is read; choose another folder")
    for file in source.files:
        if os.path.realpath(file.path).startswith(out + os.sep):
            raise InputError(f"the target must not hold what is read, but {file.path} lies in it; choose another")


def _identity(files: ParquetFiles, question: Question, columns: AnswerColumns, partition_by: Sequence[str]) -> str:
    """What is the same for the same question about the same rows."""
    asked = {**asdict(question), **columns.options, "partition_by": tuple(partition_by)}
    lines = [f"{name}={_exact(value)}" for name, value in sorted(asked.items())]
    rows = [f"{file.path} {file.size} {file.changed}" for file in files.files]
    content = "\n".join([__version__, *lines, *rows])
    return hashlib.sha256(content.encode(errors="backslashreplace")).hexdigest()


def _exact(value: Any) -> str:
    if isinstance(value, AbstractCoupling):
        leaves, structure = jax.tree.flatten(value)
        numbers = [np.asarray(each).tobytes().hex() if eqx.is_array(each) else each for each in leaves]
        return hashlib.sha256(f"{structure} {numbers}".encode()).hexdigest()
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)
