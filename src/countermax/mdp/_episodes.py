"""What every computation takes for granted about logged episodes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.mdp._arrays import MOST_REWARD, Ints, as_whole, plainly, shortened
from countermax.mdp._labels import as_names


def step_mask(lengths: Ints, width: int) -> NDArray[np.bool_]:
    """[episode, step]: which steps there are."""
    return np.arange(width)[None, :] < lengths[:, None]


def check_episodes(log: Any) -> None:
    """What every computation takes for granted, for those who call the constructor of `EpisodeLog` themselves."""
    as_whole("num_states", log.num_states, least=1)
    as_whole("num_actions", log.num_actions, least=1)
    if log.actions.ndim != 2 or log.actions.size == 0:
        raise InputError(f"`actions` must be [episode, step] and not empty, got shape {log.actions.shape}")
    count, longest = log.actions.shape
    for name, array, shape in (
        ("states", log.states, (count, longest + 1)),
        ("rewards", log.rewards, (count, longest)),
        ("lengths", log.lengths, (count,)),
    ):
        if array.shape != shape:
            raise InputError(f"`{name}` must have shape {shape}, got {array.shape}")
    if log.episodes is not None and (not isinstance(log.episodes, tuple) or len(log.episodes) != count):
        raise InputError(f"`episodes` must be a tuple that names each of {count}, got {shortened(log.episodes)}")

    def refuse(name: str, array: np.ndarray, bad: np.ndarray, rule: str) -> None:
        if bad.any():
            place = np.unravel_index(int(bad.argmax()), bad.shape)
            episode = log._names()[int(place[0])]
            step = f", step {place[1]}" if len(place) > 1 else ""
            raise InputError(f"`{name}` {rule}, got {array[place]} in episode {plainly(episode)}{step}")

    lengths = log.lengths
    refuse("lengths", lengths, (lengths < 1) | (lengths > longest), f"must lie in 1..{longest}: no episode is empty")
    real, reached = step_mask(lengths, longest), step_mask(lengths + 1, longest + 1)
    outside = (log.states < 0) | (log.states >= log.num_states)
    refuse("states", log.states, reached & outside, f"must lie in 0..{log.num_states - 1}")
    unknown = (log.actions < 0) | (log.actions >= log.num_actions)
    refuse("actions", log.actions, real & unknown, f"must lie in 0..{log.num_actions - 1}")
    large = real & ~(np.abs(log.rewards) <= MOST_REWARD)
    refuse("rewards", log.rewards, large, f"must be finite, and lie within {MOST_REWARD:g}")
    as_names("state_names", log.state_names, log.num_states)
    as_names("action_names", log.action_names, log.num_actions)
