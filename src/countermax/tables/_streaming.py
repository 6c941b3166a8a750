"""The same questions of tables in files, which need not fit into memory."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.tables._counterfactuals import Answers
from countermax.tables._files import RetypedError, Source, format_of, open_sink
from countermax.tables._probabilities import Columns, as_source
from countermax.tables._rows import CHUNK_ROWS, Reader
from countermax.tables._transitions import Tally, TransitionTable
from countermax.tables.frames import as_frame, check_new_names

Named = str | Mapping[Any, str] | Sequence[str]
"""Columns of a file: the beginning of their names, a mapping from labels, or a list in the order of the labels."""

T = TypeVar("T")


def counterfactuals_file(
    source: str | Path,
    target: str | Path,
    *,
    outcome: str,
    factual: Named,
    counterfactual: Named,
    mechanism: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
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

    The target is written atomically: it is there with all rows, or not at all. From CSV to CSV all columns but the
    probabilities stay as they were written.

    Args:
        source: A file that ends in `.csv`, `.parquet` or `.jsonl` (a JSON object in each line).
        target: A file that ends in one of these.
        outcome: The column with the outcomes seen.
        factual: Columns with the probabilities in the world that was seen.
        counterfactual: Columns with the probabilities in the other world.
        mechanism: How the two worlds hang together; see `counterfactuals`, and for all that follows.
        labels: The outcomes in the order that results have.
        score: A number for each outcome.
        bounds: Over which mechanisms.
        normalise: Whether to rescale probabilities to sum to one.
        errors: What to do with rows that cannot be answered.
        tolerance: How wide bounds may be for the choice of mechanism not to matter.
        prefix: What the names of new columns begin with.
        progress: Whether to show a progress bar; by default on a terminal.
    """
    as_text = format_of(source) == format_of(target) == "csv"
    reading = {"labels": labels, "normalise": normalise, "errors": errors}
    asking = {"score": score, "bounds": bounds, "tolerance": tolerance, "prefix": prefix}

    def convert(readers: Iterator[Reader], bar: ProgressBar) -> int:
        answers: Answers | None = None
        count = 0
        with open_sink(target) as sink:
            for reader in readers:
                if answers is None:
                    answers = Answers(reader.labels, mechanism, **asking)
                    check_new_names(reader.frame, answers.names(errors), "pass another prefix")
                sink.write(answers.extend(reader, bar))
                count += reader.frame.num_rows
        return count

    worlds = {"factual": factual, "counterfactual": counterfactual}
    return _over_chunks(Source(source, as_text=as_text), outcome, worlds, reading, convert, progress)


def transition_table_file(
    source: str | Path,
    *,
    outcome: str,
    factual: Named,
    counterfactual: Named,
    mechanism: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    normalise: bool = False,
    errors: str = "raise",
    num_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | None = None,
) -> TransitionTable:
    """Does what `transition_table` does with a file, chunk by chunk; its frames are Arrow tables.

    Args:
        source: A file that ends in `.csv`, `.parquet` or `.jsonl` (a JSON object in each line).
        outcome: The column with the outcomes seen.
        factual: Columns with the probabilities in the world that was seen.
        counterfactual: Columns with the probabilities in the other world.
        mechanism: How the two worlds hang together; see `transition_table`, and for all that follows.
        labels: The outcomes in the order that the table has.
        score: A number for each outcome.
        normalise: Whether to rescale probabilities to sum to one.
        errors: What to do with rows that cannot be answered.
        num_resamples: How often rows are drawn anew.
        level: How much of the resamples the intervals hold.
        seed: Of the resampling.
        progress: Whether to show a progress bar; by default on a terminal.
    """
    reading = {"labels": labels, "normalise": normalise, "errors": errors}
    settings = {"score": score, "num_resamples": num_resamples, "level": level, "seed": seed}

    def add_up(readers: Iterator[Reader], bar: ProgressBar) -> TransitionTable:
        tally: Tally | None = None
        for reader in readers:
            tally = tally or Tally(reader.labels, mechanism, **settings)
            for _, _, questions in reader.chunks():
                tally.add(questions)
            bar.advance(reader.frame.num_rows)
            make_frame = reader.frame.from_columns
        assert tally is not None  # a file has at least one chunk, though it may be empty
        return tally.table(make_frame)

    worlds = {"factual": factual, "counterfactual": counterfactual}
    return _over_chunks(Source(source), outcome, worlds, reading, add_up, progress)


def _over_chunks(
    source: Source,
    outcome: str,
    worlds: Mapping[str, Named],
    reading: Mapping[str, Any],
    use: Callable[[Iterator[Reader], ProgressBar], T],
    progress: bool | None,
) -> T:
    """Hands the file's questions over chunk by chunk, from the beginning again when a column was misjudged."""

    def readers() -> Iterator[Reader]:
        first_row = 0
        for table in source.chunks(CHUNK_ROWS):
            frame = as_frame(table)
            frame.first_row = first_row
            yield Reader(frame, outcome, worlds["factual"], worlds["counterfactual"], **reading)
            first_row += frame.num_rows

    empty = as_frame(source.empty_table())
    for name, given in worlds.items():
        columns = as_source(name, given, empty)
        if not isinstance(columns, Columns):
            raise InputError(f"`{name}` must name columns of the file, got {type(given).__name__}")
        for column in columns.names:
            empty.column(name, column)
        source.numbers([str(column) for column in columns.names])
    while True:
        try:
            with ProgressBar("reading", source.num_rows, progress, unit="rows") as bar:
                return use(readers(), bar)
        except RetypedError:
            continue
