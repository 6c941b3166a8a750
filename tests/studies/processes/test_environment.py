"""The sepsis process as an environment, by Gymnasium's own checker and step by step."""

import subprocess
import sys

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from countermax import InputError
from studies.processes import sepsis
from studies.processes.environment import SepsisEnv


@pytest.mark.parametrize("observation", ["index", "variables"])
def test_the_environment_passes_gymnasiums_checker(observation):
    made = gymnasium.make("countermax-studies/Sepsis-v0", observation=observation, render_mode="ansi")
    check_env(made.unwrapped)


def test_the_environment_stops_at_ends_and_at_twenty_steps():
    env = gymnasium.make("countermax-studies/Sepsis-v0")
    lengths, rewards = [], []
    for seed in range(60):
        observed, info = env.reset(seed=seed)
        assert info["full_state"] % 720 == observed
        for step in range(1, 21):
            observed, reward, terminated, truncated, _ = env.step(6 * (seed % 2))
            assert reward == sepsis.rewards()[observed]
            if terminated or truncated:
                lengths.append(step)
                rewards.append(reward)
                break
        assert terminated == (reward != 0)
    assert max(lengths) == 20
    assert {-1.0, 0.0, 1.0} == set(rewards)


def test_the_environment_refuses_what_it_does_not_know():
    env = SepsisEnv(render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(0)
    _, info = env.reset(seed=0, options={"diabetic": True, "state": 384})
    assert info == {"diabetic": True, "full_state": 720 + 384}
    assert "glucose high; on nothing; diabetic" in env.render()
    with pytest.raises(InputError, match=r"`action` must be an integer in 0\.\.7, got 8"):
        env.step(8)
    with pytest.raises(InputError, match="`options` must be among state, diabetic, got sugar"):
        env.reset(options={"sugar": 1})
    with pytest.raises(InputError, match="observed index in which an episode continues, got 376"):
        env.reset(options={"state": 376})
    for options, message in (
        ({"state": 3.7}, "`state` must be an observed index, got 3.7"),
        ({"state": "3"}, "`state` must be an observed index, got '3'"),
        ({"state": 10**9}, "observed index in which an episode continues, got 1000000000"),
        ({"diabetic": "no"}, "`diabetic` must be True or False, got 'no'"),
    ):
        with pytest.raises(InputError, match=message):
            env.reset(options=options)
    for seed in (-1, 2**32, 2**70):
        with pytest.raises(InputError, match="`seed` must be a whole number from 0 to 4294967295, got"):
            env.reset(seed=seed)
    with pytest.raises(InputError, match="`observation` must be one of index, variables, got 'picture'"):
        SepsisEnv(observation="picture")
    with pytest.raises(InputError, match="`render_mode` must be None or ansi"):
        SepsisEnv(render_mode="human")


def test_a_patient_can_be_asked_for_who_would_never_come():
    env = SepsisEnv(prob_diabetes=0.0)
    assert not any(env.reset(seed=seed)[1]["diabetic"] for seed in range(20))
    assert env.reset(seed=0, options={"diabetic": True})[1]["diabetic"]


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['gymnasium'] = None; import countermax.integrations.gymnasium"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'countermax[gymnasium]'" in done.stderr
