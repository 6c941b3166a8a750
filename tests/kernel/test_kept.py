"""Compiled code is kept by Numba from one process to the next, where that can be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import countermax

ASKED = """
import numpy as np
from countermax import GumbelMax
from countermax._kernel import _loops, mean_worths
worlds = np.log(np.random.default_rng(0).dirichlet(np.ones(3), (2, 4)))
found = mean_worths(GumbelMax(), *worlds, np.arange(9.0).reshape(1, 3, 3))
loop = _loops.mean_worth_lines
hits = sum(loop.stats.cache_hits.values()) if getattr(loop._cache, "_cache_path", None) else None
print([value.hex() for value in found[0].tolist()], hits)
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
