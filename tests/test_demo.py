"""The bundled trial and the documents that start from it: people are counted, and every number has its interval."""

import inspect
import json
import re
import shlex
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from countermax import compare_arms, demo
from countermax.cli import app

ROOT = Path(__file__).parents[1]
PEOPLE = files("countermax") / "data/stroke_trial.csv"
WITH_COMMAND = [ROOT / "README.md", ROOT / "docs/two_arms.md"]


@pytest.fixture(scope="module")
def trial():
    return demo.load_trial()


@pytest.fixture(scope="module")
def comparison(trial):
    return demo.ask(trial)


def test_the_trial_has_four_hundred_people_an_arm_and_is_theirs(trial):
    people = pd.read_csv(PEOPLE)
    assert people["patient"].is_unique
    for arm in (trial.factual, trial.counterfactual):
        counted = people.loc[people["arm"] == arm, "outcome"].value_counts()
        assert [counted[outcome] for outcome in trial.outcomes] == list(trial.counts[arm])
        assert sum(trial.counts[arm]) == 400
    assert set(trial.outcomes) == set(trial.score) == set(trial.cost)


def test_the_demonstration_asks_what_a_user_would_ask_of_its_file(trial, comparison):
    question = {"outcome": "outcome", "arm": "arm", "observed": trial.observed, "score": trial.score}
    users = compare_arms(
        pd.read_csv(PEOPLE), factual=trial.factual, counterfactual=trial.counterfactual, **question
    ).to_dict()
    ours = comparison.to_dict()
    assert ours["worlds"] == users["worlds"] == [trial.factual, trial.counterfactual]
    assert ours["answers"] == users["answers"]
    assert ours["intervals"] == users["intervals"]


def test_every_finding_about_the_trial_says_how_well_it_is_known(trial, comparison):
    one, several, variances, better = demo._findings(trial, comparison)
    interval = r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)"
    assert len(re.findall(interval, one)) == 3
    assert len(re.findall(interval, variances)) == 3
    assert "95% intervals" in several
    spared = 1 - comparison.intervals.bounds.probabilities.upper[comparison.observed]
    assert f"with 95% confidence, {spared:.2f} at least" in several
    win = comparison.intervals.win_probability
    assert f"{comparison.win_probability:.2f} ({win.lower:.2f} to {win.upper:.2f})" in better
    whole = comparison.intervals.bounds.better
    assert f"({whole.lower:.2f} to {whole.upper:.2f}) over all couplings" in better


def test_every_number_on_the_report_has_its_interval(comparison):
    grid = demo._answers(comparison)
    assert [row[0] for row in grid.rows] == [each.name for each in comparison.answers] + [
        "any coupling",
        "any stable coupling",
    ]
    cells = [cell for row in grid.rows for cell in row[1:] if cell]
    assert all(re.fullmatch(r"[\d.]+( to [\d.]+)? \([\d.]+ to [\d.]+\)", cell) for cell in cells)
    first = comparison.intervals.answers["Gumbel-max"].probabilities
    assert grid.rows[0][1].endswith(f"({first.lower[0]:.3f} to {first.upper[0]:.3f})")


def test_the_readme_starts_from_data_and_needs_ten_lines():
    block = re.search(r"## Ten lines, from data\n+```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    lines = [line for line in block.splitlines() if line]
    assert len(lines) == 10
    assert "read_csv" in lines[3]
    assert "compare_arms(trial" in block


def test_the_page_about_two_arms_explains_every_choice():
    page = (ROOT / "docs/two_arms.md").read_text()
    technical = {"data", "couplings", "num_resamples", "tolerance", "progress"}
    for name in set(inspect.signature(compare_arms).parameters) - technical:
        assert re.search(rf"\b{name}\b", page), name


@pytest.mark.parametrize("document", WITH_COMMAND, ids=lambda path: path.name)
def test_the_command_in_the_document_answers_like_the_python_beside_it(document, comparison, tmp_path, monkeypatch):
    command = re.search(r"^    countermax (compare --data .*)$", document.read_text(), re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stroke_trial.csv").write_bytes(PEOPLE.read_bytes())
    result = CliRunner().invoke(app, [*shlex.split(command), "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert_allclose(said["bounds"]["upper"], comparison.bounds.upper)
    assert_allclose(said["answers"][0]["probabilities"], comparison.answers[0].probabilities)
    assert np.isfinite(said["intervals"]["bounds"]["better"]["upper"])
    assert ("--plot" in command) == (tmp_path / "answers.png").exists()


def test_the_command_with_counts_counts_the_trial(trial):
    command = re.search(r"^    countermax (compare --p .*)$", WITH_COMMAND[1].read_text(), re.MULTILINE)[1]
    words = shlex.split(command)
    said = {option: words[words.index(option) + 1].split(",") for option in ("--p", "--q", "--labels", "--observed")}
    assert "--counts" in words
    assert said["--labels"] == list(trial.outcomes)
    assert [int(each) for each in said["--p"]] == trial.counts[trial.factual]
    assert [int(each) for each in said["--q"]] == trial.counts[trial.counterfactual]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "95% intervals" in result.stdout
