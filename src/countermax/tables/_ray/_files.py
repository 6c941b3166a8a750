"""Parquet files answered and added up on Ray: a task reads some row groups, answers them and writes its own file."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jax
import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.labels import listed
from countermax._core.progress import ProgressBar
from countermax._ray import connect, in_parts, merged_in_parts
from countermax._tables.writing import ParquetTableWriter
from countermax._version import __version__
from countermax.couplings import AbstractCoupling
from countermax.tables._ray._asking import Asking, ask, needed_columns
from countermax.tables._ray._datasets import Answering
from countermax.tables._ray._folder import AnswerFolder, Folder, part_name, record_name
from countermax.tables._ray._places import NO_VALUE, RowGroups, Source, find_source, parts_of
from countermax.tables._rows import CHUNK_ROWS, Question
from countermax.tables._transition_result import Transitions
from countermax.tables._transitions import Tally, TallySums

_MOST_FOLDERS = 1000  # that a part's rows may be divided into
_LEAST_WRITTEN = 2**13  # rows of a row group, where rows are divided


def answer_files(
    path: str | Path,
    target: str | Path,
    question: Question,
    coupling: str | Path | AbstractCoupling,
    *,
    partition_by: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> tuple[int, int, str, tuple[str, ...]]:
    """Answers all rows of Parquet files into a folder; returns the fields of `FileAnswers`.

    Args:
        path: Parquet files.
        target: Folder to write into.
        question: Question that every row answers.
        coupling: Coupling of the two worlds.
        partition_by: Columns whose values name the folders that rows are divided into.
        overwrite: Whether an answer to another question may be lost.
        progress: Whether to show it.
        options: Options of `AnswerColumns`.
    """
    connect()
    source = find_source(path)
    asking, reader = ask(question, source.schema, lambda: _first_rows(source))
    answering = Answering.of(asking, reader, coupling, **options)
    for name in partition_by:
        if name not in source.schema.names:
            raise InputError(f"`partition_by` must name columns, got {name!r}; they are {listed(source.schema.names)}")
    folder = Folder.at(str(target))
    _check_apart(source, folder)
    output = AnswerFolder(
        folder, _identity(source, question, coupling, options | {"by": tuple(partition_by)}), overwrite=overwrite
    )
    whole = output.manifest
    if whole is None:
        job = _Job(source, answering, folder, tuple(partition_by))
        records = _all_records(job, output, progress)
        whole = output.finish(
            {
                "countermax": __version__,
                **answering.notes,
                "num_rows": sum(record["num_rows"] for record in records),
                "num_unchanged": sum(record["num_unchanged"] for record in records),
                "num_files": sum(len(record["files"]) for record in records),
            },
            {name for record in records for name in record["files"]},
        )
    else:
        output.tidy()
    return whole["num_rows"], whole["num_unchanged"], whole["coupling"], tuple(whole["notes"])


def tally_files(
    path: str | Path,
    question: Question,
    coupling: str | Path | AbstractCoupling,
    *,
    progress: bool | None = None,
    **options: Any,
) -> Transitions:
    """Adds up all rows of Parquet files.

    Args:
        path: Parquet files.
        question: Question that every row answers.
        coupling: Coupling of the two worlds.
        progress: Whether to show it.
        options: Options of `Tally`.
    """
    connect()
    source = find_source(path)
    asking, reader = ask(question, source.schema, lambda: _first_rows(source))
    tally = Tally(reader, coupling, **options)
    names = needed_columns(question, reader)
    narrow = Asking(asking.question, import_pyarrow().schema([source.schema.field(name) for name in names]))
    parts = parts_of(source)
    with ProgressBar("transitions", sum(part.num_rows for part in parts), progress, unit="rows") as bar:
        for sums in merged_in_parts(_tally_part, (source, narrow, tally), ((part,) for part in parts)):
            tally.sums.merge(sums)
            bar.advance(sums.num_rows + sums.num_left_out)
    return tally.result(reader.frame)


@dataclass(frozen=True, eq=False)
class _Job:
    """What workers need to answer parts."""

    source: Source
    answering: Answering
    folder: Folder
    partition_by: tuple[str, ...]


def _all_records(job: _Job, output: AnswerFolder, progress: bool | None) -> list[dict[str, Any]]:
    """What was written of each part, those that were there already among them."""
    parts = parts_of(job.source)
    records = dict(output.done)
    left = [part for part in parts if part.number not in records]
    total = sum(part.num_rows for part in parts)
    done = total - sum(part.num_rows for part in left)
    with ProgressBar("counterfactuals", total, progress, unit="rows", done=done) as bar:
        found = in_parts(_answer_part, job, ((part,) for part in left))
        for part, record in zip(left, found, strict=True):
            records[part.number] = record
            bar.advance(part.num_rows)
    if not parts:  # files without rows: their answer has columns all the same
        with job.folder.writing(part_name(0)) as file:
            _written(file, job.answering.schema.empty_table())
        return [{"num_rows": 0, "num_unchanged": 0, "files": [part_name(0)]}]
    return [records[part.number] for part in parts]


def _answer_part(job: _Job, part: RowGroups) -> dict[str, Any]:
    """Answers a part and writes it; its record is written last."""
    columns, first_row, before = job.source.schema.names, part.starts[0], job.answering.columns.num_unchanged
    with ExitStack() as stack:  # after an error nothing appears of what was being written
        writers = _Writers(job, part, stack)
        for table in job.source.tables(part, columns, CHUNK_ROWS):
            writers.write(job.answering.answered(table, first_row, part.where))
            first_row += table.num_rows
        writers.close()
    unchanged = job.answering.columns.num_unchanged - before
    record = {"number": part.number, "num_rows": part.num_rows, "num_unchanged": unchanged, "files": writers.names}
    job.folder.write_record(record_name(part.number), record)
    return record


def _tally_part(shared: tuple[Source, Asking, Tally], part: RowGroups) -> TallySums:
    source, asking, tally = shared
    own, first_row = tally.beginning_at(part.first_row), part.starts[0]
    for table in source.tables(part, asking.schema.names, CHUNK_ROWS):
        for chunk in asking.reader(table, first_row, part.where).chunks():
            own.add(chunk)
        first_row += table.num_rows
    return own.sums


class _Writers:
    """The files that a part's rows go into: one, or one for each combination of values."""

    def __init__(self, job: _Job, part: RowGroups, stack: ExitStack):
        self._job, self._part, self._stack = job, part, stack
        self._open: dict[str, ParquetTableWriter] = {}
        self._waiting: dict[str, list[Any]] = {}
        self.names: list[str] = []

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

    def close(self) -> None:
        """Writes what is left."""
        for name in list(self._waiting):
            self._flush(name)
        for writer in self._open.values():
            writer.close()

    def _flush(self, name: str) -> None:
        waiting = self._waiting.pop(name)
        self._writer(name).write(import_pyarrow().concat_tables(waiting))

    def _writer(self, name: str) -> ParquetTableWriter:
        if name not in self._open:
            if len(self._open) == _MOST_FOLDERS:
                raise InputError(
                    f"`partition_by` (on the command line: --partition-by) must name columns with few values, got more "
                    f"than {_MOST_FOLDERS} in {self._part.path}"
                )
            self._open[name] = ParquetTableWriter(self._stack.enter_context(self._job.folder.writing(name)))
            self.names.append(name)
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
        place = "/".join(f"{name}={_as_name(value)}" for name, value in zip(names, values, strict=True))
        result.append((place, rest.take(pa.array(rows))))
    return result


