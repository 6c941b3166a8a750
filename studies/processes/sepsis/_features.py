"""What a clinician asks about a projected state: is each vital sign normal, did the patient die or go home?"""

import numpy as np
from jaxtyping import Float, Int

from studies.processes.sepsis._coding import PROJECTED, VITALS
from studies.processes.sepsis._constants import NORMAL_LEVEL
from studies.processes.sepsis._process import DEATH, DISCHARGE, NUM_PROJECTED

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
