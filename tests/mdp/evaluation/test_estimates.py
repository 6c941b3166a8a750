"""Off-policy estimates side by side: what each name says, and honest about what they rest on."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from processes import MDP, NUM_ACTIONS, NUM_STATES, POLICY, some_episodes

from countermax import GumbelMax, InputError
from countermax.mdp import Cohort, FiniteMDP, estimate, estimate_policy
from countermax.mdp._estimation import restricted
from countermax.mdp._importance import importance_estimates, importance_ratios
from countermax.mdp._planning import policy_values

LOG = some_episodes(MDP, 400, seed=3)


@pytest.fixture(scope="module")
def evaluation():
    return Cohort(LOG, POLICY).evaluate({"Gumbel-max": GumbelMax()}, num_resamples=12)


def test_each_estimate_is_what_its_name_says(evaluation):
    model = estimate(LOG)
    assert evaluation["observed return"].value == pytest.approx(LOG.returns().mean())
    expected = policy_values(model, POLICY, horizon=LOG.longest, discount=1.0)[LOG.states[:, 0]].mean()
    assert evaluation["model-based"].value == pytest.approx(expected)
    replayed = Cohort(LOG, POLICY, process=model, discount=1.0).replay(GumbelMax())
    assert evaluation["counterfactual, Gumbel-max"].value == pytest.approx(replayed.mean)
    for each in evaluation.estimates:
        assert each.interval.lower <= each.value <= each.interval.upper
        assert each.interval.level == 0.83
    with pytest.raises(KeyError, match="there are observed return"):
        evaluation["guess"]


def test_intervals_come_from_refitting_the_model(evaluation):
    """With a process that is known only the first states vary, which is far less."""
    known = Cohort(LOG, POLICY, process=MDP, discount=1.0).evaluate({}, num_resamples=12)
    wide, narrow = evaluation["model-based"], known["model-based"]
    assert wide.interval.width > 1.5 * narrow.interval.width
    assert narrow.value == pytest.approx(policy_values(MDP, POLICY, horizon=3, discount=1.0)[LOG.states[:, 0]].mean())


def test_it_shows_itself(evaluation):
    text = str(evaluation)
    for word in (
        "weighted importance sampling",
        "83 % confidence interval",
        "whatever the coupling",
        "effective sample size",
    ):
        assert word in text
    plain = json.loads(evaluation.to_json())
    assert plain["estimates"][0]["name"] == "observed return"
    row = evaluation.row("doubly robust")
    assert (row.ci_lower, row.ci_upper) == evaluation["doubly robust"].interval[:2]
    assert evaluation.row("counterfactual", "Gumbel-max").value == evaluation["counterfactual, Gumbel-max"].value
    assert isinstance(evaluation.plot(truth=0.1), Figure)


def test_thin_coverage_is_told():
    few = some_episodes(MDP, 6, seed=0)
    seen = np.zeros((NUM_STATES, NUM_ACTIONS))
    steps = few.steps()
    np.add.at(seen, (steps.state, steps.action), 1)
    target = np.eye(NUM_ACTIONS)[seen.argmin(axis=1)]
    found = Cohort(few, target).evaluate({}, num_resamples=0)
    told = " ".join(found.notes)
    assert "an effective sample size of" in told
    assert "rows of fewer than 10 visits" in told
    assert found["model-based"].interval is None
    assert json.loads(found.to_json())["estimates"][0]["interval"] is None
    plenty = Cohort(LOG, estimate_policy(LOG)).evaluate({}, num_resamples=0)
    assert not any("WARNING" in each for each in plenty.notes)


def test_actions_that_nobody_took_are_told_and_left_out():
    log = LOG.select(np.flatnonzero(~((LOG.states[:, :-1] == 1) & (LOG.actions == 1) & LOG.mask).any(axis=1)))
    target = np.eye(NUM_ACTIONS)[[0, 1, 0, 0]]
    found = Cohort(log, target).evaluate({"Gumbel-max": GumbelMax()}, num_resamples=0)
    told = " ".join(found.notes)
    assert "what nobody ever did" in told
    assert "the model knows no such action" in told


def test_bad_input_is_named(as_users_call):
    with pytest.raises(InputError, match=r"sum to one in each state, got 1.5 in state 0"):
        Cohort(LOG, np.full((NUM_STATES, NUM_ACTIONS), 0.75)).evaluate(num_resamples=0)
    with pytest.raises(InputError, match=r"of shape \(4, 2\), got \(2, 4\)"):
        Cohort(LOG, POLICY.T)
    with pytest.raises(InputError, match="`level` must lie between 0 and 1, got 1"):
        Cohort(LOG, POLICY).evaluate(level=1.0, num_resamples=0)


def test_importance_sampling_cannot_weigh_what_a_model_adds():
    with pytest.raises(
        InputError, match='`evaluate` needs a cohort with censored="stop".*nobody earned what a model adds'
    ):
        Cohort(LOG, POLICY, censored="model").evaluate()


def _without(process, lost):
    """The process without some of its transitions, the others of each row in proportion."""
    rows = np.stack([[process.row(state, action) for action in range(NUM_ACTIONS)] for state in range(NUM_STATES)])
    rows[lost] = 0
    totals = rows.sum(axis=2, keepdims=True)
    rewards = np.zeros(rows.shape)
    np.put_along_axis(rewards, process.successors, process.rewards, axis=2)
    return FiniteMDP.from_dense(
        rows / np.where(totals > 0, totals, 1),
        rewards,
        start=process.start,
        absorbing=process.absorbing,
        allowed=totals[:, :, 0] > 0,
    )


@pytest.mark.parametrize("whole_row", [True, False])
def test_without_couplings_a_model_may_lack_what_was_logged(whole_row):
    steps = LOG.steps()
    state, action = int(steps.state[0]), int(steps.action[0])
    model = _without(MDP, (state, action) if whole_row else (state, action, int(steps.next_state[0])))
    cohort = Cohort(LOG, POLICY, process=model, discount=1.0)
    found = cohort.evaluate([], num_resamples=3)
    assert found["observed return"].value == pytest.approx(LOG.returns(1.0).mean())
    policy, _ = restricted(model, POLICY)
    ratios = importance_ratios(LOG, policy, estimate_policy(LOG))
    expected = importance_estimates(LOG, ratios, discount=1.0, horizon=LOG.longest)
    assert found["weighted importance sampling"].value == pytest.approx(expected.weighted)
    assert all(np.isfinite(each.value) for each in found.estimates)
    assert isinstance(found.plot(), Figure)
    with pytest.raises(InputError, match="must be possible under the process"):
        cohort.evaluate(["gumbel-max"], num_resamples=0)
