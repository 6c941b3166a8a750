"""Every number of a result: bounds, what each coupling says, the intervals of all of them, and what to note."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.compilation import quickly_compiled
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.quantities import as_choice
from countermax._core.results import Row
from countermax._core.words import ANY, STABLE
from countermax.bounds import Bounds
from countermax.causation._crossing import Crossing, crossed_limits, halved_interval, without_effects
from countermax.causation._limits import (
    CHOSEN,
    FAMILIES,
    MONOTONE,
    PEOPLE,
    TRIAL,
    Memo,
    chose_unseen,
    denominator,
    groups,
    has_kind,
    is_monotone,
    known_part,
    limits,
    monotone_worlds,
    ratio,
    said_by,
    why_not,
)
from countermax.causation._questions import (
    CausalQuestion,
    Evidence,
    Floats,
    as_event,
    as_gain,
    listed_names,
    questions_about,
)
from countermax.causation._result import ABOUT, Causation, causation_title
from countermax.causation._sampling import Evidences
from countermax.comparison._asking import (
    Couplings,
    chosen_couplings,
    family_notes,
    order_note,
    refuse_families,
    row_of,
    score_words,
    sentence,
)
from countermax.comparison._measuring import GIVEN_ORDER
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.intervals._linearised import CONCAVE, CONVEX, MIXED, Answers, limits_of, ranked_columns
from countermax.intervals._sampling import Sampling

Intervals = dict[tuple[str, str], Interval]
"""By question, and by coupling or family of couplings."""
Crossed = dict[tuple[str, str], tuple[Bounds | None, Interval]]
"""Cross-fitted bounds and their intervals, by question and family of couplings."""

_FEW_LAWS, _LAWS_AT_ONCE = 128, 4096  # pairs of worlds
_ROUNDING = 1e-9
_MOST_NOTES = 3
_ERRORS = 3.5  # standard errors by which two estimates may miss each other


class Strata(NamedTuple):
    """Who was counted."""

    names: tuple[str, ...]
    """One without a name where there are no strata."""
    sizes: Floats
    """[strata, 3]: how many people were counted: in the control arm, with the treatment, and observed."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known about a treatment, read and checked."""

    labels: Labels
    arms: tuple[str, str]
    """Names of the arm without the treatment and of the arm with it."""
    evidence: Evidence
    scores: tuple[Floats, Floats] | None = None
    """Score of each outcome (larger is better), without the treatment and with it."""
    sampling: Sampling | None = None
    """Sampling behind the evidence; None where it is known, or cross-fitted."""
    evidence_of: Evidences | None = None
    crossing: Crossing | None = None
    """People by stratum: bounds are then cross-fitted."""
    strata: Strata | None = None
    sample: str = ""
    order: str | None = GIVEN_ORDER
    """Source of the order of the outcomes, for the couplings that depend on it."""
    notes: tuple[str, ...] = ()


_BIASED = (
    "Within strata the values of single couplings are plug-in estimates, biased towards more benefit and more harm "
    "where strata have few people; `compare` standardises over strata instead."
)


class _Asked(NamedTuple):
    """What is asked of whom, and which couplings are asked."""

    questions: Sequence[CausalQuestion]
    people: str
    couplings: Mapping[str, AbstractCoupling]
    level: float


