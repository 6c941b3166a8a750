"""A frame's rows as counterfactual questions: two worlds' log-probabilities and what was seen, checked row by row."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import MISSING, UNKNOWN, Labels, listed
from countermax.tables._probabilities import AbstractSource, Given, Predicted, as_source
from countermax.tables.frames import AbstractFrame, Codes, Floats

CHUNK_ROWS = 65_536  # rows that are looked at at a time: what bounds the memory
ON_ERROR = ("raise", "missing")

Flags = NDArray[np.bool_]

_SUM_TOLERANCE = 1e-6
_PREDICTED_TOLERANCE = 1e-3  # classifiers compute in single precision, and some round
_WORLDS = ("factual", "counterfactual")


@dataclass(frozen=True)
class Questions:
    """Some rows. Those with a problem hold a harmless question in place of their own."""

    log_p: Floats
    log_q: Floats
    x: Codes
    bad: Flags
    """Which rows have a problem."""
    problems: NDArray[np.object_]
    """What it is, in words; None where there is none."""


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


class Reader:
    """Reads the questions of a frame, chunk by chunk."""

    def __init__(
        self,
        frame: AbstractFrame,
        outcome: Any,
        factual: Given,
        counterfactual: Given,
        *,
        labels: Sequence[Hashable] | None,
        normalise: bool,
        errors: str,
    ):
        """Finds columns and labels; reads no probability yet. Without an `outcome`, rows are just pairs of worlds."""
        if errors not in ON_ERROR:
            raise InputError(f"`errors` must be one of {', '.join(ON_ERROR)}, got {errors!r}")
        self.frame, self.normalise, self.errors = frame, normalise, errors
        self.sources = (as_source("factual", factual, frame), as_source("counterfactual", counterfactual, frame))
        self.outcome_name = repr(outcome) if _is_name(outcome) else "the array `outcome`"
        self.outcome, self._codes, self._seen = _find_outcome(frame, outcome)
        self.labels = _find_labels(labels, self.sources, self._seen)
        self.orders = [_order(name, self.labels, source) for name, source in zip(_WORLDS, self.sources, strict=True)]
        places = np.append(self.labels.places(self._seen), MISSING)
        self.x = None if self._codes is None else places[self._codes]  # the code of a missing value is the last place

    def chunks(self) -> Iterator[tuple[int, int, Questions]]:
        """All rows, in order."""
        for start in range(0, self.frame.num_rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, self.frame.num_rows)
            yield start, stop, self.read(start, stop)

    def read(self, start: int, stop: int) -> Questions:
        """Some rows; the first bad one raises, unless bad ones are to be left out."""
        rows = self.frame.rows(start, stop)
        found = _Problems(stop - start)
        x = np.zeros(stop - start, np.int64) if self.x is None else self.x[start:stop].copy()
        found.note(x == MISSING, f"the outcome in {self.outcome_name} is missing")
        known = listed(self.labels.values)
        found.note(x == UNKNOWN, lambda row: f"the outcome {self._value(start + row)!r} is none of the labels {known}")
        log_p, log_q = (
            self._log_probs(name, source, rows, start, order, found)
            for name, source, order in zip(_WORLDS, self.sources, self.orders, strict=True)
        )
        if self.x is not None:
            x[found.bad] = 0
            found.note(
                np.isneginf(log_p[np.arange(len(x)), x]),
                lambda row: (
                    f"{self.labels.values[x[row]]!r} was observed but has probability zero under `factual`"
                    + ("; are the two worlds swapped?" if np.isfinite(log_q[row, x[row]]) else "")
                ),
            )
        x[found.bad] = 0
        log_p[found.bad] = log_q[found.bad] = -np.log(len(self.labels))
        if self.errors == "raise" and found.bad.any():
            first = int(found.bad.argmax())
            raise InputError(
                f"{rows.row_name(first)} cannot be answered: {found.words[first]}. Up to row "
                f"{rows.first_row + stop - start - 1} there are {found.bad.sum()} such rows; correct or drop them, or "
                "leave their results missing with errors='missing'"
            )
        return Questions(log_p, log_q, x, found.bad, found.words)

    def _value(self, row: int) -> Any:
        return None if self._codes is None else self._seen[self._codes[row]]

    def _log_probs(
        self, name: str, source: AbstractSource, rows: AbstractFrame, start: int, order: Codes, found: _Problems
    ) -> Floats:
        """Logarithms of one world's probabilities; rows that are no distribution are noted."""
        values = source.read(rows, start)
        if values.shape != (rows.num_rows, source.width):
            raise InputError(f"`{name}` must give {source.width} probabilities for each row, got {values.shape}")
        values = values[:, order]
        missing = np.isnan(values)
        odd = np.asarray(((values < 0) | np.isinf(values)).any(axis=1))
        good = ~(missing.any(axis=1) | odd)
        total: Floats = np.where(good, values.sum(axis=1, where=np.isfinite(values)), 1.0)
        predicted = isinstance(source, Predicted)
        tolerance = _PREDICTED_TOLERANCE if predicted else np.inf if self.normalise else _SUM_TOLERANCE
        advice = "" if predicted else "; pass normalise=True if these are counts or weights"
        for label, column in zip(self.labels.values, missing.T, strict=True):
            found.note(column, f"the `{name}` probability of {label!r} is missing")
        found.note(odd, f"a `{name}` probability is negative or infinite")
        found.note(~(total > 0), f"the `{name}` probabilities are all zero")
        found.note(
            np.abs(total - 1) > tolerance,
            lambda row: f"the `{name}` probabilities sum to {total[row]:.6g}, not to 1{advice}",
        )
        good &= total > 0
        with np.errstate(divide="ignore"):
            return np.log(np.where(good[:, None], values, 1.0) / np.where(good, total, 1.0)[:, None])


def _find_outcome(frame: AbstractFrame, outcome: Any) -> tuple[Any, Codes | None, list[Any]]:
    """The column of outcomes, its indices into the distinct values, and those; nothing where none was seen."""
    if outcome is None:
        return None, None, []
    column = frame.column("outcome", outcome) if _is_name(outcome) else frame.own("outcome", outcome)
    return column, *frame.factorised(column)


def _is_name(outcome: Any) -> bool:
    return isinstance(outcome, str | int | float)


def _find_labels(
    given: Sequence[Hashable] | None, sources: tuple[AbstractSource, AbstractSource], seen: Sequence[Any]
) -> Labels:
    if isinstance(given, str):
        raise InputError(f"`labels` must be a list of labels, got the text {given!r}")
    if given is not None:
        return Labels(tuple(given))
    for source in sources:
        if source.labels is not None:
            return Labels(source.labels)
    if all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in seen):
        return Labels(tuple(range(sources[0].width)))
    raise InputError("`labels` must name the outcomes in the order of the probabilities, since nothing else does")


def _order(name: str, labels: Labels, source: AbstractSource) -> NDArray[np.int64]:
    """Where each label's probability stands."""
    if source.labels is not None:
        return labels.order_of(name, source.labels)
    if source.width != len(labels):
        raise InputError(f"`{name}` must have a probability for each of {len(labels)} labels, got {source.width}")
    return np.arange(len(labels))
