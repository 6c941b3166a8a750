"""Whatever goes wrong is one line, and the traceback is there for those who ask."""

import os
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

from countermax import Worlds, cli
from countermax.cli import app
from countermax.cli._faults import in_options
from countermax.cli._shared import words

COMPARE = ["compare", "--factual", "0.3,0.7", "--counterfactual", "0.5,0.5", "--seen", "0"]
DATA = Path(str(files("countermax") / "data"))
TRANSITIONS = ["transitions", "x.csv", "--outcome", "a", "--factual", "p_", "--counterfactual", "q_"]
EVALUATE = ["evaluate-policy", DATA / "ward_log.csv", "--policy", DATA / "ward_policy.csv"]


def run(*arguments, **environment):
    return CliRunner().invoke(app, [str(each) for each in arguments], env=environment)


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


NOT_UTF8 = UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            ZeroDivisionError("by zero\nand more"),
            1,
            "unexpected ZeroDivisionError: by zero and more; this is a fault of",
        ),
        (AssertionError(), 1, "unexpected AssertionError; this is a fault of countermax: run it again with --debug"),
        (ValueError("x" * 200_000), 1, "run it again with --debug"),
        (MemoryError("Unable to allocate"), 1, "out of memory; ask for less"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating"), 1, "out of memory; ask for less"),
        (RecursionError("maximum recursion depth"), 2, "nested too deeply"),
        (NOT_UTF8, 2, "must be UTF-8 text, got byte 0xe9 at position 3; save it as UTF-8"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), 2, "must be valid UTF-8"),
        (FileNotFoundError(2, "No such file or directory", "there.csv"), 2, "there.csv: no such file or directory"),
        (KeyboardInterrupt(), 130, "countermax: interrupted"),
        (KeyboardInterrupt("stopped at step 7"), 130, "countermax: stopped at step 7"),
    ],
)
def test_anything_unexpected_is_one_line(error, status, message, monkeypatch):
    monkeypatch.setattr(Worlds, "compare", failing(error))
    result = run(*COMPARE)
    assert result.exit_code == status
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(result.stderr) < 2500
    assert "Traceback" not in result.output


def test_the_traceback_is_there_for_those_who_ask(monkeypatch):
    monkeypatch.setattr(Worlds, "compare", failing(ZeroDivisionError("by zero")))
    for result in (run("--debug", *COMPARE), run(*COMPARE, COUNTERMAX_DEBUG="1")):
        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("countermax: unexpected ZeroDivisionError")
    for result in (run(*COMPARE), run(*COMPARE, COUNTERMAX_DEBUG="0")):  # it is not remembered
        assert "Traceback" not in result.stderr


def test_debug_may_stand_behind_the_command():
    assert cli._debug_first(["compare", "--p", "1", "--debug"]) == ["--debug", "compare", "--p", "1"]
    assert cli._debug_first(["compare", "--", "--debug"]) == ["compare", "--", "--debug"]
    assert cli._debug_first(["compare"]) == ["compare"]


def test_what_is_not_printable_is_spelled_out_in_messages():
    result = run(*COMPARE, "--labels", "a\x1b[31m,b")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, 2**64, 10**40])
@pytest.mark.parametrize("command", [TRANSITIONS, EVALUATE])
def test_seeds_are_whole_numbers_of_32_bits(command, seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("a,p_1,q_1\n1,1,1\n")
    result = run(*command, "--seed", seed)
    assert result.exit_code == 2
    assert "--seed must be a whole number from 0 to 4294967295, got " in result.stderr


def test_a_seed_of_thousands_of_digits_is_refused():
    assert run(*TRANSITIONS, "--seed", "1" * 5000).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TRANSITIONS, "--score", "01=0,01=5"], "each label must be given once, got '01' twice"),
        ([*TRANSITIONS[:4], "--counterfactual", "q_", "--factual", "a=p1, a=p2"], "got 'a' twice"),
        ([*COMPARE, "--logits", "--normalise"], "must not both be true"),
        ([*COMPARE, "--labels", '"a,b'], "quotes must go around a whole word"),
        ([*COMPARE, "--labels", '"a"b,c'], "quotes must go around a whole word"),
    ],
)
def test_options_that_contradict_themselves_are_refused(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_words_may_hold_anything():
    long = "x" * 200_000
    assert words(f"{long},b") == [long, "b"]
    assert words("a\nb, c\r") == ["a\nb", "c"]
    assert words('"a, ""b""" , c,,') == ['a, "b"', "c", "", ""]
    assert words("") == []
    assert words('5" pipe,b') == ['5" pipe', "b"]
    assert words(os.fsdecode(b"\xff,b")) == ["\udcff", "b"]


def test_arguments_of_python_are_told_as_options_where_the_command_has_them():
    told = "`at_least` needs a `score` (--score), not `p` or `data`; `write_page` shows it, with missing='drop'"
    options = {"at_least", "score", "page", "missing"}
    assert in_options(told, options) == (
        "--at-least needs a --score, not `p` or `data`; --page shows it, with --missing drop"
    )
    assert in_options("`--seed` must be whole", {"seed"}) == "--seed must be whole"
