"""The least and the largest answer to a causal question, for many worlds at once: sharp, whatever the sources.

An experiment fixes how outcomes are distributed without the treatment and with it, in everybody. Observation of people
who chose fixes how those who chose either had what they had. Of those who chose the treatment one then knows what they
would have had without it: what is left of everybody's outcomes without it. So with both sources each group is a pair
of worlds of its own, and bounds within groups add up (Tian and Pearl 2000 for two outcomes). Where some people chose
neither, what is left is shared with them: one transport problem between what is known and what is left.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax.bounds import MOST_PIECES, largest_worth, num_pieces
from countermax.causation._questions import CausalQuestion, Flags, Floats

TRIAL, CHOSEN = "trial", "chosen"
PEOPLE = (TRIAL, CHOSEN)
KINDS = ("any", "stable", "monotone")

_MOST_STABLE = 4  # outcomes whose orders are looked at one by one
_SAME = 1e-12


class Evidence(NamedTuple):
    """What is known; arrays run over worlds, then outcomes. None where a source is missing."""

    control: Floats | None
    """P(outcome without the treatment) in an experiment."""
    treated: Floats | None
    seen_control: Floats | None
    """P(chose to be without the treatment, and had the outcome)."""
    seen_treated: Floats | None
    elsewhere: Floats | None
    """P(chose something else)."""
    share: float | None
    """P(with the treatment) among units of the trial."""
    strata: Floats | None = None
    """[worlds, strata]: how many are in each stratum; all arrays above then have strata before outcomes."""

    @property
    def has_trial(self) -> bool:
        """Whether there was an experiment."""
        return self.control is not None

    @property
    def has_choices(self) -> bool:
        """Whether people who chose were observed."""
        return self.seen_control is not None


Memo = dict[tuple[bytes, str, bytes], Floats]
"""Means that several questions have in common."""


def limits(
    question: CausalQuestion, evidence: Evidence, people: str, kind: str = "any", memo: Memo | None = None
) -> tuple[Floats, Floats]:
    """The least and the largest answer in each world; NaN where nobody is asked about.

    Args:
        question: What is asked.
        evidence: What is known.
        people: Who is asked about: units of the `trial`, or people who have `chosen`.
        kind: Over which couplings: `any`, `stable` or `monotone` ones.
        memo: What has been found for the same evidence; it is added to.
    """
    if evidence.strata is not None:
        inner = evidence._replace(strata=None)
        spans = limits(question, inner, people, kind, memo)
        weight = evidence.strata * denominator(question, inner, people)
        return averaged(spans[0], weight), averaged(spans[1], weight)
    if people == CHOSEN and not evidence.has_choices and not question.of_everybody:
        return _nothing_known(question, evidence)
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


def has_kind(question: CausalQuestion, evidence: Evidence, kind: str, *, many: bool = False) -> bool:
    """Whether these bounds are there for a question; and for `many` worlds in a time that a person would wait."""
    size = len(question.worth)
    if kind == "any":
        return True
    if kind == "stable":
        return (
            not evidence.has_choices
            and evidence.strata is None
            and size <= (_MOST_STABLE if many else _MOST_STABLE + 2)
        )
    masked = np.where(question.allowed, question.worth, -1e3)
    if question.allowed.all() or num_pieces(masked) > MOST_PIECES // 4:
        return False
    return not evidence.has_choices or bool((np.asarray(evidence.elsewhere) <= 0).all())


def denominator(question: CausalQuestion, evidence: Evidence, people: str) -> Floats:
    """How many the question is asked about, of everybody."""
    if people == CHOSEN and evidence.seen_control is not None and evidence.seen_treated is not None:
        whole = evidence.seen_control @ question.among_control + evidence.seen_treated @ question.among_treated
        return np.asarray(whole + question.among_others * np.asarray(evidence.elsewhere))
    if question.of_everybody:
        known = evidence.seen_control if evidence.control is None else evidence.control
        assert known is not None
        return np.ones(known.shape[:-1])
    assert evidence.control is not None
    assert evidence.treated is not None
    shares = _shares(question, evidence)
    return np.asarray(
        shares[0] * (evidence.control @ question.among_control)
        + shares[1] * (evidence.treated @ question.among_treated)
    )


def groups(evidence: Evidence) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Masses (without, with) of those who chose the control, and of those who chose the treatment.

    Estimates of two sources may miss each other by chance; what would be negative is then taken as nothing.
    """
    assert evidence.control is not None
    assert evidence.treated is not None
    assert evidence.seen_control is not None
    assert evidence.seen_treated is not None
    left_control = _left(evidence.control, evidence.seen_control)
    left_treated = _left(evidence.treated, evidence.seen_treated)
    return (evidence.seen_control, left_treated), (left_control, evidence.seen_treated)


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
    if people == CHOSEN and evidence.has_choices:
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
    allowed = question.allowed if kind == "monotone" else None
    if not evidence.has_choices:
        assert evidence.control is not None
        assert evidence.treated is not None
        key = worth.tobytes(), kind, b"" if allowed is None else allowed.tobytes()
        mean = None if memo is None else memo.get(key)
        if mean is None and kind == "stable":
            mean = _largest_stable(worth, evidence.control, evidence.treated)
        elif mean is None:
            mean = largest_worth(worth, allowed).least(evidence.control, evidence.treated)
        if memo is not None:
            memo[key] = mean
        return np.asarray(counted[0] * mean)
    assert evidence.seen_control is not None
    assert evidence.seen_treated is not None
    assert evidence.elsewhere is not None
    if not evidence.has_trial:
        open_to = worth if allowed is None else np.where(allowed, worth, -np.inf)
        return np.asarray(
            counted[0] * (evidence.seen_control @ open_to.max(axis=1))
            + counted[1] * (evidence.seen_treated @ open_to.max(axis=0))
            + counted[2] * evidence.elsewhere * open_to.max()
        )
    first, second = groups(evidence)
    if (evidence.elsewhere <= 0).all():
        pieces = largest_worth(worth, allowed)
        parts = [weight * pieces.least(*pair) for weight, pair in zip(counted, (first, second), strict=False) if weight]
        return np.asarray(sum(parts))
    never, size = np.zeros_like(worth), len(worth)
    blocks = np.block([[never, counted[0] * worth], [counted[1] * worth, counted[2] * worth]])
    possible = np.ones((2 * size, 2 * size), bool)
    possible[:size, :size] = False  # nobody chose both
    rows, columns = (np.concatenate(each, axis=-1) for each in ((first[0], second[0]), (second[1], first[1])))
    return largest_worth(blocks, possible).least(rows, columns)


