"""The bundled trial and the documents that start from it: people are counted, and every number has its interval."""

import fnmatch
import inspect
import json
import re
import shlex
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from countermax import Design, Trial, demo
from countermax.cli import _trial, app

ROOT = Path(__file__).parents[1]
PEOPLE = files("countermax") / "data/stroke_trial.csv"
COMMAND = ROOT / "docs/two_arms.md"


@pytest.fixture(scope="module")
def example():
    return demo.load_example()


@pytest.fixture(scope="module")
def comparison(example):
    return example.trial().compare(example.seen, couplings="all")


def test_the_trial_has_four_hundred_people_an_arm(example):
    people = pd.read_csv(PEOPLE)
    assert people["patient"].is_unique
    assert people["arm"].value_counts().to_dict() == {example.control: 400, example.treated: 400}
    assert set(people["outcome"]) == set(example.score) == set(example.cost)


def test_the_demonstration_asks_what_a_user_would_ask_of_its_file(example, comparison):
    trial = Trial(
        pd.read_csv(PEOPLE), outcome="outcome", arm="arm", control="placebo", treated="drug", score=example.score
    )
    users = trial.compare("dead", couplings="all")
    assert comparison.worlds == users.worlds == (example.control, example.treated)
    assert comparison.rows == users.rows


def test_every_finding_about_the_trial_says_how_well_it_is_known(example, comparison):
    one, several, variances, better = demo._findings(example, comparison)
    interval = r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)"
    assert len(re.findall(interval, one)) == 2
    assert len(re.findall(interval, variances)) == 2
    assert "95 % confidence intervals" in several
    spared = 1 - comparison.row("P(dead)", "any coupling").ci_upper
    assert f"with 95 % confidence, {spared:.2f} at least" in several
    win = comparison.row("win probability")
    assert f"{win.value:.2f} ({win.ci_lower:.2f} to {win.ci_upper:.2f})" in better
    whole = comparison.row("better", "any coupling", "everybody")
    assert f"({whole.ci_lower:.2f} to {whole.ci_upper:.2f}) over all couplings" in better


def test_the_demonstration_prints_the_answer_first_and_writes_its_pictures_and_a_page(tmp_path, monkeypatch):
    original, made, out = demo.run_demo, [], tmp_path / "out"
    monkeypatch.setattr(demo, "run_demo", lambda *args, **kwargs: made.append(original(*args, **kwargs)) or made[0])
    result = CliRunner().invoke(app, ["demo", "--out", str(out)])
    assert result.exit_code == 0, result.output
    (found,) = made
    lines = result.stdout.splitlines()
    assert len(lines) <= 60
    assert "Seen under placebo: dead." in str(found).splitlines()[0]
    assert str(found).splitlines()[1].startswith("The data alone (400 people in placebo and 400 in drug), whatever the")
    names = {path.name for path in out.iterdir()}
    pictures = {"answers.png", "couplings.png", "variances.png", "learned.png"}
    assert names == pictures | {"stroke_trial.csv", "comparison.json", "report.html"}
    assert names == {path.name for path in found.written}
    assert all(any(fnmatch.fnmatch(name, known) for known in _trial._DEMO) for name in names)
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page
    for row in found.comparison.rows:
        if row.coupling and row.ci_lower is not None:
            assert row.shown.replace("\n", " ") in re.sub("</?span>", "", page)
    assert json.loads((out / "comparison.json").read_text())["seen"] == "dead"
    _shows_what_it_promises(found)


def _shows_what_it_promises(found):
    comparison, losses = found.comparison, {name: row["loss"] for name, row in found.evaluation.by_coupling.items()}
    fixed = [losses[name] for name in losses if name not in ("learned Gadget 2", "optimum")]
    assert losses["optimum"] <= losses["learned Gadget 2"] < min(fixed)
    couplings = ("Gumbel-max", "maximal", "inverse CDF by score")
    opinions = [comparison.row("P(home)", name).value for name in couplings]
    assert max(opinions) - min(opinions) > 0.3
    maximal, by_score = (comparison.row("effect variance", name).value for name in couplings[1:])
    assert by_score < 0.5 * maximal
    assert "inverse CDF" not in comparison.probabilities  # nobody gave the outcomes an order
    assert "comonotone" not in comparison.probabilities  # one score has one such coupling


def test_the_command_in_the_document_answers_like_the_python_beside_it(tmp_path, monkeypatch):
    command = re.search(r"^    countermax (compare stroke_trial.csv .*)$", COMMAND.read_text(), re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stroke_trial.csv").write_bytes(PEOPLE.read_bytes())
    result = CliRunner().invoke(app, [*shlex.split(command), "--json"])
    assert result.exit_code == 0, result.output
    users = demo.load_example().trial().compare("dead")
    assert json.loads(result.stdout)["rows"] == users.to_dict()["rows"]
    assert (tmp_path / "answers.png").exists()


@pytest.mark.parametrize("document", ["README.md", "docs/two_arms.md"])
def test_documents_show_the_answer_that_is_printed(example, document):
    assert f"\n{example.trial().compare(example.seen).summary()}\n" in (ROOT / document).read_text()


def test_the_command_with_counts_counts_the_trial(example):
    people = pd.read_csv(PEOPLE)
    comparison = Trial(people, outcome="outcome", arm="arm", control=example.control).compare(example.seen)
    command = re.search(r"^    countermax (compare --control .*)$", COMMAND.read_text(), re.MULTILINE)[1]
    result = CliRunner().invoke(app, [*shlex.split(command), "--json"])
    assert result.exit_code == 0, result.output
    said = {(each["quantity"], each["coupling"]): each for each in json.loads(result.stdout)["rows"]}
    for label in comparison.labels:
        for name in ("any coupling", "Gumbel-max"):
            row, other = comparison.row(f"P({label})", name), said[f"P({label})", name]
            assert other["ci_upper"] == pytest.approx(row.ci_upper)


def test_the_page_about_two_arms_explains_every_choice():
    page = COMMAND.read_text()
    technical = {"self", "data", "couplings", "num_resamples", "tolerance"}
    for each in (Trial, Trial.compare, Design):
        for name in set(inspect.signature(each).parameters) - technical:
            assert re.search(rf"\b{name}\b", page), name
