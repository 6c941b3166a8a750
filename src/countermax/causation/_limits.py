"""The least and the largest answer to a causal question, for many worlds at once: sharp, whatever the sources.

An experiment fixes how outcomes are distributed without the treatment and with it, in everybody. Observation of people
who chose fixes how those who chose either had what they had. Of those who chose the treatment one then knows what they
would have had without it: what is left of everybody's outcomes without it. So with both sources each group is a pair
of worlds of its own, and bounds within groups add up (Tian and Pearl 2000 for two outcomes). Where some people chose
neither, what is left is shared with them: one transport problem between what is known and what is left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from countermax._core.words import ANY, STABLE
from countermax.bounds._pieces import MOST_PIECES, Pieces, largest_worth, num_pieces
from countermax.causation._questions import Arms, CausalQuestion, Choosers, Evidence, Flags, Floats
from countermax.causation._stable import MOST_ORDERED, Orders, has_pieces, largest_stable

MONOTONE = "monotone"
FAMILIES = (ANY, STABLE, MONOTONE)
"""Of couplings that an answer ranges over."""

TRIAL, CHOSEN = "trial", "chosen"
PEOPLE = (TRIAL, CHOSEN)

_SAME = 1e-12
_FARTHEST = 4.0  # price of an outcome, in the range of the worth and by outcome; what is dearer says that nothing fits
_DIGITS = 9


Span = tuple[Floats, Floats]
"""The least and the largest answer in each world."""
Masses = tuple[Floats, Floats]
"""People by their outcomes, without the treatment and with it."""
Counted = tuple[float, float, float]
"""How much people in control, with the treatment and elsewhere count."""


class Term(NamedTuple):
    """A part of a bound: the least of linear pieces of two masses, [..., outcomes]."""

    weight: float
    pieces: Pieces
    rows: Floats
    columns: Floats
    group: str = "everybody"
    """People whose masses these are."""

    def least(self) -> Floats:
        """The largest worth of this part, before it is weighted."""
        return self.pieces.least(self.rows, self.columns)


@dataclass
class Memo:
    """What several questions about the same evidence have in common."""

    exact: bool = False
    """Whether equal ratios stay equal in stable bounds, whatever time it takes."""
    means: dict[tuple[bytes, str, bytes], Floats] = field(default_factory=dict)
    """Largest worths, by what they are the least of and of whom."""
    orders: Orders | None = None
    groups: tuple[Masses, Masses] | None = None
    fillings: dict[bytes, list[tuple[Evidence, "Memo"]]] = field(default_factory=dict)
    """Ways to fill in missing outcomes, by event, each with a memory of its own."""

    def mean(self, key: tuple[bytes, str, bytes], find: Callable[[], Floats]) -> Floats:
        """A largest worth, which several questions may ask for."""
        if key not in self.means:
            self.means[key] = find()
        return self.means[key]


def limits(
    question: CausalQuestion, evidence: Evidence, people: str, kind: str = ANY, memo: Memo | None = None
) -> Span:
    """The least and the largest answer in each world, whatever missing outcomes were; NaN where nobody is asked about.

    Sharp, but with strata or both sources, and where missing outcomes decide who is asked about, both ends of the ratio
    are taken at their worst: never too narrow.
    """
    memo = Memo(exact=True) if memo is None else memo
    unseen, inner = chose_unseen(question, evidence, people), evidence._replace(strata=None)
    if evidence.strata is not None and (unseen or not evidence.unknown):
        spans = limits(question, inner, people, kind, memo)
        if unseen:
            return _widest(spans, evidence.strata)
        weight = evidence.strata * denominator(question, inner, people)
        return averaged(spans[0], weight), averaged(spans[1], weight)
    if evidence.unknown and evidence.strata is None and evidence.choices is None and not question.of_everybody:
        return _over_fillings(question, evidence, people, kind, memo)
    if unseen:
        return _nothing_known(question, evidence, kind, memo)
    counted = counted_people(question, evidence, people)
    found = []
    for sign in (-1.0, 1.0):
        with np.errstate(invalid="ignore"):
            total = _largest(sign * question.worth, question, evidence, counted, kind, memo)
        asked = asked_with(question, inner, sign, people)
        if evidence.strata is not None:
            total, asked = (np.asarray((evidence.strata * each).sum(axis=-1)) for each in (total, asked))
        found.append(ratio(sign * total, asked))
    upper = np.clip(found[1], question.worth.min(), question.worth.max())
    lower = np.clip(found[0], question.worth.min(), upper)
    return np.asarray(lower + 0.0), np.asarray(upper + 0.0)  # no zero is negative


def ratio(total: Any, asked: Any) -> Floats:
    """Means of those who are asked about; NaN where there is nobody."""
    return np.asarray(np.where(asked > 0, total, np.nan) / np.where(asked > 0, asked, 1.0))


def averaged(values: Floats, weight: Floats) -> Floats:
    """Means over strata; NaN where there is nobody."""
    return ratio(np.where(weight > 0, values * weight, 0).sum(axis=-1), weight.sum(axis=-1))


def denominator(question: CausalQuestion, evidence: Evidence, people: str, among: Masses | None = None) -> Floats:
    """How many the question is asked about, of everybody; `among` whom, if not among those of the question."""
    here, there = (question.among_control, question.among_treated) if among is None else among
    if people == CHOSEN and evidence.choices is not None:
        whole = evidence.choices.control @ here + evidence.choices.treated @ there
        return np.asarray(whole + question.among_others * np.asarray(evidence.choices.elsewhere))
    if question.of_everybody:
        known = evidence.chosen if evidence.trial is None else evidence.trial
        return np.ones(known.control.shape[:-1])
    shares = _shares(question, evidence)
    control, treated = evidence.arms
    return np.asarray(shares[0] * (control @ here) + shares[1] * (treated @ there))


def groups(evidence: Evidence, *, as_measured: bool = False) -> tuple[Masses, Masses]:
    """Masses (without, with) of those who chose the control, and of those who chose the treatment.

    Estimates of two sources may miss each other by chance; what would be negative is then taken as nothing, unless the
    masses are wanted `as_measured`.
    """
    chose_control, chose_treated, _ = evidence.chosen
    left = np.subtract if as_measured else _left
    left_control, left_treated = left(evidence.arms.control, chose_control), left(evidence.arms.treated, chose_treated)
    return (chose_control, left_treated), (left_control, chose_treated)


def _left(whole: Floats, seen: Floats) -> Floats:
    """Everybody's outcomes without those that were seen, as many as were not seen."""
    left = np.maximum(whole - seen, 0)
    total, wanted = left.sum(axis=-1, keepdims=True), 1 - seen.sum(axis=-1, keepdims=True)
    return np.where(total > 0, left, whole) * np.maximum(wanted, 0) / np.where(total > 0, total, 1)


