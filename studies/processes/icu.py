"""A process estimated from intensive-care records: the package icu-sepsis, as a `FiniteMDP`."""

import zipfile
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.mdp._arrays import Floats, as_finite
from countermax.mdp._process import FiniteMDP

_ENDS = {713: "death", 714: "survival", 715: "after the end"}
_LEVELS = 5
_ARRAYS = ("d_0", "expert_policy", "sofa_scores", "state_cluster_centers")


class ICUSepsis(NamedTuple):
    """The process of Choudhary, Gupta and Thomas (2024), and what is known about its states."""

    mdp: FiniteMDP
    expert_policy: Float[np.ndarray, "s a"]
    """What clinicians did; uniform at the ends."""
    sofa_scores: Float[np.ndarray, " s"]
    """Mean organ failure (SOFA) of the patients behind each state; zero for the ends."""
    features: Float[np.ndarray, "s f"]
    """Mean clinical measurements of the patients behind each state, standardised; zero for the ends."""
    admissible: Bool[np.ndarray, "s a"]
    """Which actions were seen often enough; the rows of the others are means over those."""


def icu_sepsis(*, admissible_only: bool = False, discount: float = 1.0) -> ICUSepsis:
    """Reads 716 states and 25 actions (five doses of fluid times five of vasopressor) from the package's files.

    Args:
        admissible_only: Whether actions that were hardly ever seen are not allowed. By default they have the mean of
            the admissible rows, which is the package's own choice, and which the clinicians' policy needs.
        discount: Discount factor for each step; the package has one.
    """
    folder = _folder()
    try:
        with (folder / "dynamics.npz").open("rb") as file, np.load(file) as stored:
            arrays = {name: as_finite(name, stored[name]) for name in _ARRAYS}
        num_states, num_actions = arrays["expert_policy"].shape
        _, *lines = (folder / "admissible_actions.txt").read_text().splitlines()
        admissible = np.zeros((num_states, num_actions), bool)
        for at in range(num_states):
            admissible[at, [int(each) for each in lines[at].split()]] = True
        # The rows of the ends are made by the process itself.
        wanted = (admissible | (not admissible_only)) & ~np.isin(np.arange(num_states), list(_ENDS))[:, None]
        with zipfile.ZipFile(folder / "dynamics.npz") as packed:
            entries = _transitions(packed, wanted)
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"cannot read the data of icu-sepsis in {folder}: {error}; install it again") from error
    mdp = FiniteMDP.from_transitions(
        dict(zip(("state", "action", "successor", "probs", "rewards"), entries, strict=True)),
        num_states=num_states,
        num_actions=num_actions,
        start=arrays["d_0"],
        discount=discount,
        absorbing=list(_ENDS),
        state_names=[_ENDS.get(state, f"patient state {state}") for state in range(num_states)],
        action_names=[f"fluid {action // _LEVELS}, vasopressor {action % _LEVELS}" for action in range(num_actions)],
    )
    # At the ends, where nothing is left to decide, the package has no policy; any will do.
    experts = np.where(mdp.absorbing[:, None], 1 / num_actions, arrays["expert_policy"])
    return ICUSepsis(mdp, experts, arrays["sofa_scores"], arrays["state_cluster_centers"], admissible)


def _folder() -> Path:
    """Where the package keeps its data. It is not imported: it would pull in gym, which complains about NumPy 2."""
    found = find_spec("icu_sepsis")
    if found is None or not found.submodule_search_locations:
        raise ImportError("the ICU process needs the data of icu-sepsis: pip install icu-sepsis")
    return Path(next(iter(found.submodule_search_locations))) / "envs" / "assets"


def _transitions(packed: zipfile.ZipFile, wanted: Bool[np.ndarray, "s a"]) -> list[NDArray]:
    """All that is possible: states, actions, successors, probabilities, rewards; in the order of the three."""
    most = int(wanted.sum()) * len(wanted)  # memory that is not written to is not taken
    found = [np.empty(most, kind) for kind in (np.int64, np.int64, np.int64, np.float64, np.float64)]
    count = 0
    both = zip(_by_state(packed, "tx_mat.npy"), _by_state(packed, "r_mat.npy"), strict=True)
    for state, (chance, gain) in enumerate(both):
        action, successor = np.nonzero(as_finite("tx_mat", chance) * wanted[state][:, None])
        here = slice(count, count + len(action))
        found[0][here], found[1][here], found[2][here] = state, action, successor
        found[3][here] = chance[action, successor]
        found[4][here] = as_finite("r_mat", gain)[action, successor]
        count += len(action)
    return [column[:count] for column in found]


def _by_state(packed: zipfile.ZipFile, name: str) -> Iterator[Floats]:
    """[action, next state] of each state in turn: all of them take a hundred megabytes."""
    with packed.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        (num_states, *shape), turned, kind = read(file)
        if turned or kind.hasobject:
            raise ValueError("arrays must be rows of numbers")
        size = int(np.prod(shape)) * kind.itemsize
        for _ in range(num_states):
            yield np.frombuffer(file.read(size), kind).reshape(shape)
