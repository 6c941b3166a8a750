"""Where a row's outcome probabilities come from: columns, an array, or a classifier that is asked."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from countermax._core.errors import InputError, refusing
from countermax._core.labels import Labels, Written, listed
from countermax._tables.frames import AbstractFrame, Floats, as_frame, for_classifiers


class AbstractProbabilities(ABC):
    """One row of probabilities for each row of a frame."""

    @property
    @abstractmethod
    def labels(self) -> tuple[Hashable, ...] | None:
        """Its own names of the outcomes, in the order of its probabilities; None where it has none."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many outcomes there are."""

    @abstractmethod
    def read(self, rows: AbstractFrame, start: int) -> Floats:
        """Probabilities [rows, outcomes] of some rows, the first of which is row `start` of the whole frame."""


@final
@dataclass(frozen=True, eq=False)
class Predicted(AbstractProbabilities):
    """Probabilities that a fitted classifier gives, after some columns have been changed.

    The classifier is anything with `classes_` and `predict_proba`, as in scikit-learn; it is asked in batches.
    """

    classifier: Any
    change: Mapping[str, Any] = field(default_factory=dict)
    """For each column to be changed: a value for all rows, one for each row, or a function of the column."""
    features: Sequence[Hashable] | None = None
    """The columns that it reads; by default those it was fitted on."""

    def __post_init__(self) -> None:
        for name in ("predict_proba", "classes_"):
            try:
                getattr(self.classifier, name)
            except AttributeError as error:
                kind = type(self.classifier).__name__
                raise InputError(
                    f"`classifier` must be fitted and give probabilities, but {kind} has no `{name}` ({error}); fit it "
                    "first, or wrap it in one that has, such as CalibratedClassifierCV"
                ) from error
        if np.ndim(self.classifier.classes_) != 1 or isinstance(self.classifier.classes_, list):
            raise InputError("`classifier` must predict one outcome, got one that predicts several")

    @property
    def labels(self) -> tuple[Hashable, ...]:
        return tuple(np.asarray(self.classifier.classes_).tolist())

    @property
    def width(self) -> int:
        return len(self.classifier.classes_)

    @property
    def reads(self) -> list[Hashable] | None:
        """The columns that the classifier reads; None where it was fitted without names and none were given."""
        names = getattr(self.classifier, "feature_names_in_", None) if self.features is None else self.features
        return None if names is None else list(names)

    def read(self, rows: AbstractFrame, start: int) -> Floats:
        return self.predict(self.inputs(rows, start), rows)

    def inputs(self, rows: AbstractFrame, start: int) -> Any:
        """What the classifier is asked about some rows: the columns that it reads, after the change."""
        names = self.reads
        if names is None:
            raise InputError("`features` must name the columns that the classifier reads: it was fitted without names")
        for name in names:
            rows.column("features", name)
        for name in self.change:
            if name not in names:
                raise InputError(f"`change` must change what the classifier reads ({listed(names)}), got {name!r}")
        rows = for_classifiers(rows, names, self.change)
        change = dict(self.change)
        for name, value in change.items():
            if callable(value):
                change[name] = value(rows.column("change", name))
            elif np.ndim(value) > 0:
                change[name] = np.asarray(value)[start : start + rows.num_rows]
        return rows.features(names, change)

    def as_fitted(self, inputs: Any) -> Any:
        """Inputs in the form that the classifier was fitted on: with the names of columns, or without."""
        return inputs if getattr(self.classifier, "feature_names_in_", None) is not None else inputs.to_numpy()

    def predict(self, inputs: Any, rows: AbstractFrame) -> Floats:
        """The probabilities that the classifier gives to inputs of some rows."""
        (first, place), (last, _) = rows.place(0), rows.place(rows.num_rows - 1)
        failed = f"`classifier` must predict every row, but failed in rows {first} to {last}{place}"
        with refusing(failed, ValueError):
            return np.asarray(self.classifier.predict_proba(self.as_fitted(inputs)), np.float64)


