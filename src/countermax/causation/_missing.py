"""Limits that hold whatever the outcomes were of people whose outcome is missing.

The missing outcome is one more outcome. Whoever has it may have had any of the others, so that a pair with it is worth
what the best of those pairs is: the same transport problem with one more row and column. Where the number of those who
are asked about depends on missing outcomes, too, all ways to fill them in are compared.
"""

from typing import Any

import numpy as np

from countermax.bounds import largest_worth
from countermax.causation._evidence import Arms, Choosers, Evidence
from countermax.causation._limits import Memo, chose_unseen, counted_people, denominator, limits, widest
from countermax.causation._questions import CausalQuestion, Flags, Floats
from countermax.causation._unseen import is_unseen, unseen_pieces, unseen_term

_FEASIBLE = 1e-12


def whole_limits(
    question: CausalQuestion, evidence: Evidence, people: str, kind: str = "any", memo: Memo | None = None
) -> tuple[Floats, Floats]:
    """The least and the largest answer in each world, whatever missing outcomes were; arguments as of `limits`.

    Sharp, but with strata or both sources, and where missing outcomes decide who is asked about, both ends of the ratio
    are taken at their worst: never too narrow.
    """
    if not evidence.unknown:
        return limits(question, evidence, people, kind, memo)
    if chose_unseen(question, evidence, people) and evidence.strata is not None:
        return widest(whole_limits(question, evidence._replace(strata=None), people, kind), evidence.strata)
    if evidence.strata is None and not question.of_everybody and evidence.choices is None:
        return _over_fillings(question, evidence, people, kind, Memo() if memo is None else memo)
    counted = counted_people(question, evidence, people)
    allowed = question.allowed if kind == "monotone" else None
    found = []
    for sign in (-1.0, 1.0):
        if is_unseen(evidence):
            total = unseen_term(unseen_pieces(sign * question.worth, counted, [evidence]), evidence).least()
        else:
            pieces = largest_worth(*with_missing(sign * question.worth, allowed))
            total = counted[0] * pieces.least(*evidence.arms)
        asked = asked_with(question, evidence._replace(strata=None), sign, people)
        if evidence.strata is not None:
            total, asked = (np.asarray((evidence.strata * each).sum(axis=-1)) for each in (total, asked))
        found.append(np.where(asked > 0, sign * total, np.nan) / np.where(asked > 0, asked, 1.0))
    least, most = question.worth.min(), question.worth.max()
    upper = np.clip(found[1], least, most)
    return np.asarray(np.clip(found[0], least, upper) + 0.0), np.asarray(upper + 0.0)


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
    """A worth, and pairs that somebody can have, with one more row and column for outcomes that may be any."""
    open_to = worth if allowed is None else np.where(allowed, worth, -np.inf)
    rows = np.concatenate([open_to, open_to.max(axis=1, keepdims=True)], axis=1)
    whole = np.concatenate([rows, rows.max(axis=0, keepdims=True)])
    if allowed is None:
        return whole, None
    possible = np.isfinite(whole)
    return np.where(possible, whole, worth.min()), possible


def asked_with(question: CausalQuestion, evidence: Evidence, sign: float, people: str = "trial") -> Floats:
    """How many are asked about: as few as can be for a largest answer (1), as many as can be for a least one (-1)."""
    if not evidence.unknown or (question.of_everybody and evidence.choices is None):
        return denominator(question, evidence, people)
    among = [
        np.append(each, each.min() if sign > 0 else each.max())
        for each in (question.among_control, question.among_treated)
    ]
    return denominator(question, evidence, people, (among[0], among[1]))


def _over_fillings(
    question: CausalQuestion, evidence: Evidence, people: str, kind: str, memo: Memo
) -> tuple[Floats, Floats]:
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
        if kind == "monotone":
            control, treated = (each[..., happens].sum(axis=-1) for each in filled.arms)
            fine &= treated >= control - _FEASIBLE
        lower = np.where(fine, np.minimum(lower, span[0]), lower)
        upper = np.where(fine, np.maximum(upper, span[1]), upper)
    return np.where(lower <= upper, lower, np.nan), np.where(lower <= upper, upper, np.nan)


def _fillings(evidence: Evidence, happens: Flags) -> list[Evidence]:
    """Corners of what missing outcomes can have been, and where its edges meet the lines."""
    arms = evidence.arms
    event, other = int(happens.argmax()), int((~happens).argmax())
    shares = [each[..., :-1][..., happens].sum(axis=-1) for each in arms]
    lost = [each[..., -1] for each in arms]

    def filled(side: int, part: Any) -> Floats:
        law = np.array(arms[side][..., :-1])
        law[..., event] += part * lost[side]
        law[..., other] += (1 - part) * lost[side]
        return law

    zero = np.zeros_like(shares[0])
    ways = [(zero + x, zero + y) for x in (0.0, 1.0) for y in (0.0, 1.0)]
    for edge in (0.0, 1.0):
        for side in (0, 1):
            own = shares[side] + edge * lost[side]
            for wanted in (own, 1 - own):
                gap = lost[1 - side]
                part = np.clip((wanted - shares[1 - side]) / np.where(gap > 0, gap, 1), 0, 1)
                ways.append((zero + edge, part) if side == 0 else (part, zero + edge))
    found = []
    for way in ways:
        laws = Arms(*(filled(side, part) for side, part in enumerate(way)))
        found.append(evidence._replace(trial=laws, unknown=False))
    return found
