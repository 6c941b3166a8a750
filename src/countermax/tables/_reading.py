"""What is asked of a table, and its rows: two worlds' log-probabilities and what was seen, checked row by row."""

import copy
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import (
    BOOLEAN,
    MISSING,
    NUMBER,
    UNKNOWN,
    Labels,
    Written,
    are_numbers,
    identity,
    is_missing,
    listed,
    shown,
    sorted_labels,
)
from countermax._core.progress import ProgressBar
from countermax._kernel import as_shares
from countermax._tables.frames import AbstractFrame, Codes, Flags, Floats, as_frame
from countermax.tables._probabilities import (
    AbstractProbabilities,
    Columns,
    Predicted,
    ProbabilitiesLike,
    as_probabilities,
)
from countermax.tables._utilities import ChoiceRows, Utilities, available, choices, look_like_probabilities

CHUNK_ROWS = 65_536  # rows that are looked at at a time, if they have few columns: what bounds the memory
_CHUNK_NUMBERS, _LEAST_ROWS = 2**19, 2**10
MOST_PAIRS = 4096  # of worlds that a coupling is trained on, unless somebody wants more
ON_ERROR = ("raise", "missing")
NORMALISE = "pass normalise=True (--normalise) if these are counts or weights"

GIVEN, CATEGORY, NUMBERS, NOBODY = "given", "category", "numbers", "nobody"
"""Who said in which order the outcomes are: `labels`, an ordered category, numbers that sort themselves, or nobody."""

_SUM_TOLERANCE = 1e-6
_PREDICTED_TOLERANCE = 1e-3  # classifiers compute in single precision, and some round
_MOST_KEPT = 2**24  # numbers that a reader remembers of its rows, for the next question
_WORLDS = ("factual", "counterfactual")
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")

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
    score: Any = None
    utilities: Utilities | None = None
    """What the numbers of both worlds are, where they are no probabilities."""
    untyped: bool = False
    """Whether outcomes are cells of a text file, which a number may name as well as its digits."""
    by: str | None = None
    """Column whose values divide the rows into groups, which sums are asked of too."""

    def __post_init__(self) -> None:
        if self.errors not in ON_ERROR:
            raise InputError(f"`errors` must be one of {', '.join(ON_ERROR)}, got {self.errors!r}")


@dataclass(frozen=True, eq=False)
class WorldRows:
    """One world of some rows: probabilities, [row, outcome], or their logarithms where these are what is known."""

    values: Floats
    are_logs: bool = False

    @cached_property
    def logs(self) -> Floats:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return self.values if self.are_logs else np.log(self.values)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows as checked probabilities and outcomes. Those with a problem hold harmless ones instead."""

    start: int
    """Where the first of them is in the frame."""
    p: WorldRows
    q: WorldRows
    x: Codes
    kept: Flags
    """Which rows the change leaves as they were: under every coupling they have the outcome that they had."""
    overruled: Flags
    """Which of them have other probabilities in the other world all the same."""
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
    choosers: ChoiceRows | None = None
    """Logsums and weights, where worlds are utilities."""
    group: Codes | None = None
    """The place of each row's value among the `values`, where rows are divided by a column; -1 where it is missing."""
    values: Sequence[str] = ()
    """As they are shown; the last one, of rows where it is missing, is empty."""

    def groups(self) -> Iterator[tuple[str, Flags]]:
        """The groups that the rows are of, by value, and which rows each of them has."""
        for code in () if self.group is None else np.unique(self.group).tolist():
            yield self.values[code], np.asarray(self.group == code)

    @property
    def log_p(self) -> Floats:
        """Log-probabilities of the factual world."""
        return self.p.logs

    @property
    def log_q(self) -> Floats:
        """Those of the other world."""
        return self.q.logs

    @property
    def rows(self) -> slice:
        """Where the rows are in the frame."""
        return slice(self.start, self.start + len(self.x))

    def moved(self, by: int) -> "Chunk":
        """The same rows, where they are in a longer table."""
        return replace(self, start=self.start + by) if by else self

    def fresh(self) -> "Chunk":
        """The same rows, whose problems can be added to."""
        return replace(self, bad=self.bad.copy(), problems=self.problems.copy())

    def check(self, numbers: Floats, whose: str) -> None:
        """Refuses rows without a finite answer, or notes that as their problem; a NaN must not pass for a number."""
        if np.isfinite(numbers.sum()):  # then all of them are
            return
        wrong = ~np.isfinite(numbers).all(axis=0) & ~self.bad
        if not wrong.any():
            return
        words = f"{whose} gives NaN or an infinity instead of an answer"
        if self.errors == "raise":
            first = self.name_of(int(wrong.argmax()))
            raise InputError(f"{first} cannot be answered: {words}; check the coupling, or choose another one")
        self.bad[wrong], self.problems[wrong] = True, words


