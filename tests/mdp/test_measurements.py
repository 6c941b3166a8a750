"""States from measurements: known clusters are found, resamples make them again, and what is missing is told."""

import copy
import json
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.tree import DecisionTreeClassifier

from countermax import InputError
from countermax.mdp import Cohort, EpisodeLog, Measurements, estimate, frame_of_dataset
from countermax.mdp._clusters import distinct_names

KEY = jax.random.key(0)
SCORE = {"home": 1, "dead": 0}
FEATURES = ["lactate", "pressure"]
CENTRES = {"shock": (6.0, 50.0), "ill": (3.0, 75.0), "well": (1.0, 100.0)}


def known_clusters(count=80, seed=0, missing=0.0):
    """Steps whose true state is known: three clouds that do not touch."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(count):
        state = "ill"
        for time in range(2 if episode % 7 == 0 else 5):  # some are censored
            action, outcome = ("treat" if rng.random() < 0.5 else "wait"), None
            lactate, pressure = rng.normal(CENTRES[state], (0.2, 2))
            better = rng.random() < (0.65 if action == "treat" else 0.4)
            after = {"ill": ("shock", "well"), "shock": ("dead", "ill"), "well": ("ill", "home")}[state][better]
            if after in SCORE:
                outcome = after
            hidden = lactate if rng.random() >= missing else np.nan
            advice = "treat" if lactate > 2 else "wait"
            rows.append((f"p{episode}", 10 * time, hidden, pressure, action, advice, state, outcome))
            state = after
            if outcome is not None:
                break
    columns = ["episode", "time", "lactate", "pressure", "action", "advice", "truth", "outcome"]
    return pd.DataFrame(rows, columns=columns)


def true_log(frame):
    """The same episodes by their true states, read by the reader of states."""
    rows = []
    for episode, part in frame.groupby("episode", sort=False):
        last = part["outcome"].iloc[-1]
        part = part if isinstance(last, str) else part.iloc[:-1]
        led = [*frame.loc[frame["episode"] == episode, "truth"].iloc[1:], *([last] if isinstance(last, str) else [])]
        for step, (state, action, after) in enumerate(zip(part["truth"], part["action"], led, strict=True)):
            rows.append((episode, step, state, action, after, float(SCORE.get(after, 0))))
    steps = pd.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])
    return EpisodeLog.from_frame(
        steps, state_names=["shock", "dead", "ill", "well", "home"], action_names=["treat", "wait"]
    )


def test_clusters_that_are_known_are_found_and_every_estimate_is_that_of_the_true_states():
    frame = known_clusters()
    measured = Measurements(frame.sample(frac=1, random_state=0), FEATURES, num_states=3, score=SCORE)
    truth = true_log(frame)
    named = {name: set() for name in measured.log.state_names}
    places = {name: place for place, name in enumerate(measured.log.names)}
    order = [places[name] for name in truth.names]
    for mine, theirs in zip(measured.log.states[order].ravel(), truth.states.ravel(), strict=True):
        named[measured.log.state_names[mine]].add(truth.state_names[theirs])
    assert sorted(next(iter(each)) for each in named.values()) == sorted(truth.state_names)
    assert all(len(each) == 1 for each in named.values())
    advice = {"shock": "treat", "ill": "treat", "well": "wait"}
    policy = np.array(
        [[1.0, 0.0] if advice.get(name, "treat") == "treat" else [0.0, 1.0] for name in truth.state_names]
    )
    expected = Cohort(truth, policy, absorbing=["home", "dead"]).evaluate([], num_resamples=0)
    found = Cohort(measured, "advice").evaluate([], num_resamples=0)
    for each in expected.estimates:
        assert found[each.name].value == pytest.approx(each.value), each.name
    assert found.num_censored == expected.num_censored > 0


def test_a_tree_finds_the_limits_at_which_returns_change():
    rng = np.random.default_rng(0)
    numbers = rng.random((2000, 2))
    reward = np.select([numbers[:, 0] < 0.3, numbers[:, 1] < 0.6], [0.0, 1.0], 2.0) + rng.normal(0, 0.1, 2000)
    steps = {
        "episode": np.arange(2000),
        "time": 0,
        "x": numbers[:, 0],
        "y": numbers[:, 1],
        "action": 0,
        "reward": reward,
    }
    measured = Measurements(pd.DataFrame(steps), ["x", "y"], num_states=3, method="tree")
    names = measured.log.state_names
    edges = [float(each.split()[-1]) for name in names if name != "end" for each in name.split(", ")]
    assert min(abs(np.array(edges) - 0.3)) < 0.01
    assert min(abs(np.array(edges) - 0.6)) < 0.01
    np.testing.assert_allclose(
        measured.states.returns[[0, 1, 3] if names[2] == "end" else [0, 2, 3]], [0, 1, 2], atol=0.05
    )


def test_states_are_called_by_what_they_are_and_come_from_worst_to_best():
    measured = Measurements(known_clusters(), FEATURES, num_states=3, score=SCORE)
    names = measured.log.state_names
    assert names[0] == "dead"
    assert names[-1] == "home"
    assert "lactate very high, pressure very low" in names or "lactate very high, pressure low" in names
    assert names.index("average") < len(names) - 1
    shown = measured.states
    assert (np.diff(shown.returns) >= 0).all()
    low = shown.row("rows", about=names[1]).value
    assert low == (measured.log.states == 1)[:, :-1].sum() or low > 0
    assert shown.sizes[np.isfinite(shown.means[:, 0])].sum() == len(known_clusters())
    assert "lactate" in str(shown)
    assert json.loads(shown.to_json())["rows"]
    assert isinstance(shown.plot(), Figure)
    tree = Measurements(known_clusters(), FEATURES, num_states=3, method="tree", score=SCORE)
    assert all("<=" in name or ">" in name for name in tree.log.state_names if name not in SCORE)


def test_names_use_as_many_words_as_tell_states_apart_and_then_numbers():
    told = [["a high", "b low", "c high"], ["a high", "b low", "c low"], ["d low"], ["d low"], ["home"]]
    assert distinct_names(told, ["home"]) == [
        "a high, b low, c high",
        "a high, b low, c low",
        "d low (1)",
        "d low (2)",
        "home (2)",
    ]


def test_a_resample_is_made_into_states_as_if_it_were_the_log():
    """Beside measurements of a frame that holds the drawn episodes, repeats under other names."""
    frame = known_clusters(30, seed=1)
    frame[FEATURES] += np.random.default_rng(0).normal(0, (2.0, 20.0), (len(frame), 2))  # clouds that touch
    measured = Measurements(frame, FEATURES, num_states=6, score=SCORE)
    chosen = np.random.default_rng(2).integers(0, len(measured.log), len(measured.log))
    by_row, _ = measured.wanted("advice")
    log, policy = measured.resampling(by_row)(chosen)
    parts = [
        frame[frame["episode"] == measured.log.names[each]].assign(episode=f"{place:03d}")
        for place, each in enumerate(chosen)
    ]
    again = Measurements(pd.concat(parts), FEATURES, num_states=6, score=SCORE)
    np.testing.assert_array_equal(log.states, again.log.states)
    np.testing.assert_array_equal(log.actions, again.log.actions)
    assert log.state_names == again.log.state_names
    np.testing.assert_allclose(policy, again.wanted("advice")[1])
    assert log.state_names != measured.log.state_names or (log.states != measured.log.states[chosen]).any()


def blurred(count, seed):
    """Patients whose numbers drift, so that no clusters are there to be found."""
    rng, rows = np.random.default_rng(seed), []
    for patient in range(count):
        lactate, pressure = rng.gamma(6, 0.5), rng.normal(70, 8)
        for hour in range(8):
            treated = rng.random() < (0.7 if lactate > 3 else 0.3)
            advice = "treat" if lactate > 3 else "wait"
            rows.append([patient, hour, lactate, pressure, "treat" if treated else "wait", advice, None])
            lactate *= np.exp(rng.normal(-0.2 if treated else 0.1, 0.2))
            pressure += rng.normal(1.5 if treated else -1.5, 3)
            if lactate > 6 or pressure < 52:
                rows[-1][-1] = "dead"
            elif lactate < 1.2 and pressure > 60:
                rows[-1][-1] = "home"
            if rows[-1][-1]:
                break
    return pd.DataFrame(rows, columns=["episode", "time", *FEATURES, "action", "advice", "outcome"])


def test_intervals_include_the_clustering():
    """On two logs without clusters, intervals are wider than with the states taken as given."""
    wider = []
    for seed in range(2):
        measured = Measurements(blurred(60, seed), FEATURES, num_states=8, score=SCORE)
        cohort = Cohort(measured, "advice")
        made = cohort.evaluate([], num_resamples=40, seed=seed)
        given = Cohort(measured.log, cohort.policy, absorbing=list(measured.ends)).evaluate(
            [], num_resamples=40, seed=seed
        )
        assert made["weighted doubly robust"].value == given["weighted doubly robust"].value
        assert made["observed return"].interval == given["observed return"].interval
        name = "weighted doubly robust"
        wider.append(made[name].interval.width / given[name].interval.width)
    assert np.mean(wider) > 1.08
    assert any("states were made by k-means" in each for each in made.notes)


def test_missing_measurements_are_carried_forward_or_the_median_and_told():
    frame = pd.DataFrame(
        {
            "episode": ["a", "a", "a", "b", "b", "b"],
            "time": [0, 1, 2, 0, 1, 2],
            "x": ["1", "", "NA", "nan", "4", "5"],
            "action": list("uvuvuv"),
            "reward": [0.0, 0, 1, 0, 0, 2],
        }
    )
    measured = Measurements(frame, ["x"], num_states=3)
    rows = measured._steps.numbers[:, 0]
    assert rows.tolist() == [1, 1, 1, 4, 4, 5]  # the median of 1, 4 and 5
    assert "x is missing in 3 of 6 rows: 2 carried forward from the row before, 1 set to the median." in measured.notes
    assert measured.ends == ("end",)
    assert measured.log.returns().tolist() == [1, 2]


def test_doses_become_levels_by_quantiles_above_zero():
    rng = np.random.default_rng(0)
    frame = known_clusters()
    frame["fluid"] = np.where(rng.random(len(frame)) < 0.4, 0, rng.gamma(2, 100, len(frame)))
    frame["vaso"] = rng.choice([0.0, 0.1], len(frame))
    measured = Measurements(frame, FEATURES, num_states=3, doses=["fluid", "vaso"], dose_levels=3, score=SCORE)
    positive = frame["fluid"] > 0
    expected = np.where(positive, 1 + pd.qcut(frame["fluid"].where(positive), 3, labels=False).fillna(0), 0).astype(int)
    names = [f"fluid {a}, vaso {int(b > 0)}" for a, b in zip(expected, frame["vaso"], strict=True)]
    steps = measured.log.to_frame()
    followed = frame.assign(name=names).groupby("episode", sort=False)["name"].apply(list)
    for episode, part in steps.groupby("episode", sort=False):
        assert part["action"].tolist() == followed[episode][: len(part)]
    assert any(each.startswith("fluid has 4 levels: 0 is none") for each in measured.notes)


def test_the_behaviour_policy_is_cross_fitted_and_calibrated():
    """A classifier that learns every row by heart knows nothing of episodes that it has not seen; nor may it say so."""
    rng = np.random.default_rng(0)
    frame = blurred(80, 3)
    frame["action"] = np.where(rng.random(len(frame)) < 0.5, "treat", "wait")
    by_heart = Measurements(frame, FEATURES, score=SCORE, behaviour=DecisionTreeClassifier(random_state=0))
    done = by_heart.log.propensities[by_heart.log.mask]
    assert np.abs(done - 0.5).max() < 0.15
    frame = blurred(400, 3)
    known = np.where(frame["lactate"] > 3, 0.7, 0.3)
    assert "classifier" in (measured := Measurements(frame, FEATURES, score=SCORE, behaviour="classifier")).notes[-1]
    steps = measured.log.steps()
    first = frame.groupby("episode", sort=False).cumcount().to_numpy()
    of_row = {key: value for key, value in zip(zip(frame["episode"], first, strict=True), known, strict=True)}
    names = measured.log.names
    truth = np.array([of_row[names[e], s] for e, s in zip(steps.episode, steps.step, strict=True)])
    treated = np.array(measured.log.action_names)[steps.action] == "treat"
    found = measured.log.propensities[measured.log.mask]
    assert np.abs(found - np.where(treated, truth, 1 - truth)).mean() < 0.12
    probability = np.where(treated, found, 1 - found)
    for low, high in ((0.2, 0.4), (0.4, 0.6), (0.6, 0.9)):
        some = (probability >= low) & (probability < high)
        error = 4 * np.sqrt(0.25 / some.sum())  # a false alarm in 1e-4 of the cases
        assert probability[some].mean() == pytest.approx(treated[some].mean(), abs=error)
    evaluation = Cohort(measured, "advice").evaluate([], num_resamples=3)
    assert any("Overlap: in" in each for each in evaluation.notes)


def test_other_answers_take_the_states_as_given_and_say_so():
    measured = Measurements(known_clusters(30), FEATURES, num_states=3, score=SCORE)
    cohort = Cohort(copy.deepcopy(measured), "advice")
    ranking = cohort.rank(["gumbel-max"])
    assert any("take the states that were made as given" in each for each in ranking.notes)
    spread = cohort.returns(num_resamples=5)
    assert spread.mean == pytest.approx(Cohort(measured.log, cohort.policy, absorbing=list(SCORE)).returns().mean)


def test_policies_may_be_arrays_files_or_columns(tmp_path):
    measured = Measurements(known_clusters(40), FEATURES, num_states=3, score=SCORE)
    by_column = Cohort(measured, "advice").policy
    left = sorted(set(measured.log.steps().state.tolist()))
    rows = [(measured.log.state_names[state], measured.log.action_names[by_column[state].argmax()]) for state in left]
    path = tmp_path / "policy.csv"
    pd.DataFrame(rows, columns=["state", "action"]).to_csv(path, index=False)
    np.testing.assert_array_equal(Cohort(measured, path).policy[left], by_column[left])
    np.testing.assert_array_equal(Cohort(measured, by_column).policy[left], by_column[left])


def test_datasets_of_offline_reinforcement_learning_are_read_by_the_names_of_their_fields():
    rng = np.random.default_rng(0)
    seen = [
        rng.normal(size=(4, 2)),
        rng.normal(size=(4, 2)),
    ]  # the second was truncated: its last row is an observation
    done = [np.array([0, 1, 1, 0]), np.array([1, 0, 1])]
    paid = [np.array([0.0, 0, 0, 1]), np.array([0.5, 0, 0])]
    minari = SimpleNamespace(
        iterate_episodes=lambda: (
            SimpleNamespace(
                observations=np.vstack([seen[k], seen[k][-1:]]) if k == 0 else seen[k],
                actions=done[k],
                rewards=paid[k],
                terminations=np.arange(len(done[k])) == (3 if k == 0 else 99),
                truncations=np.arange(len(done[k])) == (2 if k else 99),
            )
            for k in range(2)
        )
    )
    d3rlpy = SimpleNamespace(
        episodes=[
            SimpleNamespace(observations=seen[0], actions=done[0][:, None], rewards=paid[0][:, None], terminated=True),
            SimpleNamespace(observations=seen[1], actions=done[1][:, None], rewards=paid[1][:, None], terminated=False),
        ]
    )
    frame = frame_of_dataset(minari, names=["angle", "speed"])
    pd.testing.assert_frame_equal(frame, frame_of_dataset(d3rlpy, names=["angle", "speed"]))
    assert list(frame.columns) == ["episode", "step", "angle", "speed", "action", "reward", "outcome"]
    assert len(frame) == 8
    assert frame["outcome"].tolist() == ["end"] * 4 + [None] * 4
    measured = Measurements(frame, ["angle", "speed"], num_states=2)
    assert measured.log.lengths.tolist() == [4, 3]
    assert measured.log.returns().tolist() == [1, 0.5]
    flat = {
        "observations": np.vstack([seen[0], seen[1][:3]]),
        "actions": np.concatenate(done),
        "rewards": np.concatenate(paid),
        "terminals": np.arange(7) == 3,
        "timeouts": np.arange(7) == 6,
    }
    short = frame_of_dataset(flat)
    assert short["x0"].tolist() == [*seen[0][:, 0], *seen[1][:3, 0]]
    assert Measurements(short, ["x0"], num_states=2).log.lengths.tolist() == [4, 2]  # where the last led is not known
    with pytest.raises(InputError, match="`dataset` must have `episodes` or `iterate_episodes"):
        frame_of_dataset({"states": 1})


def test_bad_input_is_named(as_users_call):
    frame = known_clusters(10)
    for change, options, words in (
        ({}, {"features": ["lactat"]}, "must have the features 'lactat', but lacks lactat"),
        ({}, {"features": "lactate"}, "`features` must be a list of columns"),
        ({}, {"method": "forest"}, "`method` must be one of k-means, tree"),
        ({}, {"score": None}, "no column `reward`: give `score`, e.g. score="),
        ({}, {"score": {"home": 1}}, "`score` must have a number for each final outcome, but has none for dead"),
        ({}, {"behaviour": "guess"}, '`behaviour` must be "frequencies", "classifier", or one'),
        ({"lactate": 1.0}, {}, "`features` must vary, but lactate is 1 in every row"),
        ({"pressure": "low"}, {}, "row 0: `pressure` must hold finite numbers, or nothing, got 'low'"),
        ({"time": 0}, {}, "`time` must be different in each row of an episode"),
        ({"action": None}, {}, "every action is missing"),
        (
            {"action": [None, *frame["action"][1:]]},
            {},
            "must not be missing before an episode's end, but one is in row 0",
        ),
    ):
        given = {"features": FEATURES, "num_states": 3, "score": SCORE} | options
        with pytest.raises(InputError, match=words):
            Measurements(frame.assign(**change), **given)
    many = known_clusters(60)
    with pytest.raises(InputError, match="at most 50 actions.*name the column in `doses`"):
        Measurements(many.assign(action=np.arange(len(many))), FEATURES, score=SCORE)
    measured = Measurements(frame, FEATURES, num_states=3, score=SCORE)
    with pytest.raises(InputError, match="`policy` must name an action in each row .*got ill in row"):
        Cohort(measured, "truth")
    with pytest.raises(InputError, match="`Measurements.log` keeps them"):
        Cohort(measured, "advice", process=estimate(measured.log))
    with pytest.raises(InputError, match=r"`policy` must be \[state, action\] of shape"):
        Cohort(measured, np.eye(2))
