"""What is asked of a frame, and its rows: two worlds' log-probabilities and what was seen, checked row by row."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import MISSING, UNKNOWN, listed
from countermax._core.progress import ProgressBar
from countermax._tables.frames import AbstractFrame, Codes, Floats
from countermax.tables._consistency import Flags, as_unchanged, unchanged_inputs
from countermax.tables._outcomes import CATEGORY, find_labels, find_outcome, is_name, order_in, ordered
from countermax.tables._probabilities import (
    AbstractProbabilities,
    Columns,
    Predicted,
    ProbabilitiesLike,
    as_probabilities,
)

CHUNK_ROWS = 65_536  # rows that are looked at at a time: what bounds the memory
ON_ERROR = ("raise", "missing")

_SUM_TOLERANCE = 1e-6
_PREDICTED_TOLERANCE = 1e-3  # classifiers compute in single precision, and some round
NORMALISE = "pass normalise=True (on the command line: --normalise) if these are counts or weights"
_WORLDS = ("factual", "counterfactual")

_Asked = tuple[AbstractFrame, list[Any], Flags]


@dataclass(frozen=True, eq=False)
class Question:
    """What every row is asked, and how rows are read: this was seen in one world; what would the other have brought?"""

    outcome: Any
    """The column with the outcomes seen, or an array of them; None where rows are just pairs of worlds."""
    factual: ProbabilitiesLike
    counterfactual: ProbabilitiesLike
    labels: Sequence[Hashable] | None
    normalise: bool
    errors: str
    unchanged: Any = None
    """Which rows the change leaves as they were, beside those that `Predicted` knows: a column or an array."""

    def __post_init__(self) -> None:
        if self.errors not in ON_ERROR:
            raise InputError(f"`errors` must be one of {', '.join(ON_ERROR)}, got {self.errors!r}")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows as checked log-probabilities and outcomes. Those with a problem hold harmless ones instead."""

    start: int
    """Where the first of them is in the frame."""
    log_p: Floats
    log_q: Floats
    x: Codes
    kept: Flags
    """Which rows the change leaves as they were: under every coupling they have the outcome that they had."""
    weight: Floats
    """How much each row counts."""
    bad: Flags
    """Which rows have a problem."""
    problems: NDArray[np.object_]
    """What it is, in words; None where there is none."""
    name_of: Callable[[int], str]
    """How a message calls each row."""
    errors: str
    """What to do with rows that turn out to have no answer: `raise`, or leave them `missing`."""

    @property
    def rows(self) -> slice:
        """Where the rows are in the frame."""
        return slice(self.start, self.start + len(self.x))

    def check(self, numbers: Floats, whose: str) -> None:
        """Refuses rows without a finite answer, or notes that as their problem; a NaN must not pass for a number.

        Args:
            numbers: Answers, [columns, rows].
            whose: Source of the answers, for the message.
        """
        wrong = ~np.isfinite(numbers).all(axis=0) & ~self.bad
        if not wrong.any():
            return
        words = f"{whose} gives NaN or an infinity instead of an answer"
        if self.errors == "raise":
            first = self.name_of(int(wrong.argmax()))
            raise InputError(f"{first} cannot be answered: {words}; check the coupling, or choose another one")
        self.bad[wrong], self.problems[wrong] = True, words


class _Problems:
    """What is wrong with rows; the first thing that is found counts."""

    def __init__(self, count: int):
        self.bad = np.zeros(count, bool)
        self.words = np.full(count, None, object)

    def note(self, rows: Flags, words: str | Callable[[int], str]) -> None:
        """Writes down what is wrong with rows that have no problem yet."""
        new = np.flatnonzero(rows & ~self.bad)
        self.bad[new] = True
        self.words[new] = words if isinstance(words, str) else [words(int(row)) for row in new]