@dataclass
class AbstractSums:
    """What some rows add up to, field by field."""

    def merge(self, other: Self) -> None:
        """Adds what other rows of the same table add up to."""
        for name, theirs in vars(other).items():
            own: Any = getattr(self, name)
            if hasattr(own, "merge"):
                own.merge(theirs)
            else:
                own += theirs
                setattr(self, name, own)


@final
@dataclass
class RowCounts(AbstractSums):
    """How many rows are answered, are left as they were, and have no answer."""

    num_rows: int = 0
    num_unchanged: int = 0
    num_left_out: int = 0
    num_overruled: int = 0
    """Rows that are left as they were although the other world has other probabilities for them."""

    @property
    def shown(self) -> dict[str, Any]:
        """What results have; the rest is in their notes."""
        return {name: count for name, count in vars(self).items() if name != "num_overruled"}

    def add(self, chunk: Chunk, among: Flags | None = None) -> None:
        """Counts some more rows: all of a chunk, or those among them."""
        flags = (~chunk.bad, chunk.kept, chunk.bad, chunk.overruled)
        self.merge(RowCounts(*(int((each if among is None else each & among).sum()) for each in flags)))


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
        self.frame, self.question, self._most_kept = frame, question, _MOST_KEPT
        self.worlds = [as_probabilities(name, getattr(question, name), frame) for name in _WORLDS]
        for name, world in zip(_WORLDS, self.worlds, strict=True):
            if isinstance(world, Columns) and is_name(question.outcome) and question.outcome in world.names:
                raise InputError(f"`outcome` must not be a column of `{name}`, got {question.outcome!r}")
        kind, categories = None, []
        self._look_at_outcomes()
        if question.outcome is not None:
            kind, (listing, is_ordered) = frame.kind_of(self.outcome), frame.categories(self.outcome)
            categories = listing if listing is not None and is_ordered and question.labels is None else []
        found = find_labels(question, categories, self.worlds, self._seen, kind)
        self.labels, self.order = found.labels, found.order
        if question.labels is not None:
            self.worlds = [each.of(self.labels) if isinstance(each, Columns) else each for each in self.worlds]
        self.orders = [order_in(name, found, each) for name, each in zip(_WORLDS, self.worlds, strict=True)]
        self.model = None if question.utilities is None else question.utilities.model(self.labels)
        self._look_at_rows()

    def over(self, frame: AbstractFrame) -> "RowReader":
        """The same question to other rows, which are read once, with the same columns and labels."""
        other = copy.copy(self)
        other.frame, other._most_kept = frame, 0
        other._look_at_outcomes()
        other._look_at_rows()
        return other

    def _look_at_outcomes(self) -> None:
        self.outcome: Any = None
        self._codes: Codes | None = None
        self._seen: list[Any] = []
        if (asked := self.question.outcome) is not None:
            self.outcome = (self.frame.column if is_name(asked) else self.frame.own)("outcome", asked)
            self._codes, self._seen = self.frame.factorised(self.outcome)

    def _look_at_rows(self) -> None:
        unchanged = self.question.unchanged
        self._unchanged = None if unchanged is None else as_unchanged(self.frame, unchanged)
        self._group: Codes | None = None
        self._values: list[str] = []
        if (by := self.question.by) is not None:
            self._group, found = self.frame.factorised(self.frame.column("by", by))
            self._values = [*(shown(value) or "''" for value in found), ""]  # where it is missing: the last place
        self.weights = np.ones(self.frame.num_rows)
        self.remembered: dict[tuple[int, int], _Asked] | None = None
        """What is the same for other classifiers, by first and last row; kept where some will be asked."""
        self._words: dict[int, str] = {}
        self._kept: list[Chunk] | None = None
        places = np.append(self.labels.places(self._seen), MISSING)
        self.seen = None if self._codes is None else places[self._codes]  # a missing value has the last place

    @property
    def ranks(self) -> Floats | None:
        """The places of the outcomes, where they are ordered categories: the score that they have by default."""
        return np.arange(len(self.labels), dtype=np.float64) if self.order == CATEGORY else None

    @property
    def one_score(self) -> Floats | None:
        """The score of each outcome: the one that was given, else the ranks."""
        given = self.question.score
        return self.ranks if given is None else self.labels.scores("score", given)

    @property
    def needed(self) -> list[str]:
        """The columns that an answer depends on, in the order of the table."""
        wanted = {self.question.outcome, self.question.unchanged, self.question.by, self.weight_column}
        for world in self.worlds:
            names = world.names if isinstance(world, Columns) else world.reads if isinstance(world, Predicted) else ()
            wanted.update(names or ())
        return [str(name) for name in self.frame.columns if name in wanted]

    @property
    def weight_column(self) -> str | None:
        """The column of weights, where rows of utilities have one."""
        asked = self.question.utilities
        return asked.weights if asked is not None and isinstance(asked.weights, str) else None

    def chunks(self) -> Iterator[Chunk]:
        """All rows, in order. Those of a table of moderate size are read once, and kept for the next question."""
        if self._kept is not None:
            yield from (chunk.fresh() for chunk in self._kept)
            return
        count = self.frame.num_rows
        small = count * (2 * len(self.labels) + 4) <= self._most_kept
        kept: list[Chunk] = []
        with nullcontext() if count <= self._step else ProgressBar("rows", count, unit="rows") as bar:
            for chunk in self._read_ahead():
                if small:
                    kept.append(chunk.fresh())
                yield chunk
                if bar is not None:
                    bar.advance(len(chunk.x))
        self._kept = kept if small else None

    @property
    def _step(self) -> int:
        return rows_at_once(2 * len(self.labels))

    def _read_ahead(self) -> Iterator[Chunk]:
        """All rows; the next ones are read while these are answered, unless a classifier is asked."""
        count = self.frame.num_rows
        spans = [(start, min(start + self._step, count)) for start in range(0, count, self._step)]
        if len(spans) < 2 or any(isinstance(world, Predicted) for world in self.worlds):
            yield from (self.read(*span) for span in spans)
            return
        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(self.read, *spans[0])
            for span in spans[1:]:
                chunk, ahead = ahead.result(), pool.submit(self.read, *span)
                yield chunk
            yield ahead.result()

    def with_worlds(self, worlds: Sequence[Predicted], weights: Floats) -> "RowReader":
        """The same rows with other classifiers and weights; what these find impossible is left out."""
        other = copy.copy(self)
        other.worlds, other.weights, other._kept = list(worlds), weights, None
        other.question = replace(self.question, errors="missing")
        return other

    def read(self, start: int, stop: int) -> Chunk:
        """Some rows; the first bad one raises, unless bad ones are to be left out."""
        rows, inputs, kept = self._asked(start, stop)
        found = _Problems(stop - start)
        x = np.zeros(stop - start, np.int64) if self.seen is None else self.seen[start:stop].copy()
        named = repr(self.question.outcome) if is_name(self.question.outcome) else "the array `outcome`"
        if len(x) and x.min() < 0:
            found.note(x == MISSING, f"the outcome in {named} is missing")
            found.note(x == UNKNOWN, lambda row: self._unknown(start + row))
        (p, own, one), (q, other, two) = (
            self._probabilities(name, world, rows, start, asked, order, found)
            for name, world, asked, order in zip(_WORLDS, self.worlds, inputs, self.orders, strict=True)
        )
        overruled = np.zeros(len(kept), bool)
        if kept.any():
            here, there = (np.exp(each[kept]) if self.model is not None else each[kept] for each in (p, q))
            overruled[kept] = (np.abs(there - here) > _SUM_TOLERANCE).any(axis=1)
            q[kept], other[kept] = p[kept], own[kept]
        are_logs = self.model is not None
        choosers = None
        if are_logs:
            choosers = ChoiceRows(np.stack([own, other]), self._stands_for(rows, start, found), one & two)
        never, harmless = (-np.inf, -np.log(len(self.labels))) if are_logs else (0.0, 1 / len(self.labels))
        if self.seen is not None:
            x[found.bad] = 0
            found.note(
                p.ravel().take(np.arange(0, p.size, p.shape[1]) + x) == never,
                lambda row: (
                    f"{listed([self.labels.values[x[row]]])} was observed but has probability zero under `factual`"
                    + ("; are the two worlds swapped?" if q[row, x[row]] > never else "")
                ),
            )
        x[found.bad], p[found.bad], q[found.bad] = 0, harmless, harmless
        if self.question.errors == "raise" and found.bad.any():
            first = int(found.bad.argmax())
            why = f"{found.words[first]}."
            raise InputError(
                f"{rows.row_name(first)} cannot be answered: {why.replace('?.', '?')} It is the first of "
                f"{found.bad.sum():,} such rows among {len(x):,} read so far; correct or drop them, or leave their "
                "results missing with errors='missing'"
            )
        kept = kept & ~found.bad
        weight = self.weights[start:stop]
        words, errors = found.words, self.question.errors
        worlds = WorldRows(p, are_logs), WorldRows(q, are_logs)
        group = None if self._group is None else self._group[start:stop]
        name, values = rows.row_name, self._values
        return Chunk(
            start, *worlds, x, kept, overruled & kept, weight, found.bad, words, name, errors, choosers, group, values
        )

    def _stands_for(self, rows: AbstractFrame, start: int, found: _Problems) -> Floats:
        """How many choosers each row stands for."""
        given = None if self.question.utilities is None else self.question.utilities.weights
        if given is None:
            return np.ones(rows.num_rows)
        if self.weight_column is not None:
            weights = rows.numbers("weights", [given])[:, 0]
        else:
            weights = np.asarray(given, np.float64)[start : start + rows.num_rows]
            if np.shape(given) != (self.frame.num_rows,):
                raise InputError(f"`weights` must be {self.frame.num_rows} numbers, got the shape {np.shape(given)}")
        odd = ~(np.isfinite(weights) & (weights >= 0))
        found.note(odd, "its weight is missing, negative or infinite")
        return np.where(odd, 0.0, weights)

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
            known = f"{listed(labels.values)}{labels.resemblance(value) or _of_other_kind(labels, value)}"
            self._words[code] = f"the outcome {listed([value])} is none of the labels {known}"
        return self._words[code]

    def _probabilities(
        self,
        name: str,
        world: AbstractProbabilities,
        rows: AbstractFrame,
        start: int,
        inputs: Any,
        order: Codes,
        found: _Problems,
    ) -> tuple[Floats, Floats, Flags]:
        """One world's probabilities, or their logarithms, logsums, and which look like probabilities.

        Rows that have none are noted.
        """
        predicted = isinstance(world, Predicted)
        tolerance = _PREDICTED_TOLERANCE if predicted else np.inf if self.question.normalise else _SUM_TOLERANCE
        in_order = bool((order == np.arange(len(order))).all())
        nothing = np.zeros(rows.num_rows), np.ones(rows.num_rows, bool)
        if isinstance(world, Columns) and in_order and self.model is None:
            shares = world.read(rows, start)  # an array of our own
            if as_shares(shares, tolerance):
                return shares, *nothing
        values = world.predict(inputs, rows) if isinstance(world, Predicted) else world.read(rows, start)
        if values.shape != (rows.num_rows, world.width):
            raise InputError(f"`{name}` must give {world.width} probabilities for each row, got {values.shape}")
        values = values if in_order else values[:, order]
        if self.model is not None:
            return *choices(self.model, available(name, values, found.note)), look_like_probabilities(values)
        good = np.ones(len(values), bool)
        if not (len(values) and values.min() >= 0 and values.max() < np.inf):  # nor where there is NaN
            missing = np.isnan(values)
            odd = np.asarray(((values < 0) | np.isinf(values)).any(axis=1))
            good = ~(missing.any(axis=1) | odd)
            for label, column in zip(self.labels.values, missing.T, strict=True):
                found.note(column, f"the `{name}` probability of {listed([label])} is missing")
            hint = "; of logits give the probabilities, and for utilities ask `switching`"
            hint = hint if 2 * odd.sum() >= len(odd) > 1 else ""  # of one row it is a slip
            odd_at = np.asarray((values < 0) | np.isinf(values)).argmax(axis=1)
            found.note(
                odd,
                lambda row: (
                    f"the `{name}` probability of {listed([self.labels.values[odd_at[row]]])} is "
                    f"{values[row, odd_at[row]]:.4g}{hint}"
                ),
            )
        total: Floats = np.where(good, _row_sums(values), 1.0)
        left_out = world.left_out if isinstance(world, Columns) else ()
        advice = f" (without {listed(left_out)}, which no label names)" if left_out else ""
        advice += "" if predicted else f"; {NORMALISE}"
        found.note(~(total > 0), f"the `{name}` probabilities are all zero")
        found.note(
            np.abs(total - 1) > tolerance,
            lambda row: f"the `{name}` probabilities sum to {total[row]:.6g}, not to 1{advice}",
        )
        good &= total > 0
        if not good.all():
            values, total = np.where(good[:, None], values, 1.0), np.where(good, total, 1.0)
        return values / total[:, None], *nothing