def _shares(question: CausalQuestion, evidence: Evidence) -> tuple[float, float]:
    """How much each arm counts; where only one does, it cancels."""
    if question.of_everybody or not (question.among_control.any() and question.among_treated.any()):
        return 1.0, 1.0
    share = np.nan if evidence.share is None else evidence.share
    return 1 - share, share


def counted_people(question: CausalQuestion, evidence: Evidence, people: str) -> Counted:
    """How much people in control, with the treatment and elsewhere count."""
    if people == CHOSEN and evidence.choices is not None:
        return float(question.of_control), float(question.of_treated), float(question.of_others)
    if question.of_everybody:
        return 1.0, 1.0, 1.0
    share = _shares(question, evidence)[1 if question.of_treated else 0]
    return share, share, share  # in a trial both arms are like everybody


def _largest(
    worth: Floats, question: CausalQuestion, evidence: Evidence, counted: Counted, kind: str, memo: Memo
) -> Floats:
    """The largest total worth of those who count."""
    if kind == STABLE:
        orders = memo.orders = memo.orders or Orders(*evidence.arms, exact=memo.exact)
        mean = memo.mean((worth.tobytes(), kind, b""), lambda: largest_stable(worth, orders))
        return np.asarray(counted[0] * mean)
    if is_unseen(evidence):
        return unseen_term(unseen_pieces(worth, counted, [evidence]), evidence).least()
    allowed = question.allowed if kind == MONOTONE else None
    if evidence.unknown:
        worth, allowed = with_missing(worth, allowed)
    total = 1.0
    if evidence.choices is None:  # means do not depend on whom they are asked of
        total, counted = counted[0], (1.0, 1.0, 1.0)
    elif evidence.trial is not None:
        memo.groups = memo.groups or groups(evidence)
    terms = terms_of(worth, allowed, evidence, counted, pairs=memo.groups)
    keys = [(each.pieces.here.tobytes(), each.group, each.pieces.there.tobytes()) for each in terms]
    parts = (term.weight * memo.mean(key, term.least) for key, term in zip(keys, terms, strict=True))
    return np.asarray(total * sum(parts))