@final
@dataclass(frozen=True, eq=False)
class Columns(AbstractProbabilities):
    """Probabilities that stand in columns."""

    argument: str
    names: Sequence[Hashable]
    labels: tuple[Hashable, ...] | None = None
    prefix: str | None = None
    """What the names begin with, where that is how they were found."""
    left_out: Sequence[Hashable] = ()
    """Columns whose names begin like that too, but belong to no label."""

    @property
    def width(self) -> int:
        return len(self.names)

    def of(self, labels: Labels) -> "Columns":
        """Only the columns of these labels, where they were found by what their names begin with."""
        if self.prefix is None or self.labels is None:
            return self
        places = labels.places(self.labels)
        kept = [place for place in range(len(self.names)) if places[place] >= 0]
        if len(set(places[kept].tolist())) < len(labels):
            absent = [self.prefix + name for place, name in enumerate(labels.names) if place not in places]
            raise InputError(
                f"`{self.argument}` must have a column for each of the labels {listed(labels.values)}, but there is no "
                f"column {listed(absent)}; the columns that begin with {self.prefix!r} are {listed(self.names)}"
            )
        names, own = ([each[place] for place in kept] for each in (self.names, self.labels))
        left_out = [name for name in self.names if name not in names]
        return Columns(self.argument, names, tuple(own), self.prefix, left_out)

    def read(self, rows: AbstractFrame, start: int) -> Floats:
        return rows.numbers(self.argument, self.names)


@final
@dataclass(frozen=True, eq=False)
class Matrix(AbstractProbabilities):
    """Probabilities in an array [rows, outcomes]."""

    array: Floats
    labels: tuple[Hashable, ...] | None = None

    @property
    def width(self) -> int:
        return self.array.shape[1]

    def read(self, rows: AbstractFrame, start: int) -> Floats:
        return self.array[start : start + rows.num_rows]


ProbabilitiesLike: TypeAlias = Any
"""Probabilities as they are handed in: columns, an array, a classifier or `Predicted`; see `as_probabilities`."""


def as_probabilities(argument: str, given: ProbabilitiesLike, frame: AbstractFrame) -> AbstractProbabilities:
    """Makes sense of what was handed in.

    A string is the beginning of the names of columns, one for each outcome; a mapping says which column belongs to
    which label; a list names columns in the order of the labels. Otherwise it is an array or a frame with a row for
    each row, or a classifier.
    """
    if isinstance(given, Predicted):
        for name, value in given.change.items():
            shape = () if callable(value) else np.shape(value)
            if shape not in ((), (frame.num_rows,)):
                each = f"one value of {name!r} for each of {frame.num_rows} rows"
                raise InputError(f"`change` must have {each}, got shape {shape}")
    if isinstance(given, AbstractProbabilities):
        return given
    if hasattr(given, "predict_proba") or hasattr(given, "classes_"):
        return Predicted(given)
    if isinstance(given, str):
        return _by_prefix(argument, given, frame)
    if isinstance(given, Mapping):
        return Columns(argument, tuple(given.values()), tuple(given))
    if isinstance(given, list | tuple) and given and all(isinstance(name, str) for name in given):
        return Columns(argument, tuple(given))
    return _as_matrix(argument, given, frame)


def _by_prefix(argument: str, prefix: str, frame: AbstractFrame) -> Columns:
    names = [name for name in frame.columns if isinstance(name, str) and name.startswith(prefix) and name != prefix]
    if not names:
        raise InputError(
            f"`{argument}` must be the beginning of the names of columns with probabilities, but none begins with "
            f"{prefix!r}; the columns are {listed(frame.columns)}"
        )
    for name in names:
        frame.column(argument, name)
    after, marks = {name[len(prefix)] for name in names}, set("_-. :/")
    if len(names) > 1 and len(after) == 1 and after <= marks and prefix[-1:] not in marks:  # labels may be -1 and -2
        raise InputError(
            f"`{argument}` must be all that stands before the outcome in the names {listed(names)}: "
            f"{prefix + after.pop()!r}, got {prefix!r}"
        )
    return Columns(argument, names, tuple(Written(name.removeprefix(prefix)) for name in names), prefix)


def _as_matrix(argument: str, given: Any, frame: AbstractFrame) -> Matrix:
    labels: tuple[Hashable, ...] | None = None
    if hasattr(given, "columns") or hasattr(given, "column_names"):
        own = as_frame(given)
        labels = tuple(Written(name) if isinstance(name, str) else name for name in own.columns)
        index, own_index = getattr(given, "index", None), getattr(frame.native, "index", None)
        if index is not None and own_index is not None and not index.equals(own_index):
            raise InputError(f"`{argument}` must have the index of the frame; align them, or pass an array")
        given = own.numbers(argument, own.columns)
    try:
        found = np.asarray(given)
        array = found.astype(np.float64, casting="unsafe" if found.dtype == object else "same_kind")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`{argument}` must be columns (a prefix of their names, a list or a mapping from labels), an array, or a "
            f"classifier, got {type(given).__name__}"
        ) from error
    if array.ndim != 2 or len(array) != frame.num_rows:
        raise InputError(
            f"`{argument}` must have a row of probabilities for each of {frame.num_rows} rows, got shape {array.shape}"
        )
    return Matrix(array, labels)
