"""Wrappers that keep a log of what happens in an environment."""

from abc import ABC
from pathlib import Path
from typing import Any, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_gymnasium
from countermax.integrations.gymnasium._record import EpisodeRecord, Index
from countermax.mdp import EpisodeLog

gymnasium = import_gymnasium()
_Wrapper: Any = gymnasium.Wrapper
_VectorWrapper: Any = gymnasium.vector.VectorWrapper
_Autoreset: Any = gymnasium.vector.AutoresetMode


class _AbstractRecorder(ABC):
    """What both recorders can tell."""

    _record: EpisodeRecord

    def log(self) -> EpisodeLog:
        """All episodes with at least one step, in the order in which they began, the one under way included.

        Those that were truncated or stopped are censored: they end in a state that is none of `absorbing`.
        """
        return self._record.log()

    @property
    def ends(self) -> tuple[str, ...]:
        """How each episode of the log ended: `terminated`, `truncated`, or `stopped` by a reset or by nothing yet."""
        return self._record.ends

    @property
    def absorbing(self) -> np.ndarray:
        """A mask of the states in which episodes terminated: for `estimate` and `evaluate_policy`."""
        return self._record.absorbing()

    def write_csv(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Writes the log as `EpisodeLog.from_frame` and the command line read it.

        Args:
            path: The file; ends in .csv.
            overwrite: Whether to replace a file that does not look like a table.
        """
        return self._record.write_csv(path, overwrite=overwrite)


@final
class EpisodeRecorder(_AbstractRecorder, _Wrapper):
    """An environment that keeps a log of its episodes."""

    def __init__(
        self,
        env: Any,
        *,
        state_of: Index | None = None,
        num_states: int | None = None,
        action_of: Index | None = None,
        num_actions: int | None = None,
        end_state: bool = False,
    ):
        """Wraps an environment; what is recorded is what passes through this wrapper.

        Args:
            env: The environment. Discrete spaces need nothing else; their indices count from 0 in the log.
            state_of: Function from an observation to the index of its state, for spaces that are not Discrete or to
                merge states.
            num_states: Number of states that `state_of` distinguishes.
            action_of: The same for actions.
            num_actions: Number of actions that `action_of` distinguishes.
            end_state: Whether episodes that terminate lead to one more state, the last, in place of the one observed.
                Needed where a state ends some episodes and not others.
        """
        super().__init__(env)
        self._record = EpisodeRecord(
            env.observation_space,
            env.action_space,
            state_of=state_of,
            num_states=num_states,
            action_of=action_of,
            num_actions=num_actions,
            end_state=end_state,
        )
        self._episode: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; one that was under way is kept as stopped."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode = self._record.begin(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step and records it."""
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        found = observation, reward, terminated, truncated, _ = self.env.step(action)
        if self._record.add(self._episode, action, observation, reward, terminated, truncated):
            self._episode = None
        return found


@final
class VectorEpisodeRecorder(_AbstractRecorder, _VectorWrapper):
    """Environments side by side that keep one log of their episodes."""

    def __init__(
        self,
        env: Any,
        *,
        state_of: Index | None = None,
        num_states: int | None = None,
        action_of: Index | None = None,
        num_actions: int | None = None,
        end_state: bool = False,
    ):
        """Wraps a vector environment that resets by itself, at the next step or at the same.

        Args:
            env: The vector environment.
            state_of: Function from one environment's observation to the index of its state; see `EpisodeRecorder`.
            num_states: Number of states that `state_of` distinguishes.
            action_of: The same for actions.
            num_actions: Number of actions that `action_of` distinguishes.
            end_state: Whether episodes that terminate lead to one more state.
        """
        super().__init__(env)
        self._mode = env.metadata.get("autoreset_mode", _Autoreset.NEXT_STEP)
        if self._mode not in (_Autoreset.NEXT_STEP, _Autoreset.SAME_STEP):
            raise InputError(f"`env` must reset by itself, at the next step or at the same, got {self._mode}")
        self._record = EpisodeRecord(
            env.single_observation_space,
            env.single_action_space,
            state_of=state_of,
            num_states=num_states,
            action_of=action_of,
            num_actions=num_actions,
            end_state=end_state,
        )
        self._under_way: list[Any] | None = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in each environment; those that were under way are kept as stopped."""
        observations, info = self.env.reset(seed=seed, options=options)
        self._under_way = [self._record.begin(each) for each in self._each(observations)]
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes a step in each environment and records it; a step that only resets is none."""
        if self._under_way is None:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        found = observations, rewards, terminated, truncated, infos = self.env.step(actions)
        each = list(zip(self._each(observations), self._each_action(actions), strict=True))
        for place, (observation, action) in enumerate(each):
            episode = self._under_way[place]
            if episode is None:
                self._under_way[place] = self._record.begin(observation)
                continue
            over = bool(terminated[place] or truncated[place])
            same = over and self._mode == _Autoreset.SAME_STEP
            reached = infos["final_obs"][place] if same else observation
            self._record.add(episode, action, reached, rewards[place], terminated[place], truncated[place])
            if over:
                self._under_way[place] = self._record.begin(observation) if same else None
        return found

    def _each(self, observations: Any) -> list[Any]:
        return list(gymnasium.vector.utils.iterate(self.env.observation_space, observations))

    def _each_action(self, actions: Any) -> list[Any]:
        return list(gymnasium.vector.utils.iterate(self.env.action_space, actions))
