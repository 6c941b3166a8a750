"""The same questions of tables in files, which need not fit into memory."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.tables._counterfactuals import AnswerColumns
from countermax.tables._files import RetypedError, TableFile, format_of, open_writer
from countermax.tables._probabilities import Columns, as_probabilities
from countermax.tables._rows import CHUNK_ROWS, Question, RowReader
from countermax.tables._transitions import Tally, Transitions
from countermax.tables.frames import as_frame, check_new_names

ColumnsLike: TypeAlias = str | Mapping[Any, str] | Sequence[str]
"""Columns of a file: the beginning of their names, a mapping from labels, or a list in the order of the labels."""

T = TypeVar("T")


def counterfactuals_file(
    source: str | Path,
    target: str | Path,
    *,
    outcome: str,
    factual: ColumnsLike,
    counterfactual: ColumnsLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    bounds: str = "any",
    normalise: bool = False,
    errors: str = "raise",
    tolerance: int | float = 0.05,
    prefix: str = "counterfactual_",
    progress: bool | None = None,
) -> int:
    """Does what `counterfactuals` does from file to file, chunk by chunk; returns the number of rows.

    Both files end in `.csv`, `.parquet` or `.jsonl` (a JSON object in each line). The target is written atomically: it
    is there with all rows, or not at all. From CSV to CSV all columns but the probabilities stay as they were written.
    `outcome`, `factual` and `counterfactual` name columns of the source; all other options are those of
    `counterfactuals`.
    """
    question = Question(outcome, factual, counterfactual, labels, normalise, errors)
    file = TableFile(source, as_text=format_of(source) == format_of(target) == "csv")

    def convert(readers: Iterator[RowReader], bar: ProgressBar) -> int:
        answers: AnswerColumns | None = None
        count = 0
        with open_writer(target) as writer:
            for reader in readers:
                if answers is None:
                    answers = AnswerColumns(
                        reader.labels,
                        coupling,
                        score=score,
                        bounds=bounds,
                        tolerance=tolerance,
                        prefix=prefix,
                        errors=errors,
                    )
                    check_new_names(reader.frame.columns, answers.names, "pass another prefix")
                writer.write(answers.behind(reader, bar))
                count += reader.frame.num_rows
        return count

    return _over_chunks(file, question, convert, progress)


def transitions_file(
    source: str | Path,
    *,
    outcome: str,
    factual: ColumnsLike,
    counterfactual: ColumnsLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    normalise: bool = False,
    errors: str = "raise",
    num_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | None = None,
) -> Transitions:
    """Does what `transitions` does with a file, chunk by chunk; its frames are Arrow tables.

    The file ends in `.csv`, `.parquet` or `.jsonl` (a JSON object in each line). `outcome`, `factual` and
    `counterfactual` name its columns; all other options are those of `transitions`.
    """
    question = Question(outcome, factual, counterfactual, labels, normalise, errors)

    def add_up(readers: Iterator[RowReader], bar: ProgressBar) -> Transitions:
        tally: Tally | None = None
        for reader in readers:
            tally = tally or Tally(
                reader.labels, coupling, score=score, num_resamples=num_resamples, level=level, seed=seed
            )
            for chunk in reader.chunks(bar):
                tally.add(chunk)
            make_frame = reader.frame.from_columns
        assert tally is not None  # a file has at least one chunk, though it may be empty
        return tally.result(make_frame)

    return _over_chunks(TableFile(source), question, add_up, progress)


def _over_chunks(
    file: TableFile,
    question: Question,
    use: Callable[[Iterator[RowReader], ProgressBar], T],
    progress: bool | None,
) -> T:
    """Hands the file's rows over chunk by chunk, from the beginning again when a column was misjudged."""

    def readers() -> Iterator[RowReader]:
        first_row = 0
        for table in file.chunks(CHUNK_ROWS):
            yield RowReader(as_frame(table, first_row), question)
            first_row += table.num_rows

    empty = as_frame(file.empty_table())
    for name, given in (("factual", question.factual), ("counterfactual", question.counterfactual)):
        columns = as_probabilities(name, given, empty)
        if not isinstance(columns, Columns):
            raise InputError(f"`{name}` must name columns of the file, got {type(given).__name__}")
        for column in columns.names:
            empty.column(name, column)
        file.numbers([str(column) for column in columns.names])
    while True:
        try:
            with ProgressBar("reading", file.num_rows, progress, unit="rows") as bar:
                return use(readers(), bar)
        except RetypedError:
            continue
