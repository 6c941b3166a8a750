"""`countermax evaluate-policy` and `countermax explain`, as a person meets them."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from test_replay import MDP, NUM_ACTIONS, NUM_STATES, some_episodes
from typer.testing import CliRunner

from countermax import Gadget2, plotting, save
from countermax.cli import app
from countermax.mdp import estimate, evaluate_policy, explain, read_log_and_policy, restricted

STATES, ACTIONS = ("ill", "worse", "better", "home"), ("wait", "treat")
LOG = some_episodes(MDP, 60, seed=8)
POLICY = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def frames(*, names=False):
    steps = LOG.to_frame()
    rows = [(state, action, POLICY[state, action]) for state in range(3) for action in range(NUM_ACTIONS)]
    policy = pd.DataFrame(rows, columns=["state", "action", "probability"])
    if names:
        for frame in (steps, policy):
            for column in frame.columns.intersection(["state", "next_state"]):
                frame[column] = [STATES[each] for each in frame[column]]
            frame["action"] = [ACTIONS[each] for each in frame["action"]]
    return steps, policy


@pytest.fixture
def files(tmp_path):
    paths = tmp_path / "steps.csv", tmp_path / "policy.csv"
    for frame, path in zip(frames(names=True), paths, strict=True):
        frame.to_csv(path, index=False)
    return paths


def test_evaluate_policy_prints_what_the_library_says(files, tmp_path):
    log, policy = files
    picture = tmp_path / "estimates.svg"
    arguments = ["evaluate-policy", log, "--policy", policy, "--num-bootstrap", 0, "--mechanisms", "maximal"]
    result = run(*arguments, "--json", "--plot", picture)
    assert result.exit_code == 0, result.output
    read = read_log_and_policy(log, policy)
    from countermax import Maximal

    expected = evaluate_policy(
        read.log, read.policy, mechanisms={"maximal": Maximal()}, num_bootstrap=0, key=jax.random.key(0)
    )
    assert json.loads(result.stdout) == json.loads(expected.to_json())
    assert picture.read_text().lstrip().startswith("<?xml")
    table = run(*arguments).stdout
    for word in ("weighted importance sampling", "counterfactual, maximal", "any mechanism"):
        assert word in table


def test_explain_tells_one_story_or_ranks_all(files, tmp_path):
    log, policy = files
    page = tmp_path / "story.html"
    result = run("explain", log, "--policy", policy, "--episode", 5, "--out", page)
    assert result.exit_code == 0, result.output
    read = read_log_and_policy(log, policy)
    model = estimate(read.log)
    story = explain(model, read.log, 5, restricted(model, read.policy)[0])
    assert story.findings[1] in result.stdout
    assert "data:image/png;base64," in page.read_text()
    ranked = json.loads(run("explain", log, "--policy", policy, "--json").stdout)
    assert len(ranked) == len(LOG)
    effects = [row["effect, Gumbel-max"] for row in ranked]
    assert effects == sorted(effects, reverse=True)


def test_names_and_indices_are_read_alike(files, tmp_path):
    paths = tmp_path / "by_index.csv", tmp_path / "policy_by_index.csv"
    for frame, path in zip(frames(), paths, strict=True):
        frame.to_csv(path, index=False)
    named, indexed = read_log_and_policy(*files), read_log_and_policy(*paths)
    order = [named.log.state_names.index(name) for name in STATES]
    np.testing.assert_array_equal(np.array(order)[indexed.log.states], named.log.states)
    actions = [named.log.action_names.index(name) for name in ACTIONS]
    np.testing.assert_allclose(named.policy[np.ix_(order, actions)], indexed.policy)
    assert indexed.policy.shape == (NUM_STATES, NUM_ACTIONS)


def test_a_policy_without_probabilities_is_certain(tmp_path):
    steps, _ = frames()
    steps.to_csv(tmp_path / "steps.csv", index=False)
    pd.DataFrame({"state": [0, 1, 2], "action": [1, 0, 1]}).to_csv(tmp_path / "policy.csv", index=False)
    read = read_log_and_policy(tmp_path / "steps.csv", tmp_path / "policy.csv")
    np.testing.assert_array_equal(read.policy[:3], np.eye(2)[[1, 0, 1]])


def spoil_log(change):
    return lambda steps, policy: (change(steps), policy)


def spoil_policy(change):
    return lambda steps, policy: (steps, change(policy))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_log(lambda each: each.drop(columns="reward")), "steps.csv: the log must have the columns episode, step"),
        (spoil_log(lambda each: each[each["step"] != 1]), "must count 0, 1, 2, ... without a gap"),
        (spoil_policy(lambda each: each.drop(columns="action")), "policy.csv: the policy must have the columns state"),
        (
            spoil_policy(lambda each: each.assign(probability=[0.2, 0.7, 0.5, 0.5, 1, 0])),
            "must sum to one in each state, got 0.9 in state 'ill'; 1 state(s) in all",
        ),
        (
            spoil_policy(lambda each: each.assign(probability=[0.2, "x", 0.5, 0.5, 1, 0])),
            "row 1: `probability` must lie in [0, 1], got 'x'",
        ),
        (spoil_policy(lambda each: each.iloc[:4]), "must say what to do in state 'better', which the log leaves"),
        (spoil_policy(lambda each: pd.concat([each, each.iloc[[0]]])), "state ill, action wait is there twice"),
    ],
)
def test_bad_files_are_one_line_that_names_the_place(spoil, message, tmp_path, as_users_call):
    paths = tmp_path / "steps.csv", tmp_path / "policy.csv"
    for frame, path in zip(spoil(*frames(names=True)), paths, strict=True):
        frame.to_csv(path, index=False)
    result = run("evaluate-policy", paths[0], "--policy", paths[1], "--num-bootstrap", 0)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_bad_options_are_one_line(files, tmp_path, as_users_call):
    log, policy = files
    for arguments, message in (
        (["--mechanisms", "magic"], "`mechanism` must be one of gumbel-max"),
        (["--plot", "out.jpeg"], "end it in .png"),
    ):
        result = run("evaluate-policy", log, "--policy", policy, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
    assert "no such file" in run("explain", tmp_path / "missing.csv", "--policy", policy).stderr
    assert "cannot tell the format" in run("explain", tmp_path / "steps.txt", "--policy", policy).stderr
    assert "must be in the log" in run("explain", log, "--policy", policy, "--episode", "nobody").stderr


def test_parquet_logs_are_read_like_csv_ones(files, tmp_path):
    paths = tmp_path / "steps.parquet", tmp_path / "policy.parquet"
    for frame, path in zip(frames(names=True), paths, strict=True):
        frame.to_parquet(path)
    from_csv, from_parquet = read_log_and_policy(*files), read_log_and_policy(*paths)
    assert np.array_equal(from_csv.log.states, from_parquet.log.states)
    assert np.array_equal(from_csv.policy, from_parquet.policy)
    paths[0].write_bytes(b"PAR1 but not really")
    result = run("explain", paths[0], "--policy", paths[1])
    assert result.exit_code == 2
    assert "steps.parquet" in result.stderr


def test_a_stored_mechanism_can_be_asked_beside_the_named_ones(files, tmp_path):
    stored = save(Gadget2(NUM_STATES, 4, key=jax.random.key(0), hidden=(4,)), tmp_path / "mine.npz")
    log, policy = files
    mechanisms = f"gumbel-max,{stored}"
    result = run("evaluate-policy", log, "--policy", policy, "--num-bootstrap", 0, "--mechanisms", mechanisms, "--json")
    assert result.exit_code == 0, result.output
    names = [each["name"] for each in json.loads(result.stdout)["estimates"]]
    assert names[-2:] == ["counterfactual, Gumbel-max", "counterfactual, mine"]


def test_estimates_out_of_all_proportion_do_not_squash_the_others():
    rows = [("observed", "observed", 0.5, 0.4, 0.6), ("wild", "importance sampling", 80.0, -15.0, 300.0)]
    figure = plotting.draw_estimates(rows, bounds=(0.3, 0.7), truth=None, title="", label="")
    low, high = figure.axes[0].get_xlim()
    assert high - low < 2
    assert [text.get_text() for text in figure.axes[0].texts] == ["80 →"]
