"""Every fuzzer runs, and finds nothing in a few tries."""

from dataclasses import replace

import pytest

from fuzz import calls, files
from fuzz.__main__ import main
from fuzz.judges import judged
from fuzz.kills import SCENARIOS, Kills, table
from fuzz.shelf import Shelf

_CALLS, _FILES, _KILLS, _COMMAND = 14, 48, 7, 28  # seeds: of many kinds, and none of them a training


@pytest.fixture(scope="module")
def shelf(hands):
    return Shelf(hands)


@pytest.mark.parametrize(("fuzzer", "seed", "count"), [(calls, _CALLS, 6), (files, _FILES, 3)], ids=["calls", "files"])
def test_a_few_tries_find_nothing_and_are_the_same_for_the_same_seed(hands, shelf, fuzzer, seed, count):
    for index in range(count):
        case = fuzzer.make(seed, index, shelf)
        assert judged(case, hands.run(case)) is None, (index, case.argv or case.source)
        assert fuzzer.make(seed, index, shelf).to_json() == case.to_json()


def test_a_kill_leaves_nothing_behind(hands):
    argv = (*SCENARIOS[0].argv, "--coupling=independent", "--bounds=none")
    few = replace(SCENARIOS[0], argv=argv, inputs=lambda: table(500))
    told, failure = Kills(hands, _KILLS, practice=0).run(0, (few,))
    assert failure is None, told


def test_the_command_says_what_it_did(tmp_path, capsys):
    assert main(["calls", "--calls", "1", "--seed", str(_COMMAND), "--cases", str(tmp_path)]) == 0
    assert "calls: 1 tried" in capsys.readouterr().out
