"""What each fixed coupling answers, in fractions: P(Y=. | X=x) for worlds `p` and `q`."""

import random
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

World = list[Fraction]
Row = list[Fraction]
Law = Callable[[World, World, int], Row]

TOLERANCE = 1e-9
SINGLE = 2e-5  # what answers in single precision may be off by
_ROUNDING = 2.0**-50  # relative: what reading and normalising may do to a probability
_ILL = 1e-6  # an answer that rounding of the question moves by this much is only held to its bounds
_PERTURBATIONS = 12


def world(weights: Sequence[float | Fraction]) -> World:
    """Weights as exact probabilities."""
    exact = [Fraction(each) for each in weights]
    total = sum(exact)
    return [each / total for each in exact]


def world_of_logits(logits: Sequence[float]) -> World:
    """Softmax to sixty digits; a logit of -inf is an outcome that cannot happen."""
    finite = [each for each in logits if each != float("-inf")]
    largest = Decimal(max(finite))
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        exps = [Decimal(0) if each == float("-inf") else (Decimal(each) - largest).exp() for each in logits]
        return world([Fraction(each) for each in exps])


def gumbel_max(p: World, q: World, x: int) -> Row:
    """Of an exponential race that both worlds share: X is the first of E_k / p_k, Y the first of E_k / q_k.

    With the winning times a and b = s a, P(X=i, Y=j) is the integral over s between p_j / q_j and p_i / q_i of
    p_i q_j / (sum_k max(p_k, s q_k))^2: the sum is linear between the ratios, so every piece is a fraction.
    """
    ratios = sorted({p[k] / q[k] for k in range(len(p)) if q[k]} | {Fraction(0)})

    def total(s: Fraction) -> Fraction:
        return sum((max(a, s * b) for a, b in zip(p, q, strict=True)), Fraction(0))

    def integral(low: Fraction, high: Fraction | None) -> Fraction:
        """Of 1 / total(s)^2; up to infinity, where only q counts, for None."""
        edges = [low, *(each for each in ratios if each > low and (high is None or each < high))]
        found = Fraction(0)
        if high is not None:
            edges.append(high)
        for left, right in zip(edges, edges[1:], strict=False):
            found += (right - left) / (total(left) * total(right))
        if high is None:
            found += 1 / (sum(q) * total(edges[-1]))
        return found

    row = [Fraction(0)] * len(p)
    end = p[x] / q[x] if q[x] else None
    for j in range(len(p)):
        if j == x or not q[j]:
            continue
        start = p[j] / q[j]
        if end is None or start < end:
            row[j] = q[j] * integral(start, end)
    if end is not None:
        row[x] = q[x] * end / (p[x] * total(end)) if end else Fraction(0)
    return row


def independent(p: World, q: World, x: int) -> Row:
    """Whatever was seen."""
    del p, x
    return list(q)


def maximal(p: World, q: World, x: int) -> Row:
    """Stays as often as it can; what leaves goes where the other world has more, in proportion."""
    more = [max(b - a, Fraction(0)) for a, b in zip(p, q, strict=True)]
    leaves = max(p[x] - q[x], Fraction(0)) / p[x]
    row = [leaves * each / sum(more) if leaves else Fraction(0) for each in more]
    row[x] += 1 - leaves
    return row


def comonotone(order: Sequence[int], other_order: Sequence[int], p: World, q: World, x: int) -> Row:
    """One uniform number points at both worlds' outcomes, each lined up in an order of its own."""
    start = sum((p[k] for k in order[: order.index(x)]), Fraction(0))
    end = start + p[x]
    row, left = [Fraction(0)] * len(p), Fraction(0)
    for k in other_order:
        right = left + q[k]
        row[k] = max(min(end, right) - max(start, left), Fraction(0)) / p[x]
        left = right
    return row


def law_of(name: str, size: int, score: Sequence[float] | None = None, other: Sequence[float] | None = None) -> Law:
    """A fixed coupling by what the command line calls it."""
    plain = {"gumbel-max": gumbel_max, "independent": independent, "maximal": maximal}
    if name in plain:
        return plain[name]
    if name == "inverse-cdf":
        return partial(comonotone, range(size), range(size))
    if name in ("inverse-cdf-by-score", "comonotone") and score is not None:
        order = _sorted(score)
        # Among equal scores every order is optimal; where one order serves both worlds it is taken for both.
        one = name != "comonotone" or other is None or sorts_both(score, other)
        return partial(comonotone, order, order if one or other is None else _sorted(other))
    raise KeyError(name)


