"""Joint laws under which an answer is as small, or as large, as it can be."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from countermax._core.transport import transport_plan
from countermax._core.words import STABLE
from countermax.causation._limits import CHOSEN, MONOTONE, asked_cells, chose_unseen, groups, said_by
from countermax.causation._questions import CausalQuestion, Choosers, Evidence, Flags, Floats
from countermax.causation._stable import ratio_ranks, stable_cells

_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class Attained:
    """Joint laws under which a number is as small, or as large, as it can be."""

    joints: Mapping[str, Floats]
    """[without, with] for each group of people: everybody, or those who chose an arm. Together they sum to one."""
    value: float
    """The number under these laws."""


def attained(question: CausalQuestion, evidence: Evidence, people: str, side: str, kind: str) -> Attained:
    """Couplings under which the answer is as small, or as large, as it can be."""
    if chose_unseen(question, evidence, people):
        joints = _unseen(question, evidence, side, kind)
        control, treated, elsewhere = joints.values()
        choices = Choosers(control.sum(axis=1), treated.sum(axis=0), elsewhere.sum())
        evidence = evidence._replace(choices=choices)
    else:
        joints = _cheapest(question, evidence, people, side, kind)
    return Attained(joints, float(said_by(question, evidence, people, joints)))


def _cheapest(question: CausalQuestion, evidence: Evidence, people: str, side: str, kind: str) -> dict[str, Floats]:
    """Each group's joint law, where it is known who chose what, or nobody is asked who did."""
    costs = (1.0 if side == "lower" else -1.0) * question.worth
    penalty = 8 * len(costs) * max(float(np.ptp(costs)), 1.0)
    if kind == MONOTONE or (kind == STABLE and evidence.choices is None):
        costs = np.where(_fine(question, evidence, kind), costs, costs.max() + penalty)
    if evidence.choices is None:
        return {"everybody": _plan(*evidence.arms, costs)}
    if evidence.trial is None:
        return _by_choices(evidence, costs)
    if float(np.asarray(evidence.chosen.elsewhere)) > 0:
        return _with_others(question, evidence, people, costs, penalty)
    return {name: _plan(*pair, costs) for name, pair in zip(("control", "treated"), groups(evidence), strict=True)}


def _fine(question: CausalQuestion, evidence: Evidence, kind: str) -> Flags:
    """Cells that a coupling of this kind may have."""
    if kind == MONOTONE:
        return question.allowed
    stable = stable_cells(ratio_ranks(*evidence.arms))
    return stable if kind == STABLE else np.ones_like(stable)


def _unseen(question: CausalQuestion, evidence: Evidence, side: str, kind: str) -> dict[str, Floats]:
    """As many as can be of those who count, or of those who do not: they chose an arm, and nobody else did."""
    counts, not_counts = asked_cells(question)
    fine = _fine(question, evidence, kind)
    for wanted in (not_counts, counts) if side == "lower" else (counts, not_counts):
        costs = np.where(fine, -1.0 * wanted.any(axis=0), 8.0 * len(fine))
        plan = _plan(*evidence.arms, costs)
        treated, control = plan * wanted[1], plan * (wanted[0] & ~wanted[1])
        if max(treated.sum(), control.sum()) > _SAME:
            break
    return {"control": control, "treated": treated, "elsewhere": plan - control - treated}


def _plan(p: Floats, q: Floats, costs: Floats) -> Floats:
    """The cheapest plan between two masses, as large as they are."""
    total = float(p.sum())
    return np.zeros(costs.shape) if total <= 0 else total * transport_plan(p / total, q / q.sum(), costs).plan


def _by_choices(evidence: Evidence, costs: Floats) -> dict[str, Floats]:
    """Without an experiment everybody may have had anything in the other arm."""
    joints = {name: np.zeros(costs.shape) for name in ("control", "treated", "elsewhere")}
    every = np.arange(len(costs))
    joints["control"][every, costs.argmin(axis=1)] = evidence.chosen.control
    joints["treated"][costs.argmin(axis=0), every] = evidence.chosen.treated
    joints["elsewhere"].flat[int(costs.argmin())] = float(np.asarray(evidence.chosen.elsewhere))
    return joints


def _with_others(
    question: CausalQuestion, evidence: Evidence, people: str, costs: Floats, penalty: float
) -> dict[str, Floats]:
    """What was seen and what is left of everybody, in one plan; nobody chose both."""
    first, second = groups(evidence)
    size, nothing = len(costs), np.zeros_like(costs)
    of = (question.of_control, question.of_treated, question.of_others)
    a, b, c = (costs if counts or people != CHOSEN else nothing for counts in of)
    whole = np.block([[nothing + costs.max() + penalty, a], [b, c]])
    plan = _plan(np.concatenate([first[0], second[0]]), np.concatenate([second[1], first[1]]), whole)
    return {"control": plan[:size, size:], "treated": plan[size:, :size], "elsewhere": plan[size:, size:]}
