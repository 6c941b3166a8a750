"""Each row of a Ray Dataset, answered where it is."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countermax._ray import connect, one_thread, put_once
from countermax._tables.frames import Where, check_new_names
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.tables._counterfactuals import PREFIX, AnswerColumns
from countermax.tables._notes import metadata
from countermax.tables._probabilities import Predicted, ProbabilitiesLike
from countermax.tables._ray._asking import Asking, ask
from countermax.tables._rows import CHUNK_ROWS, Question, RowReader

_PATH = "path"  # the column that `ray.data.read_parquet(..., include_paths=True)` adds


def counterfactuals_dataset(
    dataset: Any,
    *,
    outcome: str,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    bounds: str = "any",
    unchanged: str | None = None,
    normalise: bool = False,
    errors: str = "raise",
    tolerance: int | float = 0.05,
    prefix: str = "counterfactual_",
    preserve_order: bool = False,
    concurrency: int | tuple[int, int] | None = None,
) -> Any:
    """Does what `counterfactuals` does with a Ray Dataset: the same columns, the same bits, as a Dataset.

    Columns and labels are checked at once; rows are answered when the Dataset is consumed, batch by batch, on Ray's
    workers. Coupling and question are sent once to each machine. Classifiers (`Predicted`) are asked on a pool of
    actors, which keep them. `outcome` and `unchanged` name columns, and so do `factual` and `counterfactual`, unless
    they are classifiers; all other options are those of `counterfactuals`. In an error rows are counted from the start
    of their batch, which is named by its file if the Dataset was read with `include_paths=True`.

    Args:
        dataset: A Ray Dataset.
        outcome: Column with the outcomes seen.
        factual: Probabilities in the world that was seen.
        counterfactual: Probabilities in the other world.
        coupling: Coupling of the two worlds.
        labels: The outcomes in the order that results have.
        score: A number for each outcome.
        bounds: Couplings that the bounds are over: `any`, `stable` or `none`.
        unchanged: Column of booleans that marks rows which the change leaves as they were.
        normalise: Whether to rescale columns to sum to one.
        errors: Treatment of rows that cannot be answered: `raise`, or leave them `missing`.
        tolerance: Largest width of the bounds at which the choice of coupling does not matter.
        prefix: Beginning of the names of new columns.
        preserve_order: Whether rows come in the order of the Dataset. Ray keeps that setting in the context of the
            Dataset, for all Datasets that it was made from.
        concurrency: Number of workers, or the least and the largest; by default as many as the cluster has room for.
    """
    ray = connect()
    question = Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged)
    asking, reader = ask_dataset(question, dataset)
    answering = Answering.of(
        asking, reader, coupling, score=score, bounds=bounds, tolerance=tolerance, prefix=prefix, errors=errors
    )
    if preserve_order:
        dataset.context.execution_options.preserve_order = True
    options: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": CHUNK_ROWS, "num_cpus": 1}
    shared = put_once(answering)
    if any(isinstance(world, Predicted) for world in reader.worlds):
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        pool = (1, cores) if concurrency is None else concurrency
        return dataset.map_batches(_Answerer, fn_constructor_args=(shared,), concurrency=pool, **options)
    return dataset.map_batches(_answer_batch, fn_args=(shared,), concurrency=concurrency, **options)


@dataclass(frozen=True, eq=False)
class Answering:
    """What workers need to answer rows."""

    asking: Asking
    columns: AnswerColumns
    notes: dict[str, Any]
    schema: Any
    """The columns of the answer, as an Arrow schema."""

    @classmethod
    def of(
        cls, asking: Asking, reader: RowReader, coupling: str | Path | AbstractCoupling, **options: Any
    ) -> "Answering":
        """Checks the options of `AnswerColumns`; nothing is answered yet."""
        columns = AnswerColumns(reader, coupling, **options)
        check_new_names(reader.frame.columns, columns.names, PREFIX)
        notes = metadata(columns.coupling, options["bounds"], columns.notes)
        empty = columns.of(asking.reader(asking.schema.empty_table()), extend=True)
        return cls(asking, columns, notes, reader.frame.noted(empty, notes).schema)

    def answered(self, table: Any, first_row: int = 0, where: Where | None = None) -> Any:
        """The rows with their answers; arguments are those of `Asking.reader`."""
        reader = self.asking.reader(table, first_row, where)
        found = self.columns.of(reader, extend=True)
        if not found.schema.equals(self.schema):
            found = found.cast(self.schema)
        return found.replace_schema_metadata(self.schema.metadata)


def ask_dataset(question: Question, dataset: Any) -> tuple[Asking, RowReader]:
    """Checks a question against the columns of a Dataset; see `ask`."""

    def first_rows() -> Any:
        return dataset.take_batch(CHUNK_ROWS, batch_format="pyarrow")

    from countermax._core.extras import import_pyarrow

    schema = getattr(dataset.schema(), "base_schema", None)
    if not isinstance(schema, import_pyarrow().Schema):  # blocks of pandas, or no rows at all
        schema = first_rows().schema
    return ask(question, schema, first_rows)


def _answer_batch(batch: Any, shared: Any) -> Any:
    """Answers some rows; `shared` is a reference to an `Answering`."""
    one_thread()
    return connect().get(shared).answered(batch, 0, _batch_name(batch))


class _Answerer:
    """Answers some rows after the other; keeps the classifier."""

    def __init__(self, shared: Any):
        one_thread()
        self._answering = connect().get(shared)

    def __call__(self, batch: Any) -> Any:
        return self._answering.answered(batch, 0, _batch_name(batch))


def _batch_name(batch: Any) -> Where:
    def name(row: int) -> str:
        path = f" in {batch.column(_PATH)[row].as_py()}" if _PATH in batch.schema.names and row < len(batch) else ""
        return f"a batch of {batch.num_rows} rows{path}"

    return name
