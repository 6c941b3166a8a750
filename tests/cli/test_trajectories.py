"""`countermax evaluate-policy` and `countermax explain`, as a person meets them."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from processes import MDP, NUM_STATES, some_episodes, steps_and_decisions, write_frames
from typer.testing import CliRunner

from countermax import Gadget2, Maximal, save
from countermax.cli import app
from countermax.mdp import estimate, evaluate_policy, explain, read_log_and_policy
from countermax.mdp.policies import restricted

LOG = some_episodes(MDP, 60, seed=8)
POLICY = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def files(tmp_path):
    return write_frames(steps_and_decisions(LOG, POLICY, names=True), tmp_path)


def test_evaluate_policy_prints_what_the_library_says(files, tmp_path):
    log, policy = files
    picture = tmp_path / "estimates.svg"
    arguments = ["evaluate-policy", log, "--policy", policy, "--resamples", 0, "--couplings", "maximal"]
    result = run(*arguments, "--json", "--plot", picture)
    assert result.exit_code == 0, result.output
    read = read_log_and_policy(log, policy)
    expected = evaluate_policy(
        read.log, read.policy, couplings={"maximal": Maximal()}, num_resamples=0, key=jax.random.key(0)
    )
    assert json.loads(result.stdout) == json.loads(expected.to_json())
    assert picture.read_text().lstrip().startswith("<?xml")
    table = run(*arguments).stdout
    for word in ("weighted importance sampling", "counterfactual, maximal", "any coupling"):
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
    ranked = json.loads(run("explain", log, "--policy", policy, "--json").stdout)["episodes"]
    assert len(ranked) == len(LOG)
    effects = [row["effects"]["Gumbel-max"] for row in ranked]
    assert effects == sorted(effects, reverse=True)
    picture = tmp_path / "ranking.png"
    shown = run("explain", log, "--policy", policy, "--most", 3, "--plot", picture)
    assert shown.exit_code == 0, shown.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [line.split()[0] for line in shown.stdout.splitlines()[4:7]] == [str(row["episode"]) for row in ranked[:3]]


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
            "must sum to one in each state, got 0.9 in state 2 (ill); 1 such state(s) in all",
        ),
        (
            spoil_policy(lambda each: each.assign(probability=[0.2, "x", 0.5, 0.5, 1, 0])),
            "row 1: `probability` must hold finite numbers, got 'x'",
        ),
        (spoil_policy(lambda each: each.iloc[:4]), "must say what to do in state 0 (better), which the log leaves"),
        (
            spoil_policy(lambda each: pd.concat([each, each.iloc[[0]]])),
            "row 6: `action` must be given once in state ill, but is there twice, got 'wait'",
        ),
    ],
)
def test_bad_files_are_one_line_that_names_the_place(spoil, message, tmp_path, as_users_call):
    paths = write_frames(spoil(*steps_and_decisions(LOG, POLICY, names=True)), tmp_path)
    result = run("evaluate-policy", paths[0], "--policy", paths[1], "--resamples", 0)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_bad_options_are_one_line(files, tmp_path, as_users_call):
    log, policy = files
    for arguments, message in (
        (["--couplings", "magic"], "must be one of gumbel-max"),
        (["--plot", "out.jpeg"], "end it in .png"),
    ):
        result = run("evaluate-policy", log, "--policy", policy, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
    assert "no such file" in run("explain", tmp_path / "missing.csv", "--policy", policy).stderr
    assert "cannot tell the format" in run("explain", tmp_path / "steps.txt", "--policy", policy).stderr
    page = run("explain", log, "--policy", policy, "--out", tmp_path / "page.html")
    assert page.exit_code == 2
    assert "--out must have an --episode beside it" in page.stderr
    assert "must be in the log" in run("explain", log, "--policy", policy, "--episode", "nobody").stderr


def test_a_stored_coupling_can_be_asked_beside_the_named_ones(files, tmp_path):
    stored = save(Gadget2(NUM_STATES, 4, key=jax.random.key(0), hidden=(4,)), tmp_path / "mine.npz")
    log, policy = files
    couplings = f"gumbel-max,{stored}"
    result = run("evaluate-policy", log, "--policy", policy, "--resamples", 0, "--couplings", couplings, "--json")
    assert result.exit_code == 0, result.output
    names = [each["name"] for each in json.loads(result.stdout)["estimates"]]
    assert names[-2:] == ["counterfactual, Gumbel-max", "counterfactual, mine"]
