"""Bounds within strata, cross-fitted: what binds is chosen on one half of the people and measured on the other.

A bound is a maximum of linear pieces. Estimated in a small stratum, the largest piece is biased upwards: with four
people in each arm and no effect the lower bound of the benefit is .14 where 0 is right. And whatever truths one
proposes near such estimates share that bias in every stratum, so that tests of them do not come back to the truth. A
piece that other people chose is a fixed number, its estimate is unbiased, its error is that of a mean, and it is never
narrower than the bound; so nothing has to be known about which piece is the largest.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from countermax.bounds import Bounds
from countermax.bounds._pieces import Pieces
from countermax.causation._limits import (
    CHOSEN,
    MONOTONE,
    asked_with,
    counted_people,
    is_unseen,
    limits,
    terms_of,
    unseen_pieces,
    unseen_term,
    with_missing,
)
from countermax.causation._questions import Arms, CausalQuestion, Evidence, Flags, Floats
from countermax.intervals import Interval

_BIAS_AT_KINKS = 1 / (np.sqrt(2) - 1)  # bias of all people, in what half of them have more
_ERROR, _MOST_ERROR = 1 / 2, 1 / 3  # error of the bias: this part of itself, at most this part of the reach
_FEWEST_KNOWN = 0.5  # share of the draws in which somebody must be asked about
_NUM_CHOOSING = 10  # halves near which pieces are looked for, where they are too many to look at all


class Crossing(NamedTuple):
    """Estimates by stratum: of all people, of halves of them, and of people who were drawn again."""

    whole: Evidence
    halves: Evidence
    """[halves, strata, outcomes]: each half is followed by the other one."""
    again: Evidence
    """[draws, strata, outcomes]."""
    freedom: float
    """How many independent units there are, less those that are used up."""


def crossed_limits(
    question: CausalQuestion, crossing: Crossing, people: str, kind: str, level: float = 0.95
) -> tuple[Bounds | None, Interval]:
    """Cross-fitted bounds and the interval that holds them; no bounds where nobody is asked about."""
    whole = crossing.whole
    least, most = float(question.worth.min()), float(question.worth.max())
    if not _asked(question, whole, people, 1.0) > 0 or (
        people == CHOSEN and whole.choices is None and not question.of_everybody
    ):
        lower, upper = map(float, limits(question, whole, people, kind))
        return None if lower != lower else Bounds(lower, upper), Interval(least, most, level)
    shares = whole.strata
    assert shares is not None
    counted = counted_people(question, whole, people)
    overall = limits(question, whole.without_strata(shares.__matmul__), people, kind)
    # Halves are asked about as many as they measure: where all of them count, the answer is one.
    halves = crossing.halves._replace(strata=whole.strata)
    reach = _reach(level, crossing.freedom)
    found, ends = [], []
    for sign, alone in ((-1.0, overall[0]), (1.0, overall[1])):
        asked = float(_asked(question, halves, people, sign).mean())
        asked_again = _asked(question, crossing.again, people, sign)
        total, totals = _measured(sign * question.worth, question, crossing, counted, kind)
        mean = sign * total / asked
        found.append(max(mean, float(alone)) if sign < 0 else min(mean, float(alone)))
        ends.append(_end(sign, sign * total, asked, sign * totals, asked_again, reach))
    upper = float(np.clip(found[1], least, most))
    bounds = Bounds(float(np.clip(found[0], least, upper)), upper)
    low, high = min(ends[0], bounds.lower), max(ends[1], bounds.upper)
    low, high = (float(np.clip(each, least, most)) for each in (low, high))
    return bounds, Interval(low, high, level)


def _end(sign: float, total: float, asked: float, totals: Floats, asked_again: Floats, reach: float) -> float:
    """The lower (-1) or upper (1) end of the interval of `total / asked`: the last within reach of errors (Fieller).

    `totals` are [halves, draws] of the numerator, for the pieces that each half chose.
    """
    deviations, moved = totals - totals.mean(axis=1, keepdims=True), asked_again - asked_again.mean()
    spread = float((deviations**2).mean()), float((deviations * moved).mean()), float((moved**2).mean())
    square = asked**2 - reach**2 * spread[2]
    middle, rest = total * asked - reach**2 * spread[1], total**2 - reach**2 * spread[0]
    if square <= 0:
        return sign * np.inf
    return float((middle + sign * np.sqrt(max(middle**2 - square * rest, 0.0))) / square)


def _reach(level: float, freedom: float) -> float:
    """How many standard errors an interval reaches: more than for a mean, because halves choose for each other.

    Where two pieces are equally large, a half that overestimates one of them makes the other half choose it. Let `u`
    be the standardised difference of the two pieces in all people, and `v` that between halves: the mean over both
    choices is `|u|` where `|u| > |v|`, else `-|v|`. Averaged over splits, that is over `v`, it passes the reach with
    the stated probability. Where one piece is clearly the largest, that is too far by a twelfth.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    u = float(ndtri(1 - (1 - level) / 4))
    reach = u * (2 * ndtr(u) - 1) - 2 * np.exp(-u * u / 2) / np.sqrt(2 * np.pi)
    return float(max(reach, ndtri((1 + level) / 2)) * stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2))


