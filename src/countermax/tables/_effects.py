"""Effects of the change on a score: their mean, their variance under each coupling, and which coupling to choose."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax._tables.frames import Floats, as_frame
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2
from countermax.intervals import Interval
from countermax.tables._compared import Compared, compare_couplings
from countermax.tables._effect_result import TableEffects
from countermax.tables._moments import EffectMoments
from countermax.tables._notes import label_notes, metadata, shown_name, what_is_known
from countermax.tables._pairs import AbstractRows, LocalRows, Weighted, all_pairs
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._refit import Refits, Refitted, as_refitting
from countermax.tables._rows import Chunk, Question, RowReader
from countermax.tables._scores import MOST_SOLVED, MOST_SOLVED_IN_ALL, Scores, bounds_by_transport, choose


def effects(
    frame: Any,
    *,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    score: Any = None,
    counterfactual_score: Any = None,
    outcome: Any = None,
    couplings: Mapping[str, str | Path | AbstractCoupling] | Sequence[str | Path] | None = None,
    labels: Sequence[Hashable] | None = None,
    learn: bool | Gadget2 = False,
    key: PRNGKeyArray | None = None,
    fit_options: Mapping[str, Any] | None = None,
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
) -> TableEffects:
    """Mean and individual effects of the change, their variance under each coupling, and which one to choose.

    An effect is what the change would have added, `score(Y) - score(X)`: the other world's score minus the factual
    one's. Data fix its mean; how much it varies between people is up to the coupling. For one score the inverse CDF in
    the order of the score has the least variance of all couplings, for every row at once, and nothing has to be
    learned; where the two worlds' scores sort the outcomes differently, the coupling of their quantiles has. For
    several scores no order is optimal; then a vector quantile is fitted to the frame's own worlds (by default where its
    rows are few enough for that to take seconds, else by name), and `learn=True` trains a gadget on them. Least
    variance is a criterion of precision, not evidence that the mechanism is true.

    The standard error of the mean takes each row's probabilities as known. With `refit=True` the classifier is fitted
    again on rows that are drawn again, and mean, variances and bounds have intervals. Then the frame must be what the
    classifier was fitted on, with the outcomes in `outcome`.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        score: A number for each outcome, by label or in the order of the labels; or several scores by name,
            `{"quality": {...}, "cost": {...}}`, or as an array [outcomes, scores]. Variances of several are added up,
            so bring them to one scale. By default the ranks of the outcomes, if they are an ordered category.
        counterfactual_score: The score in the other world, if it is another one.
        outcome: The column with the outcomes seen, or an array of them; adds individual effects.
        couplings: The couplings to compare, by name, or names of fixed ones; by default the library's own.
        labels: The outcomes in their order; by default that of an ordered category, else of `factual`.
        learn: Whether to train a gadget; or the gadget to train.
        key: Key of the training, consumed once; by default `jax.random.key(0)`.
        fit_options: Options of `countermax.fit` by name, in place of its defaults, of 500 steps and of batches of 64:
            for instance `{"steps": 2000, "learning_rate": 3e-3, "checkpoint": "gadget.safetensors"}`.
        unchanged: Rows that the change leaves as they were, a column or an array of booleans: whatever the coupling,
            they have the outcome that they had. `Predicted` knows its own; say it where probabilities are numbers.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: Treatment of rows that cannot be answered: `raise`, or leave them out (`missing`).
        refit: Whether to fit the classifier again (a copy by `sklearn.base.clone`) on resampled rows.
        clusters: Column or array, with `refit`: rows with the same value are resampled together.
        weights: Column or array, with `refit`: weight of each row, in the fit too where it takes weights.
        num_resamples: Number of refits, with `refit`; by default 200.
        level: Confidence of the intervals.
        seed: Seed of the resampling; the same seed gives the same intervals.
        n_jobs: Number of fits at the same time, as joblib counts them.
        engine: "local", or "ray" for refits on a cluster.
        progress: Whether to show progress bars; by default on a terminal.
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
    rows = LocalRows(reader)
    compared = compare_couplings(
        reader,
        rows,
        score=score,
        counterfactual_score=counterfactual_score,
        couplings=couplings,
        learn=learn,
        key=key,
        fit_options=fit_options,
        num_times=1 if refitting is None else 1 + refitting.num_resamples,
        progress=progress,
    )
    refits = None if refitting is None else Refits(reader, refitting)

    def moments_of(chunks: Iterable[Chunk], individual: bool) -> EffectMoments:
        found = compared.moments(reader.frame.num_rows if individual else None)
        for chunk in chunks:
            found.add(chunk)
        return found

    with reader.bar("effects", progress) as bar:
        moments = moments_of(reader.chunks(bar), outcome is not None)
    refitted: Refitted | None = None
    if refitting is not None and refits is not None:
        most = MOST_SOLVED_IN_ALL // (len(reader.labels) * refitting.num_resamples)

        def measure(chunks: Sequence[Chunk]) -> Floats:
            found = moments_of(chunks, False)
            limits = _bounds(compared.scores, found, lambda: all_pairs(chunks, most)) or (np.nan, np.nan)
            return np.array([*found.mean, *found.variances.values(), *limits])

        refitted = Refitted(reader, refits, measure, refitting, by_row=False)
    individual = None if moments.rows is None else reader.frame.made([(moments.names, moments.rows)], extend=False)
    return result_of(reader, rows, compared, moments, individual, refitted, level)


