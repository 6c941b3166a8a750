"""Gymnasium: wrappers that keep a log of what happens in an environment."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_gymnasium
from countermax._core.files import check_new, write_atomically
from countermax.mdp import EpisodeLog

_gymnasium = import_gymnasium()
_Wrapper: Any = _gymnasium.Wrapper
_VectorWrapper: Any = _gymnasium.vector.VectorWrapper
_Autoreset: Any = _gymnasium.vector.AutoresetMode

_Index: TypeAlias = Callable[[Any], Any]
"""From an observation or an action to its index."""

_NO_EPISODE = "no episode is under way; call reset() before step()"
_TERMINATED, _TRUNCATED, _STOPPED = "terminated", "truncated", "stopped"


@dataclass
class _Episode:
    states: list[int]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    end: str = _STOPPED


class _Recording:
    """What both recorders keep, episodes in the order in which they began, and what they tell of it."""

    def __init__(
        self,
        env: Any,
        *,
        state_of: _Index | None = None,
        num_states: int | None = None,
        action_of: _Index | None = None,
        num_actions: int | None = None,
        end_state: bool = False,
    ):
        """Wraps an environment; what is recorded is what passes through this wrapper.

        Args:
            env: The environment. Discrete spaces need nothing else; their indices count from 0 in the log. A vector of
                environments must reset by itself, at the next step or at the same.
            state_of: Function from an observation (of one environment) to the index of its state, for spaces that are
                not Discrete or to merge states.
            num_states: Number of states that `state_of` distinguishes.
            action_of: Function from an action to its index.
            num_actions: Number of actions that `action_of` distinguishes.
            end_state: Whether episodes that terminate lead to one more state, the last, in place of the one observed.
                Needed where a state ends some episodes and not others.
        """
        super().__init__(env)  # type: ignore[call-arg]  # of the wrapper beside this class
        self._mode = env.metadata.get("autoreset_mode", _Autoreset.NEXT_STEP)  # only vectors of environments have one
        if self._mode not in (_Autoreset.NEXT_STEP, _Autoreset.SAME_STEP):
            raise InputError(f"`env` must reset by itself, at the next step or at the same, got {self._mode}")
        observations = getattr(env, "single_observation_space", env.observation_space)
        actions = getattr(env, "single_action_space", env.action_space)
        self._state_of, self._num_states = _indexed("observation", "state", observations, state_of, num_states)
        self._action_of, self._num_actions = _indexed("action", "action", actions, action_of, num_actions)
        self._end_state = end_state
        self._episodes: list[_Episode] = []

    def log(self) -> EpisodeLog:
        """All episodes with at least one step, in the order in which they began, the one under way included.

        Those that were truncated or stopped are censored: they end in a state that is none of `absorbing`.
        """
        kept = self._kept()
        if not kept:
            raise InputError("the recorder must have seen a step, but has none; call reset() and step() first")
        _ = self.absorbing

        def padded(values: Iterable[list[Any]]) -> np.ndarray:
            return np.array(list(zip_longest(*values, fillvalue=0))).T

        return EpisodeLog(
            states=padded(episode.states for episode in kept),
            actions=padded(episode.actions for episode in kept),
            rewards=padded(episode.rewards for episode in kept),
            lengths=np.array([len(episode.actions) for episode in kept]),
            num_states=self._num_states + self._end_state,
            num_actions=self._num_actions,
        )

    @property
    def ends(self) -> tuple[str, ...]:
        """How each episode of the log ended: `terminated`, `truncated`, or `stopped` by a reset or by nothing yet."""
        return tuple(episode.end for episode in self._kept())

    @property
    def absorbing(self) -> np.ndarray:
        """A mask of the states in which episodes terminated; refused if they were also seen to continue there."""
        kept = self._kept()
        ends = np.zeros(self._num_states + self._end_state, bool)
        ends[-1] = self._end_state
        ends[[episode.states[-1] for episode in kept if episode.end == _TERMINATED]] = True
        for place, episode in enumerate(kept):
            inside = episode.states[:-1] if episode.end == _TERMINATED else episode.states
            for state in filter(ends.__getitem__, inside):
                raise InputError(
                    f"a state must end episodes always or never, but some terminate in state {state} and episode "
                    f"{place} does not; give `end_state=True`, which adds a state for the end"
                )
        return ends

    def write_csv(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Writes the log to a file that ends in .csv, as `EpisodeLog.from_frame` and the command line read it."""
        target = Path(path)
        if target.suffix.lower() != ".csv":
            raise InputError(f"`path` must end in .csv, got {target.name!r}")
        check_new([target], overwrite=overwrite)
        frame = self.log().to_frame()
        return write_atomically(target, frame.to_csv(index=False))

    def _begin(self, observation: Any) -> _Episode:
        """Starts an episode; it counts once it has a step."""
        self._episodes.append(_Episode([_index("state", self._state_of(observation), self._num_states)]))
        return self._episodes[-1]

    def _add(
        self, episode: _Episode, action: Any, observation: Any, reward: Any, terminated: Any, truncated: Any
    ) -> None:
        state = _index("state", self._state_of(observation), self._num_states)
        episode.actions.append(_index("action", self._action_of(action), self._num_actions))
        episode.states.append(self._num_states if self._end_state and terminated else state)
        episode.rewards.append(float(reward))
        if terminated or truncated:
            episode.end = _TERMINATED if terminated else _TRUNCATED

    def _kept(self) -> list[_Episode]:
        return [episode for episode in self._episodes if episode.actions]


