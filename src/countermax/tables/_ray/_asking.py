"""A question to a table whose rows are elsewhere: checked here against its columns, asked there of its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax._tables.frames import Where, as_frame
from countermax.tables._outcomes import CATEGORY
from countermax.tables._probabilities import Columns, Predicted
from countermax.tables._rows import Question, RowReader


@dataclass(frozen=True, eq=False)
class Asking:
    """A question that fits the columns of a table; what workers need to read rows."""

    question: Question
    schema: Any
    """The columns of the table, as an Arrow schema."""

    def reader(self, table: Any, first_row: int = 0, where: Where | None = None) -> RowReader:
        """A reader of some rows, which must have the columns that the table has.

        Args:
            table: Rows, as an Arrow table.
            first_row: Position of the first one, for messages.
            where: Function that says in which table that is.
        """
        if table.schema.names != self.schema.names or table.schema.types != self.schema.types:
            place = "" if where is None else f" in {where(first_row)}"
            raise InputError(f"all rows must have the same columns, but{place} {difference(self.schema, table.schema)}")
        return RowReader(as_frame(table, first_row, where), self.question)


def ask(question: Question, schema: Any, first_rows: Callable[[], Any]) -> tuple[Asking, RowReader]:
    """Checks a question against the columns of a table; returns what workers need, and a reader without rows.

    Args:
        question: Question that every row answers.
        schema: Columns of the table, as an Arrow schema.
        first_rows: Function that returns some rows, where a category must say which outcomes there are.
    """
    _check_names(question)
    empty = schema.empty_table()
    reader = RowReader(as_frame(empty), question)
    if question.labels is None and reader.outcome is not None and _is_ordered(reader.outcome.type):
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


def needed_columns(question: Question, reader: RowReader) -> list[str]:
    """The columns that an answer depends on, in the order of the table."""
    wanted = {question.outcome, question.unchanged}
    for world in reader.worlds:
        if isinstance(world, Columns):
            wanted |= set(world.names)
        elif isinstance(world, Predicted):
            names = world.features
            wanted |= set(getattr(world.classifier, "feature_names_in_", ()) if names is None else names)
    return [str(name) for name in reader.frame.columns if name in wanted]


def difference(expected: Any, found: Any) -> str:
    """In words, the first difference between two Arrow schemas that differ."""
    for field in expected:
        if field.name not in found.names:
            return f"there is no column {field.name!r}"
        kind = found.field(field.name).type
        if kind != field.type:
            return f"column {field.name!r} holds {kind} in place of {field.type}"
    more = [name for name in found.names if name not in expected.names]
    return f"there are more columns: {listed(more)}" if more else "they come in another order"


def _check_names(question: Question) -> None:
    """Refuses arrays: a table that is elsewhere cannot be lined up with them."""
    for argument, given in (("outcome", question.outcome), ("unchanged", question.unchanged)):
        if given is not None and not isinstance(given, str):
            raise InputError(f"`{argument}` must name a column of the dataset, got {type(given).__name__}")
    for argument, given in (("factual", question.factual), ("counterfactual", question.counterfactual)):
        named = isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
        classifier = isinstance(given, Predicted) or hasattr(given, "predict_proba")
        if not (isinstance(given, str | Mapping) or named or classifier):
            raise InputError(
                f"`{argument}` must name columns of the dataset, or be a classifier, got {type(given).__name__}"
            )
        if isinstance(given, Predicted):
            _check_change(given.change)


def _check_change(change: Mapping[str, Any]) -> None:
    for name, value in change.items():
        if not callable(value) and (np.ndim(value) > 0 or (isinstance(value, Sequence) and not isinstance(value, str))):
            raise InputError(
                f"`change` must set {name!r} to one value, or to a function of the column, where rows are in a dataset"
            )


def _is_ordered(dtype: Any) -> bool:
    return bool(getattr(dtype, "ordered", False))
