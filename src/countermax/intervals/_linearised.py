"""Confidence intervals of functions of estimated laws, kinks and jumps included: no draws, no seed.

Answers and bounds are made of pieces, each of them a ratio of two nearly linear functions of the laws: which piece
holds depends on which outcomes are likelier than others. So the function is linearised at the estimate and at fixed
points around it, which finds the pieces that the data leave possible, and every linear form gets the limits of a score
test (Mee's and Miettinen and Nurminen's for a difference of proportions, Koopman's for a ratio), and a single
proportion those of the exact one (Clopper and Pearson's).

- The truth lies in some piece, whose own limits hold it: so the union over pieces holds (intersection-union test).
- The least of several pieces, or the largest, is better known: on its outer side all pieces must hold at once, and the
  joint correction is Hunter and Worsley's, which knows how pieces are correlated.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax.intervals._interval import check_level
from countermax.intervals._sampling import Floats, Sampling

CONVEX, CONCAVE, MIXED = 1, -1, 0

_POINTS = 64  # around the estimate
_FAR_POINTS, _FARTHER = 32, 3.0  # for pieces that must hold at once: more of them, and how much farther away
_MANY = 7  # outcomes, from which on points lie around no effect too
_MOST_LAWS = 2**14  # at which the questions are asked; fewer points where there are many cells
_STEP = 1e-6  # of numerical derivatives, along the simplex
_ROUNDING = 1e-8  # more than the rounding errors of numerical derivatives
_NOISE = 1e-6  # coefficients that differ by less are the same
_ALIKE = 1e-4  # values that differ by less of their range are the same
_WORST = 8  # pieces whose limits are computed exactly, of those that reach farthest
_BISECTIONS = 40
_MOST_DOUBLINGS = 900  # of numbers of pieces, so that none overflows
_MOST_STEPS, _PRECISION = 60, 1e-10  # of a search for zeros


class Answers(NamedTuple):
    """What is known about each question beforehand; arrays run over questions."""

    shape: NDArray[np.int64]
    """Whether the answer, times its denominator, is CONVEX (the largest of linear pieces), CONCAVE, or MIXED."""
    whom: NDArray[np.int64]
    """Which of the denominators says how many are asked about."""
    least: Floats
    """Least possible answer."""
    largest: Floats


Ask = Callable[[Floats], tuple[Floats, Answers]]
"""Answers for many laws, [laws, cells], then [laws, questions], NaN where there is none; and what is known of them."""


class _Forms(NamedTuple):
    """Ratios of linear functions, and how far each side of them reaches; arrays run over forms."""

    question: NDArray[np.int64]
    above: Floats
    below: Floats
    value: Floats
    errors: Floats
    """How many standard errors it reaches."""
    exact: NDArray[np.bool_]
    """Whether it is a single sample's proportion, with limits of its own."""


