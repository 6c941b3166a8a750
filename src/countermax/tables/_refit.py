"""Refit intervals: classifiers refitted on bootstrap resamples of the rows.

Answers, bounds and variances are maxima and minima of fitted probabilities: they have kinks, above all where the change
has no effect, and there percentile intervals undercover. So an interval is the union of the percentile interval, the
basic (reflected) one and a normal one; and where the refits do not reject that the change has no effect, it includes
what the answer would be without an effect. `python -m studies coverage` measures how often that is right.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError, refusing
from countermax._core.extras import on_ray
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_count, as_seed
from countermax._tables.frames import AbstractFrame, Codes, Floats
from countermax.intervals._interval import check_level, reflected_limits
from countermax.tables._probabilities import Predicted
from countermax.tables._reading import Chunk, RowReader

_MOST_DRAWS = 1000  # until each outcome is among the rows that are drawn

Measure = Callable[[Sequence[Chunk]], Floats]
"""Numbers of some rows, in one array of any shape."""


@final
@dataclass(frozen=True, eq=False)
class Refit:
    """Confidence intervals by refitting: the classifier is fitted again on bootstrap resamples of the rows.

    The table must be the frame that the classifier was fitted on, with the outcomes in `outcome`.

    Args:
        clusters: Column or array; rows with the same value are resampled together.
        weights: Column or array with the weight of each row, in the fit too where it takes weights.
        num_resamples: Number of refits.
        level: Confidence of the intervals.
        seed: Seed of the resampling; the same seed gives the same intervals.
        n_jobs: Number of fits at the same time, as joblib counts them.
    """

    clusters: Any = None
    weights: Any = None
    num_resamples: int = 200
    level: float = 0.95
    seed: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        check_level(self.level)
        object.__setattr__(self, "seed", as_seed("seed", self.seed))
        as_count("`num_resamples` of `Refit`", self.num_resamples, least=2)


class Refitting:
    """Readers of the same rows whose classifiers were fitted again; rows count as often as they were drawn."""

    def __init__(self, reader: RowReader, settings: Refit, engine: str):
        """Looks at the classifiers; the frame is what they were fitted on, and its weights become the reader's."""
        if on_ray(engine) and settings.n_jobs is not None:
            raise InputError('`n_jobs` must be left out with engine="ray", which has its own workers')
        self._reader, self.settings, self._engine = reader, settings, engine
        if reader.seen is None:
            raise InputError("`refit` needs `outcome`: it is what the classifier is fitted on")
        worlds = [world for world in reader.worlds if isinstance(world, Predicted)]
        if len(worlds) < len(reader.worlds):
            raise InputError("`refit` needs a classifier in both worlds (`Predicted`), got plain probabilities")
        self._worlds = worlds
        self._classifiers = list({id(world.classifier): world.classifier for world in worlds}.values())
        for classifier in self._classifiers:
            copy_of(classifier)
        reader.remembered = {}
        self.unweighted: list[str] = []
        """Names of classifiers that are fitted without the weights, which they do not take."""
        frame = reader.frame
        self._rows = np.flatnonzero(reader.seen >= 0)  # those whose outcome is known
        weights = None
        if settings.weights is not None:
            weights = reader.weights = row_weights(frame, settings.weights)
            without = [type(each).__name__ for each in self._classifiers if weight_argument(each) is None]
            self.unweighted = list(dict.fromkeys(without))
        self._clusters: list[Codes] | None = None
        if settings.clusters is not None:
            self._clusters = members_of_clusters(frame, settings.clusters, reader.seen >= 0)
        inputs, outcomes = [], []
        for classifier in self._classifiers:
            place, world = next((at, each) for at, each in enumerate(worlds) if each.classifier is classifier)
            inputs.append(world.as_fitted(replace(world, change={}).inputs(frame, 0)))
            classes = np.asarray(classifier.classes_)
            outcomes.append(classes[reader.orders[place][np.maximum(reader.seen, 0)]])
        self._data = FitData(self._classifiers, inputs, outcomes, weights)

    def __iter__(self) -> Iterator[RowReader]:
        """One reader after the other, as the fits are done."""
        settings, reader = self.settings, self._reader
        numbers = range(settings.num_resamples)
        drawn = [self._drawn(number) for number in numbers]
        seeds = (int(np.random.default_rng([settings.seed, number, 1]).integers(2**31)) for number in numbers)
        total = reader.weights.sum()
        with ProgressBar("refits", settings.num_resamples, unit="refits") as bar:
            found = self._all_fits(zip(drawn, seeds, strict=True))
            for rows, classifiers in zip(drawn, found, strict=True):
                again = dict(zip(map(id, self._classifiers), classifiers, strict=True))
                worlds = [replace(world, classifier=again[id(world.classifier)]) for world in self._worlds]
                weights = reader.weights * np.bincount(rows, minlength=reader.frame.num_rows)
                yield reader.with_worlds(worlds, weights * (total / weights.sum()))
                bar.advance(1)

    def _drawn(self, number: int) -> Codes:
        """Rows, drawn with replacement, whole clusters at a time; with every outcome among them."""
        stream = np.random.default_rng([self.settings.seed, number])
        seen, rows = self._reader.seen, self._rows
        assert seen is not None
        known = np.unique(seen[rows])
        for _ in range(_MOST_DRAWS):
            if (members := self._clusters) is None:
                drawn = stream.choice(rows, len(rows))
            else:
                drawn = np.concatenate([members[place] for place in stream.integers(0, len(members), len(members))])
            if len(np.unique(seen[drawn])) == len(known):
                return drawn
        raise InputError("`refit` needs resamples with every outcome, but some outcome is too rare for that")

    def _all_fits(self, jobs: Iterable[tuple[Codes, int]]) -> Iterator[list[Any]]:
        """Classifiers fitted to the rows of each job, in order."""
        if on_ray(self._engine):
            from countermax._ray import in_parts

            return in_parts(fit_some, self._data, jobs)
        from joblib import Parallel, delayed

        fits = (delayed(fit_some)(self._data, *job) for job in jobs)
        return iter(Parallel(n_jobs=self.settings.n_jobs, return_as="generator")(fits))