class RowReader:
    """Reads the rows of a frame, chunk by chunk."""

    def __init__(self, frame: AbstractFrame, question: Question):
        """Finds columns and labels; reads no probability yet."""
        self.frame, self.question = frame, question
        given = zip(_WORLDS, (question.factual, question.counterfactual), strict=True)
        self.worlds = [as_probabilities(name, each, frame) for name, each in given]
        for name, world in zip(_WORLDS, self.worlds, strict=True):
            if isinstance(world, Columns) and is_name(question.outcome) and question.outcome in world.names:
                raise InputError(f"`outcome` must not be a column of `{name}`, got {question.outcome!r}")
        self.outcome, self._codes, self._seen = find_outcome(frame, question.outcome)
        kind = None if self.outcome is None else frame.kind_of(self.outcome)
        categories = [] if self.outcome is None or question.labels is not None else ordered(frame, self.outcome)
        found = find_labels(question.labels, categories, self.worlds, self._seen, kind)
        self.labels, self.order = found.labels, found.order
        if question.labels is not None:
            self.worlds = [each.of(self.labels) if isinstance(each, Columns) else each for each in self.worlds]
        self.orders = [order_in(name, found, each) for name, each in zip(_WORLDS, self.worlds, strict=True)]
        self._unchanged = None if question.unchanged is None else as_unchanged(frame, question.unchanged)
        self.weights = np.ones(frame.num_rows)
        self.unweighted: list[str] = []
        """Names of classifiers that are fitted again without these weights, which they do not take."""
        self.remembered: dict[tuple[int, int], _Asked] | None = None
        """What is the same for other classifiers, by first and last row; kept where some will be asked."""
        self._words: dict[int, str] = {}
        places = np.append(self.labels.places(self._seen), MISSING)
        self.seen = (
            None if self._codes is None else places[self._codes]
        )  # the code of a missing value is the last place

    @property
    def ranks(self) -> Floats | None:
        """The places of the outcomes, where they are ordered categories: the score that they have by default."""
        return np.arange(len(self.labels), dtype=np.float64) if self.order == CATEGORY else None

    def chunks(self, bar: ProgressBar | None = None) -> Iterator[Chunk]:
        """All rows, in order; what has been dealt with advances the bar."""
        for start in range(0, self.frame.num_rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, self.frame.num_rows)
            yield self.read(start, stop)
            if bar is not None:
                bar.advance(stop - start)

    def bar(self, label: str, shown: bool | None) -> ProgressBar:
        """A progress bar over all rows; unless it is asked for, only where there are many."""
        if shown is None and self.frame.num_rows <= CHUNK_ROWS:
            shown = False
        return ProgressBar(label, self.frame.num_rows, shown, unit="rows")

    def read(self, start: int, stop: int) -> Chunk:
        """Some rows; the first bad one raises, unless bad ones are to be left out."""
        rows, inputs, kept = self._asked(start, stop)
        found = _Problems(stop - start)
        x = np.zeros(stop - start, np.int64) if self.seen is None else self.seen[start:stop].copy()
        named = repr(self.question.outcome) if is_name(self.question.outcome) else "the array `outcome`"
        found.note(x == MISSING, f"the outcome in {named} is missing")
        found.note(x == UNKNOWN, lambda row: self._unknown(start + row))
        log_p, log_q = (
            self._log_probs(name, world, rows, start, asked, order, found)
            for name, world, asked, order in zip(_WORLDS, self.worlds, inputs, self.orders, strict=True)
        )
        log_q[kept] = log_p[kept]
        if self.seen is not None:
            x[found.bad] = 0
            found.note(
                np.isneginf(log_p[np.arange(len(x)), x]),
                lambda row: (
                    f"{listed([self.labels.values[x[row]]])} was observed but has probability zero under `factual`"
                    + ("; are the two worlds swapped?" if np.isfinite(log_q[row, x[row]]) else "")
                ),
            )
        x[found.bad] = 0
        log_p[found.bad] = log_q[found.bad] = -np.log(len(self.labels))
        if self.question.errors == "raise" and found.bad.any():
            first = int(found.bad.argmax())
            raise InputError(
                f"{rows.row_name(first)} cannot be answered: {found.words[first]}. Up to row "
                f"{rows.first_row + stop - start - 1} there are {found.bad.sum()} such rows; correct or drop them, or "
                "leave their results missing with errors='missing' (on the command line: --errors missing)"
            )
        kept = kept & ~found.bad
        weight = self.weights[start:stop]
        return Chunk(start, log_p, log_q, x, kept, weight, found.bad, found.words, rows.row_name, self.question.errors)

    def _asked(self, start: int, stop: int) -> _Asked:
        """Some rows, what classifiers are asked about them, and which of them the change leaves as they were."""
        if self.remembered is not None and (start, stop) in self.remembered:
            return self.remembered[start, stop]
        rows = self.frame.rows(start, stop)
        inputs = [world.inputs(rows, start) if isinstance(world, Predicted) else None for world in self.worlds]
        kept = unchanged_inputs(self.worlds, inputs, rows)
        if self._unchanged is not None:
            kept |= self._unchanged[start:stop]
        if self.remembered is not None:
            self.remembered[start, stop] = rows, inputs, kept
        return rows, inputs, kept

    def _unknown(self, row: int) -> str:
        """What is wrong with an outcome that is no label, worded once for all rows that have it."""
        assert self._codes is not None
        code = int(self._codes[row])
        if code not in self._words:
            value, labels = self._seen[code], self.labels
            known = f"{listed(labels.values)}{labels.resemblance(value)}"
            self._words[code] = f"the outcome {listed([value])} is none of the labels {known}"
        return self._words[code]

    def _log_probs(
        self,
        name: str,
        world: AbstractProbabilities,
        rows: AbstractFrame,
        start: int,
        inputs: Any,
        order: Codes,
        found: _Problems,
    ) -> Floats:
        """Logarithms of one world's probabilities; rows that are no distribution are noted."""
        values = world.predict(inputs, rows) if isinstance(world, Predicted) else world.read(rows, start)
        if values.shape != (rows.num_rows, world.width):
            raise InputError(f"`{name}` must give {world.width} probabilities for each row, got {values.shape}")
        values = values[:, order]
        missing = np.isnan(values)
        odd = np.asarray(((values < 0) | np.isinf(values)).any(axis=1))
        good = ~(missing.any(axis=1) | odd)
        total: Floats = np.where(good, _row_sums(values), 1.0)
        predicted = isinstance(world, Predicted)
        tolerance = _PREDICTED_TOLERANCE if predicted else np.inf if self.question.normalise else _SUM_TOLERANCE
        left_out = world.left_out if isinstance(world, Columns) else ()
        advice = f" (without {listed(left_out)}, which no label names)" if left_out else ""
        advice += "" if predicted else f"; {NORMALISE}"
        for label, column in zip(self.labels.values, missing.T, strict=True):
            found.note(column, f"the `{name}` probability of {listed([label])} is missing")
        found.note(odd, f"a `{name}` probability is negative or infinite")
        found.note(~(total > 0), f"the `{name}` probabilities are all zero")
        found.note(
            np.abs(total - 1) > tolerance,
            lambda row: f"the `{name}` probabilities sum to {total[row]:.6g}, not to 1{advice}",
        )
        good &= total > 0
        with np.errstate(divide="ignore"):
            return np.log(np.where(good[:, None], values, 1.0) / np.where(good, total, 1.0)[:, None])


def _row_sums(values: Floats) -> Floats:
    """The sum of each row's finite numbers, from left to right: the same bits however many rows there are."""
    total: Floats = np.zeros(len(values))
    for column in values.T:
        total += np.where(np.isfinite(column), column, 0.0)
    return total
