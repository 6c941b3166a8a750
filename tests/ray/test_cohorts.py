"""Cohorts on Ray: the numbers of one machine, whatever the parts, and whichever workers die."""

import json
import os
import signal
import threading
from dataclasses import fields

import jax
import numpy as np
import pandas as pd
import pytest
from processes import random_log, write_frames
from scipy import sparse
from typer.testing import CliRunner

from countermax import GumbelMax, InverseCDF, Maximal, SharedGumbelMax
from countermax._core.errors import InputError
from countermax.cli import app
from countermax.intervals import Interval
from countermax.mdp import (
    Doubt,
    EpisodeLog,
    estimate,
    evaluate_policy,
    policy_iteration,
    rank_episodes,
    replay,
    trajectory_bounds,
)
from countermax.mdp._estimation import restricted
from countermax.mdp.replays import _walks
from countermax.mdp.replays.engines import _compiled, _general

pytestmark = pytest.mark.usefixtures("ray")

STATES, ACTIONS = 8, 3
STEPS = random_log(0, num_states=STATES, num_actions=ACTIONS, count=120, longest=6, ends=STATES - 1)
STEPS = STEPS[(STEPS["episode"] % 3 > 0) | (STEPS["step"] < 3)]  # some stop before their end
LOG = EpisodeLog.from_frame(STEPS, num_states=STATES, num_actions=ACTIONS)
MODEL = estimate(LOG)
CERTAIN = policy_iteration(MODEL).policy
LEFT_TO_CHANCE, _ = restricted(MODEL, np.random.default_rng(1).dirichlet(np.ones(ACTIONS), STATES))
DOUBT = Doubt(num_resamples=5, seed=3)


@pytest.fixture
def parts_of(monkeypatch):
    """A function that makes parts of so many episodes."""

    def set_size(size):
        for module in (_compiled, _general):
            monkeypatch.setattr(module, "_CELLS_AT_ONCE", size * STATES)

    return set_size


def assert_same(one, other):
    """Field by field, bit by bit."""
    for field in fields(one):
        here, there = getattr(one, field.name), getattr(other, field.name)
        if sparse.issparse(here):
            here, there = here.toarray(), there.toarray()
        for first, second in zip(here, there, strict=True) if isinstance(here, Interval) else [(here, there)]:
            np.testing.assert_array_equal(first, second, err_msg=field.name)


@pytest.mark.parametrize(
    ("policy", "coupling", "options"),
    [
        (CERTAIN, GumbelMax(), {"path": True}),
        (LEFT_TO_CHANCE, GumbelMax(), {"censored": "model", "discount": 0.9, "doubt": DOUBT}),
        (LEFT_TO_CHANCE, InverseCDF(), {"censored": "model", "actions": "coupled", "horizon": 9, "path": True}),
    ],
)
def test_a_replay_in_parts_is_the_same_to_the_bit(parts_of, policy, coupling, options):
    whole = replay(MODEL, LOG, policy, coupling, **options)
    assert whole.censored.any()
    for size in (7, 50, 1_000):
        parts_of(size)
        assert_same(whole, replay(MODEL, LOG, policy, coupling, engine="ray", **options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"censored": "model", "rewards": 0.0, "final": np.arange(STATES * 120.0).reshape(120, STATES) % 7},
        {"actions": "coupled", "final": np.arange(float(STATES)), "horizon": 4},
        {"stable": True},
    ],
)
def test_bounds_in_parts_are_the_same_to_the_bit(parts_of, options):
    whole = trajectory_bounds(MODEL, LOG, LEFT_TO_CHANCE, **options)
    for size in (11, 1_000):
        parts_of(size)
        found = trajectory_bounds(MODEL, LOG, LEFT_TO_CHANCE, engine="ray", **options)
        np.testing.assert_array_equal(np.stack(found), np.stack(whole))


def test_a_coupling_without_a_closed_form_is_the_same_up_to_rounding(parts_of):
    whole = replay(MODEL, LOG, CERTAIN, SharedGumbelMax(0.5))
    parts_of(40)
    found = replay(MODEL, LOG, CERTAIN, SharedGumbelMax(0.5), engine="ray")
    np.testing.assert_allclose(found.values, whole.values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.variances, whole.variances, rtol=0, atol=1e-12)


def test_an_evaluation_keeps_its_estimates_intervals_and_warnings(parts_of):
    names = ["a closure goes along"]

    def model(log):
        assert names
        return estimate(log)

    asked = {"model": model, "num_resamples": 12, "discount": 0.9, "key": jax.random.key(5)}
    whole = evaluate_policy(LOG, LEFT_TO_CHANCE, **asked)
    parts_of(20)
    assert evaluate_policy(LOG, LEFT_TO_CHANCE, engine="ray", **asked).to_json() == whole.to_json()


def test_a_ranking_keeps_its_effects_bounds_and_intervals(parts_of):
    asked = {"couplings": {"one": GumbelMax(), "two": Maximal()}, "doubt": DOUBT, "censored": "model"}
    whole = rank_episodes(MODEL, LOG, LEFT_TO_CHANCE, **asked)
    parts_of(20)
    assert rank_episodes(MODEL, LOG, LEFT_TO_CHANCE, engine="ray", **asked).to_json() == whole.to_json()


def test_killed_workers_are_replaced_and_the_answer_is_the_same(parts_of, monkeypatch, tmp_path):
    def killed_three_times(*arguments, **options):
        deaths = len(list(tmp_path.iterdir()))
        if deaths < 3:
            (tmp_path / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        from countermax.mdp.replays import _walks as unchanged  # in the worker it is

        return unchanged._walked_there(*arguments, **options)

    whole = replay(MODEL, LOG, CERTAIN, GumbelMax())
    parts_of(15)
    monkeypatch.setattr(_walks, "_walked_there", killed_three_times)
    assert_same(whole, replay(MODEL, LOG, CERTAIN, GumbelMax(), engine="ray"))
    assert len(list(tmp_path.iterdir())) >= 3


def test_what_a_resample_refuses_is_raised_as_it_was():
    def model(log):
        if len(set(log.names)) < len(log):
            raise InputError("resamples cannot be learned from")
        return estimate(log)

    with pytest.raises(InputError, match="^resamples cannot be learned from$"):
        evaluate_policy(LOG, CERTAIN, model=model, num_resamples=3, key=jax.random.key(0), engine="ray")


def test_what_cannot_be_sent_is_refused():
    lock = threading.Lock()

    def model(log):
        with lock:
            return estimate(log)

    with pytest.raises(InputError, match='can be pickled: .*engine="local"'):
        evaluate_policy(LOG, CERTAIN, model=model, num_resamples=3, key=jax.random.key(0), engine="ray")


@pytest.mark.parametrize("command", ["evaluate-policy", "explain"])
def test_commands_print_the_same(command, tmp_path):
    decisions = [(*pair, LEFT_TO_CHANCE[pair]) for pair in np.ndindex(LEFT_TO_CHANCE.shape)]
    policy = pd.DataFrame(decisions, columns=["state", "action", "probability"])
    log, policy = write_frames((STEPS, policy), tmp_path)
    asked = [command, str(log), "--policy", str(policy), "--resamples", "4", "--json"]
    here, there = (CliRunner().invoke(app, [*asked, *more]) for more in ([], ["--engine", "ray"]))
    assert there.exit_code == 0, there.output
    assert json.loads(there.stdout) == json.loads(here.stdout)
