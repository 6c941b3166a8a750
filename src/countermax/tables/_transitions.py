"""Of those with each outcome, how many would have had which: expected counts, intervals and bounds."""

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from countermax._core.memory import check_memory
from countermax._core.quantities import as_count, as_seed
from countermax._tables.frames import AbstractFrame, Floats, as_frame
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.couplings._named import as_coupling, name_of
from countermax.intervals import Interval
from countermax.intervals._interval import Bootstrap, check_level, percentile_interval
from countermax.tables._counterfactuals import answer_rows
from countermax.tables._notes import label_notes, metadata, shown_name, what_is_known
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._refit import Refits, Refitted, as_refitting
from countermax.tables._rows import Chunk, Question, RowReader
from countermax.tables._transition_result import Transitions

NUM_RESAMPLES = 1000
_BYTES_OF_WEIGHTS = 6 * 4096  # of a resample, for the rows that share a random stream


def transitions(
    frame: Any,
    *,
    outcome: Any,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    unchanged: Any = None,
    normalise: bool = False,
    errors: str = "raise",
    refit: bool = False,
    clusters: Any = None,
    weights: Any = None,
    num_resamples: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    engine: str = "local",
    progress: bool | None = None,
) -> Transitions:
    """Of those who churned, how many would have stayed, downgraded, or churned all the same.

    Counts are exact expectations under the coupling. Bounds are the least and the largest count over all couplings that
    fit the data: what other couplings could say. Intervals are what other data could have shown. By default that is a
    bootstrap of the rows, which takes each row's probabilities as known and leaves out how well they were estimated.
    With `refit=True` the classifier is fitted again for each resample, and the bounds have an interval too, which holds
    the whole range. Then the frame must be what the classifier was fitted on, with the outcomes in `outcome`.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        outcome: The column with the outcomes seen, or an array of them.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        coupling: Coupling of the two worlds; see `counterfactuals`.
        labels: The outcomes in the order of the cells; by default that of an ordered category, else of `factual`.
        score: A number for each outcome; only couplings that are made for a score ask for it.
        unchanged: Rows that the change leaves as they were, a column or an array of booleans: whatever the coupling,
            they have the outcome that they had. `Predicted` knows its own; say it where probabilities are numbers.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: Treatment of rows that cannot be answered: `raise`, or leave them out and count them (`missing`).
        refit: Whether to fit the classifier again (a copy by `sklearn.base.clone`) on resampled rows.
        clusters: Column or array, with `refit`: rows with the same value are resampled together.
        weights: Column or array, with `refit`: weight of each row, in the fit too where it takes weights.
        num_resamples: Number of resamples, 0 for no intervals; by default 1000, and 200 with `refit`.
        level: Confidence of the intervals: how much of the resamples they hold.
        seed: Seed of the resampling; the same seed gives the same intervals.
        n_jobs: Number of fits at the same time, as joblib counts them.
        engine: "local", or "ray" for refits on a cluster.
        progress: Whether to show a progress bar; by default on a terminal, if there are many rows or refits.
    """
    refitting = as_refitting(
        refit,
        clusters=clusters,
        weights=weights,
        num_resamples=num_resamples,
        level=level,
        seed=seed,
        n_jobs=n_jobs,
        engine=engine,
        progress=progress,
    )
    reader = RowReader(
        as_frame(frame), Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged)
    )
    plain = NUM_RESAMPLES if num_resamples is None else num_resamples
    refits = None if refitting is None else Refits(reader, refitting)
    tally = Tally(reader, coupling, score=score, num_resamples=0 if refit else plain, level=level, seed=seed)
    with reader.bar("transitions", progress) as bar:
        for chunk in reader.chunks(bar):
            tally.add(chunk)
    if refitting is None or refits is None:
        return tally.result(reader.frame)
    return tally.result(reader.frame, Refitted(reader, refits, tally.measure, refitting, by_row=False))


@dataclass(eq=False)
class TallySums:
    """What some rows of a table add up to."""

    cells: Floats
    """Counts and their bounds, [seen, 3 x outcomes]."""
    bootstrap: Bootstrap
    num_rows: int = 0
    num_left_out: int = 0
    num_unchanged: int = 0

    def merge(self, other: "TallySums") -> None:
        """What other rows of the same table add up to."""
        self.cells += other.cells
        self.bootstrap.merge(other.bootstrap)
        self.num_rows += other.num_rows
        self.num_left_out += other.num_left_out
        self.num_unchanged += other.num_unchanged