def limits_of(
    sampling: Sampling,
    ask: Ask,
    denominators: Floats,
    level: float,
    work: float = 1.0,
    columns: NDArray[np.int64] | None = None,
) -> tuple[Floats, Floats]:
    """Lower and upper confidence limits of every answer, each of which errs with probability `(1 - level) / 2`.

    Args:
        sampling: The estimated laws.
        ask: The questions.
        denominators: [denominators, cells]: how many are asked about, as weights of the laws; for everybody, 1 over
            the number of samples.
        level: Confidence.
        work: Cost of an answer: fewer points are looked at where it is more than 1.
        columns: Place of each cell in an order that depends on nothing but the data (`ranked_columns`).
    """
    from scipy.special import stdtrit

    check_level(level)
    tail = (1 - level) / 2
    reach = float(-stdtrit(sampling.freedom, tail))
    cells = len(sampling.laws)
    few = _MOST_LAWS / work / (cells + 1) - 1
    number, spread = int(np.clip(few, 0, _POINTS)), max(1.0, reach / 1.96)
    columns = np.arange(cells) if columns is None else columns
    far = _around(sampling, [sampling.smooth], int(np.clip(few - number, 0, _FAR_POINTS)), _FARTHER * spread, columns)
    near = _around(sampling, _centres(sampling, reach), number, spread, columns)
    points = np.concatenate([sampling.smooth[None], near, far])
    moved, spreads = _moved(sampling, points), _spreads(sampling, denominators)
    answers, questions = ask(
        np.concatenate([sampling.laws[None], moved.reshape(-1, cells), spreads.reshape(-1, cells)])
    )
    found, answers, about = np.split(answers, [1, 1 + moved.shape[0] * moved.shape[1]])
    found, answers = found[0], answers.reshape(len(points), cells + 1, -1)
    direct = _is_direct(sampling, questions, denominators, answers[0, -1], about.reshape(len(spreads), 2, -1), spreads)
    asked = np.where(direct[:, None], 1 / len(sampling.cells), denominators[questions.whom])
    forms, values = _tangents(sampling, answers * (moved @ asked.T), points), answers[:, -1]
    lower, upper = np.array(questions.least, np.float64), np.array(questions.largest, np.float64)
    scales = np.where(questions.largest > questions.least, questions.largest - questions.least, 1.0)
    twins = _twins(questions, values, scales)
    parts: list[_Forms] = []
    joint = np.zeros((2, len(found)), bool)
    for place in np.flatnonzero(twins == np.arange(len(found))).tolist():
        known = np.isfinite(forms[:, :, place]).all(axis=1)
        if not known.any():
            continue
        close = known & (np.arange(len(points)) <= number)
        for side in (0, 1):
            joint[side, place] = together = bool(questions.shape[place] == (CONVEX, CONCAVE)[side])
            found_at = _distinct(forms[known if together else close, :, place], float(scales[place]))
            parts.append(_farthest(sampling, int(questions.shape[place]), *found_at, asked[place], side, tail, place))
    for side, limits in enumerate((lower, upper)):
        chosen = [each for each in parts[side::2] if len(each.value)]
        if not chosen:
            continue
        all_forms = _Forms(*map(np.concatenate, zip(*chosen, strict=True)))
        ends = np.array(questions.least if side == 0 else questions.largest)[all_forms.question]
        reached = _form_limits(sampling, all_forms, ends, side)
        for place in np.unique(all_forms.question):
            own = reached[all_forms.question == place]
            inner = side == 0 if joint[side, place] else side == 1
            limits[place] = own.max() if inner else own.min()
    lower, upper = lower[twins], upper[twins]
    known = np.isfinite(found)
    lower, upper = np.where(known, np.fmin(lower, found), lower), np.where(known, np.fmax(upper, found), upper)
    tiny = 1e-9 * scales  # rounding excludes nothing
    lower = np.where(lower <= questions.least + tiny, questions.least, lower)
    upper = np.where(upper >= questions.largest - tiny, questions.largest, upper)
    return np.clip(lower, questions.least, questions.largest), np.clip(upper, questions.least, questions.largest)


def _around(
    sampling: Sampling, centres: Sequence[Floats], number: int, spread: float, columns: NDArray[np.int64]
) -> Floats:
    """Laws around centres in turn, as far from them as estimates are from truths: fixed normal numbers, on logs."""
    laws = np.stack(centres)[np.arange(number) % len(centres)]
    normal = evenly_spread(number, len(columns))[:, columns]
    moves = normal * spread / np.sqrt(sampling.sizes[sampling.sample_of] * laws)
    return np.concatenate(
        [each / each.sum(axis=1, keepdims=True) for each in sampling.split(laws * np.exp(moves))], axis=1
    )


def _centres(sampling: Sampling, reach: float) -> list[Floats]:
    """The estimate; and with many outcomes the laws without an effect too, unless Pearson's test clearly rejects them.

    No effect is a kink of most answers. The more outcomes, the farther from it the estimate is, and always in a
    direction that looks like an effect, so that points around the estimate do not show its other pieces.
    """
    laws = sampling.split(sampling.smooth)
    if len(laws) != 2 or len(laws[0]) != len(laws[1]) or len(laws[0]) < _MANY:
        return [sampling.smooth]
    pooled = np.average(laws, axis=0, weights=sampling.sizes)
    freedom, apart = len(pooled) - 1, float(((laws[0] - laws[1]) ** 2 / pooled).sum() / (1 / sampling.sizes).sum())
    bend = 2 / (9 * freedom)
    if np.cbrt(apart / freedom) > 1 - bend + max(_FARTHER, reach) * np.sqrt(bend):  # Wilson and Hilferty's quantile
        return [sampling.smooth]
    return [sampling.smooth, np.tile(pooled, 2)]


