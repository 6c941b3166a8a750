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
from countermax.mdp import Cohort, _story

LOG = some_episodes(MDP, 12, seed=4)
LONG = int(LOG.lengths.argmax())
ONE = LOG.select([LONG])
FEATURES = {"at the end": np.eye(NUM_STATES)[3], "in state 1": np.eye(NUM_STATES)[1]}


@pytest.fixture(scope="module")
def story():
    return Cohort(LOG, POLICY, process=MDP).explain(LONG, features=FEATURES)


def test_features_are_means_over_the_exact_paths(story):
    for name, coupling in (("Gumbel-max", GumbelMax()), ("inverse CDF", InverseCDF())):
        exact = Cohort(ONE, POLICY, process=MDP).replay(coupling, path=True)
        np.testing.assert_allclose(story.features.counterfactual[name][:, 0], exact.path[0, :, 3], atol=1e-12)
        assert story.returns.values[name] == pytest.approx(exact.values[0])
        assert story.standard_deviations[name] == pytest.approx(exact.variances[0] ** 0.5)
        assert story.features.bounds.contains(story.features.counterfactual[name], 1e-9).all()
    np.testing.assert_array_equal(story.features.observed[:, 0], ONE.states[0, : ONE.lengths[0] + 1] == 3)


def test_a_picture_of_many_decisions_shows_the_best_and_says_so(story, monkeypatch):
    steps = {each.step for each in story.decisions}
    assert len(steps) > 1
    monkeypatch.setattr(_story, "_MOST_STEPS", 1)
    (axes,) = story.plot_decisions().axes
    assert axes.get_title(loc="left").endswith(f"(1 of {len(steps)} steps)")
    assert axes.get_yticklabels()[0].get_text().startswith(f"{story.decisions[0].step}: ")


def test_bounds_of_a_feature_are_those_of_that_time(story):
    found = Cohort(ONE, POLICY, process=MDP, horizon=2, discount=1.0).bounds(rewards=0.0, final=FEATURES["in state 1"])
    assert story.features.bounds.lower[2, 1] == pytest.approx(found.lower[0])
    assert story.features.bounds.upper[2, 1] == pytest.approx(found.upper[0])


def test_the_story_is_told_in_every_form(story, tmp_path):
    assert len(story.summary().splitlines()) == 4
    assert "Over all couplings that draw afresh at each step: " in story.summary()
    for name in FEATURES:
        for time in range(HORIZON + 1):
            place = list(FEATURES).index(name)
            for coupling, path in story.features.counterfactual.items():
                assert story.row(f"{name} at time {time}", coupling).value == path[time, place]
            row = story.row(f"{name} at time {time}", "any coupling")
            assert (row.lower, row.upper) == tuple(each[time, place] for each in story.features.bounds)
    plain = json.loads(story.to_json())
    values = {row["coupling"]: row["value"] for row in plain["rows"] if row["quantity"] == "return"}
    assert values["Gumbel-max"] == pytest.approx(story.returns.values["Gumbel-max"])
    assert values["observed"] == pytest.approx(story.observed_return)
    assert plain["step_bounds"]["upper"] == story.step_bounds.upper.tolist()
    assert plain["decisions"][0]["effect_bounds"] == story.decisions[0].effect_bounds._asdict()
    assert story.notes[0] in str(story)
    assert isinstance(story.plot(), Figure)
    page = story.write_page(tmp_path / "story.html").read_text()
    assert "http" not in page
    assert "data:image/png;base64," in page
    assert re.search("One decision changed", page)
    for told in (str(story), page.partition("<pre>")[0]):
        assert told.count("The model is taken as given") == 1


@pytest.mark.parametrize("name", [2, 2.0, Written("2"), Written("02"), np.float64(2)])
def test_an_episode_is_found_however_its_number_is_written(name):
    for names in (range(len(LOG)), map(float, range(len(LOG)))):
        log = replace(LOG, episodes=tuple(names))
        found = Cohort(log, POLICY, process=MDP).explain(name, couplings=["maximal"], features=FEATURES)
        assert found.episode == 2


def test_a_text_is_no_number_of_an_episode():
    with pytest.raises(InputError, match="got '2'; 2 is there, but a text never equals a number"):
        Cohort(LOG, POLICY, process=MDP).explain("2", couplings=["maximal"], features=FEATURES)
    texts = replace(LOG, episodes=("2", "02", *map(str, range(10, 8 + len(LOG)))))
    for name in ("02", Written("02")):
        assert (
            Cohort(texts, POLICY, process=MDP).explain(name, couplings=["maximal"], features=FEATURES).episode == "02"
        )
    with pytest.raises(InputError, match="got 2; '2' is there, but a text never equals a number"):
        Cohort(texts, POLICY, process=MDP).explain(2, couplings=["maximal"], features=FEATURES)


def test_bad_input_is_named(as_users_call):
    with pytest.raises(InputError, match=r"in the log \(0, 1, 2, .* and 2 more\), got 'x'"):
        Cohort(LOG, POLICY, process=MDP).explain("x")
    with pytest.raises(InputError, match=r"`features\['short'\]` must have one finite number for each of 4 states"):
        Cohort(LOG, POLICY, process=MDP).explain(0, features={"short": [1.0]})
    with pytest.raises(InputError, match="at least one coupling"):
        Cohort(LOG, POLICY, process=MDP).explain(0, couplings={})


def test_a_censored_episode_is_told_to_where_it_stops_or_carried_on_with_the_model():
    stopped = [each for each in range(len(LOG)) if not MDP.absorbing[LOG.last_states[each]]]
    one = LOG.select([stopped[0]]) if stopped else None
    assert one is not None
    further = int(one.lengths[0]) + 3
    for censored, steps in (("stop", further - 3), ("model", further)):
        told = Cohort(LOG, POLICY, process=MDP, horizon=further, censored=censored).explain(stopped[0])
        exact = Cohort(one, POLICY, process=MDP, horizon=further, censored=censored).replay(GumbelMax())
        assert told.returns.values["Gumbel-max"] == pytest.approx(exact.values[0])
        assert told.observed_return == pytest.approx(exact.observed[0])
        assert told.features.counterfactual["Gumbel-max"].shape[0] == steps + 1
        limits = Cohort(one, POLICY, process=MDP, horizon=further, censored=censored).bounds()
        np.testing.assert_allclose(told.returns.bounds, [limits.lower[0], limits.upper[0]])
        assert told.step_bounds.contains(told.returns.values["Gumbel-max"], 1e-9).all()
        assert told.decisions.observed == pytest.approx(exact.observed[0])
        assert isinstance(told.plot(), Figure)
    assert "carried on with the model in both worlds" in " ".join(told.notes)
    with pytest.raises(InputError, match='`censored` must be "stop" or "model"'):
        Cohort(LOG, POLICY, process=MDP, censored="guess").explain(stopped[0])
