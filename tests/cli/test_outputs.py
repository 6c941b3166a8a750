"""No command destroys what it reads, or what it did not write."""

import os

import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from countermax.cli import app

COMPARE = ["compare", "--factual", "0.3,0.7", "--counterfactual", "0.5,0.5", "--seen", "0"]
TABLE = ["--outcome", "status", "--factual", "p_", "--counterfactual", "q_"]
ROWS = "status,p_a,p_b,q_a,q_b\na,0.5,0.5,0.2,0.8\nb,0.5,0.5,0.3,0.7\n"


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files that somebody needs, some of them under names that commands write."""
    monkeypatch.chdir(tmp_path)
    for name in ("log.csv", "policy.csv", "data.csv"):
        (tmp_path / name).write_text(ROWS)
    (tmp_path / "soft.csv").symlink_to("data.csv")
    os.link(tmp_path / "data.csv", tmp_path / "hard.csv")
    (tmp_path / "run.json").write_text('[task]\npairs = "independent"\n')
    for name in ("notes.png", "notes.html", "report.html", "losses.png", "evaluation.md", "index.html"):
        (tmp_path / name).write_text("notes")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


LOST = "which is read: it would be lost"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["counterfactuals", "data.csv", *TABLE, "-o", "data.csv"], LOST),
        (["counterfactuals", "data.csv", *TABLE, "-o", "./soft.csv"], LOST),
        (["counterfactuals", "soft.csv", *TABLE, "-o", "hard.csv"], LOST),
        (["counterfactuals", "data.csv", *TABLE, "--coupling", "log.csv", "-o", "log.csv"], LOST),
        (["transitions", "data.csv", *TABLE, "--out", "hard.csv"], LOST),
        (["explain", "log.csv", "--policy", "policy.csv", "--episode", "1", "--out", "log.csv"], LOST),
        (["explain", "log.csv", "--policy", "policy.csv", "--episode", "1", "--out", "policy.csv"], LOST),
        (["train", "run.json", "--out", "."], LOST),
    ],
)
def test_what_would_be_lost_is_refused_and_stays(folder, arguments, words):
    before = contents(folder)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert "--overwrite" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert contents(folder) == before


def test_what_lies_in_a_folder_that_is_read_stays(folder):
    (folder / "lake").mkdir()
    for name in ("part-1.parquet", "part-2.parquet"):
        pd.read_csv(folder / "data.csv").to_parquet(folder / "lake" / name)
    before = contents(folder / "lake")
    for source, out, words in (
        ("lake", "lake/part-1.parquet", "must not lie in lake, which is read"),
        ("lake", "lake/extra.parquet", "must not lie in lake, which is read"),
        ("lake/*.parquet", "lake/part-2.parquet", LOST),
    ):
        for command in ("transitions", "counterfactuals"):
            result = run(command, source, *TABLE, "--out", out)
            assert result.exit_code == 2, result.output
            assert words in result.stderr
    assert contents(folder / "lake") == before


def test_two_outputs_in_one_file_are_refused_even_with_overwrite(folder):
    result = run(*COMPARE, "--plot", "new.png", "--page", folder / "new.png", "--overwrite")
    assert result.exit_code == 2
    assert "--plot and --page must be two files" in result.stderr


def test_those_who_insist_are_obeyed_and_links_stay_links(folder):
    refused = run(*COMPARE, "--plot", "notes.png")  # which nobody reads, and which may be precious
    assert refused.exit_code == 2
    assert "notes.png is there already; choose another name, or pass --overwrite" in refused.stderr
    assert run(*COMPARE, "--plot", "notes.png", "--overwrite").exit_code == 0
    assert (folder / "notes.png").read_bytes().startswith(b"\x89PNG")
    done = run("counterfactuals", "soft.csv", *TABLE, "-o", "soft.csv", "--overwrite")
    assert done.exit_code == 0, done.output
    assert (folder / "soft.csv").is_symlink()
    assert "counterfactual_a" in (folder / "data.csv").read_text()


def test_a_demonstration_replaces_nothing(folder):
    (folder / "demo").mkdir()
    (folder / "demo" / "stroke_trial.csv").write_text("mine\n")
    refused = run("demo", "--out", "demo")
    assert refused.exit_code == 2
    assert "stroke_trial.csv is there already; choose another name, or pass --overwrite" in refused.stderr
    assert (folder / "demo" / "stroke_trial.csv").read_text() == "mine\n"


def test_every_command_that_writes_can_be_told_to_overwrite():
    writing = {"--out", "--plot", "--page"}
    for name, command in get_command(app).commands.items():
        options = {option for each in command.params for option in each.opts}
        assert not options & writing or "--overwrite" in options, name


def test_a_dial_has_a_picture_of_its_own_and_what_cannot_be_explored_is_refused_before_the_work(folder):
    told = run(*COMPARE, "--sharing", "--plot", "dial.png")
    assert told.exit_code == 0, told.output
    assert "written: dial-sharing.png" in told.stdout
    assert (folder / "dial-sharing.png").read_bytes().startswith(b"\x89PNG")
    refused = run(*COMPARE, "--strata", "outcome", "--explore", "new.html", "--plot", "new.png")
    assert refused.exit_code == 2
    assert "the explorer knows no weights, clusters, strata" in refused.stderr
    assert not (folder / "new.png").exists()
    assert "must end in .html" in run(*COMPARE, "--page", "new.png").stderr
