"""Each row's exact counterfactual probabilities, beside what data alone allow."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax._tables.frames import Block, Codes, Floats, as_frame, check_new_names
from countermax.bounds import unchecked_outcome_bounds, unchecked_score_bounds
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.couplings._named import as_coupling, name_of
from countermax.tables._batches import in_batches
from countermax.tables._notes import label_notes, metadata, shown_name, unchanged_notes, what_is_known
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._refit import Refits, Refitted, as_refitting
from countermax.tables._rows import Chunk, Question, RowReader

BOUNDS = ("any", "stable", "none")
PREFIX = "pass another `prefix` (on the command line: --prefix)"


def counterfactuals(
    frame: Any,
    *,
    outcome: Any,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    coupling: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    bounds: str = "any",
    unchanged: Any = None,
    normalise: bool = False,
    errors: str = "raise",
    tolerance: int | float = 0.05,
    prefix: str = "counterfactual_",
    refit: bool = False,
    clusters: Any = None,
    weights: Any = None,
    num_resamples: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    engine: str = "local",
    progress: bool | None = None,
) -> Any:
    """The frame with each row's exact counterfactual probabilities, its most likely outcome, bounds and a flag.

    Each row is a question: this outcome was seen, where outcomes have these probabilities; what would it have been
    where they have those? Each row's probabilities are taken as known; how far they are estimates is not in the answer,
    unless `refit=True` fits the classifier again on rows that are drawn again. Then the frame must be what the
    classifier was fitted on, with the outcomes in `outcome`. A row that the change leaves as it was has the outcome
    that it had, for certain. Columns come back behind the frame's own, in double precision; in pandas and Arrow the
    coupling and what the numbers leave out go with them (`attrs["countermax"]`, metadata of the schema):

    | column | what |
    |---|---|
    | `counterfactual_<label>` | P(Y=label given what was seen) under the coupling |
    | `counterfactual_most_likely` | the label with the largest of them, in the type of the outcome's column |
    | `counterfactual_score`, `.._score_lower`, `.._score_upper` | with `score`: its expectation, and its bounds |
    | `counterfactual_<label>_lower`, `.._upper` | the least and the largest probability that data alone allow |
    | `.._<label>_ci_lower`, `.._ci_upper`, `.._score_ci_..` | with `refit`: what other data could have shown |
    | `.._<label>_bounds_ci_lower`, `.._bounds_ci_upper` | with `refit`: the same for the whole range of couplings |
    | `counterfactual_coupling_matters` | whether any couplings differ in some probability by more than the tolerance |
    | `counterfactual_problem` | with `errors="missing"`: why a row has no answer |

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table. It is not changed; its index is kept.
        outcome: The column with the outcomes seen, or an array of them.
        factual: Probabilities of the outcomes in the world that was seen: the beginning of the names of their columns
            (`"p_"` for `p_dead`, `p_ill`, ...), a mapping from labels to columns, a list of columns in the order of
            `labels`, an array or frame [rows, outcomes], a fitted classifier, or `Predicted`.
        counterfactual: The same for the other world; for a classifier `Predicted(classifier, {"treated": True})`.
        coupling: Coupling of the two worlds: a coupling object, `gumbel-max`, `inverse-cdf` (in the order of the
            labels), `inverse-cdf-by-score`, `maximal`, `independent`, `comonotone`, or a file written by
            `countermax.save`.
        labels: The outcomes in the order that results have; by default that of an ordered category, else of `factual`.
        score: A number for each outcome, by label or in the order of the labels.
        bounds: Couplings that the bounds are over: `any`, `stable` (counterfactually stable ones) or `none` for no such
            columns.
        unchanged: Rows that the change leaves as they were, a column or an array of booleans: whatever the coupling,
            they have the outcome that they had. `Predicted` knows its own; say it where probabilities are numbers.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: Treatment of rows that cannot be answered: `raise`, naming the first, or leave them `missing`.
        tolerance: Largest width of the bounds over all couplings at which the choice of coupling does not matter.
        prefix: Beginning of the names of new columns.
        refit: Whether to fit the classifier again (a copy by `sklearn.base.clone`) on resampled rows.
        clusters: Column or array, with `refit`: rows with the same value are resampled together.
        weights: Column or array, with `refit`: weight of each row in the fit, where the classifier takes weights.
        num_resamples: Number of refits, with `refit`; by default 200.
        level: Confidence of the intervals.
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
    refits = None if refitting is None else Refits(reader, refitting)
    answers = AnswerColumns(
        reader,
        coupling,
        score=score,
        bounds=bounds,
        tolerance=tolerance,
        prefix=prefix,
        errors=errors,
        intervals=refit,
    )
    check_new_names(reader.frame.columns, answers.names, PREFIX)
    refitted = None
    if refitting is not None and refits is not None:
        refitted = Refitted(reader, refits, answers.measure, refitting, by_row=True)
    with reader.bar("counterfactuals", progress) as bar:
        found = answers.of(reader, bar, extend=True, refitted=refitted)
    notes = metadata(answers.coupling, bounds, [*answers.notes, *unchanged_notes(answers.num_unchanged)])
    return reader.frame.noted(found, notes | {"num_unchanged": answers.num_unchanged})


