"""The sepsis process of Oberst and Sontag (2019): its rules as data, and all that follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from countermax._core.errors import InputError
from countermax.mdp._arrays import Ints, Values, as_indices
from countermax.mdp._process import FiniteMDP

HEART_RATE, BLOOD_PRESSURE, OXYGEN, GLUCOSE = "heart rate", "blood pressure", "oxygen", "glucose"
ANTIBIOTIC, VENTILATION, VASOPRESSOR = "antibiotic", "ventilation", "vasopressor"

LEVELS = {
    HEART_RATE: ("low", "normal", "high"),
    BLOOD_PRESSURE: ("low", "normal", "high"),
    OXYGEN: ("low", "normal"),
    GLUCOSE: ("very low", "low", "normal", "high", "very high"),
}
LOW, NORMAL, HIGH = 0, 1, 2
NORMAL_LEVEL = {HEART_RATE: 1, BLOOD_PRESSURE: 1, OXYGEN: 1, GLUCOSE: 2}

TREATMENTS = (ANTIBIOTIC, VENTILATION, VASOPRESSOR)
"""In the order in which a step works through them; each sees what the ones before it have done."""

GIVEN, WITHDRAWN, ABSENT = "given", "withdrawn", "absent"

Moves = dict[tuple[int, int], float]
"""From a level to another one: with which probability."""


@dataclass(frozen=True)
class TreatmentRule:
    """What a treatment does to a vital sign in the step in which it is given or withdrawn."""

    treatment: str
    mode: str
    vital: str
    moves: Moves
    diabetic: bool | None = None
    """For whom; None for everybody."""


TREATMENT_RULES = (
    TreatmentRule(ANTIBIOTIC, GIVEN, HEART_RATE, {(HIGH, NORMAL): 0.5}),
    TreatmentRule(ANTIBIOTIC, GIVEN, BLOOD_PRESSURE, {(HIGH, NORMAL): 0.5}),
    TreatmentRule(ANTIBIOTIC, WITHDRAWN, HEART_RATE, {(NORMAL, HIGH): 0.1}),
    TreatmentRule(ANTIBIOTIC, WITHDRAWN, BLOOD_PRESSURE, {(NORMAL, HIGH): 0.1}),
    TreatmentRule(VENTILATION, GIVEN, OXYGEN, {(LOW, NORMAL): 0.7}),
    TreatmentRule(VENTILATION, WITHDRAWN, OXYGEN, {(NORMAL, LOW): 0.1}),
    TreatmentRule(VASOPRESSOR, GIVEN, BLOOD_PRESSURE, {(LOW, NORMAL): 0.7, (NORMAL, HIGH): 0.7}, diabetic=False),
    TreatmentRule(VASOPRESSOR, GIVEN, GLUCOSE, {}, diabetic=False),
    TreatmentRule(VASOPRESSOR, WITHDRAWN, BLOOD_PRESSURE, {(NORMAL, LOW): 0.1, (HIGH, NORMAL): 0.1}, diabetic=False),
    TreatmentRule(
        VASOPRESSOR,
        GIVEN,
        BLOOD_PRESSURE,
        {(LOW, NORMAL): 0.5, (LOW, HIGH): 0.4, (NORMAL, HIGH): 0.9},
        diabetic=True,
    ),
    TreatmentRule(VASOPRESSOR, GIVEN, GLUCOSE, {(0, 1): 0.5, (1, 2): 0.5, (2, 3): 0.5, (3, 4): 0.5}, diabetic=True),
    TreatmentRule(VASOPRESSOR, WITHDRAWN, BLOOD_PRESSURE, {(NORMAL, LOW): 0.05, (HIGH, NORMAL): 0.05}, diabetic=True),
)


def _wandering(num_levels: int, chance: float) -> Moves:
    """One level up or down, each with this chance, where there is such a level."""
    upward = {(level, level + 1): chance for level in range(num_levels - 1)}
    return upward | {(after, before): chance for before, after in upward}


FLUCTUATIONS: dict[tuple[str, bool], Moves] = {
    (HEART_RATE, False): _wandering(3, 0.1),
    (HEART_RATE, True): _wandering(3, 0.1),
    (BLOOD_PRESSURE, False): _wandering(3, 0.1),
    (BLOOD_PRESSURE, True): _wandering(3, 0.1),
    (OXYGEN, False): _wandering(2, 0.1),
    (OXYGEN, True): _wandering(2, 0.1),
    (GLUCOSE, False): _wandering(5, 0.1),
    (GLUCOSE, True): _wandering(5, 0.3),
}
"""What a vital sign does in a step in which nothing touches it, without and with diabetes."""

PUBLISHED_FLUCTUATIONS = FLUCTUATIONS | {
    # The published program sets glucose to the lower of 1 and one more than before, where 4 was surely meant: what
    # should rise from 2, 3 or 4 falls to 1, and who is not diabetic never comes back from low glucose.
    (GLUCOSE, False): {
        (0, 1): 0.1,
        (1, 0): 0.1,
        (2, 1): 0.2,
        (3, 2): 0.1,
        (3, 1): 0.1,
        (4, 3): 0.1,
        (4, 1): 0.1,
    }
}

START = {
    (HEART_RATE, False): (0.25, 0.5, 0.25),
    (HEART_RATE, True): (0.25, 0.5, 0.25),
    (BLOOD_PRESSURE, False): (0.25, 0.5, 0.25),
    (BLOOD_PRESSURE, True): (0.25, 0.5, 0.25),
    (OXYGEN, False): (0.2, 0.8),
    (OXYGEN, True): (0.2, 0.8),
    (GLUCOSE, False): (0.05, 0.15, 0.6, 0.15, 0.05),
    (GLUCOSE, True): (0.01, 0.05, 0.15, 0.6, 0.19),
}
"""The first state of each vital sign, without and with diabetes; states in which an episode would end are redrawn."""

DEATH_ABNORMAL = 3
"""How many abnormal vital signs mean death."""


DIABETIC = "diabetic"


@final
@dataclass(frozen=True)
class Coding:
    """A mixed-radix number: the first variable is the most significant."""

    variables: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many indices there are."""
        return int(np.prod(self.sizes))

    def index(self, values: Values) -> Ints:
        """The index of each row of values, one value for each variable along the last axis."""
        array = np.asarray(values)
        if array.shape[-1:] != (len(self.sizes),):
            raise InputError(f"`values` must end in one of each: {', '.join(self.variables)}; got shape {array.shape}")
        columns = [
            as_indices(name, array[..., place], size)
            for place, (name, size) in enumerate(zip(self.variables, self.sizes, strict=True))
        ]
        return np.asarray(np.ravel_multi_index(columns, self.sizes), np.int64)

    def values(self, index: Values) -> Ints:
        """What each index means, one value for each variable along a new last axis."""
        return np.stack(np.unravel_index(as_indices("index", index, self.count), self.sizes), axis=-1).astype(np.int64)

    def all_values(self) -> Ints:
        """What every index means, one row for each."""
        return self.values(np.arange(self.count))

    def column(self, variable: str) -> Ints:
        """The value of one variable in every index."""
        return self.all_values()[:, self.variables.index(variable)]


