"""Answers in a folder of Parquet files, written part by part: by threads of this process, or by Ray's workers.

A folder has one owner at a time: the run whose name stands in `_UNFINISHED` and in the names of its parts. It is whole
when `_SUCCESS` is there, which names every part with its rows, size and checksum. Nothing else is ever removed.
"""

import hashlib
import json
import os
import posixpath
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from io import BytesIO, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, final
from urllib.parse import quote

import numpy as np

from countermax._core.errors import InputError, refusing
from countermax._core.extras import import_pyarrow
from countermax._core.files import atomic_file, remove_left_over, writable_folder
from countermax._core.labels import listed
from countermax._core.progress import ProgressBar
from countermax._core.threads import in_threads
from countermax._kernel import ClosedForm
from countermax._ray import in_parts, merged_in_parts
from countermax._tables.files import FORMATS
from countermax._tables.frames import no_rows
from countermax._tables.writing import ParquetTableWriter
from countermax._version import __version__
from countermax.tables._answers import AnswerColumns, Answered
from countermax.tables._parquet import (
    NO_VALUE,
    SUCCESS,
    UNFINISHED,
    ParquetColumns,
    ParquetFiles,
    Part,
    filesystem_of,
    find_files,
    is_record,
    parts_of,
    read_manifest,
)
from countermax.tables._reading import Chunk, Question, RowCounts, RowReader
from countermax.tables._sources import (
    AbstractSource,
    Asking,
    OfChunks,
    T,
    ask,
    check_file,
    check_named,
    is_file,
    together,
    write_file,
)

_RECORDS = "_parts"
_PART = re.compile(r"(?:part-|_parts/)(\d{8})-([0-9a-f]{12})\.(?:parquet|json)")
_MOST_FOLDERS = 1000  # that a part's rows may be divided into
_LEAST_WRITTEN = 2**13  # rows of a row group, where rows are divided
_PLAIN_NAME = re.compile(r"[^/\\=\x00-\x1f._][^/\\=\x00-\x1f]*")


