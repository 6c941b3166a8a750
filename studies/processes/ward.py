"""Patients with an infection: the small log that comes with the package, for guides and for trying things out.

`python -m studies.processes.ward` writes it.
"""

from pathlib import Path

import jax
import numpy as np

from countermax._core.files import write_atomically
from countermax.mdp import EpisodeLog, FiniteMDP, simulate

FOLDER = Path(__file__).parents[2] / "src" / "countermax" / "data"
STATES = ("ward", "worse", "intensive care", "better", "home", "dead")
ACTIONS = ("wait", "oral antibiotics", "iv antibiotics")
ENDS = ("home", "dead")

_NUM_PATIENTS, _HORIZON, _SEED = 200, 10, 0
_MOVES = {  # to every state, by state and action
    "ward": (
        (0.45, 0.30, 0.05, 0.15, 0.05, 0.00),
        (0.40, 0.18, 0.03, 0.30, 0.09, 0.00),
        (0.42, 0.12, 0.02, 0.36, 0.08, 0.00),
    ),
    "worse": (
        (0.05, 0.50, 0.30, 0.05, 0.00, 0.10),
        (0.12, 0.45, 0.22, 0.15, 0.00, 0.06),
        (0.20, 0.34, 0.14, 0.28, 0.00, 0.04),
    ),
    "intensive care": (
        (0.00, 0.10, 0.55, 0.05, 0.00, 0.30),
        (0.00, 0.15, 0.52, 0.11, 0.00, 0.22),
        (0.00, 0.20, 0.42, 0.23, 0.00, 0.15),
    ),
    "better": (
        (0.15, 0.05, 0.00, 0.40, 0.40, 0.00),
        (0.10, 0.03, 0.00, 0.42, 0.45, 0.00),
        (0.12, 0.03, 0.00, 0.50, 0.35, 0.00),
    ),
}
_DONE = {
    "ward": (0.5, 0.4, 0.1),
    "worse": (0.3, 0.5, 0.2),
    "intensive care": (0.1, 0.4, 0.5),
    "better": (0.6, 0.3, 0.1),
}
_INSTEAD = {"ward": "oral antibiotics", "worse": "iv antibiotics", "intensive care": "iv antibiotics", "better": "wait"}


def process() -> FiniteMDP:
    """What is true: going home earns 1, and dying costs 1."""
    size, stay = len(STATES), np.eye(len(STATES))
    rows = [_MOVES[state] if state in _MOVES else [stay[place]] * len(ACTIONS) for place, state in enumerate(STATES)]
    gains = [float(state == "home") - float(state == "dead") for state in STATES]
    start = np.eye(size)[0] * 0.7 + np.eye(size)[1] * 0.3
    absorbing = [STATES.index(end) for end in ENDS]
    return FiniteMDP.from_dense(rows, gains, start=start, absorbing=absorbing, state_names=STATES, action_names=ACTIONS)


def log() -> EpisodeLog:
    """What was done, and what came of it."""
    done = np.array([_DONE.get(state, (1.0, 0.0, 0.0)) for state in STATES])
    return simulate(process(), done, num_episodes=_NUM_PATIENTS, horizon=_HORIZON, key=jax.random.key(_SEED))


def files() -> dict[str, str]:
    """The log and another policy as the command line reads them, by the names of their files."""
    policy = ["state,action", *(f"{state},{action}" for state, action in _INSTEAD.items())]
    return {"ward_log.csv": log().to_frame().to_csv(index=False), "ward_policy.csv": "\n".join(policy) + "\n"}


if __name__ == "__main__":
    for name, text in files().items():
        write_atomically(FOLDER / name, text)
