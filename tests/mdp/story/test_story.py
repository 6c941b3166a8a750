"""One episode's story: what is shown is what the exact calculations say."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from processes import HORIZON, MDP, NUM_STATES, POLICY, some_episodes

from countermax import GumbelMax, InputError, InverseCDF
from countermax._core.labels import Written
from countermax.mdp import explain, replay, trajectory_bounds

LOG = some_episodes(MDP, 12, seed=4)
LONG = int(LOG.lengths.argmax())
ONE = LOG.select([LONG])
FEATURES = {"at the end": np.eye(NUM_STATES)[3], "in state 1": np.eye(NUM_STATES)[1]}


@pytest.fixture(scope="module")
def story():
    return explain(MDP, LOG, LONG, POLICY, features=FEATURES)


def test_features_are_means_over_the_exact_paths(story):
    for name, coupling in (("Gumbel-max", GumbelMax()), ("inverse CDF", InverseCDF())):
        exact = replay(MDP, ONE, POLICY, coupling, path=True)
        np.testing.assert_allclose(story.counterfactual[name][:, 0], exact.path[0, :, 3], atol=1e-12)
        assert story.values[name] == pytest.approx(exact.values[0])
        assert story.standard_deviations[name] == pytest.approx(exact.variances[0] ** 0.5)
        assert story.bounds.contains(story.counterfactual[name], 1e-9).all()
    np.testing.assert_array_equal(story.observed[:, 0], ONE.states[0, : ONE.lengths[0] + 1] == 3)


def test_bounds_of_a_feature_are_those_of_that_time(story):
    found = trajectory_bounds(MDP, ONE, POLICY, horizon=2, rewards=0.0, final=FEATURES["in state 1"], discount=1.0)
    assert story.bounds.lower[2, 1] == pytest.approx(found.lower[0])
    assert story.bounds.upper[2, 1] == pytest.approx(found.upper[0])


def test_the_story_is_told_in_every_form(story, tmp_path):
    assert len(story.findings) >= 4
    assert any("Whatever is assumed about luck: " in each for each in story.findings)
    frame = story.to_frame()
    assert len(frame) == (HORIZON + 1) * 2
    answers = ["counterfactual_Gumbel-max", "counterfactual_inverse_CDF"]
    bounds = ["counterfactual_lower", "counterfactual_upper"]
    assert list(frame.columns) == ["time", "feature", "observed", *answers, *bounds]
    plain = json.loads(story.to_json())
    assert plain["values"]["Gumbel-max"] == pytest.approx(story.values["Gumbel-max"])
    assert plain["step_bounds"]["upper"] == story.step_bounds.upper.tolist()
    assert plain["decisions"][0]["effect_bounds"] == story.decisions[0].effect_bounds._asdict()
    assert story.findings[0] in str(story)
    assert isinstance(story.plot(), Figure)
    page = story.write_report(tmp_path / "story.html").read_text()
    assert "http" not in page
    assert "data:image/png;base64," in page
    assert re.search("one decision changed", page)
    for told in (str(story), page.partition("<pre>")[0]):
        assert told.count("Takes the model as given") == 1


@pytest.mark.parametrize("name", [2, 2.0, Written("2"), Written("02"), np.float64(2)])
def test_an_episode_is_found_however_its_number_is_written(name):
    for names in (range(len(LOG)), map(float, range(len(LOG)))):
        log = replace(LOG, episodes=tuple(names))
        found = explain(MDP, log, name, POLICY, features=FEATURES, couplings=["maximal"])
        assert found.episode == 2


def test_a_text_is_no_number_of_an_episode():
    with pytest.raises(InputError, match="got '2'; 2 is there, but a text never equals a number"):
        explain(MDP, LOG, "2", POLICY, features=FEATURES, couplings=["maximal"])
    texts = replace(LOG, episodes=("2", "02", *map(str, range(10, 8 + len(LOG)))))
    for name in ("02", Written("02")):
        assert explain(MDP, texts, name, POLICY, features=FEATURES, couplings=["maximal"]).episode == "02"
    with pytest.raises(InputError, match="got 2; '2' is there, but a text never equals a number"):
        explain(MDP, texts, 2, POLICY, features=FEATURES, couplings=["maximal"])


def test_bad_input_is_named(as_users_call):
    with pytest.raises(InputError, match=r"in the log \(0, 1, 2, .* and 2 more\), got 'x'"):
        explain(MDP, LOG, "x", POLICY)
    with pytest.raises(InputError, match=r"`features\['short'\]` must have one finite number for each of 4 states"):
        explain(MDP, LOG, 0, POLICY, features={"short": [1.0]})
    with pytest.raises(InputError, match="at least one coupling"):
        explain(MDP, LOG, 0, POLICY, couplings={})


def test_couplings_called_like_bounds_have_columns_of_their_own():
    story = explain(MDP, LOG, 0, POLICY, features=FEATURES, couplings={"lower": "maximal", "upper": "gumbel-max"})
    frame = story.to_frame()
    np.testing.assert_array_equal(frame["counterfactual_lower"], story.bounds.lower.ravel())
    np.testing.assert_array_equal(frame["counterfactual_lower_2"], story.counterfactual["lower"].ravel())
    np.testing.assert_array_equal(frame["counterfactual_upper_2"], story.counterfactual["upper"].ravel())


def test_a_censored_episode_is_told_to_where_it_stops_or_carried_on_with_the_model():
    stopped = [each for each in range(len(LOG)) if not MDP.absorbing[LOG.last_states[each]]]
    one = LOG.select([stopped[0]]) if stopped else None
    assert one is not None
    further = int(one.lengths[0]) + 3
    for censored, steps in (("stop", further - 3), ("model", further)):
        told = explain(MDP, LOG, stopped[0], POLICY, horizon=further, censored=censored)
        exact = replay(MDP, one, POLICY, GumbelMax(), horizon=further, censored=censored)
        assert told.values["Gumbel-max"] == pytest.approx(exact.values[0])
        assert told.observed_return == pytest.approx(exact.observed[0])
        assert told.counterfactual["Gumbel-max"].shape[0] == steps + 1
        limits = trajectory_bounds(MDP, one, POLICY, horizon=further, censored=censored)
        np.testing.assert_allclose(told.value_bounds, [limits.lower[0], limits.upper[0]])
        assert told.step_bounds.contains(told.values["Gumbel-max"], 1e-9).all()
        assert told.decisions.observed == pytest.approx(exact.observed[0])
        assert isinstance(told.plot(), Figure)
    assert "carried on with the model in both worlds" in " ".join(told.notes)
    with pytest.raises(InputError, match='`censored` must be "stop" or "model"'):
        explain(MDP, LOG, stopped[0], POLICY, censored="guess")
