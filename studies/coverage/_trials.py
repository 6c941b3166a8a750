"""Trials whose truth is known, and how often the intervals of `compare` hold it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.labels import Labels
from countermax.comparison import Comparison, answered
from countermax.couplings._named import named_couplings
from countermax.intervals import CountSampling, Interval, inverted_intervals, resampled_intervals
from studies.engine import Result

Floats = NDArray[np.float64]


class Truth(NamedTuple):
    """The truth, and whom the question is about."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    observed: int
    num_trials: int = 2000


TRUTHS: dict[str, Truth] = {
    "no effect, 2 outcomes": Truth((0.4, 0.6), (0.4, 0.6), 0),
    "no effect, 4 outcomes": Truth((0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.3, 0.4), 1),
    "clear effect": Truth((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4), 0),
    "ratios nearly tied": Truth((0.5, 0.25, 0.25), (0.2, 0.39, 0.41), 1),
    "skewed": Truth((0.85, 0.1, 0.05), (0.7, 0.2, 0.1), 0),
    "skewed, no effect": Truth((0.7, 0.15, 0.1, 0.05), (0.7, 0.15, 0.1, 0.05), 3),
    "rare outcome": Truth((0.01, 0.5, 0.49), (0.04, 0.46, 0.5), 0),
    "one step up, 6 outcomes": Truth((0.05, 0.15, 0.3, 0.3, 0.15, 0.05), (0.05, 0.05, 0.15, 0.3, 0.3, 0.15), 1, 500),
}
"""After a step up, all thresholds of the score are equally good for the upper limit of who is better off."""

COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")
LEVEL = 0.95

_METHODS: Mapping[str, Callable[..., Interval]] = {"inverted": inverted_intervals, "percentile": resampled_intervals}
_ROUNDING = 1e-8
_FAMILIES = ("any coupling", "any stable coupling")


def coverage(
    trial: Truth, size: int, num_trials: int, seed: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """How often intervals hold the truth, and their mean width, for every number that `compare` prints.

    Samples in which nobody had the outcome that the question is about do not count.

    Args:
        trial: The truth.
        size: Number of people in each arm.
        num_trials: Number of samples.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
    """
    p, q = np.asarray(trial.p), np.asarray(trial.q)
    stream = np.random.default_rng(seed)
    truth = _limits(_asked(trial, np.log(p), np.log(q), None, inverted_intervals, 0), False)
    held = {method: dict.fromkeys(truth, 0) for method in _METHODS}
    widths = {method: dict.fromkeys(truth, 0.0) for method in _METHODS}
    for place in range(num_trials):
        counts = _sample(stream, size, p, q, trial.observed)
        with np.errstate(divide="ignore"):
            log_p, log_q = (np.log(each / size) for each in counts)
        for method, find in _METHODS.items():
            found = _limits(_asked(trial, log_p, log_q, CountSampling(*counts), find, place), True)
            for name, (lower, upper) in found.items():
                least, largest = truth[name]
                held[method][name] += lower - _ROUNDING <= least and largest <= upper + _ROUNDING
                widths[method][name] += upper - lower
        advance((place + 1) / num_trials)
    return {
        method: {
            name: {"coverage": held[method][name] / num_trials, "width": widths[method][name] / num_trials}
            for name in truth
        }
        for method in _METHODS
    }


def _sample(stream: np.random.Generator, size: int, p: Floats, q: Floats, seen: int) -> tuple[Floats, Floats]:
    """Counts of two arms; drawn again until somebody had the outcome in question."""
    here = stream.multinomial(size, p)
    while here[seen] == 0:
        here = stream.multinomial(size, p)
    return here.astype(np.float64), stream.multinomial(size, q).astype(np.float64)


def _asked(
    trial: Truth,
    log_p: Floats,
    log_q: Floats,
    sampling: CountSampling | None,
    method: Callable[..., Interval],
    seed: int,
) -> Comparison:
    score = np.arange(len(trial.p), dtype=np.float64)
    return answered(
        Labels(tuple(str(label) for label in range(len(trial.p)))),
        trial.observed,
        log_p,
        log_q,
        sampling=sampling,
        scores=(score, score),
        couplings=dict(named_couplings(COUPLINGS)),
        level=LEVEL,
        seed=seed,
        method=method,
    )


def _limits(result: Comparison, intervals: bool) -> dict[str, tuple[float, float]]:
    """Of every number its interval, or the number itself twice; of every range its interval, or its limits."""
    rows = dict(result.rows())
    names = [answer.name for answer in result.answers]
    columns = [column for column in rows[names[0]] if "_ci_" not in column]
    found: dict[str, tuple[Any, Any]] = {}
    for name, first, second in (
        *((name, name, name) for name in names),
        *((family, f"{family}, lower", f"{family}, upper") for family in _FAMILIES),
    ):
        for column in columns:
            suffixes = ("_ci_lower", "_ci_upper") if intervals else ("", "")
            pair = rows[first][column + suffixes[0]], rows[second][column + suffixes[1]]
            if None not in pair:
                found[f"{name}: {column}"] = pair
    return found
