"""Each row's exact counterfactual probabilities, beside what data alone allow."""

from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.progress import ProgressBar
from countermax.bounds import unchecked_outcome_bounds, unchecked_score_bounds
from countermax.couplings import AbstractCoupling, GumbelMax, as_coupling
from countermax.tables._batches import in_batches, numbers_for
from countermax.tables._probabilities import Given
from countermax.tables._rows import CHUNK_ROWS, Questions, Reader
from countermax.tables.frames import Block, Codes, Floats, as_frame, check_new_names

BOUNDS = ("any", "stable", "none")


def counterfactuals(
    frame: Any,
    *,
    outcome: Any,
    factual: Given,
    counterfactual: Given,
    mechanism: str | Path | AbstractCoupling = GumbelMax(),  # noqa: B008 (immutable)
    labels: Sequence[Hashable] | None = None,
    score: Any = None,
    bounds: str = "any",
    normalise: bool = False,
    errors: str = "raise",
    tolerance: int | float = 0.05,
    prefix: str = "counterfactual_",
    progress: bool | None = None,
) -> Any:
    """The frame with each row's exact counterfactual probabilities, its most likely outcome, bounds and a flag.

    Each row is a question: this outcome was seen, where outcomes have these probabilities; what would it have been
    where they have those? Columns come back behind the frame's own, in double precision:

    | column | what |
    |---|---|
    | `counterfactual_<label>` | P(Y=label given what was seen) under the mechanism |
    | `counterfactual_most_likely` | the label with the largest of them, in the type of the outcome's column |
    | `counterfactual_score`, `.._score_lower`, `.._score_upper` | with `score`: its expectation, and its bounds |
    | `counterfactual_<label>_lower`, `.._upper` | the least and the largest probability that data alone allow |
    | `counterfactual_mechanism_matters` | whether some probability is open by more than the tolerance |
    | `counterfactual_problem` | with `errors="missing"`: why a row has no answer |

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table. It is not changed; its index is kept.
        outcome: The column with the outcomes seen, or an array of them.
        factual: Probabilities of the outcomes in the world that was seen: the beginning of the names of their columns
            (`"p_"` for `p_dead`, `p_ill`, ...), a mapping from labels to columns, a list of columns in the order of
            `labels`, an array or frame [rows, outcomes], a fitted classifier, or `Predicted`.
        counterfactual: The same for the other world; for a classifier `Predicted(classifier, {"treated": True})`.
        mechanism: How the two worlds hang together: a coupling, `gumbel-max`, `inverse-cdf` (in the order of the
            labels), `inverse-cdf-by-score`, `maximal`, `independent`, or a file that `countermax.save` wrote.
        labels: The outcomes in the order that results have; by default that of `factual`.
        score: A number for each outcome, by label or in the order of the labels.
        bounds: Over which mechanisms: `any`, `stable` (counterfactually stable ones) or `none` for no such columns.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: What to do with rows that cannot be answered: `raise`, naming the first, or leave them `missing`.
        tolerance: How wide the bounds over all mechanisms may be for the choice of mechanism not to matter.
        prefix: What the names of new columns begin with.
        progress: Whether to show a progress bar; by default on a terminal, if there are many rows.
    """
    asked = as_frame(frame)
    reader = Reader(asked, outcome, factual, counterfactual, labels=labels, normalise=normalise, errors=errors)
    answers = Answers(reader.labels, mechanism, score=score, bounds=bounds, tolerance=tolerance, prefix=prefix)
    check_new_names(asked, answers.names(errors), "pass another `prefix`")
    shown = False if asked.num_rows <= CHUNK_ROWS else progress
    with ProgressBar("counterfactuals", asked.num_rows, shown, unit="rows") as bar:
        return answers.extend(reader, bar)