def _largest_stable(worth: Floats, control: Floats, treated: Floats) -> Floats:
    """The same over couplings in which outcomes change only to such as the treatment favours more."""
    ranks = ratio_ranks(control, treated)
    flat = ranks.reshape(-1, ranks.shape[-1])
    p, q = (np.broadcast_to(each, ranks.shape).reshape(flat.shape) for each in (control, treated))
    result = np.empty(len(flat))
    code = flat @ flat.shape[1] ** np.arange(flat.shape[1])
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    for place, pattern in enumerate(flat[first]):
        rows = which == place
        result[rows] = largest_worth(worth, stable_pairs(pattern)).least(p[rows], q[rows])
    return result.reshape(ranks.shape[:-1])


def ratio_ranks(control: Floats, treated: Floats) -> NDArray[np.int64]:
    """Places of the outcomes by how much the treatment favours them; equal ones have one place."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(control > 0, treated / control, np.where(treated > 0, np.inf, 1.0))
    order = np.argsort(ratio, axis=-1, kind="stable")
    ordered = np.take_along_axis(ratio, order, axis=-1)
    with np.errstate(invalid="ignore"):
        higher = ordered[..., 1:] > ordered[..., :-1] * (1 + _SAME)
    ranks = np.concatenate([np.zeros((*ratio.shape[:-1], 1), np.int64), np.cumsum(higher, axis=-1)], axis=-1)
    result = np.empty(ratio.shape, np.int64)
    np.put_along_axis(result, order, ranks, axis=-1)
    return result


def stable_pairs(ranks: NDArray[np.int64]) -> Flags:
    """Which pairs a counterfactually stable coupling may have."""
    return np.asarray((ranks[None, :] > ranks[:, None]) | np.eye(len(ranks), dtype=bool))


def _nothing_known(question: CausalQuestion, evidence: Evidence) -> tuple[Floats, Floats]:
    """For people who chose, with an experiment alone: everything that somebody can be, all of them may be.

    If anybody can be asked about and count, then those who chose may all be like that; and the same for not counting.
    """
    assert evidence.control is not None
    assert evidence.treated is not None
    asked = np.zeros(question.worth.shape, bool)
    counts, not_counts = asked.copy(), asked.copy()
    for own, among, of in (
        (0, question.among_control, question.of_control),
        (1, question.among_treated, question.of_treated),
    ):
        inside = np.broadcast_to((among > 0)[:, None] if own == 0 else (among > 0)[None, :], asked.shape)
        counts |= inside & (question.worth > 0) & of
        not_counts |= inside & ~((question.worth > 0) & of)
    pair = (evidence.control, evidence.treated)
    possible, impossible = (
        largest_worth(each.astype(np.float64)).least(*pair) > _SAME for each in (counts, not_counts)
    )
    known = possible | impossible
    return np.where(known, np.where(impossible, 0.0, 1.0), np.nan), np.where(known, possible * 1.0, np.nan)