def terms_of(
    worth: Floats,
    allowed: Flags | None,
    evidence: Evidence,
    counted: Counted,
    *,
    as_measured: bool = False,
    pairs: tuple[Masses, Masses] | None = None,
) -> list[Term]:
    """What the largest total worth is a sum of: each the least of linear pieces of two masses.

    `counted` weighs people in control, with the treatment and elsewhere; `as_measured` lets what is left of everybody
    be negative by chance, so that it is linear in the estimates.
    """
    if evidence.choices is None:
        return [Term(counted[0], largest_worth(worth, allowed), *evidence.arms)]
    if evidence.trial is None:
        open_to = worth if allowed is None else np.where(allowed, worth, -np.inf)
        here = np.append(counted[0] * open_to.max(axis=1), counted[2] * open_to.max())
        rows = np.concatenate([evidence.chosen.control, np.asarray(evidence.chosen.elsewhere)[..., None]], axis=-1)
        return [Term(1.0, Pieces(here[None], counted[1] * open_to.max(axis=0)[None]), rows, evidence.chosen.treated)]
    first, second = groups(evidence, as_measured=as_measured) if pairs is None else pairs
    if (evidence.chosen.elsewhere <= 0).all():
        pieces = largest_worth(worth, allowed)
        parts = zip(("control", "treated"), counted, (first, second), strict=False)
        return [Term(weight, pieces, *pair, group) for group, weight, pair in parts if weight]
    never, size = np.zeros_like(worth), len(worth)
    worths = np.block([[never, counted[0] * worth], [counted[1] * worth, counted[2] * worth]])
    possible = np.ones((2 * size, 2 * size), bool)
    possible[:size, :size] = False  # nobody chose both
    rows, columns = (np.concatenate(each, axis=-1) for each in ((first[0], second[0]), (second[1], first[1])))
    return [Term(1.0, largest_worth(worths, possible), rows, columns)]


def chose_unseen(question: CausalQuestion, evidence: Evidence, people: str) -> bool:
    """Whether some of those who chose are asked about, and nobody observed who chose what."""
    return people == CHOSEN and evidence.choices is None and not question.of_everybody


def _widest(spans: Span, strata: Floats) -> Span:
    """Limits over strata in any of which all who chose may be; NaN where there is nobody."""
    fine = (strata > 0) & ~np.isnan(spans[0])
    lower, upper = np.where(fine, spans[0], np.inf).min(axis=-1), np.where(fine, spans[1], -np.inf).max(axis=-1)
    known = fine.any(axis=-1)
    return np.where(known, lower, np.nan), np.where(known, upper, np.nan)


def asked_cells(question: CausalQuestion) -> tuple[Flags, Flags]:
    """[arm, without, with]: whether somebody who chose the arm is asked about and counts, or does not count."""
    shape = question.worth.shape
    asked = (question.among_control > 0)[:, None], (question.among_treated > 0)[None, :]
    among = np.stack([np.broadcast_to(each, shape) for each in asked])
    counted = (question.worth > 0) & np.array([question.of_control, question.of_treated])[:, None, None]
    return among & counted, among & ~counted