class Refitted:
    """What was found in all refits, and the intervals that follow."""

    def __init__(
        self,
        reader: RowReader,
        refits: Iterable[RowReader],
        measure: Measure,
        settings: Refit,
        values: Sequence[str] | None,
    ):
        """Fits and measures: numbers of the whole and of the groups with these `values`, along the last axis.

        Without values each row is a question of its own, and has its own numbers, [..., rows].
        """
        self.level = settings.level
        chunks = list(reader.chunks())
        self._found, gap = measure(chunks), _gap(chunks, values)
        self._without = measure([replace(chunk.fresh(), q=chunk.p) for chunk in chunks])  # no effect
        check_memory(
            f"{settings.num_resamples:,} refits of {self._found.size:,} numbers",
            settings.num_resamples * 8 * (self._found.size + gap.size),
            "lower `num_resamples`, or ask about fewer rows",
        )
        again = []
        for each in refits:
            chunks = list(each.chunks())
            again.append((measure(chunks), _gap(chunks, values)))
        self._again, gaps = (np.stack(each) for each in zip(*again, strict=True))
        from scipy.special import ndtri

        error = (1 - settings.level) / 2  # one side of an interval errs where doing nothing is wrongly excluded
        threshold = -ndtri(error / (2 * len(gap))) * gaps.std(axis=0, ddof=1)
        self.could_do_nothing = ~(np.abs(gap) > threshold + 1e-12).any(axis=0)
        """Whether the refits leave it possible that the change does nothing: to the whole and groups, or each row."""

    def limits(self, floor: Any = -np.inf, ceiling: Any = np.inf) -> tuple[Floats, Floats]:
        """The interval of every number, which lies between `floor` and `ceiling`; so it does where a refit has none.

        It holds the percentiles of the refits, their reflection about what was found, as many standard errors as a
        normal number would need, and what the change would bring if it did nothing, unless that is excluded.
        """
        found = self._found
        lower, upper = reflected_limits(found, self._again, self.level, floor, ceiling)
        lower = np.where(self.could_do_nothing, np.fmin(lower, self._without), lower)
        upper = np.where(self.could_do_nothing, np.fmax(upper, self._without), upper)
        lower, upper = (np.where(np.isnan(found), np.nan, np.clip(each, floor, ceiling)) for each in (lower, upper))
        return lower, upper