def _as_name(value: Any) -> str:
    return NO_VALUE if value is None else quote(str(value), safe=" ")


def _written(file: Any, table: Any) -> None:
    writer = ParquetTableWriter(file)
    writer.write(table)
    writer.close()


def _first_rows(source: Source) -> Any:
    """Some rows, of the first file that has any."""
    for part in parts_of(source):
        return next(source.tables(part, source.schema.names, CHUNK_ROWS))
    return source.schema.empty_table()


def _check_apart(source: Source, folder: Folder) -> None:
    """Refuses a folder whose files would be read as rows."""
    if not folder.is_local or source.filesystem.type_name != "local":
        return
    out = os.path.realpath(folder.path)
    if os.path.isfile(out):
        raise InputError(f"with an engine the target must be a folder, but {folder.path} is a file")
    if source.folder is not None and out.startswith(os.path.realpath(source.folder) + os.sep):
        raise InputError(f"the target must not lie in {source.folder}, which is read; choose another folder")
    for file in source.files:
        if os.path.realpath(file.path).startswith(out + os.sep):
            raise InputError(
                f"the target must not hold what is read, but {file.path} lies in it; choose another folder"
            )


def _identity(
    source: Source, question: Question, coupling: str | Path | AbstractCoupling, options: dict[str, Any]
) -> str:
    """What is the same for the same question about the same rows."""
    asked = [f"{name}={value!r}" for name, value in asdict(question).items()]
    asked += [f"{name}={_exact(value)}" for name, value in sorted(options.items())]
    rows = [f"{file.path} {file.size} {file.changed}" for file in source.files]
    content = "\n".join([__version__, *asked, _exact_coupling(coupling), *rows])
    return hashlib.sha256(content.encode(errors="backslashreplace")).hexdigest()


def _exact(value: Any) -> str:
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)


def _exact_coupling(coupling: str | Path | AbstractCoupling) -> str:
    """A name, what stands in a file, or the numbers in a coupling."""
    if isinstance(coupling, str | Path):
        content = Path(coupling).read_bytes() if os.path.isfile(coupling) else str(coupling).encode()
        return hashlib.sha256(content).hexdigest()
    leaves, structure = jax.tree.flatten(coupling)
    numbers = [
        np.asarray(leaf).tobytes().hex() if isinstance(leaf, jax.Array | np.ndarray) else leaf for leaf in leaves
    ]
    return hashlib.sha256(f"{structure} {numbers}".encode()).hexdigest()
