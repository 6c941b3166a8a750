"""Steps as they come from an environment, and the log that they make."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_gymnasium
from countermax._core.files import write_atomically
from countermax._core.outputs import Output, check_outputs, kind_of
from countermax.mdp import EpisodeLog

Index: TypeAlias = Callable[[Any], Any]
"""From an observation or an action to its index."""

TERMINATED, TRUNCATED, STOPPED = "terminated", "truncated", "stopped"


@dataclass
class _Episode:
    states: list[int]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    end: str = STOPPED


class EpisodeRecord:
    """Episodes in the order in which they began."""

    def __init__(
        self,
        observations: Any,
        actions: Any,
        *,
        state_of: Index | None,
        num_states: int | None,
        action_of: Index | None,
        num_actions: int | None,
        end_state: bool,
    ):
        self._state_of, self._num_states = _indexed("observation", "state", observations, state_of, num_states)
        self._action_of, self._num_actions = _indexed("action", "action", actions, action_of, num_actions)
        self._end_state = end_state
        self._episodes: list[_Episode] = []

    def begin(self, observation: Any) -> _Episode:
        """Starts an episode; it counts once it has a step."""
        episode = _Episode([self._state(observation)])
        self._episodes.append(episode)
        return episode

    def add(
        self, episode: _Episode, action: Any, observation: Any, reward: Any, terminated: Any, truncated: Any
    ) -> bool:
        """Adds a step and tells whether the episode is over."""
        state, done = self._state(observation), _index("action", self._action_of(action), self._num_actions)
        episode.states.append(state)
        episode.actions.append(done)
        episode.rewards.append(float(reward))
        if terminated or truncated:
            episode.end = TERMINATED if terminated else TRUNCATED
        return episode.end != STOPPED

    @property
    def ends(self) -> tuple[str, ...]:
        return tuple(episode.end for episode in self._kept())

    def absorbing(self) -> np.ndarray:
        """Where episodes terminated; refused if they were also seen to continue there."""
        kept = self._kept()
        num_states = self._num_states + self._end_state
        ends = np.zeros(num_states, bool)
        if self._end_state:
            ends[-1] = True
            return ends
        ends[[episode.states[-1] for episode in kept if episode.end == TERMINATED]] = True
        for place, episode in enumerate(kept):
            inside = episode.states[:-1] if episode.end == TERMINATED else episode.states
            for state in inside:
                if ends[state]:
                    raise InputError(
                        f"a state must end episodes always or never, but some terminate in state {state} and episode "
                        f"{place} does not; give `end_state=True`, which adds a state for the end"
                    )
        return ends

    def log(self) -> EpisodeLog:
        kept = self._kept()
        if not kept:
            raise InputError("the recorder must have seen a step, but has none; call reset() and step() first")
        self.absorbing()
        longest = max(len(episode.actions) for episode in kept)
        states = np.zeros((len(kept), longest + 1), np.int64)
        actions, rewards = np.zeros((len(kept), longest), np.int64), np.zeros((len(kept), longest))
        for place, episode in enumerate(kept):
            count = len(episode.actions)
            states[place, : count + 1], actions[place, :count] = episode.states, episode.actions
            rewards[place, :count] = episode.rewards
            if self._end_state and episode.end == TERMINATED:
                states[place, count] = self._num_states
        return EpisodeLog(
            states=states,
            actions=actions,
            rewards=rewards,
            lengths=np.array([len(episode.actions) for episode in kept]),
            num_states=self._num_states + self._end_state,
            num_actions=self._num_actions,
        )

    def write_csv(self, path: str | Path, *, overwrite: bool) -> Path:
        target = Path(path)
        if target.suffix.lower() != ".csv":
            raise InputError(f"`path` must end in .csv, got {target.name!r}")
        frame = self.log().to_frame()
        check_outputs([Output("path", target, kind_of(target))], overwrite=overwrite)
        return write_atomically(target, frame.to_csv(index=False))

    def _kept(self) -> list[_Episode]:
        return [episode for episode in self._episodes if episode.actions]

    def _state(self, observation: Any) -> int:
        return _index("state", self._state_of(observation), self._num_states)


def _indexed(word: str, kind: str, space: Any, own: Index | None, number: int | None) -> tuple[Index, int]:
    """How to tell the index of an observation or an action, and how many there are."""
    discrete = isinstance(space, import_gymnasium().spaces.Discrete)
    if own is not None:
        if number is None:
            raise InputError(f"`{kind}_of` needs `num_{kind}s`, the number of them")
        return own, number
    if not discrete:
        raise InputError(
            f"`env` must have a Discrete {word} space, got {space}; give `{kind}_of` and `num_{kind}s`, which tell the "
            "index of each"
        )
    if number not in (None, int(space.n)):
        raise InputError(f"`num_{kind}s` must be {space.n}, as the {word} space says, got {number}")
    return lambda value: int(value) - int(space.start), int(space.n)


def _index(kind: str, value: Any, number: int) -> int:
    if not np.issubdtype(np.asarray(value).dtype, np.integer) or np.ndim(value) != 0 or not 0 <= value < number:
        raise InputError(f"`{kind}_of` must give an integer in 0..{number - 1}, got {value!r}")
    return int(value)
