"""What makes replays quick changes nothing: answers that are kept, one order of states for all rows, threads."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from chains import ReferenceChains

from countermax import GumbelMax, InverseCDF
from countermax._core import threads as threads_of
from countermax.mdp import Cohort, FiniteMDP, simulate
from countermax.mdp._replays import _compiled_chains, _trajectories

NUM_STATES, NUM_ACTIONS, HORIZON = 9, 3, 7


@pytest.fixture(scope="module")
def known():
    """A process that pays for where it leads, absorbing ends included, a log, and a policy left to chance in part."""
    stream = np.random.default_rng(3)
    transitions = np.zeros((NUM_STATES, NUM_ACTIONS, NUM_STATES))
    for state in range(NUM_STATES - 1):
        for action in range(NUM_ACTIONS):
            reached = stream.choice(NUM_STATES, 4, replace=False)
            transitions[state, action, reached] = stream.dirichlet(np.ones(4))
    transitions[-1, :, -1] = 1
    process = FiniteMDP.from_dense(transitions, stream.normal(size=NUM_STATES), start=0, discount=0.9, absorbing=[8])
    uniform = np.full((NUM_STATES, NUM_ACTIONS), 1 / NUM_ACTIONS)
    log = simulate(process, uniform, num_episodes=250, horizon=HORIZON, key=jax.random.key(0))
    policy = np.eye(NUM_ACTIONS)[stream.integers(NUM_ACTIONS, size=NUM_STATES)]
    policy[2] = [0.2, 0.0, 0.8]
    return process, log, policy


def asked(known, **options):
    process, log, policy = known
    return Cohort(log, policy, process=process, censored="model", **options)


def bounded(known, **options):
    return np.stack(asked(known, **options).bounds())


def replayed(known, coupling, **options):
    found = asked(known, **options).replay(coupling)
    return np.concatenate([found.values, found.variances, found.last.toarray().ravel()])


@pytest.mark.parametrize("coupling", [GumbelMax(), InverseCDF()])
def test_answers_that_are_kept_are_those_that_are_asked_for_each_time(known, coupling, monkeypatch):
    sizes = []
    chosen = _compiled_chains._chosen
    monkeypatch.setattr(_compiled_chains, "_chosen", lambda *each: sizes.append(chosen(*each)) or sizes[-1])
    kept = replayed(known, coupling)
    monkeypatch.setattr(_compiled_chains, "_MOST_ANSWERS", 0)
    np.testing.assert_array_equal(kept, replayed(known, coupling))
    assert [each.answers.size > 0 for each, _ in sizes] == [True, False]


@pytest.mark.parametrize("actions", ["fresh", "coupled"])
def test_bounds_by_one_order_of_the_states_are_those_row_by_row(known, actions, monkeypatch):
    used = []
    chosen = _compiled_chains._chosen
    monkeypatch.setattr(_compiled_chains, "_chosen", lambda *each: used.append(chosen(*each)) or used[-1])
    at_once = bounded(known, actions=actions)
    monkeypatch.setattr(_compiled_chains, "_SWEPT", 0)
    np.testing.assert_allclose(at_once, bounded(known, actions=actions), atol=1e-12)
    monkeypatch.setattr(_trajectories, "chains_for", ReferenceChains)
    np.testing.assert_allclose(at_once, bounded(known, actions=actions), atol=1e-12)
    assert [each.number.size > 0 for each, _ in used] == [True, False]


@pytest.mark.parametrize("least", [1, 2**15])
def test_no_digit_depends_on_the_number_of_threads(known, least, monkeypatch):
    monkeypatch.setattr(_compiled_chains, "_LEAST_CELLS", least)
    found = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(threads_of, "cpu_count", lambda threads=threads: threads)
        found.append([bounded(known), replayed(known, GumbelMax())])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_episode_alone_has_the_bounds_that_it_has_among_others(known):
    process, log, policy = known
    alone = [bounded((process, log.select([each]), policy), horizon=HORIZON)[:, 0] for each in range(20)]
    np.testing.assert_array_equal(np.stack(alone, axis=1), bounded(known)[:, :20])


def test_one_transition_may_have_earned_this_and_that(known):
    """Then steps with a common transition are not the same."""
    process, log, policy = known
    noisy = replace(log, rewards=np.where(log.mask, np.arange(len(log))[:, None] % 5, 0.0))
    alone = [
        Cohort(noisy.select([each]), policy, process=process, horizon=HORIZON).replay(GumbelMax()).values[0]
        for each in range(20)
    ]
    found = Cohort(noisy, policy, process=process, horizon=HORIZON).replay(GumbelMax())
    np.testing.assert_allclose(alone, found.values[:20], atol=1e-12)
