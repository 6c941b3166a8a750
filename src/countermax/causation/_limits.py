"""The least and the largest answer to a causal question, for many worlds at once: sharp, whatever the sources.

An experiment fixes how outcomes are distributed without the treatment and with it, in everybody. Observation of people
who chose fixes how those who chose either had what they had. Of those who chose the treatment one then knows what they
would have had without it: what is left of everybody's outcomes without it. So with both sources each group is a pair
of worlds of its own, and bounds within groups add up (Tian and Pearl 2000 for two outcomes). Where some people chose
neither, what is left is shared with them: one transport problem between what is known and what is left.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from countermax.bounds import Pieces, largest_worth
from countermax.causation._evidence import Evidence
from countermax.causation._questions import CausalQuestion, Flags, Floats
from countermax.causation._stable import Orders, largest_stable

TRIAL, CHOSEN = "trial", "chosen"
PEOPLE = (TRIAL, CHOSEN)

_SAME = 1e-12


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

    means: dict[tuple[bytes, str, bytes], Floats] = field(default_factory=dict)
    """Largest worths, by what they are the least of and of whom."""
    orders: Orders | None = None
    groups: tuple[tuple[Floats, Floats], tuple[Floats, Floats]] | None = None
    fillings: dict[bytes, list[tuple[Evidence, "Memo"]]] = field(default_factory=dict)
    """Ways to fill in missing outcomes, by event, each with a memory of its own."""


def limits(
    question: CausalQuestion, evidence: Evidence, people: str, kind: str = "any", memo: Memo | None = None
) -> tuple[Floats, Floats]:
    """The least and the largest answer in each world; NaN where nobody is asked about.

    Args:
        question: Question to answer.
        evidence: Evidence to answer from.
        people: People the question is about: units of the `trial`, or people who have `chosen`.
        kind: Couplings that the answer ranges over: `any`, `stable` or `monotone` ones.
        memo: Memory of what has been found for the same evidence; it is added to.
    """
    if evidence.strata is not None:
        inner = evidence._replace(strata=None)
        spans = limits(question, inner, people, kind, memo)
        if chose_unseen(question, evidence, people):
            return widest(spans, evidence.strata)
        weight = evidence.strata * denominator(question, inner, people)
        return averaged(spans[0], weight), averaged(spans[1], weight)
    if chose_unseen(question, evidence, people):
        return _nothing_known(question, evidence, kind, memo)
    asked = denominator(question, evidence, people)
    known = asked > 0
    span = np.where(known, asked, 1.0)
    counted = counted_people(question, evidence, people)
    with np.errstate(invalid="ignore"):
        upper = np.where(known, _largest(question.worth, question, evidence, counted, kind, memo) / span, np.nan)
        lower = np.where(known, -_largest(-question.worth, question, evidence, counted, kind, memo) / span, np.nan)
    least, most = question.worth.min(), question.worth.max()
    upper = np.clip(upper, least, most)
    return np.asarray(np.clip(lower, least, upper) + 0.0), np.asarray(upper + 0.0)  # no zero is negative


def averaged(values: Floats, weight: Floats) -> Floats:
    """Means over strata; NaN where there is nobody."""
    total = weight.sum(axis=-1)
    known = np.where(weight > 0, values * weight, 0).sum(axis=-1)
    return np.asarray(np.where(total > 0, known, np.nan) / np.where(total > 0, total, 1.0))


def denominator(
    question: CausalQuestion, evidence: Evidence, people: str, among: tuple[Floats, Floats] | None = None
) -> Floats:
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


def groups(evidence: Evidence, *, as_measured: bool = False) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
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


def counted_people(question: CausalQuestion, evidence: Evidence, people: str) -> tuple[float, float, float]:
    """How much people in control, with the treatment and elsewhere count."""
    if people == CHOSEN and evidence.choices is not None:
        return float(question.of_control), float(question.of_treated), float(question.of_others)
    if question.of_everybody:
        return 1.0, 1.0, 1.0
    share = _shares(question, evidence)[1 if question.of_treated else 0]
    return share, share, share  # in a trial both arms are like everybody


def _largest(
    worth: Floats,
    question: CausalQuestion,
    evidence: Evidence,
    counted: tuple[float, float, float],
    kind: str,
    memo: Memo | None,
) -> Floats:
    """The largest total worth of those who count."""
    if kind == "stable":
        orders = None if memo is None else memo.orders
        if orders is None:
            orders = Orders(*evidence.arms, exact=memo is None)
        if memo is not None:
            memo.orders = orders
        found: dict[tuple[bytes, str, bytes], Floats] = {} if memo is None else memo.means
        key = worth.tobytes(), kind, b""
        if key not in found:
            found[key] = largest_stable(worth, orders)
        return np.asarray(counted[0] * found[key])
    allowed = question.allowed if kind == "monotone" else None
    if evidence.choices is not None:
        if memo is not None and memo.groups is None and evidence.trial is not None:
            memo.groups = groups(evidence)
        terms = terms_of(worth, allowed, evidence, counted, pairs=None if memo is None else memo.groups)
        return np.asarray(sum(each.weight * _remembered(each, memo) for each in terms))
    (term,) = terms_of(worth, allowed, evidence, (1.0, 1.0, 1.0))  # means that do not depend on whom they are asked of
    return np.asarray(counted[0] * _remembered(term, memo))


def _remembered(term: Term, memo: Memo | None) -> Floats:
    """The largest worth of this part, which several questions may ask for."""
    if memo is None:
        return term.least()
    key = term.pieces.here.tobytes(), term.group, term.pieces.there.tobytes()
    if key not in memo.means:
        memo.means[key] = term.least()
    return memo.means[key]


def terms_of(
    worth: Floats,
    allowed: Flags | None,
    evidence: Evidence,
    counted: tuple[float, float, float],
    *,
    as_measured: bool = False,
    pairs: tuple[tuple[Floats, Floats], tuple[Floats, Floats]] | None = None,
) -> list[Term]:
    """What the largest total worth is a sum of: each the least of linear pieces of two masses.

    Args:
        worth: A number for each pair of outcomes.
        allowed: Pairs that somebody can have; None for all.
        evidence: Evidence to answer from.
        counted: Weights of people in control, with the treatment and elsewhere.
        as_measured: Whether what is left of everybody may be negative by chance, so that it is linear in estimates.
        pairs: The `groups` of this evidence, if they are known.
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
    blocks = np.block([[never, counted[0] * worth], [counted[1] * worth, counted[2] * worth]])
    possible = np.ones((2 * size, 2 * size), bool)
    possible[:size, :size] = False  # nobody chose both
    rows, columns = (np.concatenate(each, axis=-1) for each in ((first[0], second[0]), (second[1], first[1])))
    return [Term(1.0, largest_worth(blocks, possible), rows, columns)]


