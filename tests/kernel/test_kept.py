"""Compiled code is kept by Numba from one process to the next, where that can be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import countermax

ASKED = """
import numpy as np
from countermax._kernel import _loops
here, rows = np.array([[0.5, 0.25, 0.25]]), np.random.default_rng(0).dirichlet(np.ones(3), 3)
start, successor = np.array([0, 3, 6, 9]), np.tile(np.arange(3), 3)
_loops.carry_on(start, successor, rows.ravel(), np.array([4]), here, np.zeros(3))
print([value.hex() for value in here[0].tolist()], sum(_loops.carry_on.stats.cache_hits.values()))
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.delenv("COUNTERMAX_NO_CACHE", raising=False)

    def run(**environment):
        every = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")} | environment
        done = subprocess.run([sys.executable, "-c", ASKED], check=True, capture_output=True, text=True, env=every)
        return done.stdout.split("]")

    return run


def test_another_process_gives_the_same_answers_from_what_was_kept(ask):
    first, again = ask(), ask()
    assert first[0] == again[0]
    assert (first[1].strip(), again[1].strip()) == ("0", "1")


def test_nothing_is_kept_where_that_is_asked_for(ask, tmp_path):
    ask(COUNTERMAX_NO_CACHE="1")
    assert not (tmp_path / "kept").exists()


def test_where_nothing_can_be_written_code_is_compiled_all_the_same(ask, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert ask(NUMBA_CACHE_DIR=str(tmp_path / "file" / "kept"))[0] == ask()[0]


def test_all_compiled_code_is_in_one_file():
    """Numba looks at the file of a function only, so what it calls must be in the same one."""
    folder = Path(countermax.__file__).parent
    assert [path.name for path in folder.rglob("*.py") if "njit" in path.read_text()] == ["_loops.py"]