def causes_of(
    known: Known,
    event: Any = None,
    *,
    at_least: int | float | None = None,
    gain: Any = None,
    people: str | None = None,
    couplings: Couplings | None = None,
    level: float = 0.95,
) -> Causation:
    """Everything that a result says, from what is known."""
    check_level(level)
    names, arms, evidence = known.labels, known.arms, known.evidence
    people = (TRIAL if evidence.choices is None else CHOSEN) if people is None else people
    as_choice("`people`", people, PEOPLE)
    if people == TRIAL and evidence.trial is None:
        raise InputError("`people` can be 'trial' only with an experiment: give both arms")
    places = None if event is None else as_event(names, event)
    if places is not None and known.sampling is None and known.crossing is None:
        _check_event(names, evidence, places)
    worth = None if gain is None else as_gain(names, gain)
    separately = evidence.choices is not None and people == CHOSEN
    questions = questions_about(names, arms, places, known.scores, at_least, worth, separately)
    notes = [*known.notes]
    if people == TRIAL and evidence.share is None:
        left = [each.name for each in questions if each.name in ("disablement", "enablement")]
        questions = [each for each in questions if each.name not in left]
        if left:
            notes.append("Disablement and enablement need the share of the treated: say `treated_share`.")
    notes += check_sources(evidence, names, arms, known.strata)
    crossing = known.crossing
    if couplings is None and people == TRIAL and evidence.choices is None and crossing is None and not evidence.unknown:
        couplings = ["gumbel-max"]
    with jax.enable_x64(True):
        by_name = chosen_couplings(couplings, names, known.scores, known.order) if couplings else {}
    if by_name and crossing is not None:
        notes.append(_BIASED)
    refuse_families(by_name, FAMILIES)
    asked = _Asked(questions, people, by_name, level)
    crossed: Crossed | None = None
    intervals: Intervals = {}
    if crossing is not None:
        laws = crossing.strata @ crossing.laws
        crossing = replace(crossing, columns=_columns(asked, known, laws, (len(laws),)))
        crossed = {
            (question.name, kind): crossed_limits(question, crossing, people, kind, level)
            for question in questions
            for kind in FAMILIES
            if has_kind(question, crossing.whole, kind, many=True)
        }
        intervals = {key: interval for key, (_, interval) in crossed.items()} | _halved(asked, crossing, crossed)
    elif known.sampling is not None:
        intervals = _intervals(asked, known)
    shown_level = level if crossing is not None or known.sampling is not None else None
    rows = _rows(asked, _values(asked, evidence, crossed), intervals)
    families = [kind for kind in FAMILIES if any(each.coupling == kind for each in rows)]
    if known.scores is not None:
        notes.append(sentence(score_words(names.names, known.scores)))
    notes += [*_noted(known, people, questions, rows), *order_note(names, by_name, known.order)]
    return Causation(
        title=causation_title(names.names, arms, places),
        labels=names.names,
        arms=arms,
        people=people,
        rows=rows,
        level=shown_level,
        sample=known.sample if known.sampling is None else known.sampling.words,
        notes=(*(f"{each.name}: {each.meaning}." for each in questions),
               *family_notes(families, shown_level, "" if evidence.choices is None else "what is known"), *notes),
        questions=tuple(questions),
        evidence=evidence,
    )  # fmt: skip


def _answers(
    asked: _Asked, evidence: Evidence, memo: Memo | None = None, *, many: bool = False
) -> Iterator[tuple[CausalQuestion, str, Bounds | Floats]]:
    """All answers in each world, by question, and by family of couplings or coupling; NaN where there is none."""
    known_law, people = known_part(evidence), asked.people
    joints = _joints(asked.couplings, known_law)
    for question in asked.questions:
        for kind in FAMILIES:
            if has_kind(question, evidence, kind, many=many):
                fits = monotone_worlds(question, evidence) if kind == MONOTONE else True
                span = limits(question, evidence, people, kind, memo)
                yield question, kind, Bounds(*(np.where(fits, each, np.nan) for each in span))
        for name, joint in joints.items():
            yield question, name, said_by(question, known_law, people, joint)


def _values(asked: _Asked, evidence: Evidence, crossed: Crossed | None) -> dict[tuple[str, str], Bounds | float]:
    """All numbers about one pair of worlds; none of a question that is asked about nobody."""
    found: dict[tuple[str, str], Bounds | float] = {}
    for question, name, value in _answers(asked, evidence):
        if crossed is not None and name == ANY:
            bounds = crossed[question.name, name][0]
            found |= {} if bounds is None else {(question.name, name): bounds}
        elif isinstance(value, Bounds):
            found |= {} if np.isnan(value.lower) else {(question.name, name): Bounds(*map(float, value))}
        elif (question.name, ANY) in found and not chose_unseen(question, evidence, asked.people):  # who chose is known
            found[question.name, name] = float(value)
    return {(name, kind): _inside(value, found[name, ANY]) if kind == MONOTONE else value
            for (name, kind), value in found.items()}  # fmt: skip


def _inside(some: Bounds | float, every: Bounds | float) -> Bounds | float:
    """A range over some couplings, within that over all of them: where outcomes are missing, neither need be sharp."""
    assert isinstance(some, Bounds)
    assert isinstance(every, Bounds)
    if some.lower == some.upper:
        return some
    return Bounds(*(min(max(each, every.lower), every.upper) for each in some))