def chose_unseen(question: CausalQuestion, evidence: Evidence, people: str) -> bool:
    """Whether some of those who chose are asked about, and nobody observed who chose what."""
    return people == CHOSEN and evidence.choices is None and not question.of_everybody


def widest(spans: tuple[Floats, Floats], strata: Floats) -> tuple[Floats, Floats]:
    """Limits over strata in any of which all who chose may be; NaN where there is nobody."""
    fine = (strata > 0) & ~np.isnan(spans[0])
    lower, upper = np.where(fine, spans[0], np.inf).min(axis=-1), np.where(fine, spans[1], -np.inf).max(axis=-1)
    known = fine.any(axis=-1)
    return np.where(known, lower, np.nan), np.where(known, upper, np.nan)


def asked_pairs(question: CausalQuestion) -> tuple[Flags, Flags]:
    """[arm, without, with]: whether somebody who chose the arm is asked about and counts, or does not count."""
    shape = question.worth.shape
    asked = (question.among_control > 0)[:, None], (question.among_treated > 0)[None, :]
    among = np.stack([np.broadcast_to(each, shape) for each in asked])
    counted = (question.worth > 0) & np.array([question.of_control, question.of_treated])[:, None, None]
    return among & counted, among & ~counted


def _nothing_known(question: CausalQuestion, evidence: Evidence, kind: str, memo: Memo | None) -> tuple[Floats, Floats]:
    """For people who chose, with an experiment alone: everything that somebody can be, all of them may be.

    If under some coupling of the kind anybody is asked about and counts, then those who chose may all be like that, and
    the others have chosen something else; and the same for not counting.
    """
    possible, impossible = (
        _largest(np.asarray(each.any(axis=0), np.float64), question, evidence, (1.0, 1.0, 1.0), kind, memo) > _SAME
        for each in asked_pairs(question)
    )
    known = possible | impossible
    return np.where(known, np.where(impossible, 0.0, 1.0), np.nan), np.where(known, possible * 1.0, np.nan)
