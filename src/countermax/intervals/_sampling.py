"""How the estimates of two worlds would have come out, had the data been drawn again.

A sampling knows the estimated worlds, proposes truths that the data do not exclude, and draws the estimates that data
would have given under each of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.intervals._portable import Stream

Floats = NDArray[np.float64]
Pairs = tuple[Floats, Floats]

PROPOSED = 4
"""Truths that are proposed for one that is kept."""

_SPREADS = (0.3, 1.6)  # of the proposed truths, in standard errors: they must reach beyond any interval
_LARGEST_PRIOR = 1.2  # added to counts when truths are proposed, so that what was never seen may be possible
_NUM_ERRORS = 1000  # draws, of which standard errors are taken
_IMPLAUSIBLE = 0.005  # truths that a test of all probabilities together rejects at this level are not proposed


class AbstractSampling(ABC):
    """Two estimated worlds and what is known about their errors."""

    p: Floats
    q: Floats
    weight: float
    """Share of the factual world in an estimate of both, if they were the same."""

    @abstractmethod
    def candidates(self, number: int, stream: Stream) -> Pairs:
        """Truths that the data do not exclude, [number, outcomes] for each world; in some of them the worlds are equal.

        Every probability is positive: that nobody had an outcome does not make it impossible.
        """

    @abstractmethod
    def draws(self, p: Floats, q: Floats, number: int, seen: int | None, stream: Stream) -> Pairs:
        """Estimates from data that were drawn again under each truth, [truths, number, outcomes] for each world.

        Args:
            p: Truths of the factual world, [truths, outcomes].
            q: Truths of the other world.
            number: Number of estimates for each truth.
            seen: An outcome that occurs in the factual world of every estimate, because the question is about it.
            stream: Source of randomness.
        """

    @abstractmethod
    def distance(self, estimates: Pairs, truths: Pairs) -> Any:
        """How badly estimates fit truths, over the last axis: comparable between estimates of one truth."""

    @abstractmethod
    def errors_of(self, here: Floats, there: Floats) -> Floats:
        """Standard errors of `here @ p + there @ q`, [pieces, outcomes] twice; what nobody had is not without error."""

    @abstractmethod
    def words(self) -> str:
        """The sample, for the person who reads the result."""


@final
class CountSampling(AbstractSampling):
    """Independent people in two arms, of whom the outcomes were counted."""

    def __init__(self, factual: Floats, counterfactual: Floats, arms: tuple[str, str] = ("p", "q")):
        """Takes the counts of both arms; outcomes in one order.

        Args:
            factual: Number of people with each outcome in the factual arm.
            counterfactual: Number of people with each outcome in the other arm.
            arms: Names of the arms.
        """
        self._arms = arms
        self.counts = tuple(as_counts(f"`{name}`", each) for name, each in (("p", factual), ("q", counterfactual)))
        self.sizes = tuple(int(each.sum()) for each in self.counts)
        self.p, self.q = (each / each.sum() for each in self.counts)
        self.weight = self.sizes[0] / sum(self.sizes)

    def candidates(self, number: int, stream: Stream) -> Pairs:
        """Dirichlet draws about the counts, narrow ones and wide ones."""
        equal = equality(PROPOSED * number, stream)
        drawn = proposals(PROPOSED * number, stream)
        common = drawn(self.counts[0] + self.counts[1])
        p, q = ((1 - equal) * drawn(counts) + equal * common for counts in self.counts)
        chosen = plausible(self.distance((self.p, self.q), (p, q)), 2 * (p.shape[1] - 1), number, stream)
        return p[chosen], q[chosen]

    def draws(self, p: Floats, q: Floats, number: int, seen: int | None, stream: Stream) -> Pairs:
        """Multinomial draws; in the factual world given that `seen` occurs."""
        here, there = (np.broadcast_to(each[:, None], (len(each), number, each.shape[1])) for each in (p, q))
        other = stream.multinomial(self.sizes[1], there)
        if seen is None:
            return stream.multinomial(self.sizes[0], here) / self.sizes[0], other / self.sizes[1]
        at_least_once = _positive_binomial(self.sizes[0], p[:, seen, None], number, stream)
        others = np.delete(here, seen, axis=2)
        whole = others.sum(axis=2, keepdims=True)  # nothing, where everybody in both samples had what was seen
        shares = np.where(whole > 0, others / np.where(whole > 0, whole, 1), 1 / others.shape[2])
        rest = stream.multinomial(self.sizes[0] - at_least_once, shares)
        return np.insert(rest, seen, at_least_once, axis=2) / self.sizes[0], other / self.sizes[1]

    def distance(self, estimates: Pairs, truths: Pairs) -> Any:
        """Twice the logarithm of the likelihood ratio."""
        here, there = (divergence(*each) for each in zip(estimates, truths, strict=True))
        return 2 * (self.sizes[0] * here + self.sizes[1] * there)

    def errors_of(self, here: Floats, there: Floats) -> Floats:
        """Those of independent people, with half a person more for each outcome."""
        total = np.zeros(len(here))
        for weights, counts, size in zip((here, there), self.counts, self.sizes, strict=True):
            smoothed = normalised(counts + 0.5)
            total += (weights**2 @ smoothed - (weights @ smoothed) ** 2) / size
        return np.sqrt(np.maximum(total, 0))

    def words(self) -> str:
        """How many people in each arm."""
        return f"{self.sizes[0]:,} people in {self._arms[0]} and {self.sizes[1]:,} in {self._arms[1]}"


def errors_when_drawn(sampling: AbstractSampling, here: Floats, there: Floats) -> Floats:
    """Standard errors of linear combinations, from draws under the estimates."""
    p, q = sampling.draws(sampling.p[None], sampling.q[None], _NUM_ERRORS, None, np.random.default_rng(0))
    return np.asarray((p[0] @ here.T + q[0] @ there.T).std(axis=0))


def as_counts(name: str, counts: Floats) -> Floats:
    """Numbers of people by outcome, at least one in all.

    Args:
        name: Name in error messages: an argument in backticks.
        counts: Numbers that were given.
    """
    if (counts != np.round(counts)).any() or (counts < 0).any():
        wrong = counts[(counts != np.round(counts)) | (counts < 0)][0]
        raise InputError(f"{name} must hold counts, whole numbers from 0 on, got {wrong:g}")
    if not 0 < counts.sum() < 2**53:
        raise InputError(f"{name} must count at least one person, got {counts.sum():g}")
    return counts


def spreads(number: int, stream: Stream) -> tuple[Floats, Floats]:
    """How far each proposed truth is moved, in standard errors, and what of a person is added to each of its counts."""
    return stream.uniform(*_SPREADS, (number, 1)), stream.uniform(0, _LARGEST_PRIOR, (number, 1))


def proposals(number: int, stream: Stream) -> Callable[[Floats], Floats]:
    """Draws truths about counts, Dirichlet ones: as narrow and as wide for all the counts that it is given."""
    spread, prior = spreads(number, stream)

    def drawn(counts: Floats) -> Floats:
        return normalised(np.maximum(stream.standard_gamma((counts + prior) / spread**2), 1e-290))

    return drawn


def plausible(distance: Floats, freedom: int, number: int, stream: Stream) -> NDArray[np.int64]:
    """Which of the proposed truths are kept: those that a test of all probabilities together does not reject.

    Args:
        distance: Twice the logarithm of the likelihood ratio of each.
        freedom: Number of free probabilities.
        number: Number of truths to keep, at most; as many are kept if `PROPOSED` times as many were proposed.
        stream: Source of randomness.
    """
    from scipy.special import chdtri  # a quarter of a second, which questions without counts do not take

    limit = max(chdtri(freedom, _IMPLAUSIBLE), np.quantile(distance, 1 / PROPOSED))
    return stream.permutation(np.flatnonzero(distance <= limit))[:number]


def equality(number: int, stream: Stream) -> Floats:
    """How far each proposed truth is on the way to equal worlds: half of them not at all, a third of them there."""
    return np.where(
        np.arange(number) < number // 3, 1, stream.uniform(size=number) * (np.arange(number) < number // 2)
    )[:, None]


def divergence(estimate: Floats, truth: Floats) -> Any:
    """Kullback and Leibler's, over the last axis."""
    some = estimate > 0
    with np.errstate(divide="ignore"):
        ratio = np.log(np.where(some, estimate, 1)) - np.log(np.where(some, truth, 1))
    return np.where(some, estimate * ratio, 0).sum(axis=-1)


def normalised(weights: Floats) -> Floats:
    """Weights that add up to one over the last axis."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _positive_binomial(size: int, probability: Floats, number: int, stream: Stream) -> NDArray[np.int64]:
    """Binomial numbers, given that they are positive: when the first success came, and how many came after it."""
    probability = np.clip(probability, 1e-12, 1 - 1e-12)
    log_failure = np.log1p(-probability)
    some = -np.expm1(size * log_failure)
    first = np.ceil(np.log1p(-some * stream.uniform(size=(len(probability), number))) / log_failure)
    return 1 + stream.binomial(size - np.clip(first, 1, size).astype(np.int64), probability)
