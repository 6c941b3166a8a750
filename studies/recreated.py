"""Oberst and Sontag's own 1,000 episodes, recreated from their matrix and random stream; our answers beside theirs.

python -m studies.recreated diab_txr_mats-replication.zip

The file is in the folder `data` of their public repository, clinicalml/gumbel-max-scm. It has what their program
estimated in two hours of simulation; the policy that treats is planned with it. The process is as they published it.
"""

import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any, final

import numpy as np

from countermax._core.errors import InputError
from countermax.mdp import EpisodeLog, FiniteMDP, policy_iteration
from countermax.mdp._estimation import softened
from studies.processes import sepsis
from studies.sepsis._queries import BEST_ACTION, DISCOUNT, HORIZON, in_the_simulator, published_model
from studies.trajectories import NUM_EPISODES, PUBLISHED, published_values

_ARRAYS = ("tx_mat", "r_mat")
_SAFE = {("numpy", "ndarray"), ("numpy", "dtype")}
_PROB_DIABETES = 0.2
_MANY = 10_000
_DRAWN = f"true, {_MANY:,} episodes drawn"


@final
class _ArraysOnly(pickle.Unpickler):
    """Reads arrays, and refuses everything else that a pickle may do."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module.endswith("multiarray"):
            return super().find_class("numpy._core.multiarray", name)
        if (module, name) in _SAFE:
            return super().find_class(module, name)
        raise InputError(f"the file must hold arrays only, got {module}.{name}")


def read_matrices(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Transitions and rewards, [diabetic, action, state, next state], from the published file.

    Args:
        path: The zip file, or the pickle that is in it.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            found = _ArraysOnly(file, encoding="latin1").load()
    else:
        with path.open("rb") as file:
            found = _ArraysOnly(file, encoding="latin1").load()
    size, shape = sepsis.OBSERVED.count, tuple(np.shape(found.get(name)) for name in _ARRAYS)
    if shape != ((2, sepsis.ACTIONS.count, size, size),) * 2:
        raise InputError(f"the file must have {' and '.join(_ARRAYS)} by diabetic, action, state and next state")
    return found["tx_mat"], found["r_mat"]


def behaviour_of(transitions: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The policy that treats: the best one as if death and discharge could be left again, with chance in it."""
    diabetic, action, state, successor = np.nonzero(transitions)
    first = sepsis.OBSERVED.count * diabetic
    entries = {
        "state": first + state,
        "action": action,
        "successor": first + successor,
        "probs": transitions[diabetic, action, state, successor],
        "rewards": rewards[diabetic, action, state, successor],
    }
    planned = FiniteMDP.from_transitions(
        entries,
        num_states=sepsis.FULL.count,
        num_actions=sepsis.ACTIONS.count,
        start=sepsis.start(_PROB_DIABETES),
        discount=DISCOUNT,
    )
    return softened(policy_iteration(planned).policy, BEST_ACTION)


