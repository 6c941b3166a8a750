"""Confidence intervals by inverting tests: right where answers have kinks and where truths lie on a boundary.

Counterfactual answers and bounds are maxima, minima and ratios of estimated probabilities. Where worlds are nearly
equal they have kinks, stable bounds even jump, and what resampling shows about the estimates is then not what it shows
about the truth. So truths are proposed, and each is tested: would data under it have given an answer as large as the
one that was found, and one as small? The interval spans the answers of those truths that pass. Each truth is tested on
its own, so the shape of the answer does not matter; what is taken on trust is that truths which were not proposed
answer like their neighbours. Where that fails, because many limits are equally good at once, see `reaching`.
"""

from collections.abc import Callable

import numpy as np

from countermax.intervals._interval import Interval, check_level, percentile_interval
from countermax.intervals._portable import Stream, stream_of
from countermax.intervals._sampling import AbstractSampling, Floats

Ask = Callable[[Floats, Floats], Floats]
"""Answers to all questions for many pairs of worlds: [pairs, outcomes] twice, then [pairs, questions]."""

NUM_CANDIDATES = 250
NUM_DRAWS = 200
MOST_CONFIDENCE = 0.99
_CAUTION = 0.8  # of the error that is allowed goes to the tests; the rest is for truths that are not proposed
_NEVER = 0.005  # p-value from which on equal worlds are excluded, whatever the test of a single answer says
_ROUNDING = 1e-9  # answers that differ by less are the same
_RINGS = (0.4, 0.7, 1.0, 1.3, 1.7, 2.2)  # misfits, in those of the end of an interval for a smooth answer


def inverted_intervals(
    sampling: AbstractSampling,
    ask: Ask,
    *,
    seen: int | None = None,
    level: float = 0.95,
    num_candidates: int = NUM_CANDIDATES,
    num_draws: int = NUM_DRAWS,
    num_searched: int = 0,
    seed: int = 0,
    draws: str = "numpy",
) -> Interval:
    """The interval of each answer; of each limit separately, where the answers are limits of bounds.

    Each side is meant to err with probability `(1 - level) / 2`; how often it does is measured (`docs/coverage.md`). So
    the lower side of a lower bound and the upper side of an upper bound together span the whole range of couplings.

    Args:
        sampling: The estimates and their errors.
        ask: The questions.
        seen: The outcome that the questions are about, if there is one; must occur in the factual sample.
        level: Confidence, at most 0.99: truths further away than that are not proposed.
        num_candidates: Number of truths proposed.
        num_draws: Number of times that data are drawn again under each truth, at levels up to 0.95; more above.
        num_searched: Number of further truths in a search for those that have the least and the largest answer for how
            badly they fit, which are then tested: where an interval ends, and what random proposals miss if answers are
            the least of several that must all be large.
        seed: Seed of the proposals and the draws.
        draws: Source of the random numbers: `numpy`, or `portable`, which other languages can draw again.
    """
    check_level(level, most=MOST_CONFIDENCE)
    num_draws = int(np.ceil(num_draws * max(1.0, 0.05 / (1 - level))))
    stream = stream_of(draws, seed)
    p, q = sampling.candidates(num_candidates, stream)
    pooled = _pooled(sampling)
    further_p, further_q = _extreme(sampling, ask, level, num_searched, stream) if num_searched else (p[:0], q[:0])
    p, q = np.concatenate([pooled, p, further_p]), np.concatenate([pooled, q, further_q])
    drawn_p, drawn_q = sampling.draws(p, q, num_draws, seen, stream)
    size = p.shape[1]
    answers = ask(
        np.concatenate([sampling.p[None], p, drawn_p.reshape(-1, size)]),
        np.concatenate([sampling.q[None], q, drawn_q.reshape(-1, size)]),
    )
    found, truths = answers[0], answers[1 : 1 + len(p)]
    again = answers[1 + len(p) :].reshape(len(p), num_draws, -1)
    # Where answers are equal, as they are on a boundary, estimates that fit the truth as badly count as extreme: those
    # of how often `seen` occurs, if the answers are about it.
    misfit = sampling.distance(_told((drawn_p, drawn_q), seen), _told((p[:, None], q[:, None]), seen))
    worse = misfit >= sampling.distance(_told((sampling.p, sampling.q), seen), _told((p, q), seen))[:, None] - _ROUNDING
    larger, smaller = again > found + _ROUNDING, again < found - _ROUNDING
    same = ~(larger | smaller) & worse[:, :, None]
    enough = _CAUTION * (1 - level) / 2 * (1 + num_draws) - 1
    as_large, as_small = ((each | same).sum(axis=1) > enough for each in (larger, smaller))
    chance = _chance_of_equality(sampling, drawn_p[0], drawn_q[0], pooled[0])
    if chance > 1 - level:
        as_large[0] = as_small[0] = True
    elif chance <= _NEVER:
        same_worlds = (np.abs(p - q) < _ROUNDING).all(axis=1)
        as_large[same_worlds] = as_small[same_worlds] = False
    lower = np.where(as_large, truths, np.inf).min(axis=0)
    upper = np.where(as_small, truths, -np.inf).max(axis=0)
    return Interval(np.minimum(lower, found), np.maximum(upper, found), level)