def ranked_columns(
    laws: Floats, cells: Sequence[int], size: int, features: Sequence[Floats], sizes: Floats | None = None
) -> NDArray[np.int64]:
    """[cells]: the place of each cell if outcomes were listed by how frequent they are, then by their features.

    Points that go by these places move with outcomes and samples, so that no limit depends on how outcomes are listed,
    on which of two samples comes first, or on which end of a score is the best.

    Args:
        laws: Probabilities of each sample.
        cells: Number of cells of each sample: some times `size`, and what is not an outcome.
        size: Number of outcomes.
        features: Numbers that tell outcomes apart, [outcomes]; of fewer, the last outcomes come last.
        sizes: Size of each sample; without, samples keep their order.
    """
    starts = np.cumsum([0, *cells[:-1]])
    places = [
        at for start, end in zip(starts, starts + cells, strict=True) for at in range(start, end - size + 1, size)
    ]
    known = [np.round(laws[at : at + size], 12) for at in places]
    own = places
    if sizes is not None and tuple(cells) == (size, size):
        first, second = ((round(float(each), 6), sorted(law)) for each, law in zip(sizes, known, strict=True))
        if second < first:
            known, own = known[::-1], places[::-1]
    frequency = np.round(np.sum(known, axis=0), 12)
    keys = [frequency, *known]
    for each in features:
        turned = each - (each.min() + each.max()) / 2
        turned = turned if round(float(turned @ frequency[: len(each)]), 9) >= 0 else -turned
        keys.append(np.append(turned, np.full(size - len(each), np.inf)))
    ranks = np.argsort(np.lexsort(keys[::-1]))
    found = np.arange(sum(cells))
    for place, at in zip(places, own, strict=True):
        found[at : at + size] = place + ranks
    return found


def evenly_spread(number: int, size: int) -> Floats:
    """[points, numbers]: fixed normal numbers, spread as evenly as multiples of irrational ones (Kronecker's)."""
    from scipy.special import ndtri

    places = np.arange(1, number + 1)[:, None] * np.sqrt(_primes(size)) % 1
    return np.asarray(ndtri(np.clip(places, 1e-6, 1 - 1e-6)))


@lru_cache(maxsize=8)
def _primes(number: int) -> Floats:
    """The first prime numbers."""
    most = 20 + 2 * int(number * np.log(number + 2))
    sieve = np.ones(most, bool)
    sieve[:2] = False
    for each in range(2, int(most**0.5) + 1):
        sieve[each * each :: each] = False
    return np.flatnonzero(sieve)[:number].astype(np.float64)


def _moved(sampling: Sampling, points: Floats) -> Floats:
    """[points, cells + 1, cells]: each point, moved a little towards one cell after the other, and not moved."""
    cells = points.shape[1]
    same = sampling.sample_of[:, None] == sampling.sample_of[None, :]
    scale = np.concatenate([1 - _STEP * same, np.ones((1, cells))])
    shift = np.concatenate([_STEP * np.eye(cells), np.zeros((1, cells))])
    return np.asarray(points[:, None] * scale + shift)


def _tangents(sampling: Sampling, values: Floats, points: Floats) -> Floats:
    """[points, cells, questions]: coefficients of the linear function that touches the answers at each point.

    A constant can be in any sample: it is in the first, and the least coefficients of the others are zero, so that one
    function has the same coefficients wherever it is found.
    """
    base, gradient = values[:, -1], (values[:, :-1] - values[:, -1:]) / _STEP
    rest = base - np.einsum("pcq,pc->pq", gradient, points)
    first, *others = np.split(gradient, np.cumsum(sampling.cells)[:-1], axis=1)
    least = [each.min(axis=1, keepdims=True) for each in others]
    moved = [each - low for each, low in zip(others, least, strict=True)]
    return np.concatenate([first + rest[:, None] + sum(least), *moved], axis=1)


def _spreads(sampling: Sampling, denominators: Floats) -> Floats:
    """[denominators, 2, cells]: laws in which fewer and more are asked about, by a standard error."""
    moves = denominators @ sampling.covariance
    size = np.sqrt(np.maximum((moves * denominators).sum(axis=1, keepdims=True), 1e-300))
    moves = moves / size
    room = (sampling.smooth / np.maximum(np.abs(moves), 1e-300)).min(axis=1, keepdims=True)
    return np.asarray(sampling.smooth + np.array([-1, 1])[:, None] * (np.minimum(0.5 * room, 1.0) * moves)[:, None])