def _measured(
    worth: Floats, question: CausalQuestion, crossing: Crossing, counted: tuple[float, float, float], kind: str
) -> tuple[float, Floats]:
    """The largest total worth, measured by those who did not choose its pieces; and [halves, draws] of it."""
    allowed = question.allowed if kind == MONOTONE else None
    if is_unseen(crossing.whole):
        some = crossing.halves.without_strata(lambda each: each[:_NUM_CHOOSING])
        near = unseen_pieces(worth, counted, [crossing.whole, some])
        choosing, again = ([unseen_term(near, each)] for each in (crossing.halves, crossing.again))
        measuring = choosing
    else:
        if crossing.whole.unknown:
            worth, allowed = with_missing(worth, allowed)
        choosing = terms_of(worth, allowed, crossing.halves, counted)
        measuring, again = (
            terms_of(worth, allowed, each, counted, as_measured=True) for each in (crossing.halves, crossing.again)
        )
    shares, shares_again = crossing.whole.strata, crossing.again.strata
    assert shares is not None
    assert shares_again is not None
    number = len(crossing.halves.strata) if crossing.halves.strata is not None else 0
    other = np.arange(number) ^ 1
    total, totals = np.zeros(number), np.zeros((number, len(shares_again)))
    for choice, measure, draw in zip(choosing, measuring, again, strict=True):
        pieces = choice.pieces if allowed is None else _proper(choice.pieces, worth)
        best = pieces.values_of(slice(None), choice.rows, choice.columns).argmin(axis=-1)
        here, there = (choice.weight * each[best] for each in (pieces.here, pieces.there))
        value = (here * measure.rows[other]).sum(axis=-1) + (there * measure.columns[other]).sum(axis=-1)
        total += value @ shares
        for coefficients, masses in ((here, draw.rows), (there, draw.columns)):
            flat = (shares_again[..., None] * masses).reshape(len(shares_again), -1)
            totals += coefficients.reshape(number, -1) @ flat.T
    return float(total.mean()), totals


def _proper(pieces: Pieces, worth: Floats) -> Pieces:
    """Pieces without those that only say that no allowed coupling fits: they are large, and so are their errors."""
    limit = 2 * len(worth) * max(float(np.ptp(worth)), 1.0)
    kept: Flags = (np.ptp(pieces.here, axis=1) < limit) & (np.ptp(pieces.there, axis=1) < limit)
    return Pieces(pieces.here[kept], pieces.there[kept]) if kept.any() else pieces


def _asked(question: CausalQuestion, evidence: Evidence, people: str, sign: float) -> Floats:
    """How many are asked about, in all strata together."""
    assert evidence.strata is not None
    asked = asked_with(question, evidence._replace(strata=None), sign, people)
    return np.asarray((evidence.strata * asked).sum(axis=-1))


# Intervals of what couplings say within strata, from halves of the people and people who were drawn again. Where worlds
# are equal an answer has a kink: with no effect, the share of those who fare better is 0, and every estimate of it is
# larger. Over many strata that bias adds up, while errors average out, so that truths near the estimates do not come
# back to the truth. But half of the people have more of it than all of them, and by how much tells the rest: bias at a
# kink falls with the root of the number of people, any other with the number itself. And where the data of a stratum do
# not exclude that the treatment does nothing there, the interval reaches the answer for that.


def halved_intervals(
    found: Mapping[str, float],
    halves: Mapping[str, Floats],
    again: Mapping[str, Floats],
    without: Mapping[str, float],
    ends: tuple[float, float],
    level: float,
    freedom: float,
) -> dict[str, Interval]:
    """The interval of each answer, whether its bias is that at a kink or there is none.

    It holds as many standard errors as a normal number would need, the percentiles of the draws, and their reflection.
    Answers are by coupling, NaN where nobody is asked about: of all people, of halves of them, of people who were drawn
    again, and of all people if the treatment did nothing wherever that is possible. `ends` are the least and the
    largest answer there is.
    """
    from scipy.special import ndtri, stdtrit

    result = {}
    for name, value in found.items():
        half, drawn = (each[name][~np.isnan(each[name])] for each in (halves, again))
        if value != value or len(half) < 2 or len(drawn) < _FEWEST_KNOWN * len(again[name]):
            result[name] = Interval(*ends, level)
            continue
        few = float(stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2))
        deviation = drawn - drawn.mean()
        below, above = np.quantile(deviation, [(1 - level) / 2, (1 + level) / 2])
        reach = few * float(max(-below, above, ndtri((1 + level) / 2) * deviation.std(ddof=1)))
        bias = _BIAS_AT_KINKS * float(half.mean() - value)
        biases = [0.0, bias + float(np.sign(bias)) * min(_ERROR * abs(bias), _MOST_ERROR * reach)]
        biases += [value - without[name]] if without[name] == without[name] else []
        lower, upper = np.clip([value - max(biases) - reach, value - min(biases) + reach], *ends).tolist()
        result[name] = Interval(lower, upper, level)
    return result


def without_effects(crossing: Crossing, level: float) -> Evidence:
    """What all people say, with one law for both arms of every stratum whose data do not exclude that."""
    from scipy.special import ndtri

    whole, again = crossing.whole, crossing.again
    gap, drawn = whole.arms.treated - whole.arms.control, again.arms.treated - again.arms.control
    reach = -ndtri((1 - level) / 4 / gap.size)
    same = (np.abs(gap) <= reach * drawn.std(axis=0, ddof=1) + 1e-12).all(axis=-1, keepdims=True)
    share = 0.5 if whole.share is None else whole.share
    common = (1 - share) * whole.arms.control + share * whole.arms.treated
    return whole._replace(trial=Arms(*(np.where(same, common, each) for each in whole.arms)))
