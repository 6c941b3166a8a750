"""What judges share: the command line taken apart, verdicts, and comparing numbers."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import refused
from fuzz.second.reading import MustRefuseError, UnsureError

FLAGS = {
    "--json",
    "--logits",
    "--normalise",
    "--overwrite",
    "--train-only",
    "--as-published",
    "--debug",
    "--help",
    "-h",
}
SHORT = {"-o": "--out"}
TOLERANCE = 1e-9

_ABOUT_ROWS = {"--outcome", "--factual", "--counterfactual", "--coupling", "--labels", "--score", "--errors", "--out"}
_ABOUT_LOGS = {"--policy", "--couplings", "--horizon", "--discount", "--plot"}
OPTIONS = {
    "compare": {
        "--factual",
        "--counterfactual",
        "--seen",
        "--labels",
        "--score",
        "--counterfactual-score",
        "--plot",
        "--logits",
        "--normalise",
        "--json",
    },
    "counterfactuals": {*_ABOUT_ROWS, "--bounds", "--tolerance", "--prefix", "--normalise", "--overwrite"},
    "transitions": {*_ABOUT_ROWS, "--num-resamples", "--level", "--seed", "--plot", "--json", "--normalise"},
    "evaluate-policy": {*_ABOUT_LOGS, "--num-resamples", "--seed", "--json"},
    "explain": {*_ABOUT_LOGS, "--episode", "--page", "--num-draws", "--seed", "--json"},
    "train": {"--out"},
    "evaluate": {"--num-pairs", "--out", "--json"},
}
"""What each command takes; others are refused, or new."""


@dataclass(frozen=True)
class Line:
    """A command line, taken apart."""

    command: str
    positional: list[str]
    options: dict[str, str]
    flags: set[str]
    strange: str | None = None
    """An option that the command does not have, as far as is known here."""

    def option(self, name: str, default: str | None = None) -> str | None:
        """The value of an option."""
        return self.options.get(name, default)

    def needed(self, name: str) -> str:
        """The value of an option that there must be."""
        if self.strange is not None:
            raise UnsureError(f"{self.strange} may be an option by now")
        if name not in self.options:
            raise MustRefuseError(f"{name} is missing")
        return self.options[name]


def taken_apart(argv: Sequence[str]) -> Line:
    """What the parser of options makes of a command line."""
    command, *rest = argv
    positional: list[str] = []
    options: dict[str, str] = {}
    flags: set[str] = set()
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = SHORT.get(name, name)
        if name in FLAGS:
            flags.add(name)
        elif name.startswith("--") or word in SHORT:
            if not equals:
                if not rest:
                    raise MustRefuseError(f"{name} without a value")
                value = rest.pop(0)
            if name in options:
                raise UnsureError(f"{name} twice")
            options[name] = value
        else:
            positional.append(word)
    known = OPTIONS.get(command, set())
    strange = next((name for name in (*options, *flags) if name not in known), None)
    return Line(command, positional, options, flags, strange)


def verdict(outcome: Outcome, expected: Callable[[], Callable[[], str]]) -> Failure | None:
    """Holds what happened against what had to.

    Args:
        outcome: What came of a call that was clean.
        expected: Works out the answer, and returns a function that says what is wrong with the one given; raises
            `MustRefuseError` or `UnsureError` where there is none.
    """
    try:
        check = expected()
    except MustRefuseError as why:
        return None if refused(outcome) else Failure("accepted", str(why))
    except UnsureError:
        return None
    if refused(outcome):
        words = outcome.words or outcome.stderr.decode("utf-8", "replace").strip()
        return Failure("refused", words[:400])
    try:
        wrong = check()
    except UnsureError:
        return None
    return Failure("wrong answer", wrong) if wrong else None


def whole_number(text: str) -> int:
    """A whole number as the parser of options reads it."""
    try:
        return int(text)
    except ValueError:
        raise MustRefuseError(f"{text!r} is no whole number") from None


def real_number(text: str) -> float:
    """A number as the parser of options reads it."""
    try:
        return float(text)
    except ValueError:
        raise MustRefuseError(f"{text!r} is no number") from None


def answered(outcome: Outcome) -> Any:
    """The JSON that was printed, strictly read."""

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    return json.loads(outcome.stdout.decode("utf-8"), parse_constant=constant)


def odd_text(case: Case, outcome: Outcome) -> str:
    """What is odd about an answer that was printed for people: a NaN that is nobody's label."""
    given = " ".join(case.argv).encode("utf-8", "surrogatepass") + b" ".join(case.files.values())
    if b"nan" in given.lower():
        return ""
    return "prints nan" if re.search(rb"\bnan\b", outcome.stdout.lower()) else ""


def off(name: str, found: Any, exact: Any, tolerance: float = TOLERANCE) -> str:
    """What is wrong with a number; relative where it is large."""
    if found is None or isinstance(found, str | bool) or not math.isfinite(found):
        return f"{name} is {found!r}, {float(exact)!r} expected"
    limit = tolerance * max(1.0, abs(float(exact)))
    return "" if abs(found - float(exact)) <= limit else f"{name} is {found!r}, {float(exact)!r} expected"


def first(*wrongs: str) -> str:
    """The first thing that is wrong."""
    return next((each for each in wrongs if each), "")


def check_output(case: Case, line: Line, name: str, known: Sequence[str]) -> None:
    """Refuses an output that cannot be written, or that would take the place of something else."""
    if PurePosixPath(name).suffix.lower() not in known:
        raise MustRefuseError(f"{name!r} names no format")
    if name in case.files:
        if "--overwrite" in line.flags or name not in line.positional:
            raise UnsureError("an output that exists")
        raise MustRefuseError("an output over an input")
    if "/" in name:
        raise UnsureError("an output elsewhere")
