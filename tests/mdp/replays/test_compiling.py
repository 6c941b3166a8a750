"""Compiled code that is kept: for exactly the source it was made from, and where something can be kept at all."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

numba = pytest.importorskip("numba")

from countermax.mdp.replays.engines import _compiling, _keeping  # noqa: E402

SOURCE = """
from typing import NamedTuple
import numpy as np
from countermax.mdp.replays.engines._compiling import compiled
from kept_helper import times

class {name}(NamedTuple):
    values: np.ndarray

@compiled
def total(rows, found):
    for value in rows.values:
        found[0] += times(value)

def once():
    found = np.zeros(1)
    total({name}(np.arange(4.0)), found)
    return found[0]
"""
HELPER = """
from countermax.mdp.replays.engines._compiling import compiled

@compiled
def times(value):
    return {factor} * value
"""
BEYOND = "np.cosh({factor} * value) / np.cosh({factor} * value) * {factor} * value"
"""The same by a function that not every process has."""


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Compiled code as a release would install it, in place of what was there before."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_keeping, "_HERE", tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("COUNTERMAX_NO_CACHE", raising=False)

    def install(name, factor, helper=HELPER):
        (tmp_path / "kept_rows.py").write_text(SOURCE.format(name=name))
        (tmp_path / "kept_helper.py").write_text(helper.format(factor=factor))
        for each in ("kept_rows", "kept_helper"):
            sys.modules.pop(each, None)
        for stale in tmp_path.glob("__pycache__/*.pyc"):
            stale.unlink()
        importlib.invalidate_caches()
        _keeping.folder_of_source.cache_clear()
        return importlib.import_module("kept_rows")

    yield install
    _keeping.folder_of_source.cache_clear()
    for each in ("kept_rows", "kept_helper"):
        sys.modules.pop(each, None)


def test_a_release_that_renames_a_class_meets_nothing_that_an_older_one_kept(release, tmp_path):
    assert release("Rows", 2).once() == 12
    assert list(tmp_path.glob("kept/**/total-*.o"))
    assert release("FlatRows", 2).once() == 12


def test_a_change_of_what_is_called_is_seen_though_the_caller_is_the_same(release):
    assert release("Rows", 2).once() == 12
    assert release("Rows", 3).once() == 18


def test_the_same_source_finds_what_was_kept(release):
    release("Rows", 2).once()
    again = release("Rows", 2)
    assert again.once() == 12
    assert again.total.num_compiled == 0


def test_what_was_kept_and_then_damaged_is_compiled_again(release, tmp_path):
    release("Rows", 2).once()
    (path,) = tmp_path.glob("kept/**/total-*.o")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    again = release("Rows", 2)
    assert again.once() == 12
    assert again.total.num_compiled == 1
    assert release("Rows", 2).total.num_compiled == 0


def test_where_machine_code_is_not_called_directly_numba_calls_and_keeps_it(release, tmp_path, monkeypatch):
    monkeypatch.setattr(_compiling, "_DIRECTLY", False)
    assert release("Rows", 2).once() == 12
    assert list(tmp_path.glob("kept/**/*.nbc"))
    assert not list(tmp_path.glob("kept/**/*.o"))


def test_a_numba_that_nobody_has_looked_at_calls_its_own_code(release, tmp_path, monkeypatch):
    from countermax.mdp.replays.engines import _machine

    monkeypatch.setattr(_machine, "_KNOWN", (0, 1))
    _machine.is_known.cache_clear()
    assert release("Rows", 2).once() == 12
    assert not list(tmp_path.glob("kept/**/*.o"))
    _machine.is_known.cache_clear()


def test_code_that_calls_more_than_the_c_library_is_left_to_numba(release, tmp_path):
    helper = "import numpy as np\n" + HELPER.replace("{factor} * value", BEYOND)
    assert release("Rows", 2, helper).once() == pytest.approx(12)
    assert not list(tmp_path.glob("kept/**/*.o"))


def test_code_that_fails_is_an_error(release):
    with pytest.raises(ArithmeticError, match="must not fail"):
        release("Rows", "1 / (value - 3)").once()


REPLAYED = """
import sys
import numpy as np
from countermax import GumbelMax
from countermax.mdp import EpisodeLog, FiniteMDP, replay, trajectory_bounds
rows = np.random.default_rng(0).dirichlet(np.ones(3), (3, 2))
mdp = FiniteMDP.from_dense(rows, np.array([0.0, 1.0, 2.0]), start=0)
log = EpisodeLog(states=np.array([[0, 1, 2]]), actions=np.array([[0, 1]]), rewards=np.array([[1.0, 2.0]]),
                 lengths=np.array([2]), num_states=3, num_actions=2)
policy = np.array([[0.5, 0.5]] * 3)
found = [replay(mdp, log, policy, GumbelMax()).values[0], *(each[0] for each in trajectory_bounds(mdp, log, policy))]
told = [float(each).hex() for each in found]
"""


def test_another_process_gives_the_same_answers_without_numba():
    here = {}
    exec(REPLAYED, here)  # by now at the latest it is compiled and kept
    again = REPLAYED + "print(told, 'numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", again], check=True, capture_output=True, text=True)
    assert found.stdout == f"{here['told']} False\n"


def test_only_the_last_releases_are_kept(release, tmp_path):
    for factor in range(7):
        assert release("Rows", factor).once() == 6 * factor
    assert len(list((tmp_path / "kept" / "countermax").iterdir())) == 4


def test_where_nothing_can_be_written_code_is_compiled_all_the_same(release, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr(_keeping, "_parents", lambda: iter([blocked / "here", blocked / "there"]))
    module = release("Rows", 2)
    assert _keeping.folder_of_source() is None
    assert module.once() == 12


def test_nothing_is_kept_where_that_is_asked_for(release, tmp_path, monkeypatch):
    monkeypatch.setenv("COUNTERMAX_NO_CACHE", "1")
    assert release("Rows", 2).once() == 12
    assert not (tmp_path / "kept").exists()


def test_all_compiled_code_is_kept_that_way():
    folder = Path(_compiling.__file__).parents[3]
    using = {path.name for path in folder.rglob("*.py") if "njit" in path.read_text()}
    assert using == {"_compiling.py"}
