"""Where the rows of a table are: one interface for frames, files, folders of Parquet files and Ray Datasets.

Verbs do not know which. They hand over a function of some rows, which a source calls with one part of the table after
the other: here, or on Ray's workers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.files import check_new, check_outputs
from countermax._core.labels import listed
from countermax._core.progress import ProgressBar
from countermax._core.threads import in_threads
from countermax._tables.files import FORMATS, AbstractTableFile, FileRows, format_of, open_table
from countermax._tables.frames import Where, as_frame, no_rows
from countermax._tables.writing import open_writer
from countermax.tables._answers import AnswerColumns, Answered
from countermax.tables._groups import Adding, S, Totals, added_up
from countermax.tables._probabilities import Columns, Predicted
from countermax.tables._reading import CATEGORY, CHUNK_ROWS, Chunk, Question, RowCounts, RowReader

T = TypeVar("T")


OfChunks = Callable[[Any, int, Iterator[Chunk]], T]
"""A function of what is shared, the position of a part's first row, and the part's rows."""


class AbstractSource(ABC):
    """A table that is asked a question: its columns are checked here, its rows are read where they are."""

    question: Question
    reader: RowReader
    """The question checked against the columns; it reads all rows of a frame, and none of any other source."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def __str__(self) -> str:
        """The table in words."""

    @abstractmethod
    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[T]:
        """`function(shared, first_row, chunks)` of all rows in parts, in order; Ray's workers may `merge` results."""

    def total(self, adding: Adding[S]) -> Totals[S]:
        """What all rows add up to, of which there must be some."""
        totals: Totals[S] = added_up(adding, 0, iter(()))
        for part in self.each(added_up, adding, merge=True):
            totals.merge(part)
        counts = totals.whole.counts
        if not counts.num_rows:
            why = "none has an answer" if counts.num_left_out else "there are none"
            raise InputError(f"`data` must have a row that can be answered, but in {self} {why}")
        return totals

    @abstractmethod
    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """`function(shared, reader)`, a frame with a row for each of the reader's, of all rows together."""

    @abstractmethod
    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        """Writes all rows with their answers."""


@final
class FrameSource(AbstractSource):
    """A frame in memory."""

    def __init__(self, frame: Any, question: Question):
        self.question = question
        self.reader = RowReader(as_frame(frame), question)

    @property
    def num_rows(self) -> int:
        return self.reader.frame.num_rows

    def __str__(self) -> str:
        return f"a frame with {self.num_rows:,} rows"

    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[T]:
        yield function(shared, 0, self.reader.chunks())

    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """A frame of the same library."""
        return function(shared, self.reader)

    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        check_file(target, (), partition_by, overwrite)
        native, counts = columns.counted(self.reader)
        found = as_frame(native).to_arrow()
        with open_writer(target) as writer:
            writer.write(as_frame(found).noted(found, columns.whole_metadata(counts)))
        return columns.answered(counts, target)


