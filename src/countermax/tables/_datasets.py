"""Ray Datasets: rows are answered where they are, and parts are added up there and merged in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.progress import ProgressBar
from countermax._ray import connect, in_parts, merged_in_parts, one_thread, put_once
from countermax._tables.frames import Where, no_rows
from countermax.tables._answers import AnswerColumns, Answered
from countermax.tables._probabilities import Predicted
from countermax.tables._reading import CHUNK_ROWS, Question, RowReader
from countermax.tables._sources import AbstractSource, Asking, OfChunks, T, ask, check_named

_PATH = "path"  # the column that `ray.data.read_parquet(..., include_paths=True)` adds
_PART_ROWS = 4 * CHUNK_ROWS  # at least, of a task: smaller blocks are taken together


@final
class DatasetSource(AbstractSource):
    """A Ray Dataset; in an error rows are counted from the start of their batch, whose file is named if known."""

    def __init__(self, dataset: Any, question: Question):
        connect()
        check_named(question, "dataset")
        self.question, self._dataset = question, dataset
        schema = getattr(dataset.schema(), "base_schema", None)
        if not isinstance(schema, import_pyarrow().Schema):  # blocks of pandas, or no rows at all
            schema = self._first_rows().schema
        self._asking, self.reader = ask(question, schema, self._first_rows)

    @property
    def num_rows(self) -> int:
        return self._dataset.count()

    def __str__(self) -> str:
        return "a Ray Dataset"

    def each(self, function: OfChunks[T], shared: Any, *, merge: bool = False) -> Iterator[T]:
        """Parts of blocks."""
        names = self.reader.needed
        same = names == self._asking.schema.names
        chosen, sent = self._dataset if same else self._dataset.select_columns(names), self._asking.narrowed(names)
        with _in_order(chosen), ProgressBar("adding up", None, unit="parts") as bar:
            for found in (merged_in_parts if merge else in_parts)(_of_part, (function, shared, sent), _parts(chosen)):
                yield found
                bar.advance(1)

    def mapped(self, function: Callable[[Any, RowReader], Any], shared: Any) -> Any:
        """A Dataset; its rows are answered when it is consumed, those of classifiers by actors, which keep them."""
        schema = function(shared, self._asking.reader(no_rows(self._asking.schema))).schema
        sent = put_once((self._asking, function, shared, schema))
        options: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": CHUNK_ROWS, "num_cpus": 1}
        if any(isinstance(world, Predicted) for world in self.reader.worlds):
            pool = (1, max(1, int(connect().cluster_resources().get("CPU", 1))))
            return self._dataset.map_batches(_Mapper, fn_constructor_args=(sent,), concurrency=pool, **options)
        return self._dataset.map_batches(_mapped_batch, fn_args=(sent,), **options)

    def write(self, target: str, columns: AnswerColumns, partition_by: Sequence[str], overwrite: bool) -> Answered:
        """Refused: a Dataset writes itself."""
        raise InputError("`write` is for frames and files; of a Dataset write `counterfactuals()`, which is a Dataset")

    def _first_rows(self) -> Any:
        return self._dataset.take_batch(CHUNK_ROWS, batch_format="pyarrow")


def _parts(dataset: Any) -> Iterator[tuple[Any, ...]]:
    """For each part: the position of its first row, which rows of its blocks belong to it, and the blocks."""
    first_row, count = 0, 0
    spans: list[tuple[int, int]] = []
    blocks: list[Any] = []
    for bundle in dataset.iter_internal_ref_bundles():
        for place, block in enumerate(bundle.blocks):
            cut = bundle.slices[place] if getattr(bundle, "slices", None) is not None else None
            span = (0, block.metadata.num_rows) if cut is None else (cut.start_offset, cut.end_offset)
            if span[0] == span[1]:
                continue
            blocks.append(block.ref)
            spans.append(span)
            count += span[1] - span[0]
            if count >= _PART_ROWS:
                yield first_row, spans, *blocks
                first_row, count, spans, blocks = first_row + count, 0, [], []
    if blocks:
        yield first_row, spans, *blocks


@contextmanager
def _in_order(dataset: Any) -> Iterator[None]:
    """Lets Ray hand over blocks in the order of the Dataset."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


def _of_part(
    shared: tuple[Callable[..., T], Any, Asking], first_row: int, spans: Iterable[tuple[int, int]], *blocks: Any
) -> T:
    """What a worker computes of a part's rows."""
    function, value, asking = shared
    pa = import_pyarrow()
    whole = (
        each if isinstance(each, pa.Table) else pa.Table.from_pandas(each, preserve_index=False) for each in blocks
    )
    tables = [table.slice(start, stop - start) for table, (start, stop) in zip(whole, spans, strict=True)]
    for table in tables[1:]:
        asking.reader(table.slice(0, 0), first_row)  # which must have the same columns
    table = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    return function(value, first_row, asking.reader(table, first_row).chunks())


class _Mapper:
    """Answers one batch after the other; keeps the classifier. `sent` is a reference."""

    def __init__(self, sent: Any):
        one_thread()
        self._asking, self._function, self._shared, self._schema = connect().get(sent)

    def __call__(self, batch: Any) -> Any:
        return self._function(self._shared, self._asking.reader(batch, 0, _batch_name(batch))).cast(self._schema)


def _mapped_batch(batch: Any, sent: Any) -> Any:
    return _Mapper(sent)(batch)


def _batch_name(batch: Any) -> Where:
    def name(row: int) -> tuple[int, str]:
        path = f" in {batch.column(_PATH)[row].as_py()}" if _PATH in batch.schema.names and row < len(batch) else ""
        return row, f"a batch of {batch.num_rows} rows{path}"

    return name
