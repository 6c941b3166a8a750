"""Simulated episodes of the sepsis process follow its exact rows."""

import jax
import numpy as np
import pytest
from scipy import stats

from countermax import InputError
from countermax.mdp import EpisodeLog, FiniteMDP, estimate, policy_iteration, policy_value, simulate
from countermax.mdp._estimation import softened
from countermax.mdp._planning import state_distributions
from studies.processes import sepsis

FALSE_ALARM = 1e-4  # of each statistical test below


@pytest.fixture(scope="module")
def repaired():
    return sepsis.process()


@pytest.fixture(scope="module")
def simulated(repaired):
    policy = softened(policy_iteration(repaired).policy, 0.7)
    return policy, simulate(repaired, policy, num_episodes=20_000, horizon=20, key=jax.random.key(0))


def test_simulated_steps_follow_the_exact_rows(repaired, simulated):
    """Pearson's statistic over all rows at the level `FALSE_ALARM`; rare outcomes of a row are taken together."""
    _, log = simulated
    seen = estimate(log)
    totals = seen.counts.sum(axis=2)
    statistic, freedom = 0.0, 0
    for state, action in np.argwhere(totals).tolist():
        successors, probs = repaired.support(state, action)
        counts = np.bincount(seen.successors[state, action], seen.counts[state, action], minlength=1440)
        assert counts.sum() == counts[successors].sum(), "a step led where it cannot"
        order = np.argsort(-probs)
        expected, found = totals[state, action] * probs[order], counts[successors[order]]
        large = max(1, int((expected >= 10).sum()))
        if expected[large:].sum() < 10:  # too little is left for a cell of its own: the last large one takes it
            large -= 1
        wanted = np.append(expected[:large], expected[large:].sum())
        cells = np.append(found[:large], found[large:].sum())
        statistic += ((cells - wanted) ** 2 / wanted).sum()
        freedom += large
    assert freedom > 1000
    assert stats.chi2.sf(statistic, freedom) > FALSE_ALARM
    assert stats.chi2.cdf(statistic, freedom) > FALSE_ALARM


def test_simulated_episodes_start_act_and_end_as_computed(repaired, simulated):
    policy, log = simulated
    assert log.lengths.min() >= 1
    for observed, exact in (
        (log.states[:, 0], repaired.start),
        (log.last_states, state_distributions(repaired, policy, 20)[-1]),
    ):
        likely = exact * len(log) > 10
        counts = np.bincount(observed, minlength=1440)
        assert counts[exact == 0].sum() == 0
        cells = np.append(counts[likely], counts[~likely].sum())
        wanted = len(log) * np.append(exact[likely], exact[~likely].sum())
        assert stats.chisquare(cells, wanted).pvalue > FALSE_ALARM
    steps = log.steps()
    chosen = np.bincount(steps.state * 8 + steps.action, minlength=1440 * 8).reshape(1440, 8)
    visits = chosen.sum(axis=1, keepdims=True)
    often = visits[:, 0] > 1000
    pearson = ((chosen - visits * policy)[often] ** 2 / (visits * policy)[often]).sum()
    assert stats.chi2.sf(pearson, 7 * often.sum()) > FALSE_ALARM
    standard_error = log.returns().std() / np.sqrt(len(log))
    value = policy_value(repaired, policy, horizon=20, discount=1.0)
    assert abs(log.returns().mean() - value) < stats.norm.isf(FALSE_ALARM / 2) * standard_error


def test_episodes_end_on_arrival_and_not_before(repaired, simulated):
    _, log = simulated
    last = np.take_along_axis(log.states, log.lengths[:, None], axis=1)[:, 0]
    assert (repaired.absorbing[last] | (log.lengths == 20)).all()
    assert not repaired.absorbing[log.states[:, :-1][log.mask]].any()
    np.testing.assert_array_equal(log.returns() != 0, repaired.absorbing[last])


def test_simulation_repeats_with_its_key_and_survives_the_frame(repaired, simulated):
    policy, log = simulated
    again = simulate(repaired, policy, num_episodes=20_000, horizon=20, key=jax.random.key(0))
    np.testing.assert_array_equal(again.states, log.states)
    with jax.enable_x64(True):
        doubled = simulate(repaired, policy, num_episodes=20_000, horizon=20, key=jax.random.key(0))
    np.testing.assert_array_equal(doubled.states, log.states)
    few = log.select(np.arange(50))
    back = EpisodeLog.from_frame(few.to_frame(), state_names=log.state_names, action_names=log.action_names)
    np.testing.assert_array_equal(back.states[:, : back.longest + 1], few.states[:, : back.longest + 1])


@pytest.mark.usefixtures("as_users_call")
def test_impossible_simulations_are_refused():
    mdp = FiniteMDP.from_dense(np.ones((2, 1, 2)) / 2, [0, 1.0], start=[0.5, 0.5], absorbing=[1])
    with pytest.raises(InputError, match="state 1 is absorbing: its episodes are empty"):
        simulate(mdp, np.ones((2, 1)), num_episodes=2, horizon=2, key=jax.random.key(0))
    sure = FiniteMDP.from_dense(np.ones((2, 1, 2)) / 2, [0, 1.0], start=[1, 0], absorbing=[1])
    for episodes, horizon, message in (
        (0, 2, "`num_episodes` must be at least 1, got 0"),
        (2, 0, "`horizon` must be at least 1, got 0"),
        (2, 10**9, "`horizon` must be at most 1000000, got 1000000000"),
        (10**9, 20, r"1000000000 episodes of 20 steps would need about .* TB of memory.*; lower `num_episodes` or"),
        (2.5, 20, "`num_episodes` must be a whole number, got 2.5"),
    ):
        with pytest.raises(InputError, match=message):
            simulate(sure, np.ones((2, 1)), num_episodes=episodes, horizon=horizon, key=jax.random.key(0))
