"""Logs recorded from environments: what passed through, how it ended, and what the rest of the library makes of it."""

import gymnasium
import numpy as np
import pandas as pd
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from countermax import InputError
from countermax.integrations.gymnasium import EpisodeRecorder, VectorEpisodeRecorder
from countermax.mdp import Cohort, EpisodeLog, estimate, estimate_policy
from countermax.mdp._files import read_log_and_policy
from countermax.mdp._log import steps_compared
from studies.processes.environment import SepsisEnv


class Corridor(gymnasium.Env):
    """Four rooms in a row, counted from 10; action 1 goes right, 0 stays; the last room is the end."""

    def __init__(self, *, start=10, ends_by_action=False):
        self.observation_space = gymnasium.spaces.Discrete(4, start=10)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.first, self.ends_by_action = start, ends_by_action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = self.first
        return self.room, {}

    def step(self, action):
        if self.ends_by_action:
            return self.room, 1.0, action == 1, False, {}
        self.room += int(action)
        return self.room, -1.0, self.room == 13, False, {}


def walk(env, *plans):
    for plan in plans:
        env.reset(seed=0)
        for action in plan:
            env.step(action)


def test_a_recorder_keeps_what_passed_through_it():
    env = EpisodeRecorder(Corridor())
    walk(env, [1, 0, 1, 1], [1, 0], [])
    log = env.log()
    assert log.lengths.tolist() == [4, 2]
    assert log.states.tolist() == [[0, 1, 1, 2, 3], [0, 1, 1, 1, 1]]
    assert log.actions.tolist() == [[1, 0, 1, 1], [1, 0, 0, 0]]
    assert log.returns().tolist() == [-4, -2]
    assert (log.num_states, log.num_actions) == (4, 2)
    assert env.ends == ("terminated", "stopped")
    assert env.absorbing.tolist() == [False, False, False, True]


def test_truncated_episodes_are_censored_and_terminated_ones_are_not():
    env = EpisodeRecorder(gymnasium.wrappers.TimeLimit(Corridor(), 3))
    walk(env, [1, 1, 1], [1, 1, 0], [0, 0, 1])
    assert env.ends == ("terminated", "truncated", "truncated")
    log = env.log()
    assert steps_compared(log, env.absorbing, 6).tolist() == [6, 3, 3]
    found = Cohort(log, estimate_policy(log), absorbing=env.absorbing, horizon=6).evaluate({}, num_resamples=0)
    assert found.num_censored == 2


def test_a_time_limit_at_the_end_is_an_end():
    env = EpisodeRecorder(gymnasium.wrappers.TimeLimit(Corridor(), 3))
    walk(env, [1, 1, 1])
    assert env.ends == ("terminated",)


def test_a_state_that_ends_only_some_episodes_needs_one_of_its_own():
    env = EpisodeRecorder(Corridor(ends_by_action=True))
    walk(env, [0, 0, 1])
    with pytest.raises(InputError, match="some terminate in state 0 and episode 0 does not; give `end_state=True`"):
        env.log()
    env = EpisodeRecorder(Corridor(ends_by_action=True), end_state=True)
    walk(env, [0, 0, 1], [0])
    assert env.log().states.tolist() == [[0, 0, 0, 4], [0, 0, 0, 0]]
    assert env.log().num_states == 5
    assert np.flatnonzero(env.absorbing).tolist() == [4]
    assert estimate(env.log(), absorbing=env.absorbing).row(0, 1).tolist() == [0, 0, 0, 0, 1]


def test_the_file_is_what_the_command_line_reads(tmp_path):
    env = EpisodeRecorder(Corridor())
    walk(env, [1, 0, 1, 1], [0, 1, 1, 1])
    path = env.write_csv(tmp_path / "steps.csv")
    again = EpisodeLog.from_frame(pd.read_csv(path), num_states=4)
    np.testing.assert_array_equal(again.states, env.log().states)
    np.testing.assert_array_equal(again.rewards, env.log().rewards)
    policy = tmp_path / "policy.csv"
    policy.write_text("state,action\n0,1\n1,1\n2,1\n")
    assert len(read_log_and_policy(path, policy).log) == 2
    with pytest.raises(InputError, match="is there already"):
        env.write_csv(path)
    env.write_csv(path, overwrite=True)
    with pytest.raises(InputError, match=r"`path` must end in .csv, got 'steps.txt'"):
        env.write_csv(tmp_path / "steps.txt")


def test_other_spaces_are_told_by_functions():
    env = EpisodeRecorder(
        SepsisEnv(observation="variables"), state_of=lambda values: int(values[0]), num_states=3, end_state=True
    )
    rng = np.random.default_rng(0)
    for seed in range(5):
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, over, _, _ = env.step(int(rng.integers(8)))
    assert env.log().num_states == 4
    assert set(env.ends) == {"terminated"}
    assert (env.log().last_states == 3).all()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_environments_side_by_side_give_the_episodes_of_each(mode):
    made = [Corridor, lambda: Corridor(start=12)]
    env = VectorEpisodeRecorder(SyncVectorEnv(made, autoreset_mode=mode))
    env.reset(seed=0)
    for _ in range(6):
        env.step(np.array([1, 1]))
    log = env.log()
    assert (np.diff(log.states, axis=1)[log.mask] == 1).all()
    alone = EpisodeRecorder(Corridor())
    walk(alone, [1, 1, 1])
    by_start = {first: log.lengths[log.states[:, 0] == first].tolist() for first in (0, 2)}
    waits = mode == AutoresetMode.NEXT_STEP
    assert by_start == {0: [3, 2] if waits else [3, 3], 2: [1, 1, 1] if waits else [1] * 6}
    assert log.select([0]).actions[0, :3].tolist() == alone.log().actions[0].tolist()


def test_misuse_is_told_in_one_line():
    env = EpisodeRecorder(Corridor())
    with pytest.raises(gymnasium.error.ResetNeeded, match="no episode is under way; call reset"):
        env.step(0)
    with pytest.raises(InputError, match="the recorder must have seen a step, but has none"):
        env.log()
    walk(env, [1, 1, 1])
    with pytest.raises(gymnasium.error.ResetNeeded, match="no episode is under way"):
        env.step(0)
    box = gymnasium.make("CartPole-v1")
    with pytest.raises(InputError, match="`env` must have a Discrete observation space, got Box.*; give `state_of`"):
        EpisodeRecorder(box)
    with pytest.raises(InputError, match="`state_of` needs `num_states`"):
        EpisodeRecorder(box, state_of=lambda _: 0)
    with pytest.raises(InputError, match="`num_states` must be 4, as the observation space says, got 7"):
        EpisodeRecorder(Corridor(), num_states=7)
    far = EpisodeRecorder(box, state_of=lambda _: 5, num_states=2)
    with pytest.raises(InputError, match=r"`state_of` must give an integer in 0..1, got 5"):
        far.reset(seed=0)
    disabled = SyncVectorEnv([Corridor], autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(InputError, match="`env` must reset by itself"):
        VectorEpisodeRecorder(disabled)
    with pytest.raises(gymnasium.error.ResetNeeded, match="no episode is under way"):
        VectorEpisodeRecorder(SyncVectorEnv([Corridor])).step(np.array([0]))