class Answers:
    """Asks a mechanism about rows and lays the numbers out in columns."""

    def __init__(
        self,
        labels: Labels,
        mechanism: str | Path | AbstractCoupling,
        *,
        score: Any = None,
        bounds: str = "any",
        tolerance: int | float = 0.05,
        prefix: str = "counterfactual_",
    ):
        if bounds not in BOUNDS:
            raise InputError(f"`bounds` must be one of {', '.join(BOUNDS)}, got {bounds!r}")
        if not tolerance >= 0:
            raise InputError(f"`tolerance` must not be negative, got {tolerance}")
        self.labels, self.prefix, self.tolerance, self.bounds = labels, prefix, tolerance, bounds
        self.score = None if score is None else labels.scores("score", score)
        self.mechanism = as_coupling(mechanism, len(labels), self.score)
        kinds = () if bounds == "none" else ("lower", "upper")
        self.probabilities = [f"{prefix}{name}" for name in labels.names]
        self.scores = [] if score is None else [f"{prefix}score{end}" for end in ("", *(f"_{kind}" for kind in kinds))]
        self.ends = [f"{prefix}{name}_{kind}" for name in labels.names for kind in kinds]

    def names(self, errors: str) -> list[str]:
        """The names of the new columns, in their order."""
        words = ["mechanism_matters", *(["problem"] if errors == "missing" else [])]
        new = [*self.probabilities, f"{self.prefix}most_likely", *self.scores, *self.ends]
        return [*new, *(f"{self.prefix}{word}" for word in words)]

    def rows(self, questions: Questions) -> tuple[Floats, Codes, Floats]:
        """Numbers [columns, rows], the index of the most likely outcome and the widest interval of each row."""
        ask = partial(_ask, self.mechanism, self.score, self.bounds)
        size = numbers_for(self.mechanism, len(self.labels))
        numbers = in_batches(ask, (questions.log_p, questions.log_q, questions.x), size)
        slack, numbers = numbers[-1], numbers[:-1]
        likeliest = numbers[: len(self.labels)].argmax(axis=0)
        numbers[:, questions.bad] = np.nan
        return numbers, np.where(questions.bad, -1, likeliest), slack

    def extend(self, reader: Reader, bar: ProgressBar) -> Any:
        """The reader's frame with its answers."""
        frame, count = reader.frame, reader.frame.num_rows
        numbers = np.empty((len(self.probabilities) + len(self.scores) + len(self.ends), count))
        likeliest, slack = np.empty(count, np.int64), np.empty(count)
        bad, problems = np.zeros(count, bool), np.full(count, None, object)
        for start, stop, questions in reader.chunks():
            numbers[:, start:stop], likeliest[start:stop], slack[start:stop] = self.rows(questions)
            bad[start:stop], problems[start:stop] = questions.bad, questions.problems
            bar.advance(stop - start)
        size = len(self.probabilities)
        pieces: list[Block | tuple[str, Any]] = [
            (self.probabilities, numbers[:size]),
            (f"{self.prefix}most_likely", frame.labelled(likeliest, self.labels, reader.outcome)),
        ]
        if self.scores or self.ends:
            pieces.append(([*self.scores, *self.ends], numbers[size:]))
        pieces.append((f"{self.prefix}mechanism_matters", frame.flags(slack > self.tolerance, bad)))
        if reader.errors == "missing":
            pieces.append((f"{self.prefix}problem", frame.texts(problems.tolist())))
        return frame.made(pieces, extend=True)


@eqx.filter_jit
def _ask(
    mechanism: AbstractCoupling,
    score: Float[ArrayLike, " k"] | None,
    bounds: str,
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
    x: Int[Array, " n"],
) -> Float[Array, "columns n"]:
    """Probabilities, scores, bounds and slack of each row, one line of numbers for each."""

    def one(log_p: Float[Array, " k"], log_q: Float[Array, " k"], x: Int[Array, ""]) -> Float[Array, " columns"]:
        probs = mechanism._counterfactual_probs(log_p, log_q, x)
        loose = unchecked_outcome_bounds(log_p, log_q, x)
        columns = [probs]
        if score is not None:
            scores = jnp.asarray(score)
            columns.append((probs @ scores)[None])
            if bounds != "none":
                ends = unchecked_score_bounds(log_p, log_q, x, scores, stable=bounds == "stable")
                columns.append(jnp.stack(ends))
        if bounds != "none":
            ends = unchecked_outcome_bounds(log_p, log_q, x, stable=True) if bounds == "stable" else loose
            columns.append(jnp.stack(ends, axis=1).ravel())
        return jnp.concatenate([*columns, loose.width.max()[None]])

    return jax.vmap(one, out_axes=1)(log_p, log_q, x)
