"""Work in parts: in order, once more where a worker dies, and with the function's own errors."""

import os
import signal
from pathlib import Path

import pytest

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
    with pytest.raises(InputError, match="must be host:port"):
        connect("nowhere")


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