@final
class Stream:
    """Their simulator, which asks a legacy generator in an order of its own; the law is that of `sepsis.process`."""

    def __init__(self, behaviour: np.ndarray, seed: int):
        """Starts with one patient who is never treated."""
        self._behaviour, self._random = behaviour, np.random.RandomState(seed)  # noqa: NPY002
        self._rewards = sepsis.rewards()
        self._admitted()

    def episodes(self, number: int) -> EpisodeLog:
        """Patients in full states, one after the other."""
        states = np.zeros((number, HORIZON + 1), np.int64)
        actions, rewards = np.zeros((number, HORIZON), np.int64), np.zeros((number, HORIZON))
        lengths = np.full(number, HORIZON)
        for episode in range(number):
            values = self._admitted()
            states[episode, 0] = sepsis.FULL.index(values)
            for step in range(HORIZON):
                probs = self._behaviour[states[episode, step]]
                actions[episode, step] = self._random.choice(len(probs), p=probs)
                values = self._treated(values, int(actions[episode, step]))
                states[episode, step + 1] = sepsis.FULL.index(values)
                rewards[episode, step] = self._rewards[sepsis.OBSERVED.index(values[1:])]
                if rewards[episode, step]:
                    lengths[episode] = step + 1
                    break
        return EpisodeLog(
            states=states,
            actions=actions,
            rewards=rewards,
            lengths=lengths,
            num_states=sepsis.FULL.count,
            num_actions=sepsis.ACTIONS.count,
        )

    def _admitted(self) -> list[int]:
        """Diabetes and vital signs of a patient for whom something can still be done; nothing is given yet."""
        while True:
            diabetic = int(self._random.binomial(1, _PROB_DIABETES))
            chances = [sepsis.START[vital, bool(diabetic)] for vital in sepsis.VITALS]
            vitals = [int(self._random.choice(len(each), p=each)) for each in chances]
            found = [diabetic, *vitals, 0, 0, 0]
            if self._rewards[sepsis.OBSERVED.index(found[1:])] == 0:
                return found

    def _treated(self, values: list[int], action: int) -> list[int]:
        diabetic, flags = bool(values[0]), values[len(sepsis.VITALS) + 1 :]
        modes = sepsis.treatment_modes(int(np.ravel_multi_index(flags, (2, 2, 2))), action)
        levels = dict(zip(sepsis.VITALS, values[1:], strict=False))
        touched = set()
        for rule in sepsis.TREATMENT_RULES:
            if modes[rule.treatment] != rule.mode or rule.diabetic not in (None, diabetic):
                continue
            touched.add(rule.vital)
            vasopressor = rule.treatment == sepsis.VASOPRESSOR and bool(rule.moves)
            raised = rule.mode == sepsis.GIVEN and rule.vital == sepsis.BLOOD_PRESSURE and diabetic
            levels[rule.vital] = self._moved(levels[rule.vital], rule.moves, always=vasopressor and not raised)
        for vital in sepsis.VITALS:
            if vital not in touched:
                levels[vital] = self._wandered(vital, levels[vital], diabetic=diabetic)
        given = sepsis.OBSERVED.values(sepsis.flags_after(action))[len(sepsis.VITALS) :]
        return [values[0], *levels.values(), *map(int, given)]

    def _moved(self, level: int, moves: sepsis.Moves, *, always: bool) -> int:
        """Where a treatment moves a level; `always` asks for a number even if it can move nothing."""
        ways = [(after, chance) for (before, after), chance in moves.items() if before == level]
        if not ways and not always:
            return level
        drawn, total = self._random.uniform(), 0.0
        for after, chance in ways:
            total += chance
            if drawn < total:
                return after
        return level

    def _wandered(self, vital: str, level: int, *, diabetic: bool) -> int:
        """One level down or up, cut off at the ends; published glucose never rises above 1 without diabetes."""
        slip = vital == sepsis.GLUCOSE and not diabetic
        chance = 0.3 if vital == sepsis.GLUCOSE and diabetic else 0.1
        highest = 1 if slip else len(sepsis.LEVELS[vital]) - 1
        drawn = self._random.uniform()
        if drawn < chance:
            return max(0, level - 1)
        return min(highest, level + 1) if drawn < 2 * chance else level


def recreated(path: Path, seed: int = 0) -> dict[str, Any]:
    """What the published pipeline says of the published episodes, all but these being exact.

    Args:
        path: The published file.
        seed: Their seed.
    """
    behaviour = behaviour_of(*read_matrices(path))
    episodes = Stream(behaviour, seed).episodes(NUM_EPISODES)
    projection = sepsis.projection(as_published=True)
    log = episodes.with_states(projection, sepsis.NUM_PROJECTED, state_names=sepsis.projected_names())
    model = published_model(episodes, log)
    found = published_values(log, model, sepsis.process(as_published=True, discount=DISCOUNT))
    again = Stream(in_the_simulator(policy_iteration(model).policy), seed).episodes(_MANY).returns()
    return found | {_DRAWN: float(again.mean()), "its error": float(again.std() / np.sqrt(_MANY))}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m studies.recreated diab_txr_mats-replication.zip")
    values = recreated(Path(sys.argv[1]))
    lines = [f"{'':30}{'published':>10}{'its error':>11}{'here':>8}"]
    for name, (value, _) in PUBLISHED.items():
        error = values["errors that exactness removes"].get(name)
        lines.append(f"{name:30}{value:>10.3f}{'' if error is None else f'{error:.3f}':>11}{values[name]:>8.3f}")
    lines.append(f"{_DRAWN:30}{'':>10}{'':>11}{values[_DRAWN]:>8.3f} (error {values['its error']:.3f})")
    sys.stdout.write("\n".join(lines) + "\n")
