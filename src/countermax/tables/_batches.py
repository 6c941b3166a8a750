"""Batches of Arrow from any engine: a function that answers them, and sums that are added up apart and merged.

The columns are known beforehand, as an Arrow schema; rows come later, in any number of processes.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.results import AbstractResult
from countermax._tables.frames import no_rows
from countermax.tables._answers import AnswerColumns, Answered
from countermax.tables._reading import Question, RowReader
from countermax.tables._sources import AbstractSource, Asking, OfChunks, T, ask, check_named

_ROWS_OF_PARTITION = 2**40  # at most


@final
class Answering:
    """A function of batches: rows come back with their counterfactuals. It can be pickled, for other processes."""

    def __init__(self, asking: Asking, columns: AnswerColumns):
        self._asking, self._columns = asking, columns
        self.schema: Any = columns.of(asking.reader(no_rows(asking.schema))).schema
        """The columns of what comes back, as an Arrow schema."""

    def __call__(self, data: Any) -> Any:
        """A RecordBatch, a Table, or a RecordBatchReader (any iterable of batches), with the new columns.

        Args:
            data: Rows with the columns that were announced. What comes back is of the same kind; a reader is read when
                the one that comes back is.
        """
        pa = import_pyarrow()
        if isinstance(data, pa.Table):
            return self._columns.of(self._asking.reader(data)).cast(self.schema)
        if isinstance(data, pa.RecordBatch):
            table = self(pa.Table.from_batches([data])).combine_chunks()
            found = table.to_batches()
            return found[0] if found else pa.RecordBatch.from_pylist([], self.schema)
        return pa.RecordBatchReader.from_batches(self.schema, map(self, data))


@final
class Sums:
    """What rows add up to: added batch by batch, merged with what others have added, and asked for the result.

    It can be pickled. Sums that begin alike merge; each row must be added once, in one of them.
    """

    def __init__(self, source: "SchemaSource", verb: Callable[["SchemaSource"], AbstractResult]):
        self._source, self._verb = source, verb
        try:
            verb(source)
        except _Asked as asked:
            self._function, self._shared = asked.function, asked.shared
        self._sums = self._function(self._shared, 0, iter(()))
        self._partitions: dict[int, int] = {}

    def add(self, data: Any, *, partition: int = 0) -> None:
        """Adds rows up.

        Args:
            data: Rows: a RecordBatch, a Table, or a RecordBatchReader (any iterable of batches).
            partition: Number of the part of the table that the rows are of, where several processes add some up. In the
                bootstrap a row's weight depends on its partition and its position there.
        """
        pa = import_pyarrow()
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        elif not isinstance(data, pa.Table):
            for batch in data:
                self.add(batch, partition=partition)
            return
        before = self._partitions.get(partition, 0)
        reader = self._source.asking.reader(data)
        self._sums.merge(self._function(self._shared, partition * _ROWS_OF_PARTITION + before, reader.chunks()))
        self._partitions[partition] = before + data.num_rows

    def merge(self, other: "Sums") -> None:
        """Adds what other rows add up to.

        Args:
            other: Sums over other partitions, which began as these did.
        """
        both = sorted(self._partitions.keys() & other._partitions.keys())
        if both:
            raise InputError(
                f"sums must be over different partitions to be merged, but both have {both[0]}; number them"
            )
        self._sums.merge(copy.deepcopy(other._sums))
        self._partitions |= other._partitions

    def result(self) -> Any:
        """The answer of the verb: `Transitions`, `TableEffects` without `individual`, or `Causation` likewise."""
        return self._verb(self._source.with_sums(copy.deepcopy(self._sums)))


class _Asked(InputError):
    """What a verb wants added up: a function, and what it shares."""

    def __init__(self, function: Callable[..., Any], shared: Any):
        super().__init__("`data` is a schema, without rows; `sums()` adds batches up that have its columns")
        self.function, self.shared = function, shared


@final
class SchemaSource(AbstractSource):
    """The columns of a table whose rows others have."""

    def __init__(self, schema: Any, question: Question, sums: Any = None):
        check_named(question, "table")
        self.question, self._sums = question, sums
        self.asking, self.reader = ask(question, schema, self._first_rows)

    def with_sums(self, sums: Any) -> "SchemaSource":
        """The same columns, after all rows were added up."""
        return SchemaSource(self.asking.schema, self.question, sums)

    @property
    def num_rows(self) -> int:
        return _ROWS_OF_PARTITION  # nobody knows; too many to be kept

    def __str__(self) -> str:
        return f"a schema with {len(self.asking.schema.names)} columns"

    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[Any]:
        """What was added up; before that, the question goes to whoever adds up."""
        if merge:
            if self._sums is None:
                raise _Asked(function, shared)
            yield self._sums
            return
        from countermax.tables._scores import all_pairs  # and JAX with it

        if function is not all_pairs:
            raise InputError("rows that come in batches are seen once; this needs the table itself: a frame or files")
        yield None  # too many pairs of worlds

    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """Nothing: each row's own numbers were not kept."""
        if self._sums is None:
            raise InputError("`data` is a schema, without rows; `answering()` answers batches that have its columns")

    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        """Refused: there are no rows."""
        raise InputError("`data` is a schema, without rows; `answering()` answers batches that have its columns")

    def _first_rows(self) -> Any:
        raise InputError("`labels` must list the outcomes in their order: a schema does not know the categories")