def _is_direct(
    sampling: Sampling, questions: Answers, denominators: Floats, middle: Floats, about: Floats, spreads: Floats
) -> NDArray[np.bool_]:
    """Which answers are linearised themselves: those nearer to linear than their products with a denominator."""
    ends = about[questions.whom, :, np.arange(len(questions.whom))]  # [questions, 2]
    weights = (spreads @ denominators.T).diagonal(axis1=0, axis2=2).T[questions.whom]
    whole = (denominators @ sampling.smooth)[questions.whom]
    own = np.abs(ends.sum(axis=1) - 2 * middle)
    multiplied = np.abs((ends * weights).sum(axis=1) - 2 * middle * whole) / whole
    return np.asarray((questions.shape == MIXED) & ~(own > multiplied + 1e-10))


def _twins(questions: Answers, values: Floats, scales: Floats) -> NDArray[np.int64]:
    """For each question the first one that is the same number: limits of ranges first, since their shape is known."""
    order = np.argsort(questions.shape == MIXED, kind="stable")
    rounded = np.round(values / scales, 9) + 0.0
    first: dict[bytes, int] = {}
    twins = np.arange(len(order))
    for place in order:
        key = rounded[:, place].tobytes() + scales[place].tobytes() + questions.whom[place].tobytes()
        twins[place] = first.setdefault(key, int(place))
    return twins


def _distinct(pieces: Floats, scale: float) -> tuple[Floats, NDArray[np.int64]]:
    """[pieces, cells] without the rounding errors of what is zero, each once; and how often each is there."""
    pieces = np.where(np.abs(pieces) < _ROUNDING * scale, 0.0, pieces)
    rounded = np.round(pieces / scale, 5) + 0.0
    _, first, often = np.unique(rounded, axis=0, return_index=True, return_counts=True)
    return pieces[first], often


def _farthest(
    sampling: Sampling,
    shape: int,
    pieces: Floats,
    often: NDArray[np.int64],
    asked: Floats,
    side: int,
    tail: float,
    place: int,
) -> _Forms:
    """The forms that decide a limit: pieces whose own limits (Wald) are farthest out, or innermost if all must hold."""
    from scipy.special import ndtr, ndtri, stdtrit

    sign, joint = (-1, 1)[side], shape == (CONVEX, CONCAVE)[side]
    whole = float(asked @ sampling.laws)
    if not whole > 0:
        return _Forms(np.zeros(0, np.int64), pieces[:0], pieces[:0], np.zeros(0), np.zeros(0), np.zeros(0, bool))
    values = pieces @ sampling.laws / whole
    slopes = (pieces - values[:, None] * asked) / whole
    spread = slopes @ sampling.covariance
    errors = np.sqrt(np.maximum((spread * slopes).sum(axis=1), 0))
    few = max(float(sampling.sizes.min()) - 1, 1.0)
    reach, small = (float(-stdtrit(min(sampling.freedom, each), tail)) for each in (np.inf, few))
    exact = _are_proportions(sampling, pieces, asked)
    reaches = np.where(exact | (shape != MIXED), reach, small)
    chosen = np.arange(len(values))
    if joint:
        varies = errors > _NOISE * max(float(np.abs(slopes).max()), 1e-300)
        wide = max(reach, float(-ndtri(tail / max(int(varies.sum()), 1))))  # Bonferroni's
        inner = sign * values + wide * errors
        near = sign * values - wide * errors <= inner.min()
        chosen = np.flatnonzero(near)
        some = np.flatnonzero(near & varies)
        correlation = (spread[some] @ slopes[some].T) / np.outer(errors[some], errors[some])
        if len(some) > 1:  # farther out a proportion's tail is longer than the normal one, in small samples
            common = joint_reach(correlation, tail * len(some) / _number_of_pieces(correlation, often[some]))
            longer = float(-stdtrit(few, float(ndtr(-common))))
            reaches[some] = np.maximum(reach, np.where(exact[some], common, longer))
        reaches[~varies] = 0.0
    farthest = np.argsort((sign * values + reaches * errors)[chosen] * (1 if joint else -1), kind="stable")
    chosen = chosen[farthest[: 2 * _WORST if joint else _WORST]]
    below = np.tile(asked, (len(chosen), 1))
    question = np.full(len(chosen), place)
    return _Forms(question, pieces[chosen], below, values[chosen], reaches[chosen], exact[chosen])