def _rows(asked: _Asked, values: Mapping[tuple[str, str], Bounds | float], intervals: Intervals) -> tuple[Row, ...]:
    rows = []
    for question in asked.questions:
        for name in (*asked.couplings, MONOTONE, STABLE, ANY):
            value, interval = values.get((question.name, name)), intervals.get((question.name, name))
            if value is None and (interval is None or name not in FAMILIES):
                continue
            if interval is not None:
                interval = interval.within(intervals[question.name, ANY])
            rows.append(row_of(question.name, ABOUT[asked.people], name, value, interval))
    return tuple(rows)


def _intervals(asked: _Asked, known: Known) -> Intervals:
    """Confidence intervals of every number; of a range, one that holds all of it."""
    questions, people, _, level = asked
    sampling, evidence_of = known.sampling, known.evidence_of
    assert sampling is not None
    assert evidence_of is not None
    everybody = np.full(len(sampling.laws), 1 / len(sampling.cells))
    denominators, whom = [everybody], dict.fromkeys((each.name for each in questions), 0)
    for question in questions:  # how many are asked about: linear, where it does not depend on missing outcomes
        if not (known.evidence.unknown or chose_unseen(question, known.evidence, people) or question.of_everybody):
            whom[question.name] = len(denominators)
            denominators.append(denominator(question, evidence_of(np.eye(len(everybody))), people))
    columns: list[tuple[str, str, str]] = []

    def ask(laws: Floats) -> tuple[Floats, Answers]:
        evidence = evidence_of(laws)
        columns.clear()
        values, kinds = [], []
        for question, name, value in _answers(asked, evidence, Memo(), many=True):
            ends = question.worth.min(), question.worth.max()
            # Stable bounds jump; what is left of a second source, or of missing outcomes, has kinks of its own.
            shaped = name != STABLE and evidence.choices is None and (question.of_everybody or not evidence.unknown)
            sides = [("", MIXED, value)]
            if isinstance(value, Bounds):
                sides = [("lower", CONVEX, value.lower), ("upper", CONCAVE, value.upper)]
            for side, shape, each in sides:
                columns.append((question.name, name, side))
                values.append(each)
                kinds.append((shape if shaped else MIXED, whom[question.name], *ends))
        return np.stack(values, axis=1), Answers(*map(np.array, zip(*kinds, strict=True)))

    columns_of_points = _columns(asked, known, sampling.laws, sampling.cells, sampling.sizes)
    lower, upper = limits_of(sampling, ask, np.stack(denominators), level, columns=columns_of_points)
    places = {column: place for place, column in enumerate(columns)}
    ends = {each.name: (each.worth.min(), each.worth.max()) for each in questions}
    found: Intervals = {}
    for (name, coupling, side), place in places.items():
        if side != "upper":
            end = place if side == "" else places[name, coupling, "upper"]
            found[name, coupling] = Interval(float(lower[place]), float(upper[end]), level)
            if coupling == MONOTONE and lower[place] == ends[name][0] and upper[end] == ends[name][1]:
                del found[name, coupling]  # no data nearby leave room for it, or it adds nothing
    return found


def _columns(
    asked: _Asked, known: Known, laws: Floats, cells: Sequence[int], sizes: Floats | None = None
) -> NDArray[np.int64]:
    """The place of each cell by how frequent its outcome is, and what is asked of it."""
    sources = [each for each in (known.evidence.trial, known.evidence.choices) if each is not None]
    features = [*(known.scores or ())]
    for each in asked.questions:
        features += [each.among_control, each.among_treated, each.worth.sum(axis=0), each.worth.sum(axis=1)]
    return ranked_columns(laws, cells, sources[0].control.shape[-1], features, sizes)


