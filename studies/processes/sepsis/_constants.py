"""The sepsis simulator of Oberst and Sontag (2019) as data: what every treatment does to every vital sign.

Everything else about the process is derived from what stands here. A rule lists the moves that happen; what it does not
list stays as it is. A vital sign that any rule touches in a step does not fluctuate in it, even where the rule lists no
move.
"""

from dataclasses import dataclass

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
