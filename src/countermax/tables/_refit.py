"""Classifiers fitted again on rows that are drawn again: what other data of the same kind could have shown.

Answers, bounds and variances are maxima and minima of fitted probabilities: they have kinks, above all where the change
does nothing, and there percentiles of refits miss the truth. So an interval holds the percentiles of the refits, their
reflection about what was found, and a normal interval; and where the refits do not exclude that the change does
nothing, what the answer would be if it did nothing. `python -m studies coverage` measures how often that is right.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from countermax._core.errors import InputError
from countermax._core.extras import on_ray
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_count, as_seed
from countermax._tables.frames import Codes, Floats
from countermax.intervals._interval import check_level, reflected_limits
from countermax.tables._fits import FitData, copy_of, fit_some, members_of_clusters, row_weights, weight_argument
from countermax.tables._probabilities import Predicted
from countermax.tables._rows import Chunk, RowReader

NUM_REFITS = 200
_MOST_DRAWS = 1000  # until each outcome is among the rows that are drawn

Measure = Callable[[Sequence[Chunk]], Floats]
"""Numbers of some rows, in one array of any shape."""


@dataclass(frozen=True, eq=False)
class Refitting:
    """How the classifiers are fitted again."""

    clusters: Any = None
    weights: Any = None
    num_resamples: int = NUM_REFITS
    level: float = 0.95
    seed: int = 0
    n_jobs: int | None = None
    engine: str = "local"
    progress: bool | None = None


class RefitLimits(NamedTuple):
    """The limits of many intervals."""

    lower: Floats
    upper: Floats


def as_refitting(
    refit: bool,
    *,
    clusters: Any,
    weights: Any,
    num_resamples: int | None,
    level: float,
    seed: int,
    n_jobs: int | None,
    engine: str,
    progress: bool | None,
) -> Refitting | None:
    """The settings, checked; None where nothing is fitted again."""
    check_level(level)
    seed = as_seed("seed", seed)
    if not refit:
        for name, given in (
            ("clusters", clusters),
            ("weights", weights),
            ("n_jobs", n_jobs),
            ("engine", engine if on_ray(engine) else None),
        ):
            if given is not None:
                raise InputError(f"`{name}` needs refit=True")
        return None
    number = (
        NUM_REFITS if num_resamples is None else as_count("with refit=True, `num_resamples`", num_resamples, least=2)
    )
    if on_ray(engine) and n_jobs is not None:
        raise InputError('`n_jobs` must be left out with engine="ray", which has its own workers')
    return Refitting(clusters, weights, number, level, seed, n_jobs, engine, progress)


class Refits:
    """Readers of the same rows whose classifiers were fitted again; rows count as often as they were drawn."""

    def __init__(self, reader: RowReader, settings: Refitting):
        """Looks at the classifiers; the frame is what they were fitted on."""
        self._reader, self._settings = reader, settings
        if reader.seen is None:
            raise InputError("refit=True needs `outcome`: it is what the classifier is fitted on")
        worlds = [world for world in reader.worlds if isinstance(world, Predicted)]
        if len(worlds) < len(reader.worlds):
            raise InputError("refit=True needs a classifier in both worlds (`Predicted`), got plain probabilities")
        self._worlds = worlds
        self._classifiers = list({id(world.classifier): world.classifier for world in worlds}.values())
        for classifier in self._classifiers:
            copy_of(classifier)
        reader.remembered = {}
        frame = reader.frame
        self._rows = np.flatnonzero(reader.seen >= 0)  # those whose outcome is known
        if settings.weights is not None:
            reader.weights = row_weights(reader.frame, settings.weights)
            without = [type(each).__name__ for each in self._classifiers if weight_argument(each) is None]
            reader.unweighted = list(dict.fromkeys(without))
        self._clusters = (
            None if settings.clusters is None else members_of_clusters(frame, settings.clusters, reader.seen >= 0)
        )
        sources = [next(world for world in worlds if world.classifier is each) for each in self._classifiers]
        self._inputs = [
            each.as_fitted(Predicted(each.classifier, {}, each.features).inputs(frame, 0)) for each in sources
        ]
        places = [reader.orders[worlds.index(each)] for each in sources]
        self._outcomes = [
            np.asarray(each.classifier.classes_)[place[np.maximum(reader.seen, 0)]]
            for each, place in zip(sources, places, strict=True)
        ]

    def __iter__(self) -> Iterator[RowReader]:
        """One reader after the other, as the fits are done."""
        settings, reader = self._settings, self._reader
        multiplicities = [self._drawn(number) for number in range(settings.num_resamples)]
        weights = None if settings.weights is None else reader.weights
        data = FitData(self._classifiers, self._inputs, self._outcomes, weights)
        jobs = (
            (rows, int(np.random.default_rng([settings.seed, number, 1]).integers(2**31)))
            for number, rows in enumerate(multiplicities)
        )
        total = reader.weights.sum()
        with ProgressBar("refits", settings.num_resamples, settings.progress, unit="refits") as bar:
            found = _all_fits(data, jobs, settings)
            for rows, classifiers in zip(multiplicities, found, strict=True):
                again = dict(zip(map(id, self._classifiers), classifiers, strict=True))
                worlds = [replace(world, classifier=again[id(world.classifier)]) for world in self._worlds]
                weights = reader.weights * np.bincount(rows, minlength=reader.frame.num_rows)
                yield _refitted(reader, worlds, weights * (total / weights.sum()))
                bar.advance(1)

    def _drawn(self, number: int) -> Codes:
        """Rows, drawn with replacement, whole clusters at a time; with every outcome among them."""
        stream = np.random.default_rng([self._settings.seed, number])
        seen, rows = self._reader.seen, self._rows
        assert seen is not None
        known = np.unique(seen[rows])
        for _ in range(_MOST_DRAWS):
            if self._clusters is None:
                drawn = stream.choice(rows, len(rows))
            else:
                members = self._clusters
                drawn = np.concatenate([members[place] for place in stream.integers(0, len(members), len(members))])
            if len(np.unique(seen[drawn])) == len(known):
                return drawn
        raise InputError("refit=True needs resamples with every outcome, but some outcome is too rare for that")


def _all_fits(data: FitData, jobs: Iterable[tuple[Codes, int]], settings: Refitting) -> Iterator[list[Any]]:
    """Classifiers fitted to the rows of each job, in order."""
    if on_ray(settings.engine):
        from countermax._ray import in_parts

        return in_parts(fit_some, data, jobs)
    from joblib import Parallel, delayed

    return iter(Parallel(n_jobs=settings.n_jobs, return_as="generator")(delayed(fit_some)(data, *job) for job in jobs))


class Refitted:
    """What was found in all refits, and the intervals that follow."""

    def __init__(
        self, reader: RowReader, refits: Iterable[RowReader], measure: Measure, settings: Refitting, *, by_row: bool
    ):
        """Fits and measures.

        Args:
            reader: The rows, with the classifiers that were handed in.
            refits: The same rows with other classifiers.
            measure: Numbers of interest; [..., rows] where each row has its own.
            settings: Number of refits, and confidence of the intervals.
            by_row: Whether each row is a question of its own.
        """
        self._level = settings.level
        chunks = list(reader.chunks())
        self._found, gap = measure(chunks), _gap(chunks, by_row)
        self._without = measure([_without_effect(chunk) for chunk in chunks])
        check_memory(
            f"{settings.num_resamples:,} refits of {self._found.size:,} numbers",
            settings.num_resamples * 8 * (self._found.size + gap.size),
            "lower `num_resamples`, or ask about fewer rows",
        )
        again = []
        for each in refits:
            chunks = list(each.chunks())
            again.append((measure(chunks), _gap(chunks, by_row)))
        self._again, gaps = (np.stack(each) for each in zip(*again, strict=True))
        error = (1 - settings.level) / 2  # one side of an interval errs where doing nothing is wrongly excluded
        threshold = -ndtri(error / (2 * len(gap))) * gaps.std(axis=0, ddof=1)
        self.could_do_nothing = ~(np.abs(gap) > threshold + 1e-12).any(axis=0)
        """Whether the refits do not exclude that the change does nothing; for each row, where rows are asked about."""

    def limits(self, floor: Any = -np.inf, ceiling: Any = np.inf) -> RefitLimits:
        """The interval of every number, which lies between `floor` and `ceiling`; so it does where a refit has none.

        It holds the percentiles of the refits, their reflection about what was found, as many standard errors as a
        normal number would need, and what the change would bring if it did nothing, unless that is excluded.
        """
        found, again = self._found, self._again
        lower, upper = reflected_limits(found, again, self._level, floor, ceiling)
        lower = np.where(self.could_do_nothing, np.fmin(lower, self._without), lower)
        upper = np.where(self.could_do_nothing, np.fmax(upper, self._without), upper)
        lower, upper = (np.where(np.isnan(found), np.nan, np.clip(each, floor, ceiling)) for each in (lower, upper))
        return RefitLimits(lower, upper)


def _gap(chunks: Sequence[Chunk], by_row: bool) -> Floats:
    """How far the worlds are apart, [outcomes], or [outcomes, rows] where each row is a question of its own."""
    gap = np.concatenate([(np.exp(chunk.log_q) - np.exp(chunk.log_p)).T for chunk in chunks], axis=1)
    if by_row:
        return gap
    used = np.concatenate([np.where(chunk.bad, 0.0, chunk.weight) for chunk in chunks])
    return np.asarray(gap @ used / used.sum())


def _without_effect(chunk: Chunk) -> Chunk:
    """The same rows, if the change did nothing."""
    return replace(chunk, log_q=chunk.log_p, bad=chunk.bad.copy(), problems=chunk.problems.copy())


def _refitted(reader: RowReader, worlds: Sequence[Predicted], weights: Floats) -> RowReader:
    again = copy.copy(reader)
    again.worlds, again.weights = list(worlds), weights
    again.question = replace(reader.question, errors="missing")  # to a refit something may be impossible that was seen
    return again