def _halved(asked: _Asked, crossing: Crossing, crossed: Crossed) -> Intervals:
    """Intervals by question and coupling within strata: that of a family which says the same number, if one does."""
    questions, people, couplings, level = asked
    if not couplings:
        return {}
    every = (crossing.whole, crossing.evidence_of(crossing.points[1]), without_effects(crossing, level))
    whole, halves, without = (known_part(each._replace(strata=None)) for each in every)
    joints = [_joints(couplings, each) for each in (whole, halves, without)]
    result: Intervals = {}
    for question in questions:
        ends = float(question.worth.min()), float(question.worth.max())
        asked_about = [denominator(question, each, people) for each in (whole, halves, without)]
        families = {
            kind: limits(question, halves, people, kind)
            for kind in FAMILIES
            if (question.name, kind) in crossed and (kind != MONOTONE or np.all(monotone_worlds(question, halves)))
        }
        for name in couplings:
            parts = zip((whole, halves, without), joints, strict=True)
            answers = [np.nan_to_num(said_by(question, each, people, joint[name])) for each, joint in parts]
            same = [kind for kind, span in families.items() if np.allclose(span, answers[1], rtol=0, atol=_ROUNDING)]
            if same:
                result[question.name, name] = crossed[question.name, same[0]][1]
                continue
            said = [answer * among for answer, among in zip(answers, asked_about, strict=True)]
            found, again = zip(said[:2], asked_about[:2], strict=True)
            other = float(ratio(said[2] @ crossing.strata, asked_about[2] @ crossing.strata))
            result[question.name, name] = halved_interval(found, again, other, crossing, ends, level)
    return result


def _joints(couplings: Mapping[str, AbstractCoupling], evidence: Evidence) -> dict[str, dict[str, Floats]]:
    """Each coupling's joint law in each group; none where a group's outcomes are not known."""
    if not couplings or evidence.trial is None:
        return {}
    if evidence.choices is None:
        pairs: dict[str, tuple[Floats, Floats]] = {"everybody": evidence.trial}
    elif float(np.max(evidence.chosen.elsewhere)) > 0:
        return {}
    else:
        first, second = groups(evidence)
        pairs = {"control": first, "treated": second}
    found: dict[str, dict[str, Floats]] = {name: {} for name in couplings}
    for group, (p, q) in pairs.items():
        rows = [each.reshape(-1, each.shape[-1]) for each in (p, q)]
        mass = rows[0].sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = [np.log(np.where(mass > 0, each, 1.0)) for each in rows]
        logs = [each - np.log(np.exp(each).sum(axis=1, keepdims=True)) for each in logs]
        for name, joint in _laws(couplings, *logs).items():
            whole = joint * mass[:, :, None]
            found[name][group] = whole.reshape(*p.shape[:-1], *whole.shape[1:])
    return found


def _laws(couplings: Mapping[str, AbstractCoupling], log_p: Floats, log_q: Floats) -> dict[str, Floats]:
    """Each coupling's joint laws of pairs of worlds, in batches of one shape, so that one program is compiled."""
    number = len(log_p)
    step = _LAWS_AT_ONCE if number > _FEW_LAWS else number
    rest = -number % step
    worlds = [np.concatenate([each, np.repeat(each[-1:], rest, axis=0)]) for each in (log_p, log_q)]
    found: dict[str, list[Floats]] = {name: [] for name in couplings}
    with jax.enable_x64(True):
        for start in range(0, number, step):
            some = (each[start : start + step] for each in worlds)
            for name, joint in (_many if number > _FEW_LAWS else _few)(dict(couplings), *some).items():
                found[name].append(np.asarray(joint))
    return {name: np.concatenate(each)[:number] for name, each in found.items()}


def _joint_laws(couplings: Any, log_p: Any, log_q: Any) -> Any:
    return jax.vmap(lambda p, q: {name: each._joint(p, q) for name, each in couplings.items()})(log_p, log_q)


_few, _many = quickly_compiled(_joint_laws), quickly_compiled(_joint_laws, many_numbers=True)


