"""What is said while something takes long."""

import io

import pytest
from numba import njit
from rich.console import Console

from countermax._core import progress

SHOWN_AGAIN = "\x1b[?25h"  # the cursor, once a line is done


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal is shown; progress is shown as on one that a person looks at."""
    shown = io.StringIO()
    monkeypatch.setattr(progress, "_chosen", None)
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=shown, force_terminal=True, width=120))
    return shown


def compile_something():
    @njit
    def inside(x):
        return x + 1

    @njit
    def outside(x):
        return inside(x) + inside(2.5 * x)

    return outside(1)


def test_who_waits_for_a_compiler_is_told_so_once_beside_the_bar_or_alone(terminal):
    progress.tell_when_numba_compiles()
    compile_something()
    assert "compiling" in terminal.getvalue()
    assert terminal.getvalue().count(SHOWN_AGAIN) == 1  # functions within functions are compiled with them
    with progress.ProgressBar("replaying", 2) as bar:
        compile_something()
        assert bar._bar.tasks[0].fields["note"] == ""
    told = [line for line in terminal.getvalue().splitlines() if "replaying" in line]
    assert told
    assert "compiling" not in told[-1]


def test_a_bar_that_runs_has_the_note_and_keeps_its_own(terminal):
    with progress.ProgressBar("replaying", 2) as bar:
        bar.update(1, note="half")
        with progress.compiling():
            assert bar._bar.tasks[0].fields["note"].startswith("compiling")
        assert bar._bar.tasks[0].fields["note"] == "half"


def test_nobody_is_told_where_nobody_watches(capfd, monkeypatch):
    progress.tell_when_numba_compiles()
    monkeypatch.setattr(progress, "_chosen", None)
    compile_something()
    with progress.compiling(), progress.ProgressBar("replaying", 2):
        pass
    assert capfd.readouterr() == ("", "")
