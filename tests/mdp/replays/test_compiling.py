"""Compiled code that is kept: for exactly the source it was made from, and where something can be kept at all."""

import importlib
import sys
from pathlib import Path

import pytest

numba = pytest.importorskip("numba")

from countermax.mdp.replays.engines import _compiling  # noqa: E402

SOURCE = """
from typing import NamedTuple
import numpy as np
from countermax.mdp.replays.engines._compiling import compiled
from kept_helper import times

class {name}(NamedTuple):
    values: np.ndarray

@compiled
def total(rows):
    return times(rows.values.sum())

def once():
    return total({name}(np.arange(4.0)))
"""
HELPER = """
from countermax.mdp.replays.engines._compiling import compiled

@compiled
def times(value):
    return {factor} * value
"""


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Compiled code as a release would install it, in place of what was there before."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_compiling, "_HERE", tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("COUNTERMAX_NO_CACHE", raising=False)

    def install(name, factor):
        (tmp_path / "kept_rows.py").write_text(SOURCE.format(name=name))
        (tmp_path / "kept_helper.py").write_text(HELPER.format(factor=factor))
        for each in ("kept_rows", "kept_helper"):
            sys.modules.pop(each, None)
        for stale in tmp_path.glob("__pycache__/*.pyc"):
            stale.unlink()
        importlib.invalidate_caches()
        _compiling.folder_of_source.cache_clear()
        return importlib.import_module("kept_rows")

    yield install
    _compiling.folder_of_source.cache_clear()
    for each in ("kept_rows", "kept_helper"):
        sys.modules.pop(each, None)


def test_a_release_that_renames_a_class_meets_nothing_that_an_older_one_kept(release, tmp_path):
    assert release("Rows", 2).once() == 12
    assert list(tmp_path.glob("kept/**/*.nbc"))
    assert release("FlatRows", 2).once() == 12


def test_a_change_of_what_is_called_is_seen_though_the_caller_is_the_same(release):
    assert release("Rows", 2).once() == 12
    assert release("Rows", 3).once() == 18


def test_the_same_source_finds_what_was_kept(release):
    release("Rows", 2).once()
    again = release("Rows", 2)
    assert again.once() == 12
    assert sum(again.total.stats.cache_hits.values()) == 1


def test_only_the_last_releases_are_kept(release, tmp_path):
    for factor in range(7):
        assert release("Rows", factor).once() == 6 * factor
    assert len(list((tmp_path / "kept" / "countermax").iterdir())) == 4


def test_where_nothing_can_be_written_code_is_compiled_all_the_same(release, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr(_compiling, "_parents", lambda: iter([blocked / "here", blocked / "there"]))
    module = release("Rows", 2)
    assert _compiling.folder_of_source() is None
    assert module.once() == 12


def test_nothing_is_kept_where_that_is_asked_for(release, tmp_path, monkeypatch):
    monkeypatch.setenv("COUNTERMAX_NO_CACHE", "1")
    assert release("Rows", 2).once() == 12
    assert not (tmp_path / "kept").exists()


def test_all_compiled_code_is_kept_that_way():
    folder = Path(_compiling.__file__).parents[3]
    using = {path.name for path in folder.rglob("*.py") if "njit" in path.read_text()}
    assert using == {"_compiling.py"}
