"""One episode's story: what is shown is what the exact calculations say."""

import json
import re

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from test_replay import HORIZON, MDP, NUM_ACTIONS, NUM_STATES, POLICY, some_episodes

from countermax import GumbelMax, InputError, InverseCDF
from countermax.mdp import explain, leeway, rank_episodes, replay, single_decisions, trajectory_bounds
from countermax.mdp.processes import sepsis
from countermax.mdp.replays._decisions import usual_policy

LOG = some_episodes(MDP, 12, seed=4)
LONG = int(LOG.lengths.argmax())
ONE = LOG.select([LONG])
FEATURES = {"at the end": np.eye(NUM_STATES)[3], "in state 1": np.eye(NUM_STATES)[1]}


@pytest.fixture(scope="module")
def story():
    return explain(MDP, LOG, LONG, POLICY, features=FEATURES)


def test_features_are_means_over_the_exact_paths(story):
    for name, coupling in (("Gumbel-max", GumbelMax()), ("inverse CDF", InverseCDF())):
        exact = replay(MDP, ONE, POLICY, coupling, discount=1.0, path=True)
        np.testing.assert_allclose(story.counterfactual[name][:, 0], exact.path[0, :, 3], atol=1e-12)
        assert story.values[name] == pytest.approx(exact.values[0])
        assert story.standard_deviations[name] == pytest.approx(exact.variances[0] ** 0.5)
        assert (story.lower - 1e-9 <= story.counterfactual[name]).all()
        assert (story.counterfactual[name] <= story.upper + 1e-9).all()
    np.testing.assert_array_equal(story.observed[:, 0], ONE.states[0, : ONE.lengths[0] + 1] == 3)


def test_bounds_of_a_feature_are_those_of_that_time(story):
    found = trajectory_bounds(MDP, ONE, POLICY, horizon=2, rewards=0.0, final=FEATURES["in state 1"], discount=1.0)
    assert story.lower[2, 1] == pytest.approx(found.lower[0])
    assert story.upper[2, 1] == pytest.approx(found.upper[0])


def test_leeway_is_what_another_mechanism_at_one_step_can_do():
    """Replacing Gumbel-max by other mechanisms at one step stays within it, and the whole is within all bounds."""
    found = leeway(MDP, ONE, POLICY, GumbelMax())
    value = replay(MDP, ONE, POLICY, GumbelMax()).values[0]
    assert (found.lower - 1e-12 <= value).all()
    assert (value <= found.upper + 1e-12).all()
    whole = trajectory_bounds(MDP, ONE, POLICY)
    assert (whole.lower[0] - 1e-9 <= found.lower).all()
    assert (found.upper <= whole.upper[0] + 1e-9).all()
    short = some_episodes(MDP, 8, seed=6, horizon=1)
    for episode in range(8):
        alone = short.select([episode])
        step, bounds = leeway(MDP, alone, POLICY, GumbelMax()), trajectory_bounds(MDP, alone, POLICY)
        # With one step only, leaving that step open leaves everything open.
        np.testing.assert_allclose([step.lower[0], step.upper[0]], [bounds.lower[0], bounds.upper[0]], atol=1e-12)
    with pytest.raises(InputError, match="must hold one episode"):
        leeway(MDP, LOG, POLICY, GumbelMax())


def test_a_decision_changed_is_a_policy_for_one_step():
    """The last action of the episode: before it nothing changes, so the effect is that of one step."""
    last = int(ONE.lengths[0]) - 1
    state, action, successor = (
        int(each) for each in (ONE.states[0, last], ONE.actions[0, last], ONE.states[0, last + 1])
    )
    found = [each for each in single_decisions(MDP, ONE, GumbelMax(), horizon=last + 1) if each.step == last]
    assert [each.other_action for each in found] == [1 - action]
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        p, q = np.log(MDP.row(state, action)), np.log(MDP.row(state, 1 - action))
        row = np.asarray(GumbelMax().counterfactual_probs(p, q, successor))
    reached, _ = MDP.support(state, 1 - action)
    gained = row[reached] @ MDP.rewards[state, 1 - action, : len(reached)] - ONE.rewards[0, last]
    assert found[0].effect == pytest.approx(MDP.discount**last * gained, abs=1e-12)
    assert found[0].lower - 1e-9 <= found[0].effect <= found[0].upper + 1e-9


def test_all_decisions_are_tried_and_sorted():
    found = single_decisions(MDP, ONE, InverseCDF())
    assert len(found) == int(ONE.lengths[0]) * (NUM_ACTIONS - 1)
    effects = [each.effect for each in found]
    assert effects == sorted(effects, reverse=True)
    assert all(each.lower - 1e-9 <= each.effect <= each.upper + 1e-9 for each in found)
    np.testing.assert_allclose(usual_policy(MDP)[:3], 0.5)


def test_the_story_is_told_in_every_form(story, tmp_path):
    assert len(story.findings) >= 4
    assert "whatever the mechanism, between" in story.findings[1]
    frame = story.to_frame()
    assert len(frame) == (HORIZON + 1) * 2
    assert list(frame.columns) == ["time", "feature", "observed", "Gumbel-max", "inverse CDF", "lower", "upper"]
    plain = json.loads(story.to_json())
    assert plain["values"]["Gumbel-max"] == pytest.approx(story.values["Gumbel-max"])
    assert isinstance(story.plot(), Figure)
    page = story.write_report(tmp_path / "story.html").read_text()
    assert "http" not in page
    assert "data:image/png;base64," in page
    assert re.search("One decision changed", page)


def test_a_ranking_tells_robust_claims_from_others():
    found = rank_episodes(MDP, LOG, POLICY)
    frame = found.to_frame()
    assert frame["effect, Gumbel-max"].is_monotonic_decreasing
    assert (frame["robust"] == (frame["least effect"] > 1e-9)).all()
    for name in ("Gumbel-max", "inverse CDF"):
        assert (found.lower - 1e-9 <= found.effects[name]).all()
        assert (found.effects[name] <= found.upper + 1e-9).all()
    assert "every mechanism says so of" in repr(found)


def test_bad_input_is_named(as_users_call):
    with pytest.raises(InputError, match=r"in the log \(0, 1, 2, .* and 4 more\), got 'x'"):
        explain(MDP, LOG, "x", POLICY)
    with pytest.raises(InputError, match=r"`features\['short'\]` must have one finite number for each of 4 states"):
        explain(MDP, LOG, 0, POLICY, features={"short": [1.0]})
    with pytest.raises(InputError, match="at least one mechanism"):
        explain(MDP, LOG, 0, POLICY, mechanisms={})


def test_sepsis_states_are_read_as_a_clinician_would():
    features = sepsis.projected_features()
    assert list(features) == ["heart rate normal", "blood pressure normal", "oxygen normal", "death", "discharge"]
    state = sepsis.PROJECTED.index([1, 0, 1, 1, 0, 0])
    assert [values[state] for values in features.values()] == [1, 0, 1, 0, 0]
    assert [values[sepsis.DISCHARGE] for values in features.values()] == [1, 1, 1, 0, 1]
    labels = sepsis.projected_outcomes()
    assert labels[sepsis.DEATH] != labels[sepsis.DISCHARGE]
    assert labels[sepsis.PROJECTED.index([1, 0, 1, 1, 0, 0])] == labels[sepsis.PROJECTED.index([1, 0, 1, 0, 1, 1])]
    assert len(np.unique(labels)) == 20
