"""The command `python -m studies`: what it runs, what it draws, and what it refuses."""

import json

import pytest
from squares import Squares
from typer.testing import CliRunner

from studies import command
from studies.figure1 import Couplings, Maximality
from studies.registry import EXPERIMENTS
from studies.table1 import Table1


@pytest.fixture(autouse=True)
def squares(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "squares", Squares())


def call(*arguments, env=None):
    return CliRunner().invoke(command.app, [str(each) for each in arguments], env=env)


def test_sheets_are_printed_and_can_be_written_again(tmp_path):
    shown = call("squares", "--out", tmp_path)
    assert shown.exit_code == 0
    assert "| of-2 | 4.0 |" in shown.output
    (tmp_path / "sheets/squares.md").unlink()
    assert call("plot", tmp_path).exit_code == 0
    assert (tmp_path / "sheets/squares.md").exists()


def test_training_only_says_what_comes_next(tmp_path):
    shown = call("squares", "--out", tmp_path, "--train-only")
    assert "the same command without --train-only measures and draws" in shown.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cubes",), "unknown experiment cubes"),
        (("plot",), "name the folder"),
        (("squares", "somewhere"), "only plot takes a folder"),
        (("squares", "--preset", "paper"), "--preset must be one of quick, published, best, got 'paper'"),
        (("table1", "--as-published"), "--as-published is for sepsis, got table1"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = call(*arguments)
    assert answer.exit_code == 2, answer.output
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.filterwarnings("default")
def test_changed_numbers_are_not_drawn_but_computed_again(tmp_path):
    call("squares", "--out", tmp_path)
    cell = tmp_path / "cells/squares/of-2.json"
    good = cell.read_text()
    cell.write_text(good.replace('"square": 4', '"square": 5'))
    refused = call("plot", tmp_path)
    assert refused.exit_code == 2
    assert "of-2.json is damaged or was edited" in refused.stderr
    assert "move it away, and `python -m studies` computes it again" in refused.stderr
    again = call("squares", "--out", tmp_path)
    assert again.exit_code == 0, again.output
    assert again.stderr.splitlines() == [
        f"countermax: {cell} is damaged or was edited: its contents do not have its checksum; it is computed again"
    ]
    assert "| of-2 | 4.0 |" in again.stdout


def test_results_without_checksums_are_refused(tmp_path):
    call("squares", "--out", tmp_path)
    cell = tmp_path / "cells/squares/of-1.json"
    content = json.loads(cell.read_text())
    del content["sha256"]
    cell.write_text(json.dumps(content))
    refused = call("plot", tmp_path)
    assert refused.exit_code == 2
    assert "it has no checksum" in refused.stderr


def test_more_seeds_and_jobs_than_fit_into_memory_are_refused(tmp_path):
    for name in ("squares", "table1"):
        refused = call(name, "--seeds", 10**9, "--out", tmp_path)
        assert refused.exit_code == 2
        assert "1000000000 seeds would need about 1,000 TB of memory" in refused.stderr
    assert (
        "lower --jobs" in call("table1", "--jobs", 10**9, "--out", tmp_path, env={"COUNTERMAX_MAX_MEMORY": "1"}).stderr
    )
    assert not (tmp_path / "cells").exists()


def test_results_of_other_settings_are_refused(tmp_path):
    call("squares", "--out", tmp_path)
    answer = call("squares", "--preset", "best", "--out", tmp_path)
    assert answer.exit_code == 2
    assert "was made with preset" in answer.stderr


def test_an_interruption_says_how_much_is_stored(tmp_path):
    (tmp_path / "stop").write_text("interrupt")
    answer = call("squares", "--out", tmp_path)
    assert answer.exit_code == 130
    assert "stopped: 1 of 3 cells are stored; the same command resumes from there" in answer.stderr


def test_the_help_names_every_experiment():
    """The command does not import the experiments to say their names, which would take seconds."""
    own = [name for name in EXPERIMENTS if name != "squares"]
    assert own == [*command._NAMES[:4], "sepsis-as-published", *command._NAMES[4:]]
    assert set(command._PAPER) == {each.name for each in (Couplings, Maximality, Table1)}
