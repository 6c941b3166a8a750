"""Probabilities of causation of every row of a table, whose two worlds are columns, arrays or a classifier's."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from countermax._core.errors import InputError
from countermax._core.results import column_names
from countermax._tables.frames import Floats, as_frame
from countermax.bounds import Bounds
from countermax.causation import Causation
from countermax.causation._limits import limits
from countermax.causation._questions import Arms, CausalQuestion, Evidence, as_event, as_gain, questions_about
from countermax.causation._result import ABOUT, ROWS, causation_title
from countermax.comparison._asking import refuse_families, row_of
from countermax.comparison._measuring import ANY
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_couplings
from countermax.intervals import Interval
from countermax.tables._batches import in_batches
from countermax.tables._notes import label_notes, left_out_notes, unchanged_notes, what_is_known
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._refit import Refits, Refitted, as_refitting
from countermax.tables._rows import Chunk, Question, RowReader

_SHARE = 0.5  # of the treated; questions that it decides are not asked of rows
_NOT_OF_ROWS = ("disablement", "enablement")
_LIMITS = ("lower", "upper")
_DECISIONS = np.array(["leave", "open", "treat"])


def causation_of_rows(
    frame: Any,
    *,
    control: ProbabilitiesLike,
    treated: ProbabilitiesLike,
    event: Any = None,
    score: Any = None,
    at_least: int | float | None = None,
    gain: Any = None,
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    outcome: Any = None,
    labels: Sequence[Hashable] | None = None,
    arms: tuple[str, str] = ("control", "treated"),
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
) -> Causation:
    """Probabilities of causation, whom to treat, and their bounds, for each row and on average over rows.

    Within rows with the same covariates the treatment must be as good as randomised. A classifier's own errors make
    averages too narrow; `refit=True` fits it again and gives intervals.

    Args:
        frame: A frame of pandas, polars or Arrow.
        control: Each row's probabilities without the treatment: columns, an array, or `Predicted`.
        treated: The same with the treatment.
        event: Outcome, or list of outcomes, that is the event.
        score: Score of each outcome (larger is better).
        at_least: Gain of the score; adds the share of those who gain as much.
        gain: Worth of treating somebody with each pair (without, with) of outcomes.
        couplings: Couplings to ask beside the bounds, by name; by default none, because each adds a column for every
            number.
        outcome: Column with the outcomes seen; needed by `refit`.
        labels: Outcomes in their order.
        arms: Names of the arm without the treatment and of the arm with it.
        unchanged: Rows that the treatment leaves as they are, a column or an array of booleans.
        normalise: Whether to rescale columns and arrays to sum to one.
        errors: Treatment of rows that cannot be answered: `raise`, or leave them out (`missing`).
        refit: Whether the classifier is fitted again on rows that are drawn again.
        clusters: Column or array; with `refit`, rows with the same value are drawn together.
        weights: Column or array with the weight of each row; with `refit`.
        num_resamples: Number of times that `refit` fits the classifier again.
        level: Confidence of the intervals.
        seed: Seed of the resampling.
        n_jobs: Number of fits at the same time.
        engine: "local", or "ray" for refits on a cluster.
        progress: Whether to show progress bars.
    """
    refitting = as_refitting(
        refit, clusters=clusters, weights=weights, num_resamples=num_resamples, level=level, seed=seed,
        n_jobs=n_jobs, engine=engine, progress=progress,
    )  # fmt: skip
    reader = RowReader(as_frame(frame), Question(outcome, control, treated, labels, normalise, errors, unchanged))
    names = reader.labels
    score = reader.ranks if score is None else score
    scores = None if score is None else names.scores("score", score)
    questions = [
        each
        for each in questions_about(
            names,
            arms,
            None if event is None else as_event(names, event),
            None if scores is None else (scores, scores),
            at_least,
            None if gain is None else as_gain(names, gain),
            False,
        )
        if each.name not in _NOT_OF_ROWS
    ]
    with jax.enable_x64(True):
        by_score: dict[str, Any] = {} if scores is None else {"score": scores, "counterfactual_score": scores}
        chosen = as_couplings(couplings, len(names), **by_score) if couplings else {}
    refuse_families(chosen)
    refits = None if refitting is None else Refits(reader, refitting)
    sides = [*_LIMITS, *chosen]
    columns: list[str] = []
    for each in questions:
        columns += column_names(f"{each.name}_".replace(" ", "_"), sides, columns)
    rows = np.full((len(columns), reader.frame.num_rows), np.nan)
    total, kept, used = np.zeros((2, len(columns))), 0, 0
    with reader.bar("causation", progress) as bar:
        for chunk in reader.chunks(bar):
            values, asked = _of_chunk(questions, chunk, chosen.values())
            good = ~chunk.bad
            chunk.check(np.where(asked > 0, values, 0), "a coupling")
            rows[:, chunk.rows] = np.where(good, values, np.nan)
            total += _sums(values, asked, np.where(good, chunk.weight, 0.0))
            kept, used = kept + int(chunk.kept.sum()), used + int(good.sum())
    if not used:
        raise InputError("`frame` must have at least one row that can be answered, got none")
    found: dict[tuple[str, str], Interval] | None = None
    if refitting is not None and refits is not None:

        def measure(chunks: Sequence[Chunk]) -> Floats:
            parts = [
                _sums(*_of_chunk(questions, chunk, chosen.values()), np.where(chunk.bad, 0.0, chunk.weight))
                for chunk in chunks
            ]
            whole = np.sum(parts, axis=0)
            return np.asarray(whole[0] / np.where(whole[1] > 0, whole[1], np.nan))

        again = Refitted(reader, refits, measure, refitting, by_row=False)
        ends = [np.repeat([f(each.worth) for each in questions], len(sides)) for f in (np.min, np.max)]
        found = _intervals(questions, sides, *again.limits(*ends), level)
    with np.errstate(invalid="ignore"):
        means = total[0] / np.where(total[1] > 0, total[1], np.nan)
    rows_of_result = []
    for place, each in enumerate(questions):
        lower, upper, *said = means[place * len(sides) : (place + 1) * len(sides)].tolist()
        if lower == lower:
            for name, value in {ANY: Bounds(lower, upper), **dict(zip(sides[2:], said, strict=True))}.items():
                interval = None if found is None else found[each.name, name]
                rows_of_result.append(row_of(each.name, ABOUT[ROWS], name, value, interval))
    return Causation(
        title=causation_title(names.names, arms, None if event is None else as_event(names, event)),
        labels=names.names,
        arms=arms,
        people=ROWS,
        rows=tuple(rows_of_result),
        level=None if found is None else level,
        sample=f"{used:,} rows",
        notes=(
            *(f"{each.name}: {each.meaning}." for each in questions),
            f"{_averages(questions, used)} {what_is_known(reader, refit)}",
            "There are neither stable nor monotone bounds of rows.",
            *label_notes(names, reader.order, chosen.values()),
            *unchanged_notes(kept),
            *left_out_notes(reader.frame.num_rows - used),
        ),
        questions=tuple(questions),
        individual=_individual(reader, columns, rows, "gain" if gain is not None else None),
    )


def _averages(questions: Sequence[CausalQuestion], number: int) -> str:
    """What the averages are, and where each row's own numbers are."""
    ratios = [each.name for each in questions if not each.of_everybody]
    words = f"Means over {number:,} rows"
    if ratios:
        words += f"; {' and '.join(ratios)} are shares of all who are asked about, not means of the rows' own shares"
    return f"{words}. Each row's own numbers are in `individual`."


