"""Cohorts on Ray: the numbers of one machine, whatever the parts, and whichever workers die."""

import json
import os
import signal
import threading
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from processes import random_log, write_frames
from scipy import sparse
from typer.testing import CliRunner

from countermax import GumbelMax, InverseCDF, Maximal, SharedGumbelMax
from countermax._core.errors import InputError
from countermax.cli import app
from countermax.mdp import Cohort, EpisodeLog, Posterior, estimate, policy_iteration
from countermax.mdp._estimation import restricted
from countermax.mdp._replays import _chains, _compiled_chains, _trajectories
from countermax.mdp._results import Fates

pytestmark = pytest.mark.usefixtures("ray")

STATES, ACTIONS = 8, 3
STEPS = random_log(0, num_states=STATES, num_actions=ACTIONS, count=120, longest=6, ends=STATES - 1)
STEPS = STEPS[(STEPS["episode"] % 3 > 0) | (STEPS["step"] < 3)]  # some stop before their end
LOG = EpisodeLog.from_frame(STEPS, num_states=STATES, num_actions=ACTIONS)
MODEL = estimate(LOG)
CERTAIN = policy_iteration(MODEL).policy
LEFT_TO_CHANCE, _ = restricted(MODEL, np.random.default_rng(1).dirichlet(np.ones(ACTIONS), STATES))
POSTERIOR = Posterior(num_draws=5, seed=3)


@pytest.fixture
def parts_of(monkeypatch):
    """A function that makes parts of so many episodes."""

    def set_size(size):
        for module in (_compiled_chains, _chains):
            monkeypatch.setattr(module, "_CELLS_AT_ONCE", size * STATES)

    return set_size


def assert_same(one, other):
    """Field by field, bit by bit."""
    for field in fields(one):
        here, there = getattr(one, field.name), getattr(other, field.name)
        if field.name == "context":
            assert here == there
            continue
        if sparse.issparse(here):
            here, there = here.toarray(), there.toarray()
        for first, second in zip(leaves(here), leaves(there), strict=True):
            np.testing.assert_array_equal(first, second, err_msg=field.name)


def leaves(value):
    """The numbers of intervals and counts, which are tuples of them, and where episodes end."""
    value = (value.sizes, value.moved, value.expected, value.spared) if isinstance(value, Fates) else value
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    ("policy", "coupling", "options", "path"),
    [
        (CERTAIN, GumbelMax(), {}, True),
        (LEFT_TO_CHANCE, GumbelMax(), {"censored": "model", "discount": 0.9, "posterior": POSTERIOR}, False),
        (LEFT_TO_CHANCE, InverseCDF(), {"censored": "model", "actions": "coupled", "horizon": 9}, True),
    ],
)
def test_a_replay_in_parts_is_the_same_to_the_bit(parts_of, policy, coupling, options, path):
    whole = Cohort(LOG, policy, process=MODEL, **options).replay(coupling, path=path)
    assert whole.censored.any()
    for size in (7, 50, 1_000):
        parts_of(size)
        assert_same(whole, Cohort(LOG, policy, process=MODEL, engine="ray", **options).replay(coupling, path=path))


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {}),
        ({"censored": "model"}, {"rewards": 0.0, "final": np.arange(STATES * 120.0).reshape(120, STATES) % 7}),
        ({"actions": "coupled", "horizon": 4}, {"final": np.arange(float(STATES))}),
        ({}, {"stable": True}),
    ],
)
def test_bounds_in_parts_are_the_same_to_the_bit(parts_of, options, asked):
    whole = Cohort(LOG, LEFT_TO_CHANCE, process=MODEL, **options).bounds(**asked)
    for size in (11, 1_000):
        parts_of(size)
        found = Cohort(LOG, LEFT_TO_CHANCE, process=MODEL, engine="ray", **options).bounds(**asked)
        np.testing.assert_array_equal(np.stack(found), np.stack(whole))