def _noted(known: Known, people: str, questions: Sequence[CausalQuestion], rows: Sequence[Row]) -> list[str]:
    """What stands below the numbers: who is asked about, what is contradicted, what is not there."""
    notes, evidence = [], known.evidence
    there = {(each.quantity, each.coupling): each for each in rows if each.shown}
    nobody = [each.name for each in questions if (each.name, ANY) not in there]
    if nobody:
        notes.append(
            f"{', '.join(nobody)}: undefined, because nobody in these data is in the group that is asked about."
        )
    rules: dict[str, list[str]] = {}
    contradicted: dict[str, list[str]] = {}
    for each in questions:
        rule = each.monotonicity
        if rule is not None and (each.name, MONOTONE) in there:
            rules.setdefault(rule.holds, []).append(each.name)
        if rule is not None and has_kind(each, evidence, MONOTONE) and not is_monotone(each, evidence):
            contradicted.setdefault(rule.fails, []).append(each.name)
    if rules:
        told = [f"{rule} ({', '.join(names)})" for rule, names in rules.items()]
        notes.append(f"Monotone: {'; '.join(told)}.")
    for fails, about in contradicted.items():
        notes.append(f"No monotone bounds of {', '.join(about)}: by the estimates {fails}.")
    if len(known.labels) == 2 and any(coupling == STABLE for _, coupling in there):
        notes.append("With two outcomes exactly one coupling is stable: the one that changes as few as possible.")
    if people == CHOSEN and evidence.choices is None:
        notes.append(
            "These are people who chose their arm, and there are no observations of them: PN and PS may then be "
            "anything that is possible at all; observations beside the experiment would narrow them (`observational`)."
        )
    lacking = [
        each.quantity
        for each in rows
        if each.coupling == STABLE and each.shown and each.ci_lower is None and known.sampling is not None
    ]
    if lacking:
        notes.append(
            f"Stable bounds of {', '.join(lacking)} have no confidence interval: with more than 4 outcomes a worth "
            "must have two values; merge outcomes, or read the interval over any coupling, which holds them."
        )
    reasons: dict[tuple[str, str], list[str]] = {}
    for kind in FAMILIES:
        for each in questions:
            reason = why_not(each, evidence, kind)
            if reason is not None:
                reasons.setdefault((kind, reason), []).append(each.name)
    for (kind, reason), about in reasons.items():
        of = "" if len(about) == len(questions) else f" of {', '.join(about)}"
        notes.append(f"There are no {kind.split()[0]} bounds{of}: {reason}.")
    return notes


def _check_event(names: Labels, evidence: Evidence, event: list[int]) -> None:
    """Refuses an event that never happens, or always."""
    worlds = evidence.trial or [each / each.sum() for each in evidence.chosen[:2]]
    shares = [share for each in worlds for share in np.ravel(each[..., event].sum(axis=-1))]
    for limit, word in ((0.0, "never"), (1.0, "always")):
        if all(abs(share - limit) < 1e-15 for share in shares):
            raise InputError(
                f"`event` must happen to some and not to others, but {listed_names(names, event)} {word} happens in "
                "these data; ask about another event"
            )


def check_sources(evidence: Evidence, labels: Labels, arms: tuple[str, str], strata: Strata | None = None) -> list[str]:
    """Refuses sources that contradict each other, with the violated inequality; notes misses that chance makes."""
    if evidence.trial is None or evidence.choices is None:
        return []
    notes = []
    for place, name in enumerate(("",) if strata is None else strata.names):
        inner = evidence if evidence.strata is None else evidence.without_strata(itemgetter(place))
        where = f" in stratum {name!r}" if name else ""
        notes += _checked(inner, labels, arms, None if strata is None else strata.sizes[place], where)
    return notes[:_MOST_NOTES]


def _checked(evidence: Evidence, labels: Labels, arms: tuple[str, str], sizes: Floats | None, where: str) -> list[str]:
    """The same in one stratum."""
    notes = []
    for place, (arm, whole, seen) in enumerate(zip(arms, evidence.arms, evidence.chosen[:2], strict=True)):
        if evidence.unknown:  # whoever has no outcome in the experiment may have had this one
            whole, seen = whole[:-1] + whole[-1], seen[:-1]
        error: Any = 0.0
        if sizes is not None:
            error = _ERRORS * np.sqrt(_variance(whole, sizes[place]) + _variance(seen, sizes[2]))
        excess = seen - whole
        if (excess > error + _ROUNDING).any():
            outcome = int((excess - error).argmax())
            beyond = "" if sizes is None else ", by more than chance"
            raise InputError(
                f"the sources cannot both be right{where}: P({labels.names[outcome]!r} if {arm}) in the experiment, "
                f"{whole[outcome]:.4g}, must be at least P(chose {arm} and had {labels.names[outcome]!r}) in the "
                f"observations, {seen[outcome]:.4g}, but is less{beyond}; are they the same people, outcomes and arms?"
            )
        if (excess > _ROUNDING).any():
            outcome = int(excess.argmax())
            notes.append(
                f"The two sources miss each other by chance{where}: P({labels.names[outcome]!r} if {arm}) was "
                f"estimated below P(chose {arm} and had {labels.names[outcome]!r}), which cannot be; it was taken as "
                "equal."
            )
    return notes


def _variance(share: Floats, size: float) -> Floats:
    """Of an estimated share, with half a person added so that nothing is certain."""
    smooth = (share * size + 0.5) / (size + 1)
    return np.asarray(smooth * (1 - smooth) / size)