@final
class FolderSource(AbstractSource):
    """Parquet files: one, a folder of them, or several by wildcards; local, or in an object store."""

    def __init__(self, path: str, question: Question, engine: str):
        check_named(question, "file")
        self.question, self._engine = question, engine
        self._files = find_files(path)
        self._asking, self.reader = ask(question, self._files.columns.schema, self._first_rows)

    @property
    def num_rows(self) -> int:
        return sum(part.num_rows for part in self._parts)

    def __str__(self) -> str:
        count = len(self._files.files)
        return self._files.path + (f" ({count:,} Parquet files)" if count > 1 else "")

    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[T]:
        sent = self._files.columns, self._asking.narrowed(self.reader.needed), function, shared
        with ProgressBar("reading", self.num_rows, unit="rows") as bar:
            parts = zip(self._parts, strict=True)
            for found in (merged_in_parts if merge else in_parts)(_of_part, sent, parts, engine=self._engine):
                yield found
                bar.advance(min(self.num_rows // len(self._parts), self.num_rows - bar.done))

    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """An Arrow table."""
        sent = self._files.columns, self._asking, function, shared
        parts = in_parts(_mapped_part, sent, zip(self._parts, strict=True), engine=self._engine)
        found = [table for part in parts for table in part]
        return together(found or [function(shared, self._empty)])

    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        """Writes a folder of Parquet files; here, and without `partition_by`, also one file of any format."""
        if self._engine == "local" and is_file(target, partition_by):
            return self._write_file(target, columns, overwrite)
        if self._engine == "local" and "://" not in target and Path(target).suffix.lower() in FORMATS:
            check_file(target, (), partition_by, overwrite)
        folder = Folder.at(target)
        if "://" not in target and not target.endswith("/") and not os.path.isdir(target):
            if Path(target).suffix.lower() not in ("", *FORMATS):
                raise InputError(
                    f"`target` must end in .csv, .parquet or .jsonl, or be a folder, got {target!r}; a new folder "
                    "whose name has a dot ends in /"
                )
            if not Path(target).absolute().parent.is_dir():
                raise InputError(f"cannot write {target}: there is no folder {Path(target).parent}; make it first")
        _check_partition(partition_by, self._files.columns.schema.names)
        _check_apart(self._files, folder)
        asked = _identity(self._files, self.question, columns, partition_by)
        output = AnswerFolder(folder, asked, overwrite=overwrite, engine=self._engine)
        manifest, is_new = output.manifest, output.manifest is None
        if manifest is None:
            schema = columns.of(self._empty).schema
            job = _Job(self._files.columns, self._asking, columns, schema, folder, output.run, tuple(partition_by))
            records = self._all_records(job, output)
            self._files.check_unchanged()
            read = [{"path": file.path, "size": file.size, "changed": file.changed} for file in self._files.files]
            manifest = output.finish({"countermax": __version__, **columns.metadata, "read": read}, records)
        counts = RowCounts(**{name: manifest[name] for name in vars(RowCounts())})
        return columns.answered(counts, target, is_new=is_new)

    def _write_file(self, target: str, columns: AnswerColumns, overwrite: bool) -> Answered:
        check_file(target, [file.path for file in self._files.files], (), overwrite)
        readers = (reader for part in self._parts for reader in _readers(self._files.columns, self._asking, part))
        with ProgressBar("counterfactuals", self.num_rows, unit="rows") as bar:
            found = readers if self.num_rows else [self._empty]
            answered = write_file(target, columns, ((reader, None) for reader in found), bar=bar)
            self._files.check_unchanged()
        return answered

    def _all_records(self, job: "_Job", output: "AnswerFolder") -> list[dict[str, Any]]:
        """What was written of each part, those that were there already among them."""
        records = dict(output.done)
        left = [part for part in self._parts if part.number not in records]
        if not self._parts:  # files without rows: their answer has columns all the same
            left = [Part(0, (), 0, 0)]
        total = self.num_rows
        with (
            ProgressBar("counterfactuals", total, unit="rows", done=total - sum(each.num_rows for each in left)) as bar,
            closing(in_parts(_answer_part, job, zip(left, strict=True), engine=self._engine)) as found,
        ):
            for part, record in zip(left, found, strict=True):
                output.check_owner()
                records[part.number] = record
                bar.advance(part.num_rows)
        return [records[number] for number in sorted(records)]

    @property
    def _empty(self) -> RowReader:
        """A reader of all columns without rows."""
        return self._asking.reader(no_rows(self._files.columns.schema))

    @cached_property
    def _parts(self) -> list[Part]:
        return parts_of(self._files, self._engine)

    def _first_rows(self) -> Any:
        """Some rows, of the first file that has any."""
        columns, schema = self._files.columns, self._files.columns.schema
        return next(columns.tables(self._parts[0], schema.names))[0] if self._parts else no_rows(schema)


def _readers(columns: ParquetColumns, asking: Asking, part: Part) -> Iterator[RowReader]:
    for table, places in columns.tables(part, asking.schema.names):
        yield asking.reader(table, 0, places)


def _of_part(shared: tuple[Any, ...], part: Part) -> Any:
    """What a worker computes of a part's rows."""
    columns, asking, function, value = shared

    def chunks() -> Iterator[Chunk]:
        start = 0
        for reader in _readers(columns, asking, part):
            for chunk in reader.chunks():
                yield chunk.moved(start)
            start += reader.frame.num_rows

    return function(value, part.first_row, chunks())


def _mapped_part(shared: tuple[Any, ...], part: Part) -> list[Any]:
    columns, asking, function, value = shared
    return [function(value, reader) for reader in _readers(columns, asking, part)]


@dataclass(frozen=True, eq=False)
class _Job:
    """What workers need to answer parts."""

    columns: ParquetColumns
    asking: Asking
    answers: AnswerColumns
    schema: Any
    """The columns of the answer, as an Arrow schema."""
    folder: "Folder"
    run: str
    partition_by: tuple[str, ...]


def _answer_part(job: _Job, part: Part) -> dict[str, Any]:
    """Answers a part and writes it; its record is written last."""
    counts = RowCounts()
    with ExitStack() as stack:  # after an error nothing appears of what was being written
        writers = _Writers(job, part, stack)
        for reader in _readers(job.columns, job.asking, part):
            found, more = job.answers.counted(reader)
            counts.merge(more)
            writers.write(found if found.schema.equals(job.schema) else found.cast(job.schema))
        files = writers.close()
    if counts.num_rows + counts.num_left_out != part.num_rows:
        raise InputError(f"{part.pieces[0].file.path} was changed while it was read; ask again")
    for name, file in files.items():
        file |= {"name": name}
    record = {"number": part.number, **vars(counts), "parts": list(files.values())}
    job.folder.write_record(f"{_RECORDS}/{part.number:08d}-{job.run}.json", record)
    return record


@dataclass(frozen=True)
class Folder:
    """A folder, local or in an object store."""

    filesystem: Any
    path: str

    @classmethod
    def at(cls, path: str) -> "Folder":
        """The folder at a path or URI, which need not be there yet."""
        return cls(*filesystem_of(path))

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file system."""
        return self.filesystem.type_name == "local"

    def sizes(self) -> dict[str, int]:
        """All files in it and below it, by name, but for hidden ones; links are not followed."""
        import pyarrow.fs

        found: Iterable[tuple[str, int]]
        if self.is_local:
            paths = (os.path.join(place, name) for place, _, names in os.walk(self.path) for name in names)
            found = ((path, os.lstat(path).st_size) for path in paths)
        else:
            selector = pyarrow.fs.FileSelector(self.path, recursive=True, allow_not_found=True)
            listing = self.filesystem.get_file_info(selector)
            found = ((each.path, each.size) for each in listing if each.type == pyarrow.fs.FileType.File)
        inside = {path[len(self.path) :].lstrip("/"): size for path, size in found}
        return {name: size for name, size in inside.items() if not posixpath.basename(name).startswith(".")}

    @contextmanager
    def writing(self, name: str) -> Iterator[tuple[RawIOBase, dict[str, Any]]]:
        """A file in it, which appears when it is whole, and what will be known of it: size and checksum."""
        path, about = posixpath.join(self.path, name), dict[str, Any]()
        if self.is_local:
            place = posixpath.dirname(path)
            if os.path.realpath(place) != os.path.join(os.path.realpath(self.path), posixpath.dirname(name)).rstrip(
                "/"
            ):
                raise InputError(f"{place} is a link out of {self.path}; remove it, or choose another folder")
            os.makedirs(place, exist_ok=True)
            with atomic_file(path) as file:
                summed = _Summed(file)
                yield summed, about
                about |= summed.about
            return
        content = BytesIO()  # which goes to the store when it is whole
        summed = _Summed(content)
        yield summed, about
        about |= summed.about
        with refusing(f"cannot write {path}", OSError, import_pyarrow().ArrowException):
            with self.filesystem.open_output_stream(path) as stream:
                stream.write(content.getbuffer())
            if (found := self.filesystem.get_file_info(path).size) != about["size"]:
                self.remove([name])
                raise InputError(f"cannot write {path}: {found} of {about['size']} bytes arrived; try again")

    def write_record(self, name: str, record: dict[str, Any]) -> None:
        """Writes a JSON file."""
        with self.writing(name) as (file, _):
            file.write(f"{json.dumps(record, indent=1)}\n".encode())

    def read_record(self, name: str) -> dict[str, Any]:
        """A JSON file; empty where it cannot be read."""
        try:
            with self.filesystem.open_input_stream(posixpath.join(self.path, name)) as stream:
                found = json.loads(stream.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def is_intact(self, part: dict[str, Any]) -> bool:
        """Whether a file holds what was written."""
        checksum = 0
        try:
            with self.filesystem.open_input_stream(posixpath.join(self.path, part["name"])) as stream:
                while data := stream.read(2**22):
                    checksum = zlib.crc32(data, checksum)
        except OSError:
            return False
        return checksum == part["crc32"]

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, as far as they are there."""

        def remove(name: str) -> None:
            with suppress(FileNotFoundError):
                self.filesystem.delete_file(posixpath.join(self.path, name))

        for _ in in_threads(remove, names):
            pass


@final
class _Summed(RawIOBase):
    """Passes bytes on to a file, and keeps count of them."""

    def __init__(self, file: BinaryIO | BytesIO):
        self._file = file
        self.about = {"size": 0, "crc32": 0}

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        self.about = {"size": self.about["size"] + size, "crc32": zlib.crc32(content, self.about["crc32"])}
        if not self._file.closed:  # else what a writer leaves behind after an error
            self._file.write(content)
        return size

    def tell(self) -> int:
        return self.about["size"]


class AnswerFolder:
    """A folder that answers one question: begun, resumed or whole."""

    def __init__(self, folder: Folder, question: str, *, overwrite: bool, engine: str = "local"):
        """Looks at what is there; refuses to destroy it, or to mix two questions."""
        self._folder, self._question, self.run = folder, question, os.urandom(6).hex()
        if folder.is_local:
            writable_folder(folder.path)
            remove_left_over(folder.path)
        sizes = folder.sizes()
        whole = read_manifest(folder.filesystem, posixpath.join(folder.path, SUCCESS)) if SUCCESS in sizes else None
        begun = folder.read_record(UNFINISHED) if UNFINISHED in sizes else {}
        runs = begun["runs"] if isinstance(begun.get("runs"), list) else []
        marks = [each["question"] for each in (whole or {}, begun) if "question" in each]
        self.manifest: dict[str, Any] | None = None
        """What `_SUCCESS` says, where the answer is there already."""
        self.done: dict[int, dict[str, Any]] = {}
        """Records of parts that are there, by number."""
        self._runs = [*runs, self.run]
        if whole is not None and whole["question"] == question and not begun:
            if self._are_intact([whole], sizes, engine) == [True]:
                self.manifest = whole
                return
            raise InputError(
                f"{folder.path} is not whole: a part that its {SUCCESS} names is not there, or not what was written; "
                "choose another folder, or remove this one"
            )
        named = {part["name"] for part in (whole or {}).get("parts", ())}
        ours = {name for name in sizes if name in named or self._is_ours(name)} | ({SUCCESS, UNFINISHED} & set(sizes))
        other = sorted(set(sizes) - ours)
        if other and not marks:
            raise InputError(f"{folder.path} must be empty, or a folder that countermax has begun; choose another one")
        if other:
            raise InputError(f"{folder.path} holds {other[0]!r}, which countermax did not write; remove it first")
        records = sorted(name for name in ours if name.startswith(f"{_RECORDS}/"))
        if marks and question not in marks and (whole or records) and not overwrite:
            raise InputError(
                f"{folder.path} holds the answer to another question, or to one about other rows; choose another "
                "folder, or pass --overwrite"
            )
        folder.write_record(UNFINISHED, {"question": question, "runs": self._runs})
        if begun.get("question") != question:
            folder.remove([name for name in (SUCCESS, *sorted(ours)) if name in ours and name != UNFINISHED])
            return
        found = list(in_threads(folder.read_record, records))
        for record, intact in zip(found, self._are_intact(found, sizes, engine), strict=True):
            if intact:
                self.done[record["number"]] = record

    def check_owner(self) -> None:
        """Refuses to go on where another run has taken the folder over."""
        if self._folder.read_record(UNFINISHED).get("runs", [None])[-1] != self.run:
            raise InputError(f"another run has taken {self._folder.path} over; what this one has written is left to it")

    def finish(self, about: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Says that all is there, if it is; removes what is left of runs that were stopped."""
        sizes = self._folder.sizes()
        parts = [part for record in records for part in record["parts"]]
        for part in parts:
            if sizes.get(part["name"]) != part["size"]:
                raise InputError(
                    f"{self._folder.path} is not whole: {part['name']} was written, but is not there; all machines "
                    "that write must see the same folder"
                )
        self.check_owner()
        totals = {name: sum(record[name] for record in records) for name in vars(RowCounts())}
        whole = {"question": self._question, **about, **totals, "parts": parts}
        names = {part["name"] for part in parts}
        self._folder.remove([name for name in sizes if self._is_ours(name) and name not in names])
        self._folder.write_record(SUCCESS, whole)
        self._folder.remove([UNFINISHED])
        if self._folder.is_local:
            with suppress(OSError):
                os.rmdir(os.path.join(self._folder.path, _RECORDS))
        return whole

    def _is_ours(self, name: str) -> bool:
        """Whether a file is a part or a record of one of the folder's runs."""
        folder, _, last = name.rpartition("/")
        found = _PART.fullmatch(f"{folder}/{last}" if folder == _RECORDS else last)
        return found is not None and found[2] in self._runs

    def _are_intact(self, records: Sequence[dict[str, Any]], sizes: dict[str, int], engine: str) -> list[bool]:
        """Whether all files that a record names are there as they were written."""
        sized = [
            record
            if is_record(record) and all(sizes.get(part["name"]) == part["size"] for part in record["parts"])
            else None
            for record in records
        ]
        return list(in_parts(_is_intact, self._folder, zip(sized, strict=True), engine=engine))


def _is_intact(folder: Folder, record: dict[str, Any] | None) -> bool:
    return record is not None and all(map(folder.is_intact, record["parts"]))


class _Writers:
    """The files that a part's rows go into: one, or one for each combination of values."""

    def __init__(self, job: _Job, part: Part, stack: ExitStack):
        self._job, self._part, self._stack = job, part, stack
        self._name = f"part-{part.number:08d}-{job.run}.parquet"
        self._open: dict[str, ParquetTableWriter] = {}
        self._files: dict[str, dict[str, Any]] = {}
        self._rows: dict[str, int] = {}

    def write(self, table: Any) -> None:
        """The next rows."""
        if not self._job.partition_by:
            self._write(self._name, table)
            return
        for place, rows in _divided(table, self._job.partition_by):
            self._write(f"{place}/{self._name}", rows, _LEAST_WRITTEN)

    def close(self) -> dict[str, dict[str, Any]]:
        """Writes what is left; returns what will be known of the files."""
        if not self._open and not self._part.num_rows:
            self._write(self._name, no_rows(self._job.schema))
        for name, writer in self._open.items():
            writer.close()
            self._files[name]["num_rows"] = self._rows[name]
        return self._files

    def _write(self, name: str, table: Any, *rows_at_once: int) -> None:
        if name not in self._open:
            if len(self._open) == _MOST_FOLDERS:
                most = f"got more than {_MOST_FOLDERS} in {self._part.pieces[0].file.path}"
                raise InputError(f"`partition_by` must name columns with few values, {most}")
            file, self._files[name] = self._stack.enter_context(self._job.folder.writing(name))
            self._open[name], self._rows[name] = ParquetTableWriter(file, *rows_at_once), 0
        self._open[name].write(table)
        self._rows[name] += table.num_rows


def _divided(table: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Rows by the folder that they go into, without the columns that name it."""
    pa = import_pyarrow()
    columns = [table.column(name).combine_chunks().dictionary_encode() for name in names]
    codes = np.zeros(table.num_rows, np.int64)
    for column in columns:
        here = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        codes = codes * (len(column.dictionary) + 1) + here
    rest = table.drop_columns(list(names))
    views = pa.types.is_string_view, pa.types.is_binary_view  # of which Arrow cannot take some
    plain = [pa.string() if views[0](kind) else pa.binary() if views[1](kind) else kind for kind in rest.schema.types]
    rest = rest.cast(pa.schema(list(zip(rest.schema.names, plain, strict=True)), rest.schema.metadata))
    result = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        values = [column[int(rows[0])].as_py() for column in columns]
        texts = [NO_VALUE if value is None else quote(str(value), safe=" ") for value in values]
        place = "/".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))
        result.append((place, rest.take(pa.array(rows))))
    return result


def _check_partition(partition_by: Sequence[str], names: Sequence[str]) -> None:
    if len(set(partition_by)) < len(partition_by):
        raise InputError(f"`partition_by` must name each column once, got {listed(partition_by)}")
    for name in partition_by:
        if name not in names:
            raise InputError(f"`partition_by` must name columns, got {name!r}; they are {listed(names)}")
        if _PLAIN_NAME.fullmatch(name) is None:
            plain = "begins with no . or _ and holds no slash, = or control character"
            raise InputError(
                f"`partition_by` must name a column that a folder can be called after, got {name!r}: it {plain}"
            )


def _check_apart(source: ParquetFiles, folder: Folder) -> None:
    """Refuses a folder whose files would be read as rows."""
    if not folder.is_local or source.columns.filesystem.type_name != "local":
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
    asked["coupling"] = _exact_coupling(columns.options["coupling"])
    lines = [f"{name}={_exact(value)}" for name, value in sorted(asked.items())]
    rows = [f"{file.path} {file.size} {file.changed}" for file in files.files]
    content = "\n".join([__version__, *lines, *rows])
    return hashlib.sha256(content.encode(errors="backslashreplace")).hexdigest()


def _exact(value: Any) -> str:
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)


def _exact_coupling(coupling: Any) -> str:
    """A closed form as it is; of any other coupling all the numbers that it has."""
    if isinstance(coupling, ClosedForm):
        return repr(coupling)
    import equinox as eqx
    import jax

    leaves, structure = jax.tree.flatten(coupling)
    numbers = [np.asarray(each).tobytes().hex() if eqx.is_array(each) else each for each in leaves]
    return hashlib.sha256(f"{structure} {numbers}".encode()).hexdigest()