def sorts_both(score: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the order of one world's score sorts the other world's too."""
    there = [other[k] for k in _sorted(score)]
    return all(left <= right for left, right in zip(there, there[1:], strict=False))


def line(order: Sequence[int]) -> Law:
    """The inverse CDF along an order."""
    return partial(comonotone, list(order), list(order))


def joint(law: Law, p: World, q: World) -> list[Row]:
    """P(X=i, Y=j)."""
    return [[p[x] * each for each in law(p, q, x)] if p[x] else [Fraction(0)] * len(q) for x in range(len(p))]


def wrong_row(law: Law, p: World, q: World, x: int, found: Sequence[float | None], tolerance: float = TOLERANCE) -> str:
    """What is wrong with an answer, in words; nothing where it is right.

    An answer may be as far off as rounding the question itself would move it. Where that is far, as for an outcome so
    rare that its place on the line is beyond double precision, it must still be a distribution within its bounds.
    """
    if len(found) != len(q) or any(each is None or each != each for each in found):
        return f"{list(found)} is no distribution over {len(q)} outcomes"
    exact = law(p, q, x)
    off = _distance(exact, found)
    if off <= tolerance:
        return ""
    spread = moved(law, p, q, x, max(_ROUNDING, tolerance * 2.0**-20 if tolerance > TOLERANCE else 0))
    if spread > _ILL:
        return outside_bounds(p, q, x, found, tolerance)
    if off <= tolerance + 8 * spread:
        return ""
    return f"{[float(each) for each in exact]} expected, got {list(found)}"


def outside_bounds(p: World, q: World, x: int, found: Sequence[float], tolerance: float = TOLERANCE) -> str:
    """What is wrong with a row that any coupling might have; nothing where it is between its bounds."""
    if abs(sum(found) - 1) > tolerance * len(found) or min(found) < -tolerance:
        return f"{list(found)} is no distribution"
    for j, value in enumerate(found):
        low, high = outcome_bounds(p, q, x)[j]
        if not float(low) - tolerance <= value <= float(high) + tolerance:
            return f"{value!r} for outcome {j} lies outside of its bounds {float(low)!r} to {float(high)!r}"
    return ""


def outcome_bounds(p: World, q: World, x: int) -> list[tuple[Fraction, Fraction]]:
    """Frechet: the least and the largest P(Y=j | X=x) of any coupling."""
    return [(max(Fraction(0), p[x] + b - 1) / p[x], min(p[x], b) / p[x]) for b in q]


def score_bounds(p: World, q: World, x: int, score: Sequence[float]) -> tuple[Fraction, Fraction]:
    """The least and the largest E[score(Y) | X=x]: the worst, or the best, outcomes are filled first."""

    def filled(order: list[int]) -> Fraction:
        left, mean = Fraction(1), Fraction(0)
        for j in order:
            taken = min(left, q[j] / p[x])
            mean, left = mean + taken * Fraction(score[j]), left - taken
        return mean

    order = _sorted(score)
    return filled(order), filled(order[::-1])


def _sorted(score: Sequence[float]) -> list[int]:
    return sorted(range(len(score)), key=lambda k: score[k])


def _distance(exact: Row, found: Sequence[float]) -> float:
    return max(abs(float(a) - b) for a, b in zip(exact, found, strict=True))


def moved(law: Law, p: World, q: World, x: int, rounding: float = _ROUNDING) -> float:
    """How far the answer moves when every probability is rounded another way."""
    rng = random.Random(0)
    exact = law(p, q, x)

    def shaken(world_: World) -> World:
        return world([each * (1 + Fraction(rng.choice((-1.0, 0.0, 1.0)) * rounding)) for each in world_])

    rows = [law(shaken(p), shaken(q), x) for _ in range(_PERTURBATIONS)]
    return max(max(abs(float(a - b)) for a, b in zip(exact, row, strict=True)) for row in rows)
