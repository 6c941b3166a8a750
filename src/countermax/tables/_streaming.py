"""The same questions of tables in files, which need not fit into memory."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from countermax._core.errors import InputError
from countermax._core.extras import on_ray
from countermax._core.progress import ProgressBar
from countermax._tables.files import AbstractTableFile, MoreColumnsError, Rows, format_of, open_table
from countermax._tables.frames import as_frame, check_new_names
from countermax._tables.writing import open_writer
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.tables._counterfactuals import PREFIX, AnswerColumns
from countermax.tables._notes import metadata
from countermax.tables._outcomes import CATEGORY
from countermax.tables._probabilities import Columns
from countermax.tables._ray import answer_files, tally_files
from countermax.tables._rows import CHUNK_ROWS, Question, RowReader
from countermax.tables._transition_result import Transitions
from countermax.tables._transitions import NUM_RESAMPLES, Tally

ColumnsLike: TypeAlias = str | Mapping[Any, str] | Sequence[str]
"""Columns of a file: the beginning of their names, a mapping from labels, or a list in the order of the labels."""

T = TypeVar("T")


class FileAnswers(NamedTuple):
    """What `counterfactuals_file` has written."""

    num_rows: int
    num_unchanged: int
    """Rows that the change leaves as they were."""
    coupling: str
    """The name of the coupling."""
    notes: tuple[str, ...]
    """What the numbers leave out."""


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
    unchanged: str | None = None,
    normalise: bool = False,
    errors: str = "raise",
    tolerance: int | float = 0.05,
    prefix: str = "counterfactual_",
    engine: str = "local",
    partition_by: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool | None = None,
) -> "FileAnswers":
    """Does what `counterfactuals` does from file to file, chunk by chunk; returns what stands in the new file.

    Both files end in `.csv`, `.parquet` or `.jsonl` (a JSON object in each line). The target is written atomically: it
    is there with all rows, or not at all; a Parquet file names the coupling in the metadata of its schema. Only
    outcomes and probabilities are read. In CSV and JSON lines an outcome is text, the exact characters of its cell or
    of its JSON value, and so are labels: `labels=["0", "1"]`. What is only passed through is passed through unread:
    from CSV to CSV and from JSON lines to JSON lines byte for byte, into other formats as text. The columns of a
    Parquet file keep their types. `outcome`, `factual`, `counterfactual` and `unchanged` name columns of the source;
    all other options are those of `counterfactuals`.

    With `engine="ray"` the source is a Parquet file, a folder of them or several by wildcards, local or by a URI that
    Arrow reads (`s3://...`), and the target a folder. Ray's workers read row groups and write files, which sort by name
    as rows do, and `_SUCCESS` when all of them are there. After an interruption the same call does what is left.
    `partition_by` names columns whose values name the folders that rows are divided into; `overwrite` allows the answer
    to another question to be replaced.
    """
    question = Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged)
    if on_ray(engine):
        options = {"score": score, "bounds": bounds, "tolerance": tolerance, "prefix": prefix, "errors": errors}
        return FileAnswers(
            *answer_files(
                source,
                target,
                question,
                coupling,
                partition_by=partition_by,
                overwrite=overwrite,
                progress=progress,
                **options,
            )
        )
    if partition_by:
        raise InputError("`partition_by` (on the command line: --partition-by) needs engine='ray' (--engine ray)")
    file, kind = open_table(source), format_of(target)
    as_written = kind == file.kind != "parquet"

    def convert(chunks: Iterator[tuple[RowReader, Rows]], bar: ProgressBar) -> FileAnswers:
        answers: AnswerColumns | None = None
        count = 0
        with open_writer(target, file) as writer:
            for reader, rows in chunks:
                if answers is None:
                    answers = AnswerColumns(
                        reader,
                        coupling,
                        score=score,
                        bounds=bounds,
                        tolerance=tolerance,
                        prefix=prefix,
                        errors=errors,
                    )
                    check_new_names(file.names, answers.names, PREFIX)
                new = reader.frame.noted(
                    answers.of(reader, bar, extend=not as_written), metadata(answers.coupling, bounds, answers.notes)
                )
                writer.write(new, rows if as_written else None, answers.likeliest)
                count += reader.frame.num_rows
        assert answers is not None  # a file has at least one chunk, though it may be empty
        return FileAnswers(count, answers.num_unchanged, answers.coupling, tuple(answers.notes))

    return _over_chunks(file, question, convert, progress, others=not as_written, records=as_written)


def transitions_file(
    source: str | Path,
    *,
    outcome: str,
    factual: ColumnsLike,
    counterfactual: ColumnsLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    unchanged: str | None = None,
    normalise: bool = False,
    errors: str = "raise",
    num_resamples: int = NUM_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
    engine: str = "local",
    progress: bool | None = None,
) -> Transitions:
    """Does what `transitions` does with a file, chunk by chunk; its frames are Arrow tables.

    The file ends in `.csv`, `.parquet` or `.jsonl` (a JSON object in each line). `outcome`, `factual`,
    `counterfactual` and `unchanged` name its columns; all other options are those of `transitions`. With `engine="ray"`
    the source is Parquet files as in `counterfactuals_file`, whose row groups are added up on Ray's workers.
    """
    question = Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged)
    options = {"score": score, "num_resamples": num_resamples, "level": level, "seed": seed}
    if on_ray(engine):
        return tally_files(source, question, coupling, progress=progress, **options)

    def add_up(chunks: Iterator[tuple[RowReader, Rows]], bar: ProgressBar) -> Transitions:
        tally: Tally | None = None
        for reader, _ in chunks:
            tally = tally or Tally(reader, coupling, **options)
            for chunk in reader.chunks(bar):
                tally.add(chunk)
            frame = reader.frame
        assert tally is not None  # a file has at least one chunk, though it may be empty
        return tally.result(frame)

    return _over_chunks(open_table(source), question, add_up, progress)


def _over_chunks(
    file: AbstractTableFile,
    question: Question,
    use: Callable[[Iterator[tuple[RowReader, Rows]], ProgressBar], T],
    progress: bool | None,
    *,
    others: bool = False,
    records: bool = False,
) -> T:
    """Hands the file's rows over chunk by chunk, from the beginning again when there are more columns than it seemed.

    Args:
        file: The file.
        question: Question that its rows answer.
        use: Function of the chunks and a progress bar.
        progress: Whether to show it.
        others: Whether columns that the question does not name are read too.
        records: Whether rows are wanted as they stand in the file.
    """

    def chunks() -> Iterator[tuple[RowReader, Rows]]:
        first_row, asked = 0, question
        for rows in file.chunks(CHUNK_ROWS):
            reader = RowReader(as_frame(rows.table, first_row), asked)
            if reader.order == CATEGORY:  # of the first rows: those of later ones may list fewer
                asked = replace(question, labels=reader.labels.values)
            yield reader, rows
            first_row += rows.table.num_rows

    while True:
        flags = [] if question.unchanged is None else [question.unchanged]
        file.ask(question.outcome, _columns(file, question), others=others, records=records, flags=flags)
        try:
            with ProgressBar("reading", file.num_rows, progress, unit="rows") as bar:
                return use(chunks(), bar)
        except MoreColumnsError:
            continue


def _columns(file: AbstractTableFile, question: Question) -> list[str]:
    """The columns of the file that hold probabilities, which must be there."""
    empty = as_frame(file.empty_table())
    for name, given in (("factual", question.factual), ("counterfactual", question.counterfactual)):
        if not isinstance(given, str | Mapping | list | tuple):
            raise InputError(f"`{name}` must name columns of the file, got {type(given).__name__}")
    names = []
    for world in RowReader(empty, question).worlds:
        if not isinstance(world, Columns):
            raise InputError("`factual` and `counterfactual` must name columns of the file, got numbers")
        for column in world.names:
            empty.column(world.argument, column)
        names += [str(column) for column in world.names]
    return names