def result_of(
    reader: RowReader,
    rows: AbstractRows,
    compared: Compared,
    moments: EffectMoments,
    individual: Any,
    refitted: Refitted | None = None,
    level: float = 0.95,
) -> TableEffects:
    """What the effects of all rows add up to.

    Args:
        reader: Reader of the rows, or of a table without rows in the same columns.
        rows: All rows.
        compared: The couplings.
        moments: Effects of all rows, added up.
        individual: Each row's own effects, if they were asked for.
        refitted: Results of classifiers that were fitted again.
        level: Confidence of their intervals.
    """
    if moments.sums.num_rows == 0:
        raise InputError("`frame` must have at least one row that can be answered, got none")
    scores = compared.scores
    bounds = _bounds(scores, moments, lambda: rows.all_pairs(MOST_SOLVED // len(reader.labels)))
    choice, reason = choose(scores, moments.variances, bounds)
    names = ", ".join(map(shown_name, compared.couplings))
    result = TableEffects(
        scores=scores.names,
        mean=moments.mean,
        mean_error=moments.mean_error if refitted is None else None,
        variances=moments.variances,
        variance_bounds=bounds,
        **_intervals(refitted, len(scores.names), list(compared.couplings), level),
        what_is_known=what_is_known(reader, refitted is not None),
        label_notes=tuple(label_notes(reader.labels, reader.order, compared.couplings.values())),
        couplings=compared.couplings,
        choice=choice,
        reason=reason,
        fit=compared.learned,
        individual=individual,
        num_rows=moments.sums.num_rows,
        num_unchanged=moments.sums.num_unchanged,
        num_left_out=moments.sums.num_left_out,
        make_frame=lambda columns: reader.frame.noted(
            reader.frame.from_columns(columns), metadata(names, "any", result.notes)
        ),
    )
    return result


def _bounds(scores: Scores, moments: EffectMoments, pairs: Callable[[], Weighted | None]) -> Bounds | None:
    """The least and the largest variance; None where there are several scores and too many pairs of worlds."""
    if len(scores.names) == 1:
        return moments.variance_bounds
    found = pairs()
    if found is None:
        return None
    return bounds_by_transport(found, scores, moments.centred_mean, moments.sums.kept_square, moments.sums.total)


def _intervals(refitted: Refitted | None, num_scores: int, names: Sequence[str], level: float) -> dict[str, Any]:
    """The fields of the result that hold intervals."""
    if refitted is None:
        return {"mean_interval": None, "variance_intervals": None, "variance_bounds_interval": None}
    floor = np.array([-np.inf] * num_scores + [0.0] * (len(names) + 2))
    lower, upper = refitted.limits(floor)
    of_names = zip(names, lower[num_scores:-2].tolist(), upper[num_scores:-2].tolist(), strict=True)
    unknown = np.isnan(lower[-2:]).any()
    return {
        "mean_interval": Interval(lower[:num_scores], upper[:num_scores], level),
        "variance_intervals": {name: Interval(low, high, level) for name, low, high in of_names},
        "variance_bounds_interval": None if unknown else Interval(float(lower[-2]), float(upper[-1]), level),
    }