def _are_proportions(sampling: Sampling, pieces: Floats, asked: Floats) -> NDArray[np.bool_]:
    """Which forms have two values in one sample, and one in the others, and are about everybody."""
    parts = sampling.split(pieces)
    steps = np.stack([np.ptp(each, axis=1) for each in parts])
    between = [
        np.minimum(each - each.min(axis=1)[:, None], each.max(axis=1)[:, None] - each).max(axis=1) for each in parts
    ]
    alone = (steps > _NOISE * np.abs(pieces).max(axis=1)).sum(axis=0) == 1
    return np.asarray(alone & (np.max(between, axis=0) <= _ALIKE * steps.max(axis=0)) & (np.ptp(asked) == 0))


def _number_of_pieces(correlation: Floats, often: NDArray[np.int64]) -> float:
    """How many pieces there are, found or not: Chao's (1984) estimate, from how often each was found.

    Where that says that most were not found, there is one for each set of outcomes, as in a sum of minima.
    """
    from scipy.linalg.lapack import dpstrf

    once, twice = (float((often == times).sum()) for times in (1, 2))
    found = len(often)
    unseen = once * (once - 1) / (2 * (twice + 1))
    if unseen <= found:
        return found + unseen
    rank = int(dpstrf(correlation, tol=_ALIKE)[2])  # of Cholesky's factor, with pivots
    return max(found + unseen, 2.0 ** min(rank + 1, _MOST_DOUBLINGS))


def joint_reach(correlation: Floats, tail: float) -> float:
    """How many standard errors all of several normal numbers stay below, but with probability `tail`.

    Hunter and Worsley's bound: the sum over the numbers, less what pairs along a tree have in common. The tree of the
    largest correlations makes it least.
    """
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.special import ndtr, ndtri, owens_t

    number = len(correlation)
    if number < 2:
        return float(-ndtri(tail)) if number else 0.0
    edges = minimum_spanning_tree(2 - correlation).nonzero()
    rho = np.clip(correlation[edges], -1 + 1e-9, 1 - 1e-12)
    angle = np.sqrt((1 - rho) / (1 + rho))
    low, high = float(-ndtri(tail)), float(-ndtri(tail / number))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        alone = ndtr(-middle)
        together = (alone - 2 * owens_t(middle, angle)).sum()
        low, high = (middle, high) if number * alone - together > tail else (low, middle)
    return high


def _form_limits(sampling: Sampling, forms: _Forms, ends: Floats, side: int) -> Floats:
    """How far each form reaches: the last value that its test does not reject, at most the end of the scale."""
    sign = (-1, 1)[side]
    test = _ScoreTest(sampling, forms)
    far = sign * np.maximum(sign * forms.value, sign * ends)
    searched = (test.excess(far) > 0) & (forms.errors > 0) & ~forms.exact
    known = np.where(forms.errors > 0, far, forms.value)
    if forms.exact.any():
        known = np.where(forms.exact, sign * np.minimum(sign * far, sign * _exact_limits(sampling, forms, side)), known)
    return np.where(searched, _crossing(test.excess, forms.value, np.where(searched, far, forms.value)), known)


def _exact_limits(sampling: Sampling, forms: _Forms, side: int) -> Floats:
    """Clopper and Pearson's limits of proportions; with effective sizes, in designs, those of Korn and Graubard."""
    from scipy.special import betaincinv, ndtr

    sign, limits = (-1, 1)[side], forms.value.copy()
    tiny = _NOISE * np.abs(forms.above).max(axis=1)
    parts = (sampling.split(forms.above), sampling.split(), sampling.split(sampling.smooth), sampling.covariances)
    for above, law, smooth, covariance in zip(*parts, strict=True):
        least, step = above.min(axis=1), np.ptp(above, axis=1)
        step = np.where(step > tiny, step, 0.0)
        unit = np.where(step > 0, step, 1.0)
        share, near = (np.clip((above @ each - least) / unit, 0, 1) for each in (law, smooth))
        variance = np.maximum(((above @ covariance) * above).sum(axis=1), 1e-300)
        size = np.where(step > 0, near * (1 - near) * step**2 / variance, 1.0)
        share = share if side == 0 else 1 - share  # an upper limit is a lower one of those who do not have it
        had = np.clip(size * share, 1e-300, size)
        limits += sign * step * (share - betaincinv(had, size - had + 1, ndtr(-forms.errors)))
    return limits