class RowAnswers(NamedTuple):
    """What a coupling says about some rows; NaN where a row has a problem."""

    probabilities: Float[np.ndarray, "k n"]
    scores: Float[np.ndarray, "s n"]
    """The expected score and its bounds, as far as they were asked for."""
    limits: Float[np.ndarray, "l n"]
    """The lower and the upper bound of each probability in turn, where they were asked for."""
    slack: Float[np.ndarray, " n"]
    """How wide the widest bounds over all couplings are."""


def answer_rows(chunk: Chunk, coupling: AbstractCoupling, score: Floats | None, bounds: str) -> RowAnswers:
    """Asks a coupling about some rows; `bounds` is one of `BOUNDS`. Rows without a finite answer become bad ones."""
    numbers = in_batches(_ask, (coupling, score, bounds), (chunk.log_p, chunk.log_q, chunk.x))
    if chunk.kept.any():
        numbers[:, chunk.kept] = _as_they_were(chunk.x[chunk.kept], chunk.log_p.shape[1], score, bounds)
    chunk.check(numbers, f"the coupling {type(coupling).__name__}")
    numbers[:, chunk.bad] = np.nan
    size = chunk.log_p.shape[1]
    last = len(numbers) - 1
    first_limit = last - (0 if bounds == "none" else 2 * size)
    return RowAnswers(numbers[:size], numbers[size:first_limit], numbers[first_limit:last], numbers[last])


