"""Bounds and answers within strata, cross-fitted: what binds is chosen by some data and measured by others.

A bound is a maximum of linear pieces. Estimated in a small stratum, the largest piece is biased upwards: with four
people in each arm and no effect the lower bound of the benefit is .14 where 0 is right. A piece that other people chose
is a fixed number, its estimate is unbiased, its error is that of a mean, and it is never narrower than the bound; so
nothing has to be known about which piece is the largest.

Half of the people say what all of them say and an error as large as theirs, and the other half says the same less that
error. So no people have to be drawn: the mean over all ways to halve them is an integral over a normal error in each
stratum, and fixed points, evenly spread, are enough for it.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

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
from countermax.causation._questions import Arms, CausalQuestion, Choosers, Evidence, Flags, Floats
from countermax.intervals import Interval
from countermax.intervals._linearised import evenly_spread

_BIAS_AT_KINKS = 1 / (np.sqrt(2) - 1)  # bias of all people, in what half of them have more
_ERROR, _MOST_ERROR = 1 / 2, 1 / 3  # error of the bias: this share of itself, at most this share of the reach
_NUM_POINTS, _FEWEST_POINTS, _MOST_NUMBERS = 1024, 128, 2**19  # and as many opposite ones
_NOISE = 1e-9  # variances that are none, beside the largest
_DIGITS = 9
_NUM_CHOOSING = 24  # halves near which pieces are looked for, where they are too many to look at all


@final
@dataclass(frozen=True, eq=False)
class Crossing:
    """People by stratum, and how far what they say may err."""

    totals: tuple[Floats, ...]
    """[groups, strata, outcomes] of the trial (its arms) and of those who chose (without, with, something else)."""
    units: tuple[Any, ...]
    """[units, cells] for each, sparse: what independent units, people or clusters, weigh in each cell; people of one
    cell may be one unit, whose square is the sum of theirs."""
    share: float
    """P(with the treatment) among participants of the trial."""
    of_trial: bool
    """Whether strata count as in the trial, not as among those who chose."""
    unknown: bool
    """Whether the last outcome is that none is known."""
    freedom: float
    """Degrees of freedom: how many independent units there are, less those that are used up."""
    columns: NDArray[np.int64] | None = None
    """[cells]: place of each cell in an order that does not depend on how outcomes are listed."""

    @cached_property
    def laws(self) -> Floats:
        """[strata, cells]: laws of both arms, then of those who chose; each adds up to one."""
        laws = [each / each.sum(axis=1, keepdims=True) for each in self._by_law]
        return np.concatenate(laws, axis=1)

    @property
    def _by_law(self) -> list[Floats]:
        """Totals of each law, [strata, cells]."""
        trial, *seen = self.totals
        cells = [seen[0].transpose(1, 0, 2).reshape(trial.shape[1], -1)] if seen else []
        return [*trial, *cells]

    @cached_property
    def strata(self) -> Floats:
        """How frequent each stratum is."""
        parts = [each.sum(axis=1) / each.sum() for each in self._by_law]
        return parts[2] if not self.of_trial else (1 - self.share) * parts[0] + self.share * parts[1]

    def evidence_of(self, laws: Floats) -> Evidence:
        """What laws of one stratum or of each, [..., cells], say; strata are not averaged."""
        size = self.totals[0].shape[2]
        control, treated, *parts = np.split(laws, range(size, laws.shape[-1], size), axis=-1)
        choices = None
        if parts:
            others = self.totals[1][2].any() * parts[2].sum(axis=-1)  # a table without others says that there are none
            choices = Choosers(parts[0], parts[1], others)
        return Evidence(Arms(control, treated), choices, self.share, unknown=self.unknown)

    @cached_property
    def whole(self) -> Evidence:
        """What all people say."""
        return self.evidence_of(self.laws)._replace(strata=self.strata)

    @cached_property
    def covariances(self) -> Floats:
        """[strata, cells, cells]: those of the laws of each stratum."""
        found = np.zeros((len(self.strata), self.laws.shape[1], self.laws.shape[1]))
        end = 0
        for laws, totals, units in zip((self._by_law[:2], self._by_law[2:]), self.totals, self.units, strict=False):
            own = [
                (np.eye(each.shape[1]) - _normalised(each)[:, None]) / each.sum(axis=1)[:, None, None] for each in laws
            ]
            slopes = np.zeros((len(found), totals[:, 0].size, totals[:, 0].size))
            start = 0
            for each in own:
                some = slice(start, start := start + each.shape[1])
                slopes[:, some, some] = each
            cells = np.arange(totals.size).reshape(totals.shape)
            for place, slope in enumerate(slopes):
                influence = units[:, cells[:, place].ravel()] @ slope
                found[place, end : end + start, end : end + start] = influence.T @ influence
            end += start
        return found

    def covariance(self, slopes: Floats, values: Floats) -> Floats:
        """[numbers, numbers]: that of means over strata, by Taylor linearisation.

        Args:
            slopes: [numbers, strata, cells]: how each stratum's value depends on its laws.
            values: [numbers, strata]: its value, by which the frequency of the stratum counts.
        """
        laws, found = self._by_law, []
        weights = [1 - self.share, self.share, 0.0] if self.of_trial else [0.0, 0.0, 1.0]
        parts = np.split(slopes, np.cumsum([each.shape[1] for each in laws])[:-1], axis=2)
        for mass, slope, weight in zip(laws, parts, weights, strict=False):
            total = mass.sum(axis=1)
            inner = slope - (slope * _normalised(mass)).sum(axis=2, keepdims=True)
            outer = weight * (values - (values @ total / total.sum())[:, None]) / total.sum()
            found.append(inner * (self.strata / total)[:, None] + outer[:, :, None])
        influences = [np.stack(found[:2], axis=1)]
        if len(found) > 2:
            influences.append(found[2].reshape(*found[2].shape[:2], 3, -1).transpose(0, 2, 1, 3))
        whole = np.zeros((len(slopes), len(slopes)))
        for influence, units in zip(influences, self.units, strict=True):
            of_units = units @ influence.reshape(len(slopes), -1).T
            whole += of_units.T @ of_units
        return whole

    @cached_property
    def _roots(self) -> tuple[Floats, ...]:
        """[strata, cells, cells]: square roots of the covariances, the symmetric ones, and their inverses."""
        values, vectors = np.linalg.eigh(self.covariances)
        known = values > _NOISE * values.max(initial=0.0)
        spread = np.sqrt(np.where(known, values, 1.0))
        return tuple(
            np.einsum("scd,sd,sed->sce", vectors, np.where(known, each, 0.0), vectors) for each in (spread, 1 / spread)
        )

    @property
    def _normal(self) -> Floats:
        """[points, cells]: fixed normal numbers; fewer where there are many strata, and never fewer than cells."""
        number, cells = np.clip(_MOST_NUMBERS // self.laws.size, _FEWEST_POINTS, _NUM_POINTS), self.laws.shape[1]
        normal = _normal(max(int(number), 2 * cells), cells)
        return normal if self.columns is None else np.asarray(normal[:, self.columns])

    @cached_property
    def points(self) -> tuple[Floats, Floats]:
        """[points, strata, cells]: errors of the laws, and the laws that such errors make of the estimates."""
        size = self.totals[0].shape[2]
        errors = np.einsum("pd,scd->psc", self._normal, self._roots[0])
        parts = np.split(np.maximum(self.laws + errors, 0), [size, 2 * size], axis=2)
        return errors, np.concatenate([_normalised(each) for each in parts if each.shape[2]], axis=2)

    def regressed(self, values: Floats) -> tuple[Floats, Floats]:
        """Slopes, [strata, cells], of values at the points, [points, strata], and the variance of the rest."""
        normal, centred = self._normal, values - values.mean(axis=0)
        own = normal.T @ centred / len(normal)
        slopes = np.einsum("scd,ds->sc", self._roots[1], own)
        return slopes, ((centred - normal @ own) ** 2).mean(axis=0)


def _normalised(masses: Floats) -> Floats:
    total = masses.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, masses / np.where(total > 0, total, 1), 1 / masses.shape[-1]))


@lru_cache(maxsize=8)
def _normal(number: int, size: int) -> Floats:
    """[points, numbers]: normal numbers, evenly spread, each with its opposite, exactly uncorrelated."""
    some = evenly_spread(number, size)
    values, vectors = np.linalg.eigh(some.T @ some / number)
    some = some @ (vectors / np.sqrt(values)) @ vectors.T
    return np.stack([some, -some], axis=1).reshape(-1, size)


def crossed_limits(
    question: CausalQuestion, crossing: Crossing, people: str, kind: str, level: float = 0.95
) -> tuple[Bounds | None, Interval]:
    """Cross-fitted bounds and the interval that holds them; no bounds where nobody is asked about."""
    whole = crossing.whole
    least, most = float(question.worth.min()), float(question.worth.max())
    if not _asked(question, crossing, people, 1.0)[0] > 0 or (
        people == CHOSEN and whole.choices is None and not question.of_everybody
    ):
        lower, upper = map(float, limits(question, whole, people, kind))
        return None if lower != lower else Bounds(lower, upper), Interval(least, most, level)
    overall = limits(question, whole.without_strata(crossing.strata.__matmul__), people, kind)
    reach = _reach(level, crossing.freedom)
    found, ends = [], []
    for sign, alone in ((-1.0, overall[0]), (1.0, overall[1])):
        asked, asked_slopes = _asked(question, crossing, people, sign)
        total, slopes, rest = _measured(sign * question.worth, question, crossing, people, kind)
        mean = sign * total / asked
        found.append(max(mean, float(alone)) if sign < 0 else min(mean, float(alone)))
        both = np.stack([sign * slopes, asked_slopes])
        spread = crossing.covariance(both, np.einsum("nsc,sc->ns", both, crossing.laws))
        spread[0, 0] += rest
        ends.append(_end(sign, sign * total, asked, spread, reach))
    upper = float(np.clip(found[1], least, most))
    bounds = Bounds(float(np.clip(found[0], least, upper)) + 0.0, upper + 0.0)
    low, high = min(ends[0], bounds.lower), max(ends[1], bounds.upper)
    low, high = (float(np.clip(each, least, most)) for each in (low, high))
    return bounds, Interval(low + 0.0, high + 0.0, level)  # no zero is negative


def _end(sign: float, total: float, asked: float, spread: Floats, reach: float) -> float:
    """The lower (-1) or upper (1) end of the interval of `total / asked`: the last within reach of errors (Fieller)."""
    square = asked**2 - reach**2 * spread[1, 1]
    middle, rest = total * asked - reach**2 * spread[0, 1], total**2 - reach**2 * spread[0, 0]
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
    worth: Floats, question: CausalQuestion, crossing: Crossing, people: str, kind: str
) -> tuple[float, Floats, float]:
    """The largest total worth, measured by those who did not choose its pieces.

    Also the slopes, [strata, cells], of the mean piece, and the variance that choices add to that of a mean.
    """
    allowed = question.allowed if kind == MONOTONE else None
    counted = counted_people(question, crossing.whole, people)
    errors, moved = crossing.points
    halves, each_cell = crossing.evidence_of(moved), crossing.evidence_of(np.eye(crossing.laws.shape[1]))
    if is_unseen(crossing.whole):
        some = crossing.evidence_of(moved[:_NUM_CHOOSING])
        near = unseen_pieces(worth, counted, [crossing.whole, some])
        choosing, measuring = ([unseen_term(near, each)] for each in (halves, each_cell))
    else:
        if crossing.unknown:
            worth, allowed = with_missing(worth, allowed)
        choosing = terms_of(worth, allowed, halves, counted)
        measuring = terms_of(worth, allowed, each_cell, counted, as_measured=True)
    parts = []
    for choice, measure in zip(choosing, measuring, strict=True):
        pieces = choice.pieces if allowed is None else _proper(choice.pieces, worth)
        own = choice.weight * pieces.values_of(slice(None), measure.rows, measure.columns).T
        parts.append((pieces, choice.rows, choice.columns, own))
    total, added, mean = 0.0, 0.0, np.zeros_like(crossing.laws)
    for place, weight in enumerate(crossing.strata):
        slopes = np.zeros((len(errors), mean.shape[1]))
        for pieces, rows, columns, own in parts:
            values = pieces.values_of(slice(None), rows[:, place], columns[:, place])
            slopes += own[np.round(values, _DIGITS).argmin(axis=-1)]  # rounding errors choose nothing
        mean[place] = slopes.mean(axis=0)
        total += weight * float((slopes * (crossing.laws[place] - errors[:, place])).sum(axis=1).mean())
        apart = slopes - mean[place]
        added += weight**2 * float((apart @ crossing.covariances[place] * apart).sum(axis=1).mean())
    return total, mean, added


def _proper(pieces: Pieces, worth: Floats) -> Pieces:
    """Pieces without those that only say that no allowed coupling fits: they are large, and so are their errors."""
    limit = 2 * len(worth) * max(float(np.ptp(worth)), 1.0)
    kept: Flags = (np.ptp(pieces.here, axis=1) < limit) & (np.ptp(pieces.there, axis=1) < limit)
    return Pieces(pieces.here[kept], pieces.there[kept]) if kept.any() else pieces


def _asked(question: CausalQuestion, crossing: Crossing, people: str, sign: float) -> tuple[float, Floats]:
    """How many are asked about, in all strata together; and its slopes, [strata, cells]."""
    slopes = np.zeros_like(crossing.laws)
    if question.of_everybody and (people != CHOSEN or crossing.whole.choices is None):
        return 1.0, slopes
    slopes[:] = asked_with(question, crossing.evidence_of(np.eye(slopes.shape[1])), sign, people)
    return float((slopes * crossing.laws).sum(axis=1) @ crossing.strata), slopes


# Intervals of what couplings say within strata. Where worlds are equal an answer has a kink: with no effect, the share
# of those who fare better is 0, and every estimate of it is larger. Over many strata that bias adds up, while errors
# average out, so that truths near the estimates do not come back to the truth. But half of the people have more of it
# than all of them, and by how much tells the rest: bias at a kink falls with the root of the number of people, any
# other with the number itself. And where the data of a stratum do not exclude that the treatment does nothing there,
# the interval reaches the answer for that.


def halved_interval(
    found: tuple[Floats, Floats],
    halves: tuple[Floats, Floats],
    without: float,
    crossing: Crossing,
    ends: tuple[float, float],
    level: float,
) -> Interval:
    """The interval of an answer, whether its bias is that at a kink or there is none.

    Args:
        found: [strata]: what all people say, as a total and as a number of those who are asked about.
        halves: [points, strata]: the same of halves of them.
        without: Answers from all people if the treatment did nothing wherever that is possible; NaN if that is unknown.
        crossing: The people.
        ends: Least and largest answer there is.
        level: Confidence.
    """
    from scipy.special import stdtrit

    total, asked = (float(each @ crossing.strata) for each in found)
    if not asked > 0:
        return Interval(*ends, level)
    value = total / asked
    at_all, at_halves = (of_all - value * among for of_all, among in (found, halves))
    slopes, rest = crossing.regressed(at_halves)
    variance = float(crossing.covariance(slopes[None], at_all[None])[0, 0] + crossing.strata**2 @ rest)
    reach = float(stdtrit(crossing.freedom, (1 + level) / 2)) * np.sqrt(variance) / asked
    bias = _BIAS_AT_KINKS * float((at_halves.mean(axis=0) - at_all) @ crossing.strata) / asked
    biases = [0.0, bias + float(np.sign(bias)) * min(_ERROR * abs(bias), _MOST_ERROR * reach)]
    biases += [value - without] if without == without else []
    lower, upper = np.clip([value - max(biases) - reach, value - min(biases) + reach], *ends).tolist()
    return Interval(lower, upper, level)


def without_effects(crossing: Crossing, level: float) -> Evidence:
    """What all people say, with one law for both arms of every stratum whose data do not exclude that."""
    from scipy.special import ndtri

    whole, share = crossing.whole, crossing.share
    gap = whole.arms.treated - whole.arms.control
    size = gap.shape[1]
    apart = np.concatenate([-np.eye(size), np.eye(size)] + [np.zeros((crossing.laws.shape[1] - 2 * size, size))])
    variance = np.einsum("ck,scd,dk->sk", apart, crossing.covariances, apart)
    reach = -ndtri((1 - level) / 4 / gap.size)
    same = (np.abs(gap) <= reach * np.sqrt(variance) + 1e-12).all(axis=-1, keepdims=True)
    common = (1 - share) * whole.arms.control + share * whole.arms.treated
    return whole._replace(trial=Arms(*(np.where(same, common, each) for each in whole.arms)))