def _crossing(function: Callable[[Floats], Floats], inside: Floats, outside: Floats) -> Floats:
    """Where each of many functions changes its sign between two numbers, by Chandrupatla's method."""
    a, b = outside, inside
    at_a, at_b = function(a), function(b)
    share, precise = np.full(len(a), 0.5), _PRECISION * np.maximum(np.abs(outside - inside), 1e-300)
    for _ in range(_MOST_STEPS):
        x = a + share * (b - a)
        at_x = function(x)
        same = (at_x > 0) == (at_a > 0)
        c, at_c = np.where(same, a, b), np.where(same, at_a, at_b)
        b, at_b = np.where(same, b, a), np.where(same, at_b, at_a)
        a, at_a = x, at_x
        width = np.abs(b - a)
        if (width <= 2 * precise).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, slope = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
            quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            quadratic += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            smooth = (slope**2 < ratio) & ((1 - slope) ** 2 < 1 - ratio)
            least = np.minimum(precise / width, 0.5)
        share = np.clip(np.where(smooth & np.isfinite(quadratic), quadratic, 0.5), least, 1 - least)
    return np.where(at_a > 0, b, a)


class _ScoreTest:
    """The score test that a ratio of linear functions has a value, for many of them.

    Within a sample, a linear function with two values is a proportion. With more values it is taken for one, between
    its least and largest value, with as many people as give it its variance.
    """

    def __init__(self, sampling: Sampling, forms: _Forms):
        self._forms, self._laws, self._smooth = forms, sampling.split(), sampling.split(sampling.smooth)
        self._above, self._below = sampling.split(forms.above), sampling.split(forms.below)
        self._variances = [_squares(*each) for each in zip(self._above, self._below, sampling.covariances, strict=True)]
        self._whole = _squares(forms.above, forms.below, sampling.covariance)
        total = float(sampling.sizes.sum())
        self._factor = total / max(total - 1, 1.0)  # Miettinen and Nurminen's
        self._sizes = sampling.sizes

    def excess(self, values: Floats) -> Floats:
        """By how much each form is too far from the value: not above zero where the test accepts it."""
        columns = values[:, None]
        tiny = _NOISE * np.abs(self._forms.above - columns * self._forms.below).max(axis=1)
        start, steps, shares, sizes, variances = [], [], [], [], []
        parts = zip(self._above, self._below, self._laws, self._smooth, self._variances, self._sizes, strict=True)
        for above, below, law, smooth, (first, mixed, last), size in parts:
            form = above - columns * below
            least, step = form.min(axis=1), np.ptp(form, axis=1)
            varies = step > tiny
            unit = np.where(varies, step, 1.0)
            variance = np.maximum(first - 2 * values * mixed + values**2 * last, 0)
            share = np.clip((form @ smooth - least) / unit, 0, 1)
            number = np.where(
                varies & (variance > 0), share * (1 - share) * unit**2 / np.where(variance > 0, variance, 1), size
            )
            start.append(np.where(varies, least, form @ law))
            steps.append(np.where(varies, step, 0.0))
            shares.append(np.clip((form @ law - least) / unit, 0, 1))
            sizes.append(np.maximum(number, 1e-9))
            variances.append(np.where(varies, variance, 0.0))
        first, mixed, last = self._whole
        apart, together = np.sum(variances, axis=0), first - 2 * values * mixed + values**2 * last
        with np.errstate(divide="ignore", invalid="ignore"):  # people of one cluster in two samples err together
            common = np.where(apart > 0, np.clip(together / apart, 1e-6, None), 1.0)
        numbers = np.stack(sizes) / common
        base, step, share = np.sum(start, axis=0), np.stack(steps), np.stack(shares)
        found = base + (step * share).sum(axis=0)
        possible = (base <= tiny) & (base + step.sum(axis=0) >= -tiny)
        fitted = _fitted(base, step, share, numbers)
        variance = (step**2 * fitted * (1 - fitted) / numbers).sum(axis=0) * self._factor
        excess = np.abs(found) - np.where(possible, self._forms.errors * np.sqrt(variance), 0)
        return np.where(np.abs(found) <= tiny, -tiny, excess)