def resampled_intervals(
    sampling: AbstractSampling,
    ask: Ask,
    *,
    seen: int | None = None,
    level: float = 0.95,
    num_candidates: int = NUM_CANDIDATES,
    num_draws: int = NUM_DRAWS,
    num_searched: int = 0,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap, to compare with: too short where answers have kinks. Arguments as above.

    It resamples as often as the tests above draw candidates and draws together, but at most 1,000 times.
    """
    check_level(level)
    del num_searched
    number = min(num_candidates * num_draws, 1000)
    stream = np.random.default_rng(seed)
    p, q = sampling.draws(sampling.p[None], sampling.q[None], number, seen, stream)
    interval = percentile_interval(ask(p[0], q[0]), level)
    assert interval is not None
    return interval


def _extreme(sampling: AbstractSampling, ask: Ask, level: float, number: int, stream: Stream) -> tuple[Floats, Floats]:
    """Truths with the least and the largest answers of all that fit as well: on the way to where an interval ends."""
    from scipy.special import chdtri

    p, q = sampling.candidates(number, stream)
    answers, misfit = ask(p, q), sampling.distance((sampling.p, sampling.q), (p, q))
    chosen = []
    for part in _RINGS:
        (inside,) = np.nonzero(misfit <= part * chdtri(1, 1 - level))
        if inside.size:
            chosen += [inside[answers[inside].argmin(axis=0)], inside[answers[inside].argmax(axis=0)]]
    places = np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
    return p[places], q[places]


def _pooled(sampling: AbstractSampling) -> Floats:
    """One world for both: the truth at which answers have their kinks and reach their boundaries."""
    middle = sampling.p * sampling.weight + sampling.q * (1 - sampling.weight)
    return middle[None] / middle.sum()


def _told(pair: tuple[Floats, Floats], seen: int | None) -> tuple[Floats, Floats]:
    """All outcomes, or only whether one was seen."""
    if seen is None:
        return pair
    here, there = (np.stack([each[..., seen], np.maximum(1 - each[..., seen], 0)], axis=-1) for each in pair)
    return here, there


def _chance_of_equality(sampling: AbstractSampling, drawn_p: Floats, drawn_q: Floats, pooled: Floats) -> float:
    """The p-value of a test, of all probabilities together, that both worlds are the same."""
    possible = pooled > 0

    def distance(p: Floats, q: Floats) -> Floats:
        return ((p - q)[:, possible] ** 2 / pooled[possible]).sum(axis=1)

    further = distance(drawn_p, drawn_q) >= distance(sampling.p[None], sampling.q[None]) - _ROUNDING
    return float((1 + further.sum()) / (1 + len(further)))


def reaching(
    interval: Interval,
    sampling: AbstractSampling,
    lower: tuple[Floats, Floats],
    upper: tuple[Floats, Floats],
    *,
    fewest: int = 2,
) -> Interval:
    """The interval of a range, as far as the errors of all pieces of its limits reach.

    Where several linear pieces are equally small, the least of their estimates is biased downwards, and so are the
    truths that are proposed near the estimates: tests of them miss the upper limit of P(better) in 6 % of samples where
    two pieces meet, and in a third where eight do. The errors of the pieces themselves are those of plain means.

    Pieces are `here` and `there`, [pieces, outcomes]: the least `here @ p + there @ q` is the upper limit, or minus the
    lower one. A limit of which fewer than `fewest` pieces vary is left as it is.
    """
    least, largest = (_end_of_least(sampling, *each, interval.level, fewest) for each in (lower, upper))
    return Interval(min(float(interval.lower), -least), max(float(interval.upper), largest), interval.level)


def _end_of_least(sampling: AbstractSampling, here: Floats, there: Floats, level: float, fewest: int) -> float:
    """The largest value of the least piece that data do not exclude; -inf with few pieces.

    All pieces lie below their ends with confidence `(1 + level) / 2` (Bonferroni), so the least of them does. Those
    that are clearly not the least are left out first.
    """
    from scipy.special import chdtri

    varies = (np.ptp(here, axis=1) > 0) | (np.ptp(there, axis=1) > 0)
    if varies.sum() < fewest:
        return -np.inf
    values = here @ sampling.p + there @ sampling.q
    errors = np.where(varies, sampling.errors_of(here, there), 0.0)
    reach = np.sqrt(chdtri(1, (1 - level) / varies.sum()))
    near = values - reach * errors <= (values + reach * errors).min()
    reach = np.sqrt(chdtri(1, (1 - level) / max(1, (near & varies).sum())))
    return float((values + reach * errors)[near].min())
