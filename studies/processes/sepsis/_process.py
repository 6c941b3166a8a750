"""The sepsis process, derived from its rules: exact transition rows, start, ends and rewards."""

from collections.abc import Mapping
from functools import reduce
from itertools import product

import numpy as np
from jaxtyping import Bool, Float, Int

from countermax._core.errors import InputError
from countermax.mdp._process import FiniteMDP
from studies.processes.sepsis._coding import ACTIONS, FLAGS, FULL, OBSERVED, PROJECTED, VITALS, Coding, projected
from studies.processes.sepsis._constants import (
    ABSENT,
    DEATH_ABNORMAL,
    FLUCTUATIONS,
    GIVEN,
    LEVELS,
    NORMAL_LEVEL,
    PUBLISHED_FLUCTUATIONS,
    START,
    TREATMENT_RULES,
    TREATMENTS,
    WITHDRAWN,
    Moves,
)

DEATH = PROJECTED.count
DISCHARGE = PROJECTED.count + 1
"""The two ends, which the projected space has beside its 144 states."""
NUM_PROJECTED = PROJECTED.count + 2

_FLAG_CODING = Coding(FLAGS, (2, 2, 2))


def process(
    *, as_published: bool = False, prob_diabetes: float = 0.2, absorbing: bool = True, discount: float = 0.99
) -> FiniteMDP:
    """The process over its 1440 full states, exactly.

    Given diabetes, state and action the four vital signs move independently of each other, and the treatment flags of
    the next state are the action. So a row is a product of four small kernels.

    Args:
        as_published: Whether to keep the published slip in the glucose of people without diabetes, by which it can fall
            but hardly rise; repaired by default.
        prob_diabetes: Probability of diabetes, before starts in which an episode would end at once are drawn again.
        absorbing: Whether death and discharge end an episode; the published planning did not.
        discount: Discount factor for each step.
    """
    parts = []
    for diabetic, flags, action in product((False, True), range(_FLAG_CODING.count), range(ACTIONS.count)):
        # The flags are the last digits of a state, so one matrix of vital signs serves all states with these flags.
        modes = treatment_modes(flags, action)
        kernels = [kernel(vital, modes, diabetic=diabetic, as_published=as_published) for vital in VITALS]
        moves = reduce(np.kron, kernels)
        before, after = np.nonzero(moves)
        first = OBSERVED.count * diabetic
        origin = first + _FLAG_CODING.count * before + flags
        target = first + _FLAG_CODING.count * after + flags_after(action)
        parts.append((origin, np.full(len(before), action), target, moves[before, after]))
    state, done, successor, probs = (np.concatenate(each) for each in zip(*parts, strict=True))
    gains = np.tile(rewards(), 2)
    return FiniteMDP.from_transitions(
        state,
        done,
        successor,
        probs,
        gains[successor],
        num_states=FULL.count,
        num_actions=ACTIONS.count,
        start=start(prob_diabetes),
        discount=discount,
        absorbing=gains != 0 if absorbing else None,
        state_names=state_names(FULL),
        action_names=action_names(),
    )


def treatment_modes(flags: int, action: int) -> dict[str, str]:
    """What happens to each treatment: given if the action has it, else withdrawn if it was in force, else absent."""
    now = dict(zip(ACTIONS.variables, ACTIONS.values(action).tolist(), strict=True))
    before = dict(zip(FLAGS, _FLAG_CODING.values(flags).tolist(), strict=True))
    return {name: GIVEN if now[name] else WITHDRAWN if before[name] else ABSENT for name in TREATMENTS}


def flags_after(action: int) -> int:
    """The flags of the next state: the action, in the order of the state."""
    now = dict(zip(ACTIONS.variables, ACTIONS.values(action).tolist(), strict=True))
    return int(_FLAG_CODING.index([now[name] for name in FLAGS]))