def _nothing_known(question: CausalQuestion, evidence: Evidence, kind: str, memo: Memo) -> Span:
    """For people who chose, with an experiment alone: everything that somebody can be, all of them may be.

    If under some coupling of the kind anybody is asked about and counts, then those who chose may all be like that, and
    the others have chosen something else; and the same for not counting.
    """
    possible, impossible = (
        _largest(np.asarray(each.any(axis=0), np.float64), question, evidence, (1.0, 1.0, 1.0), kind, memo) > _SAME
        for each in asked_cells(question)
    )
    known = possible | impossible
    return np.where(known, np.where(impossible, 0.0, 1.0), np.nan), np.where(known, possible * 1.0, np.nan)


def said_by(question: CausalQuestion, evidence: Evidence, people: str, joints: Mapping[str, Floats]) -> Floats:
    """The answer under given joint laws of each group; NaN where nobody is asked about."""
    if evidence.strata is not None:
        inner = evidence._replace(strata=None)
        weight = evidence.strata * denominator(question, inner, people)
        return averaged(said_by(question, inner, people, joints), weight)
    of = {"control": question.of_control, "treated": question.of_treated, "elsewhere": question.of_others}
    asked = denominator(question, evidence, people)
    if people == CHOSEN and evidence.choices is not None:
        total: Any = sum(np.einsum("...ij,ij", joint, question.worth) for name, joint in joints.items() if of[name])
    else:
        factor = counted_people(question, evidence, people)[0]
        total = factor * sum(np.einsum("...ij,ij", joint, question.worth) for joint in joints.values())
    return ratio(total, asked)


def has_kind(question: CausalQuestion, evidence: Evidence, kind: str, *, many: bool = False) -> bool:
    """Whether these bounds are there for a question; and for `many` worlds in a time that a person would wait."""
    if many and kind == STABLE and not has_pieces(question.worth):
        return False
    return why_not(question, evidence, kind) is None


def why_not(question: CausalQuestion, evidence: Evidence, kind: str) -> str | None:
    """Why there are no such bounds, as the end of a sentence; None where there are some."""
    if kind == ANY:
        return None
    if kind == STABLE:
        if evidence.choices is not None:
            return "they are computed for a trial alone"
        if evidence.strata is not None:
            return "they are not computed within strata"
        if evidence.unknown:
            return "they are computed only if every outcome is known"
        if len(question.worth) > MOST_ORDERED:
            return f"they are computed for up to {MOST_ORDERED} outcomes, not {len(question.worth)}; merge some"
        return None
    if question.monotonicity is None:
        return "monotonicity is about an `event` or a `score`, and none was given"
    if question.allowed.all():
        return "all outcomes have the same score"
    if evidence.unknown and evidence.choices is not None:
        return "with two sources they are computed only if every outcome is known"
    if num_pieces(np.where(question.allowed, question.worth, -1e3)) > MOST_PIECES // 4:
        return f"{len(question.worth)} outcomes are too many; merge some"
    if evidence.choices is not None and not (np.asarray(evidence.chosen.elsewhere) <= 0).all():
        return "some people chose something else"
    return None


def is_monotone(question: CausalQuestion, evidence: Evidence) -> bool:
    """Whether the data leave room for monotonicity: some coupling has none of the cells that it excludes."""
    return bool(np.all(monotone_worlds(question, evidence)))


def monotone_worlds(question: CausalQuestion, evidence: Evidence) -> Flags:
    """The same for each world, in all of its strata."""
    if evidence.trial is None:
        return np.ones(evidence.chosen.control.shape[:-1], bool)
    pairs = list(groups(evidence)) if evidence.choices is not None else [evidence.trial]
    allowed = question.allowed.astype(np.float64)
    pieces = largest_worth(with_missing(allowed)[0] if evidence.unknown else allowed)
    fits = np.all([pieces.least(*pair) >= np.sum(pair[0], axis=-1) - 1e-9 for pair in pairs], axis=0)
    return np.asarray(fits if evidence.strata is None else fits.all(axis=-1))


# Missing outcomes. The missing outcome is one more outcome. Whoever has it may have had any of the others, so that a
# cell with it is worth what the best of those cells is: the same transport problem with one more row and column. Where
# the number of those who are asked about depends on missing outcomes, too, all ways to fill them in are compared.


