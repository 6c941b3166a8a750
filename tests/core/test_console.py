"""What is printed: no control characters but those of the terminal's own look."""

import logging

from rich.text import Text

from countermax import Worlds
from countermax._core import progress
from countermax._core.console import as_text, show


def test_control_characters_are_spelled_out(capsys):
    assert as_text(Text("x\x1b[2Jy\x9b")) == r"x\x1b[2Jy\x9b"
    show("a\x1b]0;owned\nb")
    assert capsys.readouterr().out == "a\\x1b]0;owned\nb\n"


def test_labels_cannot_move_the_cursor(capsys):
    worlds = Worlds({"a\x1b[2J": 0.5, "b": 0.5}, {"a\x1b[2J": 0.2, "b": 0.8}, names=("p\x1b[1m", "q"))
    found = worlds.compare("b")
    assert "\x1b" not in str(found)
    show(found)
    assert "\x1b" not in capsys.readouterr().out


def test_progress_without_a_terminal_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(progress, "_LOGGED", 0.0)
    with caplog.at_level(logging.INFO, "countermax"), progress.ProgressBar("reading", 2000, unit="rows") as bar:
        bar.advance(1000)
    assert [each.getMessage() for each in caplog.records] == ["reading: 1,000 of 2,000 rows"]