def kernel(
    vital: str, modes: Mapping[str, str], *, diabetic: bool, as_published: bool = False
) -> Float[np.ndarray, "levels levels"]:
    """How one vital sign moves in a step: the rules for it one after the other, or its fluctuation if there is none.

    Args:
        vital: `heart rate`, `blood pressure`, `oxygen` or `glucose`.
        modes: `given`, `withdrawn` or `absent` for each treatment.
        diabetic: Whether the patient is.
        as_published: Whether to keep the published slip in glucose.
    """
    if vital not in LEVELS:
        raise InputError(f"`vital` must be one of {', '.join(LEVELS)}, got {vital!r}")
    size = len(LEVELS[vital])
    rules = [
        rule
        for treatment in TREATMENTS
        for rule in TREATMENT_RULES
        if (rule.treatment, rule.mode, rule.vital) == (treatment, modes[treatment], vital)
        and rule.diabetic in (None, diabetic)
    ]
    if not rules:
        return _matrix((PUBLISHED_FLUCTUATIONS if as_published else FLUCTUATIONS)[vital, diabetic], size)
    return reduce(np.matmul, (_matrix(rule.moves, size) for rule in rules))


def _matrix(moves: Moves, size: int) -> Float[np.ndarray, "levels levels"]:
    matrix = np.zeros((size, size))
    for (before, after), chance in moves.items():
        matrix[before, after] = chance
    return matrix + np.diag(1 - matrix.sum(axis=1))


def num_abnormal() -> Int[np.ndarray, " observed"]:
    """How many of the four vital signs are not normal, in each observed state."""
    return sum((OBSERVED.column(vital) != NORMAL_LEVEL[vital]).astype(np.int64) for vital in VITALS)


def is_death() -> Bool[np.ndarray, " observed"]:
    """Where a patient dies: three or more vital signs are abnormal."""
    return num_abnormal() >= DEATH_ABNORMAL


def is_discharge() -> Bool[np.ndarray, " observed"]:
    """Where a patient goes home: every vital sign is normal and no treatment is in force."""
    treated = sum(OBSERVED.column(flag) for flag in FLAGS)
    return (num_abnormal() == 0) & (treated == 0)


def rewards() -> Float[np.ndarray, " observed"]:
    """What arrival in each observed state earns: -1 for death, +1 for discharge, else nothing."""
    return is_discharge().astype(np.float64) - is_death()


def start(prob_diabetes: float = 0.2) -> Float[np.ndarray, " full"]:
    """The distribution of the first full state.

    Starts in which an episode would end at once are drawn again, diabetes included; it is less common among those
    that remain than `prob_diabetes` says.
    """
    if not 0 <= prob_diabetes <= 1:
        raise InputError(f"`prob_diabetes` must lie in [0, 1], got {prob_diabetes}")
    untreated = np.eye(_FLAG_CODING.count)[0]
    halves = [
        share * np.kron(reduce(np.kron, (np.array(START[vital, diabetic]) for vital in VITALS)), untreated)
        for diabetic, share in ((False, 1 - prob_diabetes), (True, prob_diabetes))
    ]
    drawn = np.concatenate(halves) * np.tile(rewards() == 0, 2)
    return drawn / drawn.sum()


def projection(*, as_published: bool = False) -> Int[np.ndarray, " full"]:
    """The projected state of each full one, among 146.

    Args:
        as_published: Whether an end keeps the index of its vital signs, as published; by default it is `DEATH` or
            `DISCHARGE`.
    """
    vitals = projected(np.arange(OBSERVED.count))
    if not as_published:
        vitals = np.where(is_death(), DEATH, np.where(is_discharge(), DISCHARGE, vitals))
    return np.tile(vitals, 2)


def state_names(coding: Coding) -> tuple[str, ...]:
    """Every index of a coding in words."""
    return tuple(_in_words(coding, values) for values in coding.all_values().tolist())


def projected_names() -> tuple[str, ...]:
    """The 146 states of the projected space in words."""
    return (*state_names(PROJECTED), "death", "discharge")


def action_names() -> tuple[str, ...]:
    """The eight actions in words."""
    return tuple(
        " + ".join(name for name, given in zip(ACTIONS.variables, values, strict=True) if given) or "none"
        for values in ACTIONS.all_values().tolist()
    )


def _in_words(coding: Coding, values: list[int]) -> str:
    named = dict(zip(coding.variables, values, strict=True))
    vitals = ", ".join(f"{vital} {LEVELS[vital][named[vital]]}" for vital in VITALS if vital in named)
    treated = ", ".join(flag for flag in FLAGS if named[flag]) or "nothing"
    diabetes = {0: "; not diabetic", 1: "; diabetic"}.get(named.get("diabetic", -1), "")
    return f"{vitals}; on {treated}{diabetes}"