@final
class EpisodeRecorder(_Recording, _Wrapper):
    """An environment that keeps a log of its episodes."""

    _episode: _Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; one that was under way is kept as stopped."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode = self._begin(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step and records it."""
        if self._episode is None:
            raise _gymnasium.error.ResetNeeded(_NO_EPISODE)
        found = observation, reward, terminated, truncated, _ = self.env.step(action)
        self._add(self._episode, action, observation, reward, terminated, truncated)
        if terminated or truncated:
            self._episode = None
        return found


@final
class VectorEpisodeRecorder(_Recording, _VectorWrapper):
    """Environments side by side that keep one log of their episodes."""

    _under_way: list[_Episode | None] | None = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in each environment; those that were under way are kept as stopped."""
        observations, info = self.env.reset(seed=seed, options=options)
        self._under_way = [self._begin(each) for each in _iterated(self.env.observation_space, observations)]
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes a step in each environment and records it; a step that only resets is none."""
        if self._under_way is None:
            raise _gymnasium.error.ResetNeeded(_NO_EPISODE)
        found = observations, rewards, terminated, truncated, infos = self.env.step(actions)
        reached = _iterated(self.env.observation_space, observations)
        done = _iterated(self.env.action_space, actions)
        for place, (observation, action) in enumerate(zip(reached, done, strict=True)):
            episode = self._under_way[place]
            if episode is None:
                self._under_way[place] = self._begin(observation)
                continue
            over = bool(terminated[place] or truncated[place])
            same = over and self._mode == _Autoreset.SAME_STEP
            last = infos["final_obs"][place] if same else observation
            self._add(episode, action, last, rewards[place], terminated[place], truncated[place])
            if over:
                self._under_way[place] = self._begin(observation) if same else None
        return found


def _iterated(space: Any, values: Any) -> list[Any]:
    return list(_gymnasium.vector.utils.iterate(space, values))


def _indexed(word: str, kind: str, space: Any, own: _Index | None, number: int | None) -> tuple[_Index, int]:
    """How to tell the index of an observation or an action, and how many there are."""
    if own is not None:
        if number is None:
            raise InputError(f"`{kind}_of` needs `num_{kind}s`, the number of them")
        return own, number
    if not isinstance(space, _gymnasium.spaces.Discrete):
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
