"""What all rows of a Ray Dataset add up to: parts are added up where they are, and merged in order."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, final

from jaxtyping import PRNGKeyArray

from countermax._core.extras import import_pyarrow
from countermax._core.progress import ProgressBar
from countermax._ray import connect, in_parts, merged_in_parts, one_thread, put_once
from countermax._tables.frames import Codes, Floats
from countermax.couplings import AbstractCoupling, Gadget2, GumbelMax
from countermax.tables._compared import Compared, CouplingsLike, compare_couplings
from countermax.tables._effect_result import TableEffects
from countermax.tables._effects import result_of
from countermax.tables._moments import EffectSums
from countermax.tables._pairs import AbstractRows, Weighted, all_pairs, distinct, drawn_rows, pairs_of, together
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._ray._asking import Asking, needed_columns
from countermax.tables._ray._datasets import ask_dataset
from countermax.tables._rows import CHUNK_ROWS, Chunk, Question
from countermax.tables._transition_result import Transitions
from countermax.tables._transitions import NUM_RESAMPLES, Tally, TallySums

T = TypeVar("T")
Sums = TypeVar("Sums", TallySums, EffectSums)

_PART_ROWS = 4 * CHUNK_ROWS  # at least, of a task: smaller blocks are taken together


def transitions_dataset(
    dataset: Any,
    *,
    outcome: str,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    unchanged: str | None = None,
    normalise: bool = False,
    errors: str = "raise",
    num_resamples: int = NUM_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | None = None,
) -> Transitions:
    """Does what `transitions` does with a Ray Dataset; its frames are Arrow tables.

    Blocks are added up where they are, and only counts travel. How often a row is drawn again depends on its position
    in the Dataset, so that intervals are those of `transitions`, however rows are cut into blocks. `outcome` and
    `unchanged` name columns, and so do `factual` and `counterfactual`, unless they are classifiers; all other options
    are those of `transitions`.
    """
    rows = DatasetRows(dataset, Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged))
    tally = Tally(rows.reader, coupling, score=score, num_resamples=num_resamples, level=level, seed=seed)
    with ProgressBar("transitions", None, progress, unit="rows") as bar:
        for sums in rows.summed(_tallied, tally):
            tally.sums.merge(sums)
            bar.advance(sums.num_rows + sums.num_left_out)
    return tally.result(rows.reader.frame)


def effects_dataset(
    dataset: Any,
    *,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    score: Any = None,
    counterfactual_score: Any = None,
    outcome: str | None = None,
    couplings: CouplingsLike | None = None,
    labels: Sequence[Hashable] | None = None,
    learn: bool | Gadget2 = False,
    key: PRNGKeyArray | None = None,
    fit_options: Mapping[str, Any] | None = None,
    unchanged: str | None = None,
    normalise: bool = False,
    errors: str = "raise",
    progress: bool | None = None,
) -> TableEffects:
    """Does what `effects` does with a Ray Dataset; its frames are Arrow tables, individual effects a Dataset.

    Blocks are added up where they are, and only sums travel. Couplings that are fitted to the rows take another pass
    over them. `outcome` and `unchanged` name columns, and so do `factual` and `counterfactual`, unless they are
    classifiers; all other options are those of `effects`. A classifier is not fitted again here: `effects` does that
    with a frame in memory, on Ray by `engine="ray"`.
    """
    rows = DatasetRows(dataset, Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged))
    compared = compare_couplings(
        rows.reader,
        rows,
        score=score,
        counterfactual_score=counterfactual_score,
        couplings=couplings,
        learn=learn,
        key=key,
        fit_options=fit_options,
        num_times=1,
        progress=progress,
    )
    moments, sent = compared.moments(), replace(compared, learned=None)
    with ProgressBar("effects", None, progress, unit="rows") as bar:
        for sums in rows.summed(_added_up, sent):
            moments.sums.merge(sums)
            bar.advance(sums.num_rows + sums.num_left_out)
    individual = None
    if outcome is not None:
        individual = dataset.map_batches(
            _individual, fn_args=(put_once((rows.asking, sent)),), batch_format="pyarrow", batch_size=CHUNK_ROWS
        )
    return result_of(rows.reader, rows, compared, moments, individual)


@final
class DatasetRows(AbstractRows):
    """Rows of a Ray Dataset."""

    def __init__(self, dataset: Any, question: Question):
        """Checks the question against the columns."""
        connect()
        self.asking, self.reader = ask_dataset(question, dataset)
        self._dataset = dataset
        self._columns = needed_columns(question, self.reader)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._dataset.count()

    def some_pairs(self) -> Weighted:
        """Distinct pairs of some rows that were drawn."""
        return distinct(self.each(_pairs_of_drawn, drawn_rows(self.num_rows)))

    def all_pairs(self, most: int) -> Weighted | None:
        """All distinct pairs; None if there are more than `most`."""
        return together(self.each(_pairs_of_all, most), most)

    def each(self, function: Callable[[Any, int, Iterator[Chunk]], T], shared: Any) -> Iterator[T]:
        """`function(shared, first_row, chunks)` of all rows in parts, in order; workers compute it.

        Args:
            function: Function of what is shared, the position of a part's first row, and its rows.
            shared: Value that it needs for every part.
        """
        chosen, narrow = self._narrow()
        with _in_order(chosen):
            yield from in_parts(_of_part, (function, shared, narrow), _parts(chosen))

    def summed(self, function: Callable[[Any, int, Iterator[Chunk]], Sums], shared: Any) -> Iterator[Sums]:
        """The same for results that can be merged: workers merge those of many parts; see `each`."""
        chosen, narrow = self._narrow()
        with _in_order(chosen):
            yield from merged_in_parts(_of_part, (function, shared, narrow), _parts(chosen))

    def _narrow(self) -> tuple[Any, Asking]:
        """The columns that the question needs."""
        names, schema = self._columns, self.asking.schema
        narrow = Asking(self.asking.question, import_pyarrow().schema([schema.field(name) for name in names]))
        return self._dataset if names == schema.names else self._dataset.select_columns(names), narrow


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
    """What a worker computes."""
    function, value, asking = shared
    pa = import_pyarrow()
    tables = [
        (block if isinstance(block, pa.Table) else pa.Table.from_pandas(block, preserve_index=False)).slice(
            start, stop - start
        )
        for block, (start, stop) in zip(blocks, spans, strict=True)
    ]
    for table in tables[1:]:
        asking.reader(table.slice(0, 0), first_row)  # which must have the same columns
    table = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    return function(value, first_row, asking.reader(table, first_row).chunks())


def _tallied(tally: Tally, first_row: int, chunks: Iterator[Chunk]) -> TallySums:
    own = tally.beginning_at(first_row)
    for chunk in chunks:
        own.add(chunk)
    return own.sums


def _added_up(compared: Compared, first_row: int, chunks: Iterator[Chunk]) -> EffectSums:
    moments = compared.moments()
    for chunk in chunks:
        moments.add(chunk)
    return moments.sums


def _pairs_of_drawn(drawn: Codes, first_row: int, chunks: Iterator[Chunk]) -> Floats:
    return pairs_of(chunks, drawn, first_row)


def _pairs_of_all(most: int, first_row: int, chunks: Iterator[Chunk]) -> Weighted | None:
    return all_pairs(chunks, most)


def _individual(batch: Any, shared: Any) -> Any:
    """Each row's own effects."""
    one_thread()
    asking, compared = connect().get(shared)
    reader = asking.reader(batch)
    moments = compared.moments(batch.num_rows)
    for chunk in reader.chunks():
        moments.add(chunk)
    return reader.frame.made([(moments.names, moments.rows)], extend=False)
