"""Every number of a result: bounds, what each coupling says, and the intervals of all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

from countermax._core.compilation import quickly_compiled
from countermax.bounds import Bounds, largest_worth, num_pieces
from countermax.causation._crossing import Crossing, crossed_limits
from countermax.causation._evidence import Evidence
from countermax.causation._halving import halved_intervals, without_effects
from countermax.causation._kinds import KINDS, has_kind
from countermax.causation._limits import CHOSEN, Memo, averaged, chose_unseen, counted_people, denominator, groups
from countermax.causation._missing import known_part, whole_limits, with_missing
from countermax.causation._questions import CausalQuestion, Floats
from countermax.causation._result import CausalAnswer, CausalIntervals
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._inversion import inverted_intervals, reaching, resampled_intervals
from countermax.intervals._sampling import AbstractSampling

Evidences = Callable[[Floats, Floats], Evidence]
"""What pairs of worlds of a sampling say."""

Crossed = dict[tuple[str, str], tuple[Bounds | None, Interval]]
"""Cross-fitted bounds and their intervals, by question and kind of couplings."""

_FEASIBLE = 1e-9
_CANDIDATES, _DRAWS, _SEARCHED = 200, 125, 4000
_FEWEST_TIED, _MOST_TIED = 4, 16  # pieces of a limit whose errors are taken together; fewer are searched for
_FEW_LAWS, _LAWS_AT_ONCE = 128, 4096  # pairs of worlds


def answers_to(
    questions: Sequence[CausalQuestion],
    evidence: Evidence,
    people: str,
    couplings: Mapping[str, AbstractCoupling],
    found: Mapping[str, CausalIntervals] | None = None,
    crossed: Crossed | None = None,
) -> tuple[CausalAnswer, ...]:
    """All answers about one pair of worlds.

    Args:
        questions: Questions to answer.
        evidence: Evidence to answer from.
        people: People the question is about.
        couplings: Couplings to ask, by name.
        found: Intervals by question.
        crossed: Cross-fitted limits, which bounds over all couplings then are.
    """
    known_law = known_part(evidence)
    joints = _joints(couplings, known_law)
    result = []
    for question in questions:
        spans: dict[str, Bounds | None] = {}
        for kind in KINDS:
            if crossed is not None and kind == "any":
                spans[kind] = crossed[question.name, kind][0]
                continue
            fits = has_kind(question, evidence, kind) and (kind != "monotone" or is_monotone(question, evidence))
            span = whole_limits(question, evidence, people, kind) if fits else (np.nan, np.nan)
            spans[kind] = None if np.isnan(span[0]) else Bounds(*map(float, span))
        by_coupling = {name: said_by(question, known_law, people, joint) for name, joint in joints.items()}
        said = spans["any"] is not None and not chose_unseen(question, evidence, people)  # who chose is not known
        intervals = None if found is None else found[question.name]
        if intervals is not None and not said:
            intervals = replace(intervals, by_coupling={})
        result.append(
            CausalAnswer(
                name=question.name,
                meaning=question.meaning,
                monotonicity=None if question.monotonicity is None else question.monotonicity.holds,
                bounds=spans["any"],
                stable_bounds=spans["stable"],
                monotone_bounds=spans["monotone"],
                by_coupling={name: float(value) for name, value in by_coupling.items()} if said else {},
                intervals=intervals,
            )
        )
    return tuple(result)


def is_monotone(question: CausalQuestion, evidence: Evidence) -> bool:
    """Whether the data leave room for monotonicity: some coupling has none of the pairs that it excludes."""
    if evidence.trial is None:
        return True
    pairs = list(groups(evidence)) if evidence.choices is not None else [evidence.trial]
    allowed = question.allowed.astype(np.float64)
    pieces = largest_worth(with_missing(allowed)[0] if evidence.unknown else allowed)
    return all(bool((pieces.least(*pair) >= np.sum(pair[0], axis=-1) - _FEASIBLE).all()) for pair in pairs)


def crossed_by(questions: Sequence[CausalQuestion], crossing: Crossing, people: str, level: float) -> Crossed:
    """Cross-fitted limits of every question over every kind of couplings that it has."""
    return {
        (question.name, kind): crossed_limits(question, crossing, people, kind, level)
        for question in questions
        for kind in KINDS
        if has_kind(question, crossing.whole, kind, many=True)
    }


def intervals_of(
    questions: Sequence[CausalQuestion],
    sampling: AbstractSampling | None,
    evidence_of: Evidences | None,
    people: str,
    couplings: Mapping[str, AbstractCoupling],
    *,
    level: float,
    seed: int,
    method: Callable[..., Interval] = inverted_intervals,
    crossing: Crossing | None = None,
    crossed: Crossed | None = None,
) -> dict[str, CausalIntervals]:
    """The intervals of every number; of a range, one that holds all of it.

    They are found from the sampling, or where bounds are `crossed`, from the `crossing`.
    """
    if crossing is not None and crossed is not None:
        spans = {key: interval for key, (_, interval) in crossed.items()}
        said = _halved(questions, crossing, people, couplings, level)
    else:
        assert sampling is not None
        assert evidence_of is not None
        spans, said = _inverted(questions, sampling, evidence_of, people, couplings, level, seed, method)
    result = {}
    for question in questions:
        whole, *others = (spans.get((question.name, kind)) for kind in KINDS)
        assert whole is not None
        inside = [  # a stable coupling is a coupling
            None if each is None else each.within(whole) for each in others
        ]
        by_name = {name: said[question.name, name] for name in couplings if (question.name, name) in said}
        result[question.name] = CausalIntervals(whole, inside[0], inside[1], by_name)
    return result


def _inverted(
    questions: Sequence[CausalQuestion],
    sampling: AbstractSampling,
    evidence_of: Evidences,
    people: str,
    couplings: Mapping[str, AbstractCoupling],
    level: float,
    seed: int,
    method: Callable[..., Interval],
) -> tuple[dict[tuple[str, str], Interval], dict[tuple[str, str], Interval]]:
    """Intervals by question and kind of couplings, and by question and coupling, from tests of proposed truths."""
    columns: list[tuple[str, str]] = []

    def ask(p: Floats, q: Floats) -> Floats:
        evidence, values, memo = evidence_of(p, q), [], Memo()
        known_law = known_part(evidence)
        joints = _joints(couplings, known_law)
        columns.clear()
        for question in questions:
            least, most = question.worth.min(), question.worth.max()
            for kind in KINDS:
                if has_kind(question, evidence, kind, many=True):
                    lower, upper = whole_limits(question, evidence, people, kind, memo)
                    values += [np.where(np.isnan(lower), least, lower), np.where(np.isnan(upper), most, upper)]
                    columns.extend([(question.name, f"{kind} lower"), (question.name, f"{kind} upper")])
            for name, joint in joints.items():
                value = said_by(question, known_law, people, joint)
                values.append(np.where(np.isnan(value), least, value))
                columns.append((question.name, f"by {name}"))
        return np.stack(values, axis=1)

    number = {"num_candidates": _CANDIDATES, "num_draws": _DRAWS, "num_searched": _SEARCHED}
    interval = method(sampling, ask, level=level, seed=seed, **number)
    places = {column: place for place, column in enumerate(columns)}

    spans, said = {}, {}
    for (name, column), place in places.items():
        if column.startswith("by "):
            said[name, column[3:]] = Interval(float(interval.lower[place]), float(interval.upper[place]), level)
        elif column.endswith(" lower"):
            kind = column.removesuffix(" lower")
            high = places[name, f"{kind} upper"]
            spans[name, kind] = Interval(float(interval.lower[place]), float(interval.upper[high]), level)
    evidence = evidence_of(sampling.p, sampling.q)
    if method is not resampled_intervals and evidence.choices is None and not evidence.unknown:
        for question in questions:  # of everybody in the trial, whose limits are linear pieces
            if question.of_everybody and num_pieces(question.worth) <= _MOST_TIED:
                pieces = largest_worth(-question.worth), largest_worth(question.worth)
                spans[question.name, "any"] = reaching(
                    spans[question.name, "any"], sampling, *pieces, fewest=_FEWEST_TIED
                )
    return spans, said


def _halved(
    questions: Sequence[CausalQuestion],
    crossing: Crossing,
    people: str,
    couplings: Mapping[str, AbstractCoupling],
    level: float,
) -> dict[tuple[str, str], Interval]:
    """Intervals by question and coupling, from halves of the people and people who were drawn again."""
    if not couplings:
        return {}
    whole, halves, again, without = (known_part(each) for each in (*crossing[:3], without_effects(crossing, level)))
    parts = [(each, _joints(couplings, each)) for each in (whole, halves._replace(strata=whole.strata), again, without)]
    result: dict[tuple[str, str], Interval] = {}
    for question in questions:
        said = [
            {name: said_by(question, evidence, people, joint) for name, joint in joints.items()}
            for evidence, joints in parts
        ]
        ends = float(question.worth.min()), float(question.worth.max())
        found, without_any = ({name: float(value) for name, value in each.items()} for each in (said[0], said[3]))
        intervals = halved_intervals(found, said[1], said[2], without_any, ends, level, crossing.freedom)
        result |= {(question.name, name): interval for name, interval in intervals.items()}
    return result


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
    return np.asarray(np.where(asked > 0, total, np.nan) / np.where(asked > 0, asked, 1.0))


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
    """Each coupling's joint laws of pairs of worlds, in parts of one shape, so that one program is compiled."""
    number = len(log_p)
    step = _LAWS_AT_ONCE if number > _FEW_LAWS else number
    rest = -number % step
    worlds = [np.concatenate([each, np.repeat(each[-1:], rest, axis=0)]) for each in (log_p, log_q)]
    found: dict[str, list[Floats]] = {name: [] for name in couplings}
    with jax.enable_x64(True):
        for start in range(0, number, step):
            some = (each[start : start + step] for each in worlds)
            for name, joint in _many(number > _FEW_LAWS)(dict(couplings), *some).items():
                found[name].append(np.asarray(joint))
    return {name: np.concatenate(each)[:number] for name, each in found.items()}


@cache
def _many(many_numbers: bool) -> Callable[..., Any]:
    def run(couplings: Any, log_p: Any, log_q: Any) -> Any:
        return jax.vmap(lambda p, q: {name: each._joint(p, q) for name, each in couplings.items()})(log_p, log_q)

    return quickly_compiled(run, many_numbers=many_numbers)