def _row_sums(values: Floats) -> Floats:
    """The sum of each row's finite numbers, from left to right: the same bits however many rows there are."""
    total: Floats = np.zeros(len(values))
    for column in values.T:
        finite = np.isfinite(column)
        total += column if finite.all() else np.where(finite, column, 0.0)
    return total


def rows_at_once(num_columns: int) -> int:
    """How many rows with so many columns are looked at at a time."""
    return max(_LEAST_ROWS, min(CHUNK_ROWS, _CHUNK_NUMBERS // max(num_columns, 1) // 256 * 256))


class FoundLabels(NamedTuple):
    """The outcomes."""

    labels: Labels
    order: str
    """Who said in which order they are."""
    nameless: Labels
    """The order that probabilities without labels of their own have."""


def is_name(outcome: Any) -> bool:
    return isinstance(outcome, str | int | float)


def find_labels(
    question: Question,
    categories: Sequence[Any],
    worlds: Sequence[AbstractProbabilities],
    seen: Sequence[Any],
    kind: str | None,
) -> FoundLabels:
    """The labels that were given, else those of the first world that has some; written ones are read as the column.

    Where the outcomes are ordered categories, that is their order.
    """
    given = question.labels
    if isinstance(given, str):
        raise InputError(f"`labels` must be a list of labels, got the text {given!r}")
    sources = [tuple(each) for each in (given, *(world.labels for world in worlds)) if each is not None]
    if not sources and categories and len(categories) == worlds[0].width:
        labels = Labels(tuple(categories))
        return FoundLabels(labels, CATEGORY, labels)
    if not sources:
        if kind in (NUMBER, None) and all(identity(value)[0] == NUMBER and value == int(value) for value in seen):
            labels = Labels(tuple(range(worlds[0].width)))
            return FoundLabels(labels, NUMBERS, labels)
        raise InputError("`labels` must name the outcomes in the order of the probabilities, since nothing else does ")
    if kind is None and not seen:  # nothing was seen: labels with a type say what written ones are
        seen = [value for each in sources for value in each if not isinstance(value, Written) and not is_missing(value)]
    like = [] if question.untyped else [*seen, *categories]  # labels do not depend on which cells come first
    found = Labels.read(sources[0], like, kind, untyped=question.untyped)
    if given is not None:
        return FoundLabels(found, GIVEN, found)
    places = found.places(categories) if categories else np.zeros(0, np.int64)
    if set(range(len(found))) <= set(places.tolist()):
        order = [place for place in places.tolist() if place >= 0]
        values, names = (tuple(each[place] for place in order) for each in (found.values, found.names))
        return FoundLabels(Labels(values, names), CATEGORY, found)
    sorted_numbers = are_numbers(found.values) and sorted_labels(found.values) == list(found.values)
    return FoundLabels(found, NUMBERS if sorted_numbers else NOBODY, found)


def order_in(name: str, found: FoundLabels, world: AbstractProbabilities) -> Codes:
    """Where each label's probability stands."""
    labels = found.labels
    if world.labels is not None:
        _check_columns(name, labels, world)
        return labels.order_of(name, world.labels)
    if isinstance(world, Columns):
        _check_endings(name, labels, world)
    if world.width != len(labels):
        raise InputError(f"`{name}` must have a probability for each of {len(labels)} labels, got {world.width}")
    return found.nameless.places(labels.values)


def _check_columns(name: str, labels: Labels, world: AbstractProbabilities) -> None:
    """Says which columns there should be, where they were found by what their names begin with."""
    if not isinstance(world, Columns) or world.prefix is None:
        return
    there = {str(each) for each in world.names}
    absent = [world.prefix + label for label in labels.names if world.prefix + label not in there]
    if absent and len(there) + len(absent) == len(labels):  # else another name is like one of these
        raise InputError(
            f"`{name}` needs a column for each outcome, and there is no {listed(absent)}; an outcome that cannot "
            "happen has the probability 0, and `labels` names the outcomes where other columns begin alike"
        )


def _check_endings(name: str, labels: Labels, world: Columns) -> None:
    """Refuses columns in another order than the labels that their names end in."""
    start = os.path.commonprefix([str(each) for each in world.names])
    endings = [str(each)[len(start) :] for each in world.names]
    expected = [label[len(os.path.commonprefix(labels.names)) :] for label in labels.names]
    if endings != expected and sorted(endings) == sorted(expected):
        place = next(at for at, pair in enumerate(zip(endings, expected, strict=True)) if pair[0] != pair[1])
        raise InputError(
            f"`{name}` must list columns in the order of the labels, but {world.names[place]!r} would be "
            f"{labels.names[place]!r}; sort them, or say which is which: {{label: column, ...}}"
        )


def _of_other_kind(labels: Labels, value: Any) -> str:
    """That labels are of another kind, a number and texts for instance."""
    kind, kinds = identity(value)[0], {identity(each)[0] for each in labels.values}
    return "" if kind in kinds else f"; it is a {kind}, and labels are {' and '.join(sorted(kinds))}: map them"


# Consistency: who would have been treated as they were has the outcome that they had, whatever the coupling. That two
# worlds have equal probabilities does not say so, since other circumstances may happen to have them too. It has to be
# known from the change itself: it leaves what a row's outcome depends on as it was.


def as_unchanged(frame: AbstractFrame, given: Any) -> Flags:
    """Which rows are left as they were, from a column or an array of booleans; in text files true and false."""
    named = isinstance(given, str | int) and not isinstance(given, bool)
    column = (frame.column if named else frame.own)("unchanged", given)
    codes, values = frame.factorised(column)
    if (codes < 0).any():
        row = frame.row_name(int((codes < 0).argmax()))
        raise InputError(f"`unchanged` must say true or false for every row, but is missing in {row}")
    known = np.array([_as_flag(value) for value in values], bool)
    return known[codes] if len(known) else np.zeros(len(codes), bool)


def unchanged_inputs(worlds: Sequence[AbstractProbabilities], inputs: Sequence[Any], rows: AbstractFrame) -> Flags:
    """Rows whose inputs are the same in both worlds, as far as the worlds are predicted and the change says so.

    Two classifiers may stand for two treatments, and a world in columns says nothing about how it came about.
    """
    factual, other = worlds
    both = isinstance(factual, Predicted) and isinstance(other, Predicted) and factual.classifier is other.classifier
    changed = [*factual.change] if isinstance(factual, Predicted) else []
    changed += other.change if isinstance(other, Predicted) else []
    if not both and (isinstance(factual, Predicted) or not changed):
        return np.zeros(rows.num_rows, bool)
    before, after = as_frame(inputs[0]) if both else rows, as_frame(inputs[1])
    same = np.ones(rows.num_rows, bool)
    for name in dict.fromkeys(changed):
        same &= _equal([each if name in each.columns else rows for each in (before, after)], name)
    return same


def _equal(frames: Sequence[AbstractFrame], name: Any) -> Flags:
    """Where a column holds the same value in two frames; a missing one is the same as a missing one."""
    places: dict[Any, int] = {}
    found = []
    for frame in frames:
        codes, values = frame.factorised(frame.column("change", name))
        known = [places.setdefault(_as_input(value), len(places)) for value in values]
        found.append(np.array([*known, -1])[codes])
    return np.asarray(found[0] == found[1])


def _as_input(value: Any) -> Any:
    """What a classifier can tell apart: true is one to it."""
    kind, key = identity(value)
    return (NUMBER, key) if kind == BOOLEAN else (kind, key)


def _as_flag(value: Any) -> bool:
    kind, key = identity(value)
    text = str(key).strip().lower()
    if kind == BOOLEAN or text in (*_TRUE, *_FALSE) or (kind == NUMBER and key in (0, 1)):
        return bool(key) if kind in (BOOLEAN, NUMBER) else text in _TRUE
    raise InputError(f"`unchanged` must hold true and false only, got {listed([value])}")
