"""The return as a distribution: its numbers by hand, and every form in which it shows itself."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from processes import MDP, NUM_ACTIONS, NUM_STATES, POLICY, some_episodes

from countermax import InputError
from countermax.mdp import Cohort, EpisodeLog, estimate_policy
from countermax.mdp._importance import importance_estimates, importance_ratios

LOG = some_episodes(MDP, 200, seed=3)
RATIOS = importance_ratios(LOG, POLICY, estimate_policy(LOG))


@pytest.fixture(scope="module")
def found():
    return Cohort(LOG, POLICY).returns(shares=(0.1, 0.5))


def test_the_mean_is_that_of_weighted_importance_sampling(found):
    assert found.mean == pytest.approx(importance_estimates(LOG, RATIOS, discount=1.0).weighted)
    assert found.probabilities.sum() == pytest.approx(1)
    assert found.cvar(1.0) == pytest.approx(found.mean)
    ordinary = Cohort(LOG, POLICY, behaviour=estimate_policy(LOG)).returns(weighted=False)
    assert ordinary.probabilities.sum() <= 1


def test_the_mean_of_the_worst_counts_the_last_episode_in_part():
    """Ten episodes of equal weight, returns 0 to 9."""
    log = EpisodeLog(
        states=np.tile([0, 1], (10, 1)),
        actions=np.zeros((10, 1), int),
        rewards=np.arange(10.0)[:, None],
        lengths=np.ones(10, int),
        num_states=2,
        num_actions=1,
    )
    found = Cohort(log, np.ones((2, 1))).returns()
    assert found.cvar(0.2) == pytest.approx(0.5)
    assert found.cvar(0.25) == pytest.approx((0 + 1 + 2 / 2) / 2.5)
    assert found.mean_up_to_quantile(0.25) == pytest.approx(1.0)
    assert found.quantile(0.25) == 2
    assert found.cdf([-1, 0, 4.5, 9]) == pytest.approx([0, 0.1, 0.5, 1])
    assert found.quantile(1.0) == 9
    assert found.variance == pytest.approx(8.25)


def test_it_shows_itself_in_every_form(found):
    text = str(found)
    for word in (
        "mean of the worst 0.1 (CVaR)",
        "quantile 0.5",
        "weighted (self-normalised)",
        "uncertainty is left out",
    ):
        assert word in text
    plain = json.loads(found.to_json())
    assert plain["returns"] == sorted(plain["returns"])
    assert found.row("mean of the worst 0.1 (CVaR)").value == found.cvar(0.1)
    assert found.row("mean").value == found.mean
    assert found.to_frame()["value"].tolist() == list(found.numbers.values())
    assert isinstance(found.plot(), Figure)


def test_what_makes_it_unreliable_is_told():
    few = Cohort(LOG.select(np.arange(8)), POLICY, absorbing=[3], horizon=9).returns()
    assert any("not to be trusted" in each for each in few.notes)
    assert any("episodes are censored: compared up to" in each for each in few.notes)
    assert "WARNING" in str(few)


def test_bad_input_is_named(as_users_call, found):
    with pytest.raises(InputError, match=r"`shares` must hold numbers above 0 and at most 1, got \[0.0\]"):
        Cohort(LOG, POLICY).returns(shares=[0])
    with pytest.raises(InputError, match="`share` must be more than 0, got 0"):
        found.cvar(0)
    with pytest.raises(InputError, match="`share` must be at most 1.0, got 2"):
        found.quantile(2)
    with pytest.raises(InputError, match=r"`policy` must be \[state, action\]"):
        Cohort(LOG, np.full((NUM_STATES, NUM_ACTIONS + 1), 0.5)).returns()


def test_intervals_are_those_that_evaluate_gives_for_the_same_resamples(found):
    resampled = Cohort(LOG, POLICY).returns(shares=(0.1, 0.5), num_resamples=12, seed=4)
    whole = Cohort(LOG, POLICY, discount=1.0).evaluate([], num_resamples=12, seed=4)
    (same,) = [each.interval for each in whole.estimates if each.name == "weighted importance sampling"]
    np.testing.assert_allclose(resampled.intervals["mean"][:2], same[:2], atol=1e-12)
    assert found.intervals == {}
    assert resampled.numbers == found.numbers
    assert set(resampled.intervals) == set(resampled.numbers)
    for name, value in resampled.numbers.items():
        assert resampled.intervals[name].lower <= value <= resampled.intervals[name].upper
    assert "83 % confidence intervals, from 12 resamples" in str(resampled)
    assert resampled.row("mean").ci_lower == resampled.intervals["mean"].lower