def _individual(reader: RowReader, columns: list[str], rows: Floats, gain: str | None) -> Any:
    """Each row's numbers; with a gain, what is certain about treating it, and what has the least regret."""
    pieces: list[Any] = [(columns, rows)]
    if gain is not None:
        lower, upper = (rows[columns.index(f"{gain}_{side}")] for side in _LIMITS)
        with np.errstate(invalid="ignore"):
            place = np.where(lower > 0, 2, np.where(upper <= 0, 0, 1))
            regret = np.where(lower + upper > 0, 2, 0)
        unknown = np.isnan(lower)
        for name, each in (("decision", place), ("least_regret", regret)):
            words = _DECISIONS[each].astype(object)
            words[unknown] = None
            pieces.append((name, reader.frame.texts(words.tolist())))
    return reader.frame.made(pieces, extend=False)


def _of_chunk(
    questions: Sequence[CausalQuestion], chunk: Chunk, couplings: Iterable[AbstractCoupling]
) -> tuple[Floats, Floats]:
    """Answers and how many each is asked about, [columns, rows]; whoever is left as they are has one outcome twice."""
    p, q = np.exp(chunk.log_p), np.exp(chunk.log_q)
    evidence = Evidence(Arms(p, q), None, _SHARE)
    worths = jnp.asarray(np.stack([each.worth for each in questions]))
    said = [in_batches(_means, (each, worths), (chunk.log_p, chunk.log_q)) for each in couplings]
    values, whom = [], []
    for place, question in enumerate(questions):
        lower, upper = limits(question, evidence, "trial")
        among = np.ones(len(p))
        if not question.of_everybody:
            among = q @ question.among_treated if question.of_treated else p @ question.among_control
        if chunk.kept.any():
            same = (p @ np.diag(question.worth)) / np.where(among > 0, among, 1)
            lower, upper = np.where(chunk.kept, same, lower), np.where(chunk.kept, same, upper)
        both = [lower, upper]
        both += [np.where(chunk.kept, lower, each[place] / np.where(among > 0, among, 1)) for each in said]
        values += [np.where(among > 0, each, 0.0) for each in both]
        whom += [among] * len(both)
    return np.stack(values), np.stack(whom)


def _sums(values: Floats, asked: Floats, weight: Floats) -> Floats:
    """How many count, and how many are asked about."""
    return np.stack([(values * asked) @ weight, asked @ weight])


def _intervals(
    questions: Sequence[CausalQuestion], sides: list[str], lower: Floats, upper: Floats, level: float
) -> dict[tuple[str, str], Interval]:
    found = {}
    for place, each in enumerate(questions):
        start = place * len(sides)
        found[each.name, ANY] = Interval(float(lower[start]), float(upper[start + 1]), level)
        for k, name in enumerate(sides[2:], start + 2):
            found[each.name, name] = Interval(float(lower[k]), float(upper[k]), level)
    return found


@eqx.filter_jit
def _means(
    coupling: AbstractCoupling,
    worths: Float[ArrayLike, "m k k"],
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
) -> Float[Array, "columns n"]:
    """The mean of each worth under a coupling."""

    def one(p: Float[Array, " k"], q: Float[Array, " k"]) -> Float[Array, " columns"]:
        joint = coupling._joint(p, q)
        return (joint[None] * jnp.asarray(worths)).sum(axis=(1, 2))

    return jax.vmap(one, out_axes=1)(log_p, log_q)
