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
from countermax.mdp import Changes, Cohort, Posterior, StepsFile, estimate
from countermax.mdp._files import read_log_and_policy

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
    arguments = ["evaluate-policy", log, "--policy", policy, "--num-resamples", 0, "--couplings", "maximal"]
    result = run(*arguments, "--json", "--plot", picture)
    assert result.exit_code == 0, result.output
    read = read_log_and_policy(log, policy)
    cohort = Cohort(read.log, read.policy)
    expected = cohort.evaluate({"maximal": Maximal()}, num_resamples=0)
    assert json.loads(result.stdout) == json.loads(expected.to_json())
    assert picture.read_text().lstrip().startswith("<?xml")
    table = run(*arguments).stdout
    for word in ("weighted importance sampling", "counterfactual", "maximal", "whatever the coupling"):
        assert word in table


def test_explain_tells_one_story_or_ranks_all(files, tmp_path):
    log, policy = files
    page = tmp_path / "story.html"
    result = run("explain", log, "--policy", policy, "--episode", 5, "--page", page, "--num-draws", 3)
    assert result.exit_code == 0, result.output
    read = read_log_and_policy(log, policy)
    story = Cohort(read.log, read.policy, posterior=Posterior(num_draws=3)).explain("5")
    assert story.notes[1] in result.stdout
    assert "3 transition models drawn from the posterior given your counts" in " ".join(result.stdout.split())
    assert "data:image/png;base64," in page.read_text()
    ranked = json.loads(run("explain", log, "--policy", policy, "--num-draws", 0, "--json").stdout)
    assert len(ranked["episodes"]) == len(LOG)
    listed = [row for row in ranked["rows"] if (row["coupling"], row["quantity"]) == ("Gumbel-max", "effect")]
    effects = [row["value"] for row in listed if row["about"].startswith("episode")]
    assert effects == sorted(effects, reverse=True)
    picture = tmp_path / "ranking.png"
    shown = run("explain", log, "--policy", policy, "--plot", picture, "--num-draws", 0)
    assert shown.exit_code == 0, shown.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = shown.stdout.splitlines()
    first = next(place for place, line in enumerate(lines) if line.strip().startswith("──")) + 1
    assert "ended at (by Gumbel-max)" in lines[first - 2]
    places = [place for place, line in enumerate(lines) if line.strip().startswith("episode ")]
    listed = [" ".join(line.split()[:2]) for line in lines[places[0] : places[0] + 3]]
    assert listed == [f"episode {each}" for each in ranked["episodes"][:3]]
    counts = [line for line in lines[first : places[0]] if "number expected to" in line]
    assert [line.split()[3] for line in counts] == ["gain", "lose"]
    assert not any("." in line for line in counts)  # whole numbers where the model is taken as given


def test_improve_tells_the_best_changes_or_ranks_all(files, tmp_path):
    log, policy = files
    assert "improve finds a plan of its own" in run("improve", log, "--policy", policy).stderr
    page, picture = tmp_path / "changes.html", tmp_path / "changes.png"
    options = ["--changes", 2, "--num-draws", 3, "--forbidden", "wait"]
    result = run("improve", log, "--episode", 5, *options, "--page", page, "--plot", picture, "--json")
    assert result.exit_code == 0, result.output
    cohort = Cohort(StepsFile(log), posterior=Posterior(num_draws=3))
    expected = cohort.best_changes("5", changes=Changes(most=2, forbidden=["wait"]))
    assert json.loads(result.stdout) == json.loads(expected.to_json())
    assert "data:image/png;base64," in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    ranked = json.loads(run("improve", log, *options, "--plan", "fixed", "--cost", 0.1, "--json").stdout)
    assert len(ranked["episodes"]) == len(LOG)
    assert ranked["plan"] == "fixed"
    refused = run("improve", log, "--aim", "best")
    assert refused.exit_code == 2
    assert "--aim must be one of" in refused.output


def test_a_policy_that_does_what_nobody_did_is_told_so_by_name(files):
    log, policy = files
    decisions = pd.read_csv(policy)
    decisions["action"] = decisions["action"].replace("treat", "Treat")
    decisions.to_csv(policy, index=False)
    for command in (["evaluate-policy"], ["explain"], ["explain", "--episode", 5]):
        draws = "--num-draws" if command[0] == "explain" else "--num-resamples"
        result = run(command[0], log, *command[1:], "--policy", policy, draws, 0, "--couplings", "maximal")
        assert result.exit_code == 0, result.output
        told = " ".join(result.stdout.split())
        assert "Treat in ill, Treat in worse (Treat occurs nowhere in the log)" in told
        assert "are two actions: labels are compared letter by letter" in told
        assert "Taken as ends, because nobody was seen to leave them: home" in told