def _gap(chunks: Sequence[Chunk], values: Sequence[str] | None) -> Floats:
    """How far the worlds are apart in the whole and in groups, [outcomes, groups], or in each row, [outcomes, rows]."""
    gap = np.concatenate([(np.exp(chunk.log_q) - np.exp(chunk.log_p)).T for chunk in chunks], axis=1)
    if values is None:
        return gap
    used = np.concatenate([np.where(chunk.bad, 0.0, chunk.weight) for chunk in chunks])
    whose = [np.asarray(chunk.values)[chunk.group] for chunk in chunks if chunk.group is not None]
    weights = np.stack([used, *(np.where(np.concatenate(whose) == value, used, 0.0) for value in values)], axis=1)
    totals = weights.sum(axis=0)
    return np.asarray(gap @ weights / np.where(totals > 0, totals, np.nan))


def copy_of(classifier: Any) -> Any:
    """A classifier with the same settings that was not fitted."""
    try:
        from sklearn.base import clone
    except ImportError as error:
        raise ImportError("`refit` needs scikit-learn: pip install scikit-learn") from error
    kind = type(classifier).__name__
    with refusing(f"`refit` needs what sklearn.base.clone can copy, got {kind}", TypeError, RuntimeError):
        fresh = clone(classifier)
    if fresh is classifier:
        raise InputError(f"`refit` needs a classifier that can be fitted again, but {kind} is frozen")
    return fresh


class FitData(NamedTuple):
    """What all fits have in common: classifiers, what each of them reads, and what it is to predict."""

    classifiers: Sequence[Any]
    inputs: Sequence[Any]
    outcomes: Sequence[Any]
    weights: Floats | None


def fit_some(data: FitData, rows: Codes, seed: int) -> list[Any]:
    """Each classifier, fitted again to some rows; what it leaves to chance is drawn from the seed."""
    result = []
    weights = None if data.weights is None else data.weights[rows]
    for classifier, inputs, outcomes in zip(data.classifiers, data.inputs, data.outcomes, strict=True):
        features = inputs.iloc[rows] if hasattr(inputs, "iloc") else inputs[rows]
        fresh = copy_of(classifier)
        chance = {
            name: seed for name, value in fresh.get_params().items()
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }  # fmt: skip
        fresh.set_params(**chance)
        argument = None if weights is None else weight_argument(fresh)
        fresh.fit(features, outcomes[rows], **({} if argument is None else {argument: weights}))
        if not np.array_equal(fresh.classes_, classifier.classes_):
            raise InputError(
                f"the frame must be what the classifier was fitted on, but fitted again it has the classes "
                f"{list(fresh.classes_)} in place of {list(classifier.classes_)}"
            )
        result.append(fresh)
    return result


def weight_argument(classifier: Any) -> str | None:
    """What `fit` calls the weights of rows; None where it takes none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(classifier, Pipeline):
        name, last = classifier.steps[-1]
        inner = weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else None


def row_weights(frame: AbstractFrame, given: Any) -> Floats:
    """How much each row counts, from a column or an array."""
    values = frame.numbers("weights", [given])[:, 0] if isinstance(given, str) else np.asarray(given, np.float64)
    if values.shape != (frame.num_rows,):
        raise InputError(f"`weights` must have one value for each of {frame.num_rows} rows, got shape {values.shape}")
    if not ((values >= 0) & (values < np.inf)).all() or not values.sum() > 0:
        raise InputError("`weights` must be finite, not negative, and not all zero")
    return values


def members_of_clusters(frame: AbstractFrame, given: Any, used: NDArray[np.bool_]) -> list[Codes]:
    """The rows of each cluster that are used, from a column or an array."""
    column = frame.column("clusters", given) if isinstance(given, str) else frame.own("clusters", given)
    codes, values = frame.factorised(column)
    if (codes < 0).any():
        raise InputError(f"`clusters` is missing for {int((codes < 0).sum()):,} rows; fill it in, or drop them")
    if len(values) < 2:
        raise InputError(f"`clusters` must name at least two clusters, got {len(values)}")
    members = [np.flatnonzero((codes == place) & used) for place in range(len(values))]
    return [each for each in members if len(each)]