class Tally:
    """Adds rows up."""

    def __init__(
        self,
        reader: RowReader,
        coupling: str | Path | AbstractCoupling,
        *,
        score: Any,
        num_resamples: int,
        level: float,
        seed: int,
    ):
        check_level(level)
        seed = as_seed("seed", seed)
        labels = reader.labels
        num_resamples = as_count("`num_resamples` (on the command line: --resamples)", num_resamples, least=0)
        check_memory(
            f"{num_resamples:,} resamples of {len(labels)} outcomes",
            num_resamples * (4 * 8 * len(labels) ** 2 + _BYTES_OF_WEIGHTS),
            "lower `num_resamples` (on the command line: --resamples)",
        )
        self._labels, self._level = labels, level
        scores = reader.ranks if score is None else labels.scores("score", score)
        with jax.enable_x64(True):  # scores that differ in their last digits have an order too
            self._coupling = as_coupling(coupling, len(labels), score=scores)
            self._name = shown_name(name_of(coupling, score=scores))
        self._num_resamples, self._seed = num_resamples, seed
        self.sums = self._empty(0)
        coupled = [self._coupling]
        self._label_notes = partial(label_notes, reader.labels, reader.order, coupled)
        self._known = what_is_known(reader, refitted=False), what_is_known(reader, refitted=True)

    def beginning_at(self, row: int) -> "Tally":
        """A tally of the same question without rows, for those of the table from this one on."""
        other = copy.copy(self)
        other.sums = self._empty(row)
        return other

    def add(self, chunk: Chunk) -> None:
        """The next rows."""
        found = self._cells(chunk)
        self.sums.cells += _summed(found, chunk, len(self._labels))
        self.sums.bootstrap.add(chunk.x, found[: len(self._labels)], ~chunk.bad)
        self.sums.num_rows += int((~chunk.bad).sum())
        self.sums.num_left_out += int(chunk.bad.sum())
        self.sums.num_unchanged += int(chunk.kept.sum())

    def _empty(self, first_row: int) -> TallySums:
        size = len(self._labels)
        bootstrap = Bootstrap(size, self._num_resamples, self._seed, first_row)
        return TallySums(np.zeros((size, 3 * size)), bootstrap)

    def measure(self, chunks: Sequence[Chunk]) -> Floats:
        """Counts and their bounds, then shares and theirs, of all rows: [2, seen, 3 x outcomes]."""
        sums = sum((_summed(self._cells(chunk), chunk, len(self._labels)) for chunk in chunks), np.zeros(()))
        return np.stack([sums, sums / _seen(sums[:, : len(self._labels)])])

    def _cells(self, chunk: Chunk) -> Floats:
        found = answer_rows(chunk, self._coupling, None, "any")
        return np.concatenate([found.probabilities, found.limits])

    def result(self, frame: AbstractFrame, refitted: Refitted | None = None) -> Transitions:
        """What all rows add up to."""
        size = len(self._labels)
        counts, lower, upper = _parts(self.sums.cells, size)
        if refitted is None:
            samples = self.sums.bootstrap.resamples(counts)
            of_counts = percentile_interval(samples, self._level)
            of_shares = percentile_interval(samples / _seen(samples), self._level)
            whole: list[Interval | None] = [None, None]
        else:
            found = refitted.limits(0.0, np.array([counts.sum(), 1.0])[:, None, None])
            low, high = ([_parts(each, size) for each in limits] for limits in found)
            of_counts, of_shares = (Interval(low[place][0], high[place][0], self._level) for place in (0, 1))
            whole = [Interval(low[place][1], high[place][2], self._level) for place in (0, 1)]
        result = Transitions(
            labels=self._labels.values,
            coupling=self._name,
            counts=counts,
            bounds=Bounds(lower, upper),
            counts_interval=of_counts,
            shares_interval=of_shares,
            bounds_interval=whole[0],
            share_bounds_interval=whole[1],
            what_is_known=self._known[refitted is not None],
            label_notes=tuple(self._label_notes(np.rint(counts.sum(axis=1)).astype(np.int64))),
            num_rows=self.sums.num_rows,
            num_unchanged=self.sums.num_unchanged,
            num_left_out=self.sums.num_left_out,
            make_frame=lambda columns: frame.noted(
                frame.from_columns(columns), metadata(self._name, "any", result.notes)
            ),
        )
        return result


def _summed(cells: Floats, chunk: Chunk, size: int) -> Floats:
    """The numbers of rows with each outcome, added up, [seen, numbers]."""
    weight = np.where(chunk.bad, 0.0, chunk.weight)
    cells = np.where(chunk.bad, 0.0, cells)
    return np.stack([cells @ np.where(chunk.x == outcome, weight, 0.0) for outcome in range(size)])


def _parts(sums: Floats, size: int) -> tuple[Floats, Floats, Floats]:
    """The numbers under the coupling, and the least and the largest of all couplings."""
    return sums[:, :size], sums[:, size::2], sums[:, size + 1 :: 2]


def _seen(counts: Floats) -> Floats:
    """How many had each outcome; NaN where nobody had."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, total, np.nan)