@final
class FileSource(AbstractSource):
    """A CSV or JSON lines file, which need not fit into memory."""

    def __init__(self, path: str | Path, question: Question):
        self._file = open_table(path)
        check_named(question, "file", classifiers=False)
        self.question = replace(question, untyped=True)
        self.look_again()

    def look_again(self) -> None:
        """Finds the columns, after reading has shown that there are more than it seemed."""
        self._ask(others=False)
        schema = self._file.empty_table().schema
        self._asking, self.reader = ask(self.question, schema, lambda: next(self._file.chunks(CHUNK_ROWS)).table)

    @property
    def num_rows(self) -> int:
        return sum(reader.frame.num_rows for reader, _ in self._readers(others=False))

    def __str__(self) -> str:
        return str(self._file.path)

    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[T]:
        """Parts of `CHUNK_ROWS` rows."""
        for reader, _ in self._readers(others=False):
            yield function(shared, reader.frame.first_row, reader.chunks())

    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """An Arrow table."""
        return together(function(shared, reader) for reader, _ in self._readers(others=True))

    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        """Writes a file; rows of a text file go into one of the same format as they stand there."""
        check_file(target, [self._file.path], partition_by, overwrite)
        as_written = format_of(target) == self._file.kind
        readers = self._readers(others=not as_written, records=as_written)
        return write_file(target, columns, ((each, rows if as_written else None) for each, rows in readers), self._file)

    def _readers(self, *, others: bool, records: bool = False) -> Iterator[tuple[RowReader, FileRows]]:
        """The rows chunk by chunk; with all columns, or as they stand in the file."""
        self._ask(others=others, records=records)
        first_row = 0
        with ProgressBar("reading", None, unit="rows") as bar:
            for rows in self._file.chunks(CHUNK_ROWS):
                yield RowReader(as_frame(rows.table, first_row), self._asking.question), rows
                first_row += rows.table.num_rows
                bar.advance(rows.table.num_rows)

    def _ask(self, *, others: bool, records: bool = False) -> None:
        reader, numbers = RowReader(as_frame(self._file.empty_table()), self.question), list[str]()
        for world in reader.worlds:
            if isinstance(world, Columns):
                for column in world.names:
                    reader.frame.column(world.argument, column)
                numbers += map(str, world.names)
        if reader.weight_column is not None:
            reader.frame.column("weights", reader.weight_column)  # while all columns are there to be named
            numbers.append(reader.weight_column)
        self._file.ask(self.question.outcome, numbers, others=others, records=records, flags=reader.needed)


def source_of(data: Any, question: Question, engine: str) -> AbstractSource:
    """The table that was handed in: a frame, a path, a Ray Dataset, or only its columns."""
    if isinstance(data, str | Path):
        path = str(data)
        wild = any(each in path for each in "*?[") and not Path(path).exists()
        if (
            engine == "local"
            and not ("://" in path or wild or Path(path).is_dir())
            and format_of(path, read=True) != "parquet"
        ):
            return FileSource(data, question)
        from countermax.tables._folders import FolderSource

        return FolderSource(path, question, engine)
    if type(data).__module__.startswith("ray.data"):
        from countermax.tables._datasets import DatasetSource

        return DatasetSource(data, question)
    if type(data).__module__ == "pyarrow.lib" and type(data).__name__ == "Schema":
        from countermax.tables._batches import SchemaSource

        return SchemaSource(data, question)
    if isinstance(data, list | tuple | Mapping):
        raise InputError(
            f"`data` must be a DataFrame, an Arrow table or a path, got {type(data).__name__}; of several Parquet "
            "files name their folder, or a wildcard"
        )
    return FrameSource(data, question)


@dataclass(frozen=True, eq=False)
class Asking:
    """A question that fits the columns of a table; what workers need to read rows."""

    question: Question
    schema: Any
    """The columns of the table, as an Arrow schema."""

    def reader(self, table: Any, first_row: int = 0, where: Where | None = None) -> RowReader:
        """A reader of some rows, an Arrow table, which must have the columns that the whole table has."""
        if table.schema.names != self.schema.names or table.schema.types != self.schema.types:
            place = "" if where is None else f" in {where(first_row)[1]}"
            raise InputError(f"all rows must have the same columns, but{place} {difference(self.schema, table.schema)}")
        return self._empty.over(as_frame(table, first_row, where))

    @cached_property
    def _empty(self) -> RowReader:
        return RowReader(as_frame(no_rows(self.schema)), self.question)

    def narrowed(self, names: Sequence[str]) -> "Asking":
        """The same question to some of the columns."""
        return Asking(self.question, import_pyarrow().schema([self.schema.field(name) for name in names]))


def ask(question: Question, schema: Any, first_rows: Callable[[], Any]) -> tuple[Asking, RowReader]:
    """Checks a question against the columns of a table; returns what workers need, and a reader without rows.

    Where a category must say which outcomes there are, `first_rows()` are looked at.
    """
    empty = no_rows(schema)
    reader = RowReader(as_frame(empty), question)
    if question.labels is None and reader.outcome is not None and getattr(reader.outcome.type, "ordered", False):
        reader = RowReader(as_frame(first_rows()), question)
        if reader.order == CATEGORY:  # of the first rows: those of others may list fewer
            question = replace(question, labels=reader.labels.values)
        reader.frame = as_frame(empty)
    for world in reader.worlds:
        if isinstance(world, Columns):
            reader.frame.numbers(world.argument, world.names)
        elif isinstance(world, Predicted):
            world.inputs(as_frame(empty), 0)
    return Asking(question, schema), reader


