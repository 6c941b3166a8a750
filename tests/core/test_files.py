"""Files that are written whole or not at all."""

import errno
import os

import pytest

from countermax import InputError
from countermax._core.files import writable_folder, write_atomically


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    write_atomically(target, "old")

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(InputError, match="no space left on device; make room"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(InputError, match="cannot write to the folder"):
        writable_folder(blocker)
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(tmp_path / "missing" / "file", "text")