def known_part(evidence: Evidence) -> Evidence:
    """Outcomes of those who have one, as if the others were like them."""
    if not evidence.unknown or evidence.trial is None:
        return evidence
    trial, choices = Arms(*map(_like_others, evidence.trial)), evidence.choices
    if choices is not None:
        choices = Choosers(_like_others(choices.control), _like_others(choices.treated), choices.elsewhere)
    return evidence._replace(trial=trial, choices=choices, unknown=False)


def _like_others(law: Floats) -> Floats:
    """As many people, all of whom have an outcome."""
    known = law[..., :-1]
    total = known.sum(axis=-1, keepdims=True)
    shares = np.where(total > 0, known, 1.0) / np.where(total > 0, total, known.shape[-1])
    return np.asarray(shares * law.sum(axis=-1, keepdims=True))


def with_missing(worth: Floats, allowed: Flags | None = None) -> tuple[Floats, Flags | None]:
    """A worth, and cells that somebody can be in, with one more row and column for outcomes that may be any."""
    open_to = worth if allowed is None else np.where(allowed, worth, -np.inf)
    rows = np.concatenate([open_to, open_to.max(axis=1, keepdims=True)], axis=1)
    whole = np.concatenate([rows, rows.max(axis=0, keepdims=True)])
    if allowed is None:
        return whole, None
    possible = np.isfinite(whole)
    return np.where(possible, whole, worth.min()), possible


def asked_with(question: CausalQuestion, evidence: Evidence, sign: float, people: str = TRIAL) -> Floats:
    """How many are asked about: as few as can be for a largest answer (1), as many as can be for a least one (-1)."""
    if not evidence.unknown or (question.of_everybody and evidence.choices is None):
        return denominator(question, evidence, people)
    end = np.min if sign > 0 else np.max
    here, there = (np.append(each, end(each)) for each in (question.among_control, question.among_treated))
    return denominator(question, evidence, people, (here, there))


def _over_fillings(question: CausalQuestion, evidence: Evidence, people: str, kind: str, memo: Memo) -> Span:
    """Limits over all ways to fill in missing outcomes, for a question that depends only on whether an event happened.

    Limits are monotone in both shares of the event, except where these are equal or add up to one: so they are extreme
    at corners of what is possible, or where its edges meet those lines.
    """
    happens = question.worth.max(axis=0) > 0
    if happens.tobytes() not in memo.fillings:
        memo.fillings[happens.tobytes()] = [(each, Memo()) for each in _fillings(evidence, happens)]
    lower: Any = np.inf
    upper: Any = -np.inf
    for filled, inner in memo.fillings[happens.tobytes()]:
        span = limits(question, filled, people, kind, inner)
        fine = ~np.isnan(span[0])
        if kind == MONOTONE:
            control, treated = (each[..., happens].sum(axis=-1) for each in filled.arms)
            fine &= treated >= control - _SAME
        lower = np.where(fine, np.minimum(lower, span[0]), lower)
        upper = np.where(fine, np.maximum(upper, span[1]), upper)
    return np.where(lower <= upper, lower, np.nan), np.where(lower <= upper, upper, np.nan)


def _fillings(evidence: Evidence, happens: Flags) -> list[Evidence]:
    """Corners of what missing outcomes can have been, and where its edges meet the lines."""
    arms = evidence.arms
    event, other = int(happens.argmax()), int((~happens).argmax())
    shares = [each[..., :-1][..., happens].sum(axis=-1) for each in arms]
    lost = [each[..., -1] for each in arms]

    def filled(side: int, share: Any) -> Floats:
        law = np.array(arms[side][..., :-1])
        law[..., event] += share * lost[side]
        law[..., other] += (1 - share) * lost[side]
        return law

    zero = np.zeros_like(shares[0])
    ways = [(zero + x, zero + y) for x in (0.0, 1.0) for y in (0.0, 1.0)]
    for edge in (0.0, 1.0):
        for side in (0, 1):
            own = shares[side] + edge * lost[side]
            for wanted in (own, 1 - own):
                gap = lost[1 - side]
                share = np.clip((wanted - shares[1 - side]) / np.where(gap > 0, gap, 1), 0, 1)
                ways.append((zero + edge, share) if side == 0 else (share, zero + edge))
    found = []
    for way in ways:
        laws = Arms(*(filled(side, share) for side, share in enumerate(way)))
        found.append(evidence._replace(trial=laws, unknown=False))
    return found