VITALS = tuple(LEVELS)
FLAGS = (ANTIBIOTIC, VASOPRESSOR, VENTILATION)
"""The treatments in force, in the order of the state; actions have another order."""

_VITAL_SIZES = tuple(len(levels) for levels in LEVELS.values())

OBSERVED = Coding((*VITALS, *FLAGS), (*_VITAL_SIZES, 2, 2, 2))
"""What a clinician sees: 720 states."""
FULL = Coding((DIABETIC, *OBSERVED.variables), (2, *OBSERVED.sizes))
"""With diabetes, which stays hidden: 1440 states."""
PROJECTED = Coding((HEART_RATE, BLOOD_PRESSURE, OXYGEN, *FLAGS), (3, 3, 2, 2, 2, 2))
"""Without glucose and diabetes: 144 states."""
ACTIONS = Coding((ANTIBIOTIC, VENTILATION, VASOPRESSOR), (2, 2, 2))
"""What is given in a step: 8 actions. Note the order, which is not that of the state."""


def projected(observed: Values) -> Ints:
    """The projected index of each observed one: glucose is dropped."""
    kept = [place for place, name in enumerate(OBSERVED.variables) if name != GLUCOSE]
    return PROJECTED.index(OBSERVED.values(observed)[..., kept])


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
        {"state": state, "action": done, "successor": successor, "probs": probs, "rewards": gains[successor]},
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


_NUM_FLAGS = 8


def projected_features() -> dict[str, Float[np.ndarray, " projected"]]:
    """Probabilities by projected state: of each vital sign being normal, of death and of discharge.

    Who went home is normal in every way, who died in none.
    """
    found = {
        f"{vital} normal": np.append(PROJECTED.column(vital) == NORMAL_LEVEL[vital], [False, True]).astype(np.float64)
        for vital in VITALS
        if vital in PROJECTED.variables
    }
    return found | {name: np.eye(NUM_PROJECTED)[end] for name, end in (("death", DEATH), ("discharge", DISCHARGE))}


def projected_outcomes() -> Int[np.ndarray, " projected"]:
    """What a projected state is called as an outcome: its vital signs, or its end.

    The treatments in force in a state are the action that led there. Two actions can never lead to the same state, but
    they can lead to the same vital signs; called by these, their outcomes have something in common.
    """
    vitals = np.arange(PROJECTED.count) // _NUM_FLAGS
    return np.append(vitals, vitals[-1] + 1 + np.arange(NUM_PROJECTED - PROJECTED.count))
