"""Each row's exact counterfactual probabilities, beside what data alone allow, as new columns of the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countermax import _kernel
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._kernel import BOUNDS, ClosedForm
from countermax._tables.frames import Codes, Columns, Floats, check_new_names
from countermax.couplings._words import shown_as
from countermax.tables._notes import count_notes, label_notes, shown_name, what_is_known
from countermax.tables._reading import Chunk, RowCounts, RowReader
from countermax.tables._refit import Refitted, Refitting

if TYPE_CHECKING:
    from jaxtyping import Float

    from countermax.couplings import AbstractCoupling


class RowAnswers(NamedTuple):
    """What a coupling says about some rows; NaN where a row has a problem."""

    probabilities: Float[np.ndarray, "k n"]
    scores: Float[np.ndarray, "s n"]
    """The expected score and its bounds, as far as they were asked for."""
    limits: Float[np.ndarray, "l n"]
    """The lower and the upper bound of each probability in turn, where they were asked for."""
    slack: Float[np.ndarray, " n"]
    """How wide the widest bounds over all couplings are."""


def answer_rows(
    chunk: Chunk, coupling: AbstractCoupling | ClosedForm, score: Floats | None, bounds: str, out: Floats | None = None
) -> RowAnswers:
    """Asks a coupling about some rows; those without a finite answer become bad ones.

    Numbers are written into `out`, [columns, rows of the whole frame], where it is given.
    """
    first = 0 if out is None else chunk.start
    size = chunk.p.values.shape[1]
    options: dict[str, Any] = {"score": score, "bounds": bounds, "out": out, "first": first}
    if not isinstance(coupling, ClosedForm):
        numbers = _kernel.answer_rows(coupling, chunk.log_p, chunk.log_q, chunk.x, **options)
    elif coupling.needs_no_logarithms and bounds != "stable" and not chunk.p.are_logs:
        numbers = _kernel.closed_rows(coupling, chunk.p.values, chunk.q.values, chunk.x, logs=False, **options)
    else:
        numbers = _kernel.closed_rows(coupling, chunk.log_p, chunk.log_q, chunk.x, **options)
    if chunk.kept.any():
        numbers[:, chunk.kept] = _as_they_were(chunk.x[chunk.kept], size, score, bounds)
    chunk.check(
        numbers, f"the coupling {coupling.name if isinstance(coupling, ClosedForm) else type(coupling).__name__}"
    )
    if chunk.bad.any():
        numbers[:, chunk.bad] = np.nan
    last = len(numbers) - 1
    first_limit = last - (0 if bounds == "none" else 2 * size)
    return RowAnswers(numbers[:size], numbers[size:first_limit], numbers[first_limit:last], numbers[last])


def read_coupling(reader: RowReader, given: str | Path | AbstractCoupling) -> tuple[AbstractCoupling | ClosedForm, str]:
    """A coupling of the outcomes, and how results call it; the score, or an ordered category, gives it their order.

    Where it has a closed form, that is all that rows need; where its name says which, nobody waits for JAX.
    """
    score = reader.one_score
    if isinstance(given, str | Path) and (form := ClosedForm.named(given)) is not None:
        return form, shown_as(given)
    import jax

    from countermax.couplings._named import as_coupling, name_of

    with jax.enable_x64(True):  # scores that differ in their last digits have an order too
        coupling = as_coupling(given, reader.labels, score=score)
        return _kernel.closed_form(coupling) or coupling, shown_name(name_of(given, score=score))


class Answered(NamedTuple):
    """What `Rows.write` has written."""

    target: str
    """The file or folder."""
    is_new: bool
    """Whether it was written now; not where a folder held this answer already."""
    num_rows: int
    num_unchanged: int
    """Rows that the change leaves as they were."""
    num_left_out: int
    """Rows without an answer."""
    coupling: str
    """The name of the coupling."""
    notes: tuple[str, ...]
    """What the numbers leave out."""


class AnswerColumns:
    """Lays out what a coupling says about rows in new columns of their frame."""

    def __init__(
        self,
        reader: RowReader,
        coupling: str | Path | AbstractCoupling,
        bounds: str,
        tolerance: int | float,
        prefix: str,
        refitting: Refitting | None,
    ):
        labels, score = reader.labels, reader.question.score
        if bounds not in BOUNDS:
            raise InputError(f"`bounds` must be one of {', '.join(BOUNDS)}, got {bounds!r}")
        if not tolerance >= 0:
            raise InputError(f"`tolerance` must not be negative, got {tolerance}")
        self._labels, self._tolerance, self._bounds, self._refitting = labels, tolerance, bounds, refitting
        self._score = None if score is None else reader.one_score
        self._coupling, self.coupling = read_coupling(reader, coupling)
        self.notes = [what_is_known(reader, refitting), *label_notes(reader, [self._coupling])]
        self.options = {"coupling": self._coupling, "bounds": bounds, "tolerance": tolerance, "prefix": prefix}
        """What was asked for, for comparing two questions."""
        sides = () if bounds == "none" else ("_lower", "_upper")
        self._probabilities = [f"{prefix}{name}" for name in labels.names]
        self.likeliest = f"{prefix}most_likely"
        self._numbers = [] if score is None else [f"{prefix}score{side}" for side in ("", *sides)]
        self._numbers += [f"{prefix}{name}{side}" for name in labels.names for side in sides]
        ends = ("_ci_lower", "_ci_upper") + (() if bounds == "none" else ("_bounds_ci_lower", "_bounds_ci_upper"))
        questions = [*(() if score is None else ("score",)), *labels.names]
        self._limits = [f"{prefix}{name}{end}" for name in questions for end in ends] if refitting else []
        self._matters = f"{prefix}coupling_matters"
        self._problem = f"{prefix}problem" if reader.question.errors == "missing" else None
        check_new_names(reader.frame.columns, self.names, "pass another `prefix`")

    @property
    def metadata(self) -> dict[str, Any]:
        """What goes with every part of the table."""
        over = {"any": "any coupling", "stable": "stable couplings", "none": None}[self._bounds]
        return {"coupling": self.coupling, "bounds": over, "notes": list(self.notes)}

    def whole_metadata(self, counts: RowCounts) -> dict[str, Any]:
        """What goes with the whole table, when all rows have been answered."""
        return self.metadata | {"notes": [*self.notes, *count_notes(counts)], "num_unchanged": counts.num_unchanged}

    def answered(self, counts: RowCounts, target: str, *, is_new: bool = True) -> Answered:
        """What is said of a table that was written."""
        num_rows, notes = counts.num_rows + counts.num_left_out, (*self.notes, *count_notes(counts))
        return Answered(target, is_new, num_rows, counts.num_unchanged, counts.num_left_out, self.coupling, notes)

    @property
    def names(self) -> list[str]:
        """The names of the new columns, in their order."""
        words = [self._matters] if self._problem is None else [self._matters, self._problem]
        return [*self._probabilities, self.likeliest, *self._numbers, *self._limits, *words]

    def _measure(self, chunks: Sequence[Chunk]) -> Floats:
        """For the score, if there is one, and each outcome: the answer and the bounds of all rows, [.., .., rows]."""
        parts = []
        count = 1 if self._bounds == "none" else 3
        for chunk in chunks:
            found = answer_rows(chunk, self._coupling, self._score, self._bounds)
            limits = found.limits.reshape(len(found.probabilities), count - 1, len(chunk.x))
            cells = np.concatenate([found.probabilities[:, None], limits], axis=1)
            parts.append(np.concatenate([found.scores.reshape(-1, count, len(chunk.x)), cells]))
        return np.concatenate(parts, axis=2)

    def _intervals(self, refitted: Refitted) -> Floats:
        """One line of numbers for each of the columns with intervals."""
        floor, ceiling = np.zeros((len(self._labels), 1, 1)), np.ones((len(self._labels), 1, 1))
        if self._score is not None:
            floor = np.concatenate([[[[self._score.min()]]], floor])
            ceiling = np.concatenate([[[[self._score.max()]]], ceiling])
        lower, upper = refitted.limits(floor, ceiling)
        sides = [lower[:, 0], upper[:, 0]] + ([] if self._bounds == "none" else [lower[:, 1], upper[:, 2]])
        return np.stack(sides, axis=1).reshape(-1, lower.shape[-1])

    def of(self, reader: RowReader) -> Any:
        """The reader's frame with the new columns."""
        return self.counted(reader)[0]

    def counted(self, reader: RowReader, *, extend: bool = True) -> tuple[Any, RowCounts]:
        """The new columns of the reader's rows, behind the frame's own (`extend`) or alone, and how many there are."""
        frame, count, size = reader.frame, reader.frame.num_rows, len(self._labels)
        width = size + len(self._numbers) + 1
        asked = f"{count:,} rows with {size:,} outcomes"
        check_memory(asked, 8 * width * count, "merge rare outcomes, or write from file to file")
        numbers = np.empty((width, count))
        likeliest: Codes = np.empty(count, np.int64)
        bad, counts = np.zeros(count, bool), RowCounts()
        problems: list[str | None] = []
        for chunk in reader.chunks():
            found = answer_rows(chunk, self._coupling, self._score, self._bounds, numbers)
            likeliest[chunk.rows], bad[chunk.rows] = _kernel.likeliest(found.probabilities), chunk.bad
            counts.add(chunk)
            problems += [] if self._problem is None else chunk.problems.tolist()
        likeliest[bad] = -1
        pieces: list[Columns | tuple[str, Any]] = [
            (self._probabilities, numbers[:size]),
            (self.likeliest, frame.labelled(likeliest, self._labels, reader.outcome)),
        ]
        if self._numbers:
            pieces.append((self._numbers, numbers[size:-1]))
        if self._refitting is not None:
            refitted = Refitted(reader, self._refitting, self._measure, self._refitting.settings, None)
            pieces.append((self._limits, self._intervals(refitted)))
        pieces.append((self._matters, frame.flags(numbers[-1] > self._tolerance, bad)))
        if self._problem is not None:
            pieces.append((self._problem, frame.texts(problems)))
        return frame.noted(frame.made(pieces, extend=extend), self.metadata), counts


def _as_they_were(x: Codes, size: int, score: Floats | None, bounds: str) -> Floats:
    """The numbers of rows that the change leaves as they were: what was seen has probability one, by any coupling."""
    certain, sides = (np.arange(size)[:, None] == x).astype(np.float64), 0 if bounds == "none" else 2
    scores = np.zeros((0, len(x))) if score is None else np.repeat(score[x][None], 1 + sides, axis=0)
    return np.concatenate([certain, scores, np.repeat(certain, sides, axis=0), np.zeros((1, len(x)))])