# A trial and people who chose, with missing outcomes in either. Whoever has no outcome may have had any, so what is
# known of an outcome is how many had it at least: in each arm of the trial, and of those who chose each arm. Laws of
# both outcomes in the groups of those who chose that give everybody at least as many are the feasible points of a
# linear program; its dual says what each number that is known is worth. Every feasible point of the dual is a limit for
# all data, so that those that are found near the estimates are pieces.


def is_unseen(evidence: Evidence) -> bool:
    """Whether there are both sources, and outcomes are missing."""
    return evidence.unknown and evidence.choices is not None


def unseen_pieces(worth: Floats, counted: Counted, data: list[Evidence]) -> Pieces:
    """Pieces of the largest total worth: those that bind in the worlds of the `data`."""
    worlds = np.concatenate([_known(each).reshape(-1, 3 + 4 * len(worth)) for each in data])
    found = [_prices(worth.tobytes(), len(worth), counted, world.tobytes()) for world in worlds]
    near = [each for each in found if each[3:].max() < _farthest(worth) / 2] or found
    prices = np.unique(np.round(near, _DIGITS), axis=0)
    groups, size = prices[:, :3], len(worth)
    seen_control, seen_treated, control, treated = (prices[:, 3 + k * size : 3 + (k + 1) * size] for k in range(4))
    nothing = np.zeros((len(prices), 1))
    return Pieces(
        np.concatenate([groups[:, :1] - seen_control, groups[:, :1], -control, nothing, groups[:, 2:]], axis=1),
        np.concatenate([groups[:, 1:2] - seen_treated, groups[:, 1:2], -treated, nothing], axis=1),
    )


def unseen_term(pieces: Pieces, evidence: Evidence) -> Term:
    """The masses that such pieces count."""
    others = np.asarray(evidence.chosen.elsewhere)[..., None]
    rows = np.concatenate([evidence.chosen.control, evidence.arms.control, others], axis=-1)
    return Term(1.0, pieces, rows, np.concatenate([evidence.chosen.treated, evidence.arms.treated], axis=-1))


def _known(evidence: Evidence) -> Floats:
    """How many chose what, and had which outcome at least."""
    laws = evidence.chosen.control, evidence.chosen.treated, evidence.arms.control, evidence.arms.treated
    groups = [*(each.sum(axis=-1) for each in laws[:2]), np.asarray(evidence.chosen.elsewhere)]
    return np.concatenate([np.stack(groups, axis=-1), *(each[..., :-1] for each in laws)], axis=-1)


def _farthest(worth: Floats) -> float:
    return _FARTHEST * len(worth) * max(float(np.ptp(worth)), 1e-12)


@lru_cache(maxsize=4096)
def _prices(data: bytes, size: int, counted: Counted, known: bytes) -> Floats:
    """Prices of being in each group, less those of each outcome that is known: the cheapest that pay every worth."""
    from scipy.optimize import linprog

    worth = np.frombuffer(data).reshape(size, size)
    control, treated = np.repeat(np.eye(size), size, axis=0), np.tile(np.eye(size), (size, 1))  # of all cells
    nobody, of_group = np.zeros_like(control), np.repeat(-np.eye(3), size**2, axis=0)
    seen = np.block([[control, nobody], [nobody, treated], [nobody, nobody]])
    rows = np.hstack([of_group, seen, np.tile(np.hstack([control, treated]), (3, 1))])
    cost = np.frombuffer(known) * np.append(np.ones(3), -np.ones(4 * size))
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 3 + [(0.0, _farthest(worth))] * (4 * size)
    if not cost[2] > 0:  # nobody is elsewhere, whose price then is the least that pays
        cost[2] = 1e-12
    found = linprog(cost, A_ub=rows, b_ub=-np.outer(counted, worth).ravel(), bounds=bounds, method="highs")
    assert found.status == 0, found.message
    return np.asarray(found.x)
