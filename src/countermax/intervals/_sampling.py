"""How the estimates of two worlds would have come out, had the data been drawn again: by counts, or by a design.

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

        `seen` is an outcome that occurs in the factual world of every estimate, because the question is about it.
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
        """Takes the counts of both arms; outcomes in one order."""
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
    """Numbers of people by outcome, at least one in all."""
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
    """Which of the proposed truths are kept: those that a test of all probabilities together does not reject."""
    from scipy.special import chdtri  # a quarter of a second, which questions without counts do not take

    limit = max(chdtri(freedom, _IMPLAUSIBLE), np.quantile(distance, 1 / PROPOSED))
    return stream.permutation(np.flatnonzero(distance <= limit))[:number]


def equality(number: int, stream: Stream) -> Floats:
    """How far each proposed truth is on the way to equal worlds: half of them not at all, a third of them there."""
    place = np.arange(number)
    return np.where(place < number // 3, 1, stream.uniform(size=number) * (place < number // 2))[:, None]


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


_TIES = 0  # seed of the order of resamples that are equal
_FEW = 9.0  # variance of a count below which its law is added up, not approximated
_UNSEEN = 2  # times as much of a person is added where nobody was: an interval reaches to three people and more
_LEAST = 1e-290


@final
class ResampledSampling(AbstractSampling):
    """Estimates with weights, clusters or strata, whose errors are known from estimates of resampled data.

    Each outcome has an effective number of people: independent ones of equal weight, whose count would vary as much as
    the resampled estimate does. Under every truth that count is binomial, so that an outcome which a truth makes rare
    may be found in nobody, and one that nobody had is possible. Which outcomes err together, in either arm, is as in
    the resamples.

    A variance from few people is itself uncertain, and from nobody it is zero. So one more person is taken to have had
    each outcome, an average one of the arm: all its outcomes together say how much a person counts there, with one
    more cluster in the same way.
    """

    def __init__(
        self,
        p: Floats,
        q: Floats,
        resampled_p: Floats,
        resampled_q: Floats,
        sample: str,
        *,
        people: tuple[float, float],
        units: tuple[float, float],
    ):
        """Takes the estimates, and estimates from data that were resampled as they had been sampled.

        Resamples are [resamples, outcomes], of both worlds from the same data. `people` is how many in each arm would
        count as much, if all weighed the same: no outcome that nobody had is taken to be known better than from so
        many. `units` is the same for what was drawn: people, or clusters of them.
        """
        if len(resampled_p) < 2 or resampled_p.shape != resampled_q.shape:
            raise InputError(f"at least 2 resamples of both worlds are needed, got {len(resampled_p)}")
        self.p, self.q, self._sample = p, q, sample
        ties = np.random.default_rng(_TIES)
        self._scores = [_ranked(again, ties) for again in (resampled_p, resampled_q)]
        effective = map(_effective, (p, q), (resampled_p, resampled_q), people, units)
        self._sizes, self._counted = zip(*effective, strict=True)
        self.weight = self._sizes[0] / sum(self._sizes)

    def candidates(self, number: int, stream: Stream) -> Pairs:
        """Beta quantiles about the effective counts, narrow ones and wide ones, as far out as a resample is."""
        from scipy.special import betaincinv

        equal = equality(number, stream)
        spread, prior = spreads(number, stream)
        which = stream.integers(len(self._scores[0]), size=number)
        moved = []
        for estimate, counted, scores in zip((self.p, self.q), self._counted, self._scores, strict=True):
            place = _places(scores[which], stream)
            more = np.where(estimate > 0, 1, _UNSEEN) * prior
            had, others = (counted * estimate + more) / spread**2, (counted * (1 - estimate) + more) / spread**2
            moved.append(normalised(np.maximum(betaincinv(had, others, place), _LEAST)))
        common = self.weight * moved[0] + (1 - self.weight) * moved[1]
        p, q = ((1 - equal) * each + equal * common for each in moved)
        return p, q

    def draws(self, p: Floats, q: Floats, number: int, seen: int | None, stream: Stream) -> Pairs:
        """Binomial quantiles of each outcome, as far out as a resample is."""
        which = stream.integers(len(self._scores[0]), size=(len(p), number))
        arms = zip((p, q), (self.p, self.q), self._counted, self._scores, (seen, None), strict=True)
        here, there = (
            _filled(_quantiles(counted, estimate, truth, _places(scores[which], stream), asked), estimate)
            for truth, estimate, counted, scores, asked in arms
        )
        return here, there

    def distance(self, estimates: Pairs, truths: Pairs) -> Any:
        """The same as for independent people in samples with as large errors."""
        here, there = (divergence(*each) for each in zip(estimates, truths, strict=True))
        return 2 * (self._sizes[0] * here + self._sizes[1] * there)

    def errors_of(self, here: Floats, there: Floats) -> Floats:
        """Those of estimates that are drawn again."""
        return errors_when_drawn(self, here, there)

    def words(self) -> str:
        """As its maker described it."""
        return self._sample


def _effective(estimate: Floats, resampled: Floats, people: float, units: float) -> tuple[float, NDArray[np.float64]]:
    """The effective number of people of an arm, and that of each outcome."""
    variance, spread = resampled.var(axis=0), estimate * (1 - estimate)
    person = max(_share(float(variance.sum()), float(spread.sum()), 1 / units), 1 / people)
    return 1 / person, np.maximum(1 / _share(variance, spread, person), 1)


def _share(variance: Any, spread: Any, one: float) -> Any:
    """What one of several independent people makes of an estimate with such a variance, with one more of them."""
    return (variance + one**2) / (spread + one)


def _ranked(resampled: Floats, ties: np.random.Generator) -> Floats:
    """How far out each resample is, from 0 to 1, by outcome; NaN where all resamples are the same."""
    number = len(resampled)
    order = np.lexsort((ties.random(resampled.shape), resampled), axis=0)
    place = np.empty(resampled.shape)
    np.put_along_axis(place, order, np.broadcast_to(((np.arange(number) + 0.5) / number)[:, None], place.shape), axis=0)
    return np.where(np.ptp(resampled, axis=0) > 0, place, np.nan)


def _places(known: Floats, stream: Stream) -> Floats:
    """The same, anywhere where resamples do not say."""
    unknown = np.isnan(known)
    if unknown.any():
        known[unknown] = stream.uniform(size=int(unknown.sum()))
    return known


def _quantiles(number: Floats, estimate: Floats, truth: Floats, place: Floats, asked: int | None) -> Floats:
    """Estimates under truths, [truths, draws, outcomes]: quantiles of binomial laws, at places from 0 to 1.

    Effective counts need not be whole. Between whole numbers the law is that of the incomplete beta function. Counts
    are those that whole steps lead to from the one that was found, so that a sample may give just that again. For a
    single probability the interval is then that of Korn and Graubard (1998). Somebody had the outcome `asked` about in
    each sample.
    """
    from scipy.special import betainc, ndtri

    chance, found = np.minimum(truth, 1.0)[:, None], number * estimate
    part = found - np.ceil(found) + 1  # what is added to whole numbers, above 0 and up to 1
    nobody = betainc(number - part + 1, part, 1 - chance)
    if asked is not None:
        place[..., asked] = nobody[..., asked] + (1 - nobody[..., asked]) * place[..., asked]
    spread, score = np.sqrt(number * chance * (1 - chance)), ndtri(place)
    expansion = number * chance + spread * score + (1 - 2 * chance) * (score**2 - 1) / 6  # Cornish and Fisher's
    counts = found + np.floor(expansion - found + 0.5)
    few = np.broadcast_to((spread**2 < _FEW) & (chance <= 0.5), place.shape)
    sizes, parts, chances, first = (np.broadcast_to(each, place.shape)[few] for each in (number, part, chance, nobody))
    counts[few] = _searched(sizes, parts, chances, first, place[few])
    if asked is not None:
        counts[..., asked] = np.maximum(counts[..., asked], part[asked])
    return np.clip(counts, 0, number) / number


def _searched(number: Floats, part: Floats, chance: Floats, nobody: Floats, place: Floats) -> Floats:
    """The least count up to which a law has as much as `place`, where it is added up; chances are up to a half."""
    from scipy.special import betaln

    found = np.zeros(len(place))
    waiting, left, count = np.arange(len(place)), place - nobody, part
    with np.errstate(divide="ignore"):
        law = -betaln(part + 1, number - part + 1) - np.log(number + 1) + (number - part) * np.log1p(-chance)
        law, odds = np.exp(law + part * np.log(chance)), chance / (1 - chance)
    while True:
        going = (left > 0) & (count <= number)
        waiting = waiting[going]
        number, law, odds, left, count = (each[going] for each in (number, law, odds, left, count))
        if not waiting.size:
            return found
        found[waiting] = count
        left = left - law
        law = law * (number - count) / (count + 1) * odds
        count = count + 1


def _filled(drawn: Floats, estimate: Floats) -> Floats:
    """Probabilities that add up to one: what few had is kept as drawn, the most frequent outcomes fill the rest."""
    order = np.argsort(estimate, kind="stable")
    rare = np.zeros(len(estimate), bool)
    rare[order] = estimate[order].cumsum() < 0.5
    kept, filling = (drawn[..., some].sum(axis=-1, keepdims=True) for some in (rare, ~rare))
    fits = (kept < 1) & (filling > 0)
    scale = np.where(fits, (1 - kept) / np.where(fits, filling, 1), 1)
    result = np.where(rare, drawn, scale * drawn)
    total = result.sum(axis=-1, keepdims=True)
    return np.where(fits, result, np.where(total > 0, result / np.where(total > 0, total, 1), estimate))