def test_explain_draws_as_many_models_as_asked(files):
    log, policy = files
    asked = ["explain", log, "--policy", policy, "--json", "--couplings", "maximal"]

    def answered(*options):
        result = run(*asked, *options)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def returns(told, *columns):
        return [[row[each] for each in columns] for row in told["rows"] if row["quantity"] == "return"]

    given, drawn, other = (
        answered("--episode", 5, *options)
        for options in (["--num-draws", 0], ["--num-draws", 4], ["--num-draws", 4, "--seed", 1])
    )
    assert returns(given, "coupling") == returns(drawn, "coupling")
    assert returns(given, "value")[0] == returns(drawn, "value")[0]  # as it was; the others are posterior means
    assert all(each == [None, None] for each in returns(given, "ci_lower", "ci_upper"))
    assert returns(drawn, "ci_lower") != returns(other, "ci_lower")
    for count in (0, 3):
        rows = answered("--num-draws", count)["rows"]
        effects = [row for row in rows if row["quantity"] == "effect" and row["coupling"] != "chance may persist"]
        assert all((row["ci_lower"] is None) == (count == 0) for row in effects)


def spoil_log(change):
    return lambda steps, policy: (change(steps), policy)


def spoil_policy(change):
    return lambda steps, policy: (steps, change(policy))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            spoil_log(lambda each: each.drop(columns="reward")),
            "steps.csv: no column `reward`: give --score, e.g. score=",
        ),
        (spoil_log(lambda each: each.drop(columns="state")), "steps.csv: the log must have the columns episode, step"),
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
        (spoil_policy(lambda each: each.iloc[:4]), "but has none for 'better'"),
        (
            spoil_policy(lambda each: pd.concat([each, each.iloc[[0]]])),
            "row 6: `action` must be given once in state ill, but is there twice, got 'wait'",
        ),
    ],
)
def test_bad_files_are_one_line_that_names_the_place(spoil, message, tmp_path, as_users_call):
    paths = write_frames(spoil(*steps_and_decisions(LOG, POLICY, names=True)), tmp_path)
    result = run("evaluate-policy", paths[0], "--policy", paths[1], "--num-resamples", 0)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_bad_options_are_one_line(files, tmp_path, as_users_call):
    log, policy = files
    for arguments, message in (
        (["--couplings", "magic"], "must be one of gumbel-max"),
        (["--plot", "out.jpeg"], "end it in .png"),
        (["--engine", "spark"], '--engine must be "local" or "ray", got \'spark\''),
        (["--address", "auto"], "--address needs --engine ray"),
    ):
        result = run("evaluate-policy", log, "--policy", policy, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
    assert "no such file" in run("explain", tmp_path / "missing.csv", "--policy", policy).stderr
    assert "cannot tell the format" in run("explain", tmp_path / "steps.txt", "--policy", policy).stderr
    assert "must be in the log" in run("explain", log, "--policy", policy, "--episode", "nobody").stderr


def test_a_stored_coupling_can_be_asked_beside_the_named_ones(files, tmp_path):
    stored = save(Gadget2(NUM_STATES, 4, key=jax.random.key(0), hidden=(4,)), tmp_path / "mine.npz")
    log, policy = files
    couplings = f"gumbel-max,{stored}"
    result = run("evaluate-policy", log, "--policy", policy, "--num-resamples", 0, "--couplings", couplings, "--json")
    assert result.exit_code == 0, result.output
    names = [each["name"] for each in json.loads(result.stdout)["estimates"]]
    assert names[-2:] == ["counterfactual, Gumbel-max", "counterfactual, mine"]


def test_numbers_that_make_no_sense_are_one_line(files, as_users_call):
    log, policy = files
    for command, arguments, message in (
        ("evaluate-policy", ["--seed", -1], "--seed must be a whole number from 0 to 4294967295, got -1"),
        ("evaluate-policy", ["--seed", 2**32], "--seed must be a whole number from 0 to 4294967295, got 4294967296"),
        ("evaluate-policy", ["--seed", 2**70], "--seed must be a whole number from 0 to 4294967295"),
        ("evaluate-policy", ["--num-resamples", -1], "must be at least 0, got -1"),
        ("evaluate-policy", ["--num-resamples", 10**9], "1000000000 resamples of 12 estimates would need about"),
        ("evaluate-policy", ["--horizon", 10**9], "must be at most 1000000, got 1000000000"),
        ("explain", ["--horizon", 10**9], "must be at most 1000000, got 1000000000"),
        ("explain", ["--episode", "3", "--horizon", -1], "must be at least 1, got -1"),
        ("explain", ["--discount", "nan"], "--discount must be a finite number, got nan"),
        ("explain", ["--num-draws", -1], "must be at least 0, got -1"),
        ("explain", ["--seed", -1], "--seed must be a whole number from 0 to 4294967295, got -1"),
        ("explain", ["--episode", "03"], "--episode must be in the log ("),
    ):
        result = run(command, log, "--policy", policy, *arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_an_episode_is_read_as_the_type_of_its_column(tmp_path):
    """A text in CSV, a number in Parquet: there 05 is episode 5."""
    frames = steps_and_decisions(LOG, POLICY)
    frames[0]["episode"] = [{5: "05", 6: "5"}.get(each, f"e{each}") for each in frames[0]["episode"]]
    texts = write_frames(frames, tmp_path)
    numbers = [path.with_suffix(".parquet") for path in texts]
    for frame, path in zip(steps_and_decisions(LOG, POLICY), numbers, strict=True):
        frame.to_parquet(path)

    def story(paths, episode):
        result = run(
            *("explain", paths[0], "--policy", paths[1], "--episode", episode, "--json"),
            *("--couplings", "maximal", "--num-draws", 0),
        )
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def values(paths, episode):
        return [row["value"] for row in story(paths, episode)["rows"] if row["quantity"] == "return"]

    assert story(texts, "05")["episode"] == "05"
    assert values(texts, "05") == values(numbers, "05")
    assert values(texts, "5") == values(numbers, "6")
    assert story(numbers, "5.0")["episode"] == 5


def test_files_with_one_stem_and_files_called_like_couplings_have_lines_of_their_own(files, tmp_path):
    log, policy = files
    stored = [tmp_path / name for name in ("a/mine.npz", "b/mine.npz", "Gumbel-max.npz", "lower.npz", "upper.npz")]
    for seed, path in enumerate(stored):
        path.parent.mkdir(exist_ok=True)
        save(Gadget2(NUM_STATES, 3, key=jax.random.key(seed), hidden=(2,)), path)
    couplings = ",".join(["gumbel-max", *map(str, stored)])
    asked = ["--policy", policy, "--couplings", couplings, "--json"]
    evaluated = run("evaluate-policy", log, *asked, "--num-resamples", 0)
    assert evaluated.exit_code == 0, evaluated.output
    values = {each["name"]: each["value"] for each in json.loads(evaluated.stdout)["estimates"][10:]}
    expected = ["Gumbel-max", *map(str, stored[:3]), "lower", "upper"]
    assert list(values) == [f"counterfactual, {name}" for name in expected]
    assert len(set(values.values())) == 6
    ranked = run("explain", log, *asked, "--num-draws", 0)
    rows = json.loads(ranked.stdout)["rows"]
    those = [row["coupling"] for row in rows if row["quantity"] == "number that would not be there"]
    assert those[:7] == [*expected, "any coupling"]


def test_swapped_files_and_files_of_another_kind_are_named(files, tmp_path, as_users_call):
    log, policy = files
    stored = save(Gadget2(NUM_STATES, 2, key=jax.random.key(0), hidden=(2,)), tmp_path / "mine.npz")
    for command in ("evaluate-policy", "explain"):
        for first, second, arguments, message in (
            (policy, log, [], "are the two files swapped?"),
            (log, log, [], "but has those of a log; are the two files swapped?"),
            (stored, policy, [], "cannot tell the format from 'mine.npz'; end it in .csv, .parquet"),
            (log, policy, ["--couplings", log], "not a file of countermax"),
        ):
            result = run(command, first, "--policy", second, *arguments)
            assert result.exit_code == 2, result.output
            assert message in result.stderr
            assert len(result.stderr.strip().splitlines()) == 1


def test_a_story_can_be_told_where_no_episode_ends(tmp_path):
    steps, decisions = tmp_path / "steps.csv", tmp_path / "policy.csv"
    steps.write_text("episode,step,state,action,next_state,reward\na,0,x,1,y,1\na,1,y,0,x,0\n")
    decisions.write_text("state,action\nx,1\ny,0\n")
    result = run(
        *("explain", steps, "--policy", decisions, "--episode", "a", "--json"),
        *("--couplings", "maximal", "--num-draws", 3),
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["features"] == ["x"]


def test_states_where_episodes_end_are_named_as_the_log_names_them(files):
    log, policy = files
    read = read_log_and_policy(log, policy)
    place = int(estimate(read.log).absorbing.argmax())
    expected = Cohort(read.log, read.policy, absorbing=[place], horizon=9).evaluate(
        {"maximal": Maximal()}, num_resamples=0
    )
    arguments = ["evaluate-policy", log, "--policy", policy, "--num-resamples", 0, "--couplings", "maximal"]
    arguments += ["--horizon", 9, "--json"]
    found = run(*arguments, "--absorbing", read.log.state_names[place])
    assert json.loads(found.stdout) == json.loads(expected.to_json())
    assert json.loads(found.stdout)["notes"] != json.loads(run(*arguments).stdout)["notes"]
    for command in (arguments, ["explain", log, "--policy", policy]):
        refused = run(*command, "--absorbing", "nowhere")
        assert refused.exit_code == 2
        assert "--absorbing must name states of the log" in refused.stderr
        assert "got 'nowhere'" in refused.stderr
        left = run(*command, "--absorbing", "ill")
        assert left.exit_code == 2
        assert "--absorbing states must end episodes, but episode" in left.stderr


def test_explain_can_carry_censored_episodes_on(files):
    log, policy = files
    asked = ["explain", log, "--policy", policy, "--num-draws", 0, "--couplings", "maximal", "--json", "--horizon", 9]
    found = [json.loads(run(*asked, "--censored", each).stdout) for each in ("stop", "model")]
    assert "carried on with the model" not in " ".join(found[0]["notes"])
    assert "carried on with the model" in " ".join(found[1]["notes"])


def test_columns_and_scores_of_a_file_of_steps_are_options(files, tmp_path):
    log, policy = files
    frame = pd.read_csv(log, dtype=str).rename(columns={"episode": "patient"})
    frame.drop(columns="reward").to_csv(tmp_path / "visits.csv", index=False)
    score = {name: place for place, name in enumerate(sorted(frame["next_state"].unique()))}
    said = ",".join(f"{name}={number}" for name, number in score.items())
    asked = ["--policy", policy, "--columns", "episode=patient", "--score", said, "--num-draws", 0, "--json"]
    found = json.loads(run("explain", tmp_path / "visits.csv", *asked, "--couplings", "maximal").stdout)
    steps = StepsFile(tmp_path / "visits.csv", columns={"episode": "patient"}, score=score)
    expected = Cohort(steps, policy, posterior=Posterior(num_draws=0)).rank(["maximal"])
    assert found["rows"] == json.loads(expected.to_json())["rows"]


def test_measurements_in_place_of_states_are_options(tmp_path, as_users_call):
    rng, rows = np.random.default_rng(0), []
    for patient in range(40):
        for hour in range(3):
            lactate = rng.gamma(2)
            rows.append((patient, hour, lactate, rng.normal(), "ab"[rng.integers(2)], "ab"[int(lactate > 2)]))
    steps = pd.DataFrame(rows, columns=["patient", "hour", "lactate", "pressure", "given", "advice"])
    steps["status"] = np.where(steps["patient"] % 3 == 0, "dead", "home")
    path = tmp_path / "icu.csv"
    steps.to_csv(path, index=False)
    columns = ["--columns", "episode=patient,time=hour,action=given,outcome=status", "--score", "home=1,dead=0"]
    asked = [*columns, "--policy", "advice", "--features", "lactate,pressure", "--num-states", 4]
    found = run("evaluate-policy", path, *asked, "--num-resamples", 2, "--couplings", "", "--json")
    assert found.exit_code == 0, found.output
    assert "6 states, 2 actions" in json.loads(found.stdout)["sample"]
    idle = run("evaluate-policy", path, "--policy", "advice", "--num-states", 4)
    assert idle.exit_code == 2
    assert "--num-states needs --features" in idle.stderr
