"""A horizon shorter than the log: what happened and what would have happened are compared over the same steps."""

import jax
import numpy as np
import pytest
from processes import HORIZON, MDP, NUM_ACTIONS, NUM_STATES, single_decisions

from countermax import GumbelMax, InputError
from countermax.mdp import Cohort, estimate_policy, simulate
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import policy_values

SAME = deterministic([0, 1, 0, 0], NUM_ACTIONS)
LOG = simulate(MDP, SAME, num_episodes=12, horizon=HORIZON, key=jax.random.key(2))
KEY = jax.random.key(0)
FEATURES = {"at the end": np.eye(NUM_STATES)[3]}


@pytest.mark.parametrize("horizon", range(1, HORIZON + 2))
def test_a_policy_that_changes_nothing_adds_nothing_over_any_horizon(horizon):
    asked = {"horizon": horizon}
    assert (
        np.abs(Cohort(LOG, SAME, process=MDP, **asked).replay(GumbelMax()).effects[LOG.lengths >= horizon]).max(
            initial=0
        )
        < 1e-12
    )
    drawn = Cohort(LOG, SAME, process=MDP, **asked).sample(GumbelMax(), num_samples=2)
    gain = (drawn.returns - drawn.observed[:, None])[LOG.lengths >= horizon]
    assert np.abs(gain).max(initial=0) < 1e-12
    ranked = Cohort(LOG, SAME, process=MDP, **asked).rank(["gumbel-max"])
    np.testing.assert_allclose(ranked.observed, LOG.returns(MDP.discount, horizon=horizon))


def test_returns_over_a_horizon_leave_out_what_came_later():
    for horizon in range(1, HORIZON + 2):
        weights = 0.9 ** np.arange(HORIZON) * (np.arange(HORIZON) < horizon)
        np.testing.assert_allclose(LOG.returns(0.9, horizon=horizon), LOG.rewards @ weights)
    with pytest.raises(InputError, match="`horizon` must be at least 1, got 0"):
        LOG.returns(horizon=0)


@pytest.mark.parametrize("horizon", [1, 2, HORIZON + 2])
def test_a_story_and_its_decisions_keep_to_the_horizon(horizon):
    longest = int(LOG.lengths.argmax())
    story = Cohort(LOG, SAME, process=MDP, horizon=horizon).explain(
        longest, couplings=["gumbel-max"], features=FEATURES
    )
    told = min(horizon, HORIZON)
    assert (len(story.features.observed), len(story.care.given)) == (told + 1, told)
    assert story.observed_return == pytest.approx(LOG.returns(MDP.discount, horizon=horizon)[longest])
    assert story.num_steps == told  # it stops before its end
    assert story.plot() is not None
    decisions = single_decisions(MDP, LOG.select([longest]), GumbelMax(), horizon=horizon)
    assert {each.step for each in decisions} == set(range(told))


@pytest.mark.parametrize("horizon", [1, 2])
def test_every_estimate_of_the_logs_own_policy_is_over_the_horizon(horizon):
    own = estimate_policy(LOG)
    found = Cohort(LOG, own, process=MDP, horizon=horizon).evaluate(["maximal"], num_resamples=0)
    observed = LOG.returns(MDP.discount, horizon=horizon).mean()
    for name in ("observed return", "ordinary importance sampling", "per-decision importance sampling"):
        assert found[name].value == pytest.approx(observed)
    modelled = policy_values(MDP, own, horizon=horizon)[LOG.states[:, 0]].mean()
    assert found["model-based"].value == pytest.approx(modelled)