def _squares(above: Floats, below: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
    """Variance of the upper function, covariance of both, variance of the lower one."""
    first, second = above @ covariance, below @ covariance
    return (first * above).sum(axis=1), (first * below).sum(axis=1), (second * below).sum(axis=1)


def _fitted(base: Floats, step: Floats, share: Floats, number: Floats) -> Floats:
    """The likeliest proportions of which `base + step @ proportions` is zero, [samples, forms].

    Proportions x with `number (share - x) = multiplier step x (1 - x)`: Newton's method finds the multiplier, and
    halves the range that is left where it would leave it.
    """
    whole, unit = base + step.sum(axis=0), step / number
    widest = unit.max(axis=0)
    size = 1 / np.where(widest > 0, widest, 1.0)
    low, high = np.full(len(base), -1.0), np.ones(len(base))
    falls = base + (step * share).sum(axis=0) > 0
    own = np.where(falls, share, 1 - share)
    left = np.clip(np.where(falls, -base, whole) / np.maximum((step * own).sum(axis=0), 1e-300), 1e-15, 1)
    start = (1 - left) / left / np.maximum((1 - left * own) * unit, 1e-200).max(axis=0)  # all change by one factor
    multiplier = np.where(widest > 0, np.where(falls, start, -start), 0.0)
    enough = np.where((base > 0) | (whole < 0), np.inf, 1e-12 * (np.abs(base) + np.abs(whole)))
    before = np.full(len(base), np.inf)
    for _ in range(_MOST_STEPS):
        by = multiplier * unit
        own = np.where(by >= 0, share, 1 - share)  # the side on which nothing cancels
        root = np.sqrt(np.maximum((1 + np.abs(by)) ** 2 - 4 * np.abs(by) * own, 1e-300))
        fitted = np.minimum(2 * own / (1 + np.abs(by) + root), 1)
        fitted = np.where(by >= 0, fitted, 1 - fitted)
        rest = base + (step * fitted).sum(axis=0)
        done = (np.abs(rest) <= enough) | (high - low <= 1e-15)
        if done.all():
            break
        place = multiplier / (size + np.abs(multiplier))
        low, high = np.where(rest > 0, place, low), np.where(rest > 0, high, place)
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = multiplier + rest / (step * unit * fitted * (1 - fitted) / root).sum(axis=0)
            place = newton / (size + np.abs(newton))
            inside = (low < place) & (place < high) & (2 * np.abs(rest) < before)
        before = np.where(inside, np.abs(rest), np.inf)
        halved = size * middle / np.maximum(1 - np.abs(middle), 1e-15)
        multiplier = np.where(done, multiplier, np.where(inside, newton, halved))
    return fitted


def win_limits(sampling: Sampling, wins: Floats, level: float) -> tuple[float, float]:
    """Limits of the probability that somebody of the second sample does better than somebody of the first.

    They exclude one half exactly where Mann and Whitney's test, with ties, rejects that both samples have one law.

    Args:
        sampling: Two samples.
        wins: [outcomes, outcomes]: 1 where the second outcome is better, 1/2 where it is as good, else 0.
        level: Confidence.
    """
    from scipy.special import stdtrit

    check_level(level)
    reach = float(-stdtrit(sampling.freedom, (1 - level) / 2))
    total = float(sampling.sizes.sum())
    factor = total / max(total - 1, 1.0)
    (p, q), smooth = sampling.split(), sampling.split(sampling.smooth)
    found, middle = float(p @ wins @ q), float(smooth[0] @ wins @ smooth[1])
    slope = np.concatenate([wins @ smooth[1], smooth[0] @ wins])
    variance = float(slope @ sampling.covariance @ slope) * factor
    pooled = (sampling.sizes[0] * p + sampling.sizes[1] * q) / total
    variances = [(pooled @ each**2 - (pooled @ each) ** 2) for each in (wins @ pooled, pooled @ wins)]
    without = float(sum(each / size for each, size in zip(variances, sampling.sizes, strict=True)))
    slopes = sampling.split(slope)
    alone = sum(
        (law @ each**2 - (law @ each) ** 2) / size
        for law, each, size in zip(smooth, slopes, sampling.sizes, strict=True)
    )
    effect = variance / max(float(alone), np.finfo(float).tiny)  # of the design, and `factor`
    spread, null = variance / (middle * (1 - middle)), without * effect / 0.25

    def accepts(value: float) -> bool:
        share = np.clip((value - 0.5) / (found - 0.5), 0, 1) if abs(found - 0.5) > 1e-12 else 0.0
        return (found - value) ** 2 <= reach**2 * value * (1 - value) * float(null + share * (spread - null))

    return _last(accepts, found, 0.0), _last(accepts, found, 1.0)


def _last(accepts: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last value from the inside that is accepted."""
    if accepts(outside):
        return outside
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if accepts(middle) else (inside, middle)
    return inside
