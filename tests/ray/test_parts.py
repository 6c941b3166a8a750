"""Work in parts: in order, once more where a worker dies, and with the function's own errors."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from countermax import _ray
from countermax._core.errors import InputError
from countermax._ray import connect, in_parts, merged_in_parts, put_once


def test_results_come_in_the_order_of_the_parts(ray):
    shared = put_once(10)
    found = in_parts(lambda shared, part: shared * part, shared, ((part,) for part in range(20)))
    assert list(found) == [10 * part for part in range(20)]


def test_a_killed_worker_is_replaced(ray, tmp_path):
    def once_killed(folder: Path, part: int) -> int:
        seen = folder / str(part)
        if not seen.exists():
            seen.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    assert list(in_parts(once_killed, tmp_path, ((part,) for part in range(3)))) == [0, 1, 2]


def test_an_error_of_a_task_is_raised_as_it_was(ray):
    def refuse(shared: None, part: int) -> int:
        if part == 2:
            raise InputError("part 2 is bad")
        return part

    with pytest.raises(InputError, match="^part 2 is bad$"):
        list(in_parts(refuse, None, ((part,) for part in range(6))))


def test_an_address_where_nobody_listens_is_refused_at_once(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError, match=r"nothing answers at '127\.0\.0\.1:9'"):
        connect("127.0.0.1:9")
    for address in ("nowhere", "ray://127.0.0.1:10001"):
        with pytest.raises(InputError, match="must be host:port"):
            connect(address)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(InputError, match=r"nothing answers at '127\.0\.0\.1:9'"):
        connect()


class Kept:
    """Results in the order in which they were merged."""

    def __init__(self, part: int):
        self.parts = [part]

    def merge(self, other: "Kept") -> None:
        self.parts += other.parts


def test_results_are_merged_in_order_before_they_travel(ray):
    found = list(merged_in_parts(lambda shared, part: Kept(part), None, ((part,) for part in range(40))))
    assert [len(each.parts) for each in found] == [16, 16, 8]
    assert [part for each in found for part in each.parts] == list(range(40))


def test_an_error_of_a_part_that_is_merged_is_raised_as_it_was(ray):
    def refuse(shared: None, part: int) -> Kept:
        if part == 20:
            raise InputError("part 20 is bad")
        return Kept(part)

    with pytest.raises(InputError, match="^part 20 is bad$"):
        list(merged_in_parts(refuse, None, ((part,) for part in range(40))))


def test_a_part_that_takes_long_does_not_keep_others_from_being_done(ray, tmp_path):
    """The first part waits until all others are there."""

    def patient(folder: Path, part: int) -> int:
        (folder / str(part)).touch()
        while part == 0 and len(list(folder.iterdir())) < 12:
            time.sleep(0.05)
        return part

    assert list(in_parts(patient, tmp_path, ((part,) for part in range(12)))) == list(range(12))


def test_a_worker_with_another_version_is_refused(ray, monkeypatch):
    monkeypatch.setattr(_ray, "__version__", "0.0.1")
    with pytest.raises(InputError, match="all machines must have the same version of countermax, but .* asks 0.0.1"):
        list(in_parts(lambda shared, part: part, None, [(1,)]))


def test_a_cluster_without_a_core_says_that_it_waits(ray, monkeypatch):
    monkeypatch.setattr(_ray, "_PATIENCE", 0.2)
    with pytest.warns(UserWarning, match="cores, .* of them free; waiting for one"):
        list(in_parts(lambda shared, part: time.sleep(3), None, [(1,)]))


def test_ray_inside_this_machine_cannot_be_reached_and_leaves_nothing(ray):
    code = """
from countermax._ray import connect, in_parts
list(in_parts(lambda shared, part: part, None, ((part,) for part in range(4))))
import psutil  # which Ray brings with it
tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
found = {each.laddr.ip for process in tree for each in process.net_connections() if each.status == "LISTEN"}
print(sorted(found))
connect().shutdown()
"""

    def left():
        place = Path(tempfile.gettempdir())
        return {path.name for path in place.iterdir() if "ray" in path.name}

    before = left()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    found = eval(done.stdout)
    assert found
    assert set(found) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert left() <= before


def test_somebody_without_the_token_is_refused(ray):
    if "RAY_AUTH_TOKEN" not in os.environ:
        pytest.skip("this Ray knows no tokens")
    code = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); print('in')"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a guess", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    address = ray.get_runtime_context().gcs_address
    done = subprocess.run(
        [sys.executable, "-c", code, address], env=environment, capture_output=True, text=True, timeout=120
    )
    assert "in" not in done.stdout.split()
    assert "Unauthenticated" in done.stderr or "token" in done.stderr