def check_named(question: Question, what: str, *, classifiers: bool = True) -> None:
    """Refuses arrays: a table that is elsewhere cannot be lined up with them."""
    for argument in ("outcome", "unchanged"):
        if not isinstance(given := getattr(question, argument), str | None):
            raise InputError(f"`{argument}` must name a column of the {what}, got {type(given).__name__}")
    if question.utilities is not None and not isinstance(question.utilities.weights, str | None):
        raise InputError(f"`weights` must name a column of the {what}, got {type(question.utilities.weights).__name__}")
    for argument in ("factual", "counterfactual"):
        given = getattr(question, argument)
        named = isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
        classifier = classifiers and (isinstance(given, Predicted) or hasattr(given, "predict_proba"))
        if not (isinstance(given, str | Mapping) or named or classifier):
            more = ", or be a classifier" if classifiers else ""
            raise InputError(f"`{argument}` must name columns of the {what}{more}, got {type(given).__name__}")
        for name, value in given.change.items() if isinstance(given, Predicted) else ():
            several = np.ndim(value) > 0 or (isinstance(value, Sequence) and not isinstance(value, str))
            if several and not callable(value):
                one = f"set {name!r} to one value, or to a function of the column"
                raise InputError(f"`change` must {one}, where rows are in a {what}")


def difference(expected: Any, found: Any) -> str:
    """In words, the first difference between two Arrow schemas that differ."""
    for name, kind in zip(expected.names, expected.types, strict=True):
        if name not in found.names:
            return f"there is no column {name!r}"
        if found.field(name).type != kind:
            return f"column {name!r} holds {found.field(name).type} in place of {kind}"
    more = [name for name in found.names if name not in expected.names]
    return f"there are more columns: {listed(more)}" if more else "they come in another order"


def is_file(target: str, partition_by: Sequence[str]) -> bool:
    """Whether one file is to be written, not a folder of them."""
    return not partition_by and "://" not in target and Path(target).suffix.lower() in FORMATS


def check_file(target: str, reads: Iterable[str | Path], partition_by: Sequence[str], overwrite: bool) -> None:
    """Refuses a target that is no file of a known format, or that would destroy something."""
    if partition_by or not Path(target).suffix:
        raise InputError(
            "only Parquet files are answered into a folder, and divided by `partition_by`: save the table as Parquet "
            "and pass that path to `Rows`, or name a file to write (.csv, .parquet, .jsonl)"
        )
    format_of(target)
    check_outputs([("`target`", target)], reads, overwrite=overwrite)
    check_new([target], overwrite=overwrite)


def write_file(
    target: str,
    columns: AnswerColumns,
    readers: Iterable[tuple[RowReader, FileRows | None]],
    source: AbstractTableFile | None = None,
    bar: ProgressBar | None = None,
) -> Answered:
    """Writes rows with their answers; where they come with how they stand in the `source`, behind that."""

    def answer(each: tuple[RowReader, FileRows | None]) -> tuple[Any, RowCounts, FileRows | None]:
        reader, rows = each
        return *columns.counted(reader, extend=rows is None), rows

    whole = RowCounts()
    with open_writer(target, source) as writer:
        for found, counts, rows in in_threads(answer, readers, spare=1):  # one writes
            writer.write(found, rows, columns.likeliest)
            del found
            whole.merge(counts)
            if bar is not None:
                bar.advance(counts.num_rows + counts.num_left_out)
    return columns.answered(whole, target)


def together(tables: Iterable[Any]) -> Any:
    """Arrow tables one after the other."""
    return import_pyarrow().concat_tables(list(tables), promote_options="permissive")