def test_a_coupling_without_a_closed_form_is_the_same_up_to_rounding(parts_of):
    whole = Cohort(LOG, CERTAIN, process=MODEL).replay(SharedGumbelMax(0.5))
    parts_of(40)
    found = Cohort(LOG, CERTAIN, process=MODEL, engine="ray").replay(SharedGumbelMax(0.5))
    np.testing.assert_allclose(found.values, whole.values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.variances, whole.variances, rtol=0, atol=1e-12)


def test_an_evaluation_keeps_its_estimates_intervals_and_warnings(parts_of):
    names = ["a closure goes along"]

    def model(log):
        assert names
        return estimate(log)

    asked, drawn = {"process": model, "discount": 0.9}, {"num_resamples": 12, "seed": 5}
    whole = Cohort(LOG, LEFT_TO_CHANCE, **asked).evaluate(**drawn)
    parts_of(20)
    assert Cohort(LOG, LEFT_TO_CHANCE, engine="ray", **asked).evaluate(**drawn).to_json() == whole.to_json()


def test_a_ranking_keeps_its_effects_bounds_and_intervals(parts_of):
    asked, couplings = {"posterior": POSTERIOR, "censored": "model"}, {"one": GumbelMax(), "two": Maximal()}
    whole = Cohort(LOG, LEFT_TO_CHANCE, process=MODEL, **asked).rank(couplings)
    parts_of(20)
    found = Cohort(LOG, LEFT_TO_CHANCE, process=MODEL, engine="ray", **asked).rank(couplings)
    assert found.to_json() == whole.to_json()


def test_killed_workers_are_replaced_and_the_answer_is_the_same(parts_of, monkeypatch, tmp_path):
    def killed_three_times(*arguments, **options):
        deaths = len(list(tmp_path.iterdir()))
        if deaths < 3:
            (tmp_path / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        from countermax.mdp._replays import _trajectories as unchanged  # in the worker it is

        return unchanged._moments_of(*arguments, **options)

    whole = Cohort(LOG, CERTAIN, process=MODEL).replay(GumbelMax())
    parts_of(15)
    monkeypatch.setattr(_trajectories, "_moments_of", killed_three_times)
    assert_same(whole, Cohort(LOG, CERTAIN, process=MODEL, engine="ray").replay(GumbelMax()))
    assert len(list(tmp_path.iterdir())) >= 3


def test_what_a_resample_refuses_is_raised_as_it_was():
    def model(log):
        if len(set(log.names)) < len(log):
            raise InputError("resamples cannot be learned from")
        return estimate(log)

    with pytest.raises(InputError, match="^resamples cannot be learned from$"):
        Cohort(LOG, CERTAIN, process=model, engine="ray").evaluate(num_resamples=3)


def test_what_cannot_be_sent_is_refused():
    lock = threading.Lock()

    def model(log):
        with lock:
            return estimate(log)

    with pytest.raises(InputError, match='can be pickled: .*engine="local"'):
        Cohort(LOG, CERTAIN, process=model, engine="ray").evaluate(num_resamples=3)


@pytest.mark.parametrize("command", ["evaluate-policy", "explain"])
def test_commands_print_the_same(command, tmp_path):
    decisions = [(*pair, LEFT_TO_CHANCE[pair]) for pair in np.ndindex(LEFT_TO_CHANCE.shape)]
    policy = pd.DataFrame(decisions, columns=["state", "action", "probability"])
    log, policy = write_frames((STEPS, policy), tmp_path)
    draws = "--num-draws" if command == "explain" else "--num-resamples"
    asked = [command, str(log), "--policy", str(policy), draws, "4", "--json"]
    here, there = (CliRunner().invoke(app, [*asked, *more]) for more in ([], ["--engine", "ray"]))
    assert there.exit_code == 0, there.output
    assert json.loads(there.stdout) == json.loads(here.stdout)
