"""Files that are written whole or not at all, and what is left where a process was killed."""

import errno
import fcntl
import os
import re
import stat
import subprocess
import sys

import pytest

from countermax import InputError
from countermax._core import files
from countermax._core.files import (
    check_writable,
    remove_left_over,
    writable_folder,
    write_atomically,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    write_atomically(target, "old")

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(InputError, match="no space left on device; make room"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert names(tmp_path) == ["result.json"]


def test_a_real_limit_of_the_system_leaves_the_old_file_whole(tmp_path):
    target = tmp_path / "result.json"
    write_atomically(target, "old")
    code = (
        "import resource, sys\n"
        "from countermax._core.files import write_atomically\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_atomically(sys.argv[1], 'x' * 100_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, target], capture_output=True, text=True)
    assert re.search(r"InputError: cannot write .*: file too large; make room", done.stderr)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["result.json"]


def test_what_cannot_be_written_to_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(InputError, match="cannot write to the folder"):
        writable_folder(blocker)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for target, reason in (
        (tmp_path / "missing" / "file", "there is no folder|no such file"),
        (tmp_path, "it is a directory"),
        (tmp_path / "pipe", "it is not a file"),
        (tmp_path / "loop", "too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "file name too long"),
        ("/proc/nowhere.csv", "no such file|permission denied"),
    ):
        with pytest.raises(InputError, match=reason):
            write_atomically(target, "text")
        if "/proc" not in str(target):
            with pytest.raises(InputError, match=reason):
                check_writable(target)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the superuser")
def test_what_is_protected_stays(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(0o444)
    with pytest.raises(InputError, match="permission denied"):
        write_atomically(target, "new")
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="permission denied in its folder"):
        check_writable(tmp_path / "other")
    tmp_path.chmod(0o755)
    assert target.read_text() == "old"


def test_a_symbolic_link_is_written_through_and_permissions_are_kept(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "table.csv", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("real/table.csv")
    assert write_atomically(link, "new") == link
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    (tmp_path / "ahead.csv").symlink_to("real/later.csv")
    write_atomically(tmp_path / "ahead.csv", "new")
    assert (tmp_path / "ahead.csv").is_symlink()
    assert names(tmp_path / "real") == ["later.csv", "table.csv"]
    assert names(tmp_path) == ["ahead.csv", "link.csv", "real"]


def test_names_of_any_length_and_any_bytes_can_be_written(tmp_path):
    write_atomically(tmp_path / ("x" * 250), "text")
    odd = tmp_path / os.fsdecode(b"\xff.txt")
    write_atomically(odd, "a name: \udcff")
    assert odd.read_text("utf-8") == r"a name: \udcff"


KILLED = """
import sys, time
from countermax._core.files import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not(tmp_path):
    target = tmp_path / "table.csv"
    dead, living = (
        subprocess.Popen([sys.executable, "-c", KILLED, target], stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    with dead, living:
        for process in (dead, living):
            assert process.stdout.readline() == "ready\n"
        assert len(names(tmp_path)) == 2
        dead.kill()
        dead.wait()
        files._tidied.discard(str(tmp_path))
        write_atomically(target, "whole")
        left = names(tmp_path)
        assert len(left) == 2
        assert f"-{living.pid}-" in left[0]
        assert left[0].startswith(".countermax-")
        living.kill()
    remove_left_over(tmp_path)
    assert names(tmp_path) == ["table.csv"]


def test_only_what_is_ours_and_left_over_is_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ours = f".countermax-{files._host()}-"
    kept = {
        f".countermax-00000000-{gone.pid}-aaaaaaaa.part": "of another machine",
        f"{ours}{os.getppid()}-aaaaaaaa.part": "of a living process",
        f"{ours}{os.getpid()}-aaaaaaaa.part": "of this process",
        f"{ours}{gone.pid}-bbbbbbbb.part": "held, so that its process lives in another container",
        f"{ours}{gone.pid}-notours.part": "somebody else's name",
        f".table.csv.{gone.pid}": "somebody else's file",
    }
    removed = [f"{ours}{gone.pid}-aaaaaaaa.part", f"{ours}{os.getppid()}-bbbbbbbb.part"]
    for name in (*kept, *removed):
        (tmp_path / name).write_text("half")
    os.utime(tmp_path / removed[1], (0, 0))  # an old one, whose number went to another process
    with (tmp_path / f"{ours}{gone.pid}-bbbbbbbb.part").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writable_folder(tmp_path)
        assert names(tmp_path) == sorted(kept)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no folder .*missing; choose another place"):
        write_atomically(tmp_path / "missing" / "a.csv", "text")
