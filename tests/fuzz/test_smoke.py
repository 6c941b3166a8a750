"""Every fuzzer runs, and finds nothing in a few tries."""

import os
import subprocess
import sys

import pytest

from fuzz import calls, files
from fuzz.hands import ROOT
from fuzz.judges import judged
from fuzz.kills import SCENARIOS, Kills
from fuzz.shelf import Shelf

_SEED = 7


@pytest.fixture(scope="module")
def shelf(hands):
    return Shelf(hands)


@pytest.mark.parametrize(("fuzzer", "count"), [(calls, 8), (files, 4)], ids=["calls", "files"])
def test_a_few_tries_find_nothing(hands, shelf, fuzzer, count):
    for index in range(count):
        case = fuzzer.make(_SEED, index, shelf)
        assert judged(case, hands.run(case)) is None, (index, case.argv or case.source)


def test_the_same_seed_makes_the_same_cases(shelf):
    for fuzzer in (calls, files):
        first, second = ([fuzzer.make(1, index, shelf).to_json() for index in range(5)] for _ in range(2))
        assert first == second


def test_a_kill_leaves_nothing_behind(hands):
    told, failure = Kills(hands, _SEED).run(0, tuple(each for each in SCENARIOS if each.name == "transitions"))
    assert failure is None, told


def test_the_command_says_what_it_did(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "calls", "--calls", "1", "--seed", "7", "--cases", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "calls: 1 tried" in done.stdout