class AnswerColumns:
    """Lays out what a coupling says about rows in new columns of their frame."""

    def __init__(
        self,
        reader: RowReader,
        coupling: str | Path | AbstractCoupling,
        *,
        score: Any,
        bounds: str,
        tolerance: int | float,
        prefix: str,
        errors: str,
        intervals: bool = False,
    ):
        labels = reader.labels
        if bounds not in BOUNDS:
            raise InputError(f"`bounds` must be one of {', '.join(BOUNDS)}, got {bounds!r}")
        if not tolerance >= 0:
            raise InputError(f"`tolerance` must not be negative, got {tolerance}")
        self._labels, self._tolerance, self._bounds = labels, tolerance, bounds
        self._score = None if score is None else labels.scores("score", score)
        scores = reader.ranks if self._score is None else self._score
        with jax.enable_x64(True):  # scores that differ in their last digits have an order too
            self._coupling = as_coupling(coupling, len(labels), score=scores)
            self.coupling = shown_name(name_of(coupling, score=scores))
        self.notes = [what_is_known(reader, intervals), *label_notes(labels, reader.order, [self._coupling])]
        self.num_unchanged = 0
        sides = () if bounds == "none" else ("_lower", "_upper")
        self._probabilities = [f"{prefix}{name}" for name in labels.names]
        self.likeliest = f"{prefix}most_likely"
        self._numbers = [] if score is None else [f"{prefix}score{side}" for side in ("", *sides)]
        self._numbers += [f"{prefix}{name}{side}" for name in labels.names for side in sides]
        ends = ("_ci_lower", "_ci_upper") + (() if bounds == "none" else ("_bounds_ci_lower", "_bounds_ci_upper"))
        questions = [*(() if score is None else ("score",)), *labels.names]
        self._limits = [f"{prefix}{name}{end}" for name in questions for end in ends] if intervals else []
        self._matters = f"{prefix}coupling_matters"
        self._problem = f"{prefix}problem" if errors == "missing" else None

    @property
    def names(self) -> list[str]:
        """The names of the new columns, in their order."""
        words = [self._matters] if self._problem is None else [self._matters, self._problem]
        return [*self._probabilities, self.likeliest, *self._numbers, *self._limits, *words]

    def measure(self, chunks: Sequence[Chunk]) -> Floats:
        """For the score, if there is one, and each outcome: the answer and the bounds of all rows, [.., .., rows]."""
        parts = []
        for chunk in chunks:
            found = answer_rows(chunk, self._coupling, self._score, self._bounds)
            count = 1 if self._bounds == "none" else 3
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

    def of(
        self, reader: RowReader, bar: ProgressBar | None = None, *, extend: bool, refitted: Refitted | None = None
    ) -> Any:
        """The new columns of the reader's rows, behind the frame's own (`extend`) or alone."""
        frame, count, size = reader.frame, reader.frame.num_rows, len(self._labels)
        numbers, slack = np.empty((size + len(self._numbers), count)), np.empty(count)
        likeliest: Codes = np.empty(count, np.int64)
        bad, problems = np.zeros(count, bool), np.full(count, None, object)
        for chunk in reader.chunks(bar):
            found = answer_rows(chunk, self._coupling, self._score, self._bounds)
            np.concatenate(found[:-1], out=numbers[:, chunk.rows])
            likeliest[chunk.rows] = np.where(chunk.bad, -1, found.probabilities.argmax(axis=0))
            self.num_unchanged += int(chunk.kept.sum())
            slack[chunk.rows], bad[chunk.rows], problems[chunk.rows] = found.slack, chunk.bad, chunk.problems
        pieces: list[Block | tuple[str, Any]] = [
            (self._probabilities, numbers[:size]),
            (self.likeliest, frame.labelled(likeliest, self._labels, reader.outcome)),
        ]
        if self._numbers:
            pieces.append((self._numbers, numbers[size:]))
        if refitted is not None:
            pieces.append((self._limits, self._intervals(refitted)))
        pieces.append((self._matters, frame.flags(slack > self._tolerance, bad)))
        if self._problem is not None:
            pieces.append((self._problem, frame.texts(problems.tolist())))
        return frame.made(pieces, extend=extend)


def _as_they_were(x: Codes, size: int, score: Floats | None, bounds: str) -> Floats:
    """The numbers of rows that the change leaves as they were: what was seen has probability one, by any coupling."""
    certain = (np.arange(size)[:, None] == x).astype(np.float64)
    lines = [certain]
    if score is not None:
        lines.append(np.repeat(score[x][None], 1 if bounds == "none" else 3, axis=0))
    if bounds != "none":
        lines.append(np.repeat(certain, 2, axis=0))
    return np.concatenate([*lines, np.zeros((1, len(x)))])


@eqx.filter_jit
def _ask(
    coupling: AbstractCoupling,
    score: Float[ArrayLike, " k"] | None,
    bounds: str,
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
    x: Int[Array, " n"],
) -> Float[Array, "columns n"]:
    """Probabilities, scores, bounds and slack of each row, one line of numbers for each."""

    def one(log_p: Float[Array, " k"], log_q: Float[Array, " k"], x: Int[Array, ""]) -> Float[Array, " columns"]:
        probs = coupling._counterfactual_probs(log_p, log_q, x)
        loose = unchecked_outcome_bounds(log_p, log_q, x)
        columns = [probs]
        if score is not None:
            scores = jnp.asarray(score)
            columns.append((probs @ scores)[None])
            if bounds != "none":
                columns.append(jnp.stack(unchecked_score_bounds(log_p, log_q, x, scores, stable=bounds == "stable")))
        if bounds != "none":
            limits = unchecked_outcome_bounds(log_p, log_q, x, stable=True) if bounds == "stable" else loose
            columns.append(jnp.stack(limits, axis=1).ravel())
        return jnp.concatenate([*columns, loose.width.max()[None]])

    return jax.vmap(one, out_axes=1)(log_p, log_q, x)
