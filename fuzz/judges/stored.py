"""For files that were damaged: refused in one line, or answered as before, or as the second implementation answers."""

import base64
import zlib
from dataclasses import replace

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty, refused
from fuzz.judges.common import answered
from fuzz.second.laws import SINGLE, outside_bounds, world

_P, _Q = (0.2, 0.3, 0.5), (0.6, 0.3, 0.1)  # the worlds that stored couplings are asked about
_MOST_LOSS = 4.0001  # of three outcomes whose scores are their places


def judge(case: Case, outcome: Outcome) -> Failure | None:
    """Holds the answer against that of the undamaged file."""
    from fuzz.judges import judged

    found = dirty(case, outcome, outputs=case.means.get("outputs", ()), statuses=case.means.get("statuses", ()))
    if found is not None or refused(outcome):
        return found
    if answer_of(case, outcome) == _undamaged(case):
        return None
    second = case.means.get("second")
    if second == "coupling":
        wrong = _no_coupling(case, outcome)
        return Failure("wrong answer", f"{case.means['damage']}: {wrong}") if wrong else None
    if second in ("trained", "sealed"):
        return None  # another state of a training, another result, sealed as one: it is what it says
    if second is not None:
        return judged(replace(case, judge=second), outcome)
    return Failure("wrong answer", f"{case.means['damage']}: answers other than the undamaged file, and exit status 0")


def _no_coupling(case: Case, outcome: Outcome) -> str:
    """What is wrong with the answers of a crafted file, which may be another coupling but must be one."""
    if case.means["form"] == "evaluate":
        loss = next(row["loss"] for name, row in answered(outcome)["rows"].items() if name == "stored")
        return "" if loss is not None and 0 <= loss <= _MOST_LOSS else f"a loss of {loss}"
    if case.means["form"] == "draw":
        drawn = [*outcome.value[0], outcome.value[1]]
        return "" if all(each in (0, 1, 2) for each in drawn) else f"draws {drawn}"
    cells, row = outcome.value
    p, q = world(_P), world(_Q)
    sums = [sum(each) for each in cells], [sum(each) for each in zip(*cells, strict=True)]
    if any(
        abs(found - want) > SINGLE
        for side, side_ in zip(sums, (_P, _Q), strict=True)
        for found, want in zip(side, side_, strict=True)
    ):
        return f"a joint law with the margins {sums}"
    return outside_bounds(p, q, 1, row, SINGLE)


def answer_of(case: Case, outcome: Outcome) -> bytes:
    """What was answered: what Python returned, what was printed, and what was written."""
    if case.source:
        return repr(outcome.value).encode()
    written = [outcome.files.get(name, b"") for name in case.means.get("compared", ())]
    return b"\n".join([outcome.stdout, *written])


def kept_answer(answer: bytes) -> str:
    """An answer as a case keeps it."""
    return base64.b64encode(zlib.compress(answer, 9)).decode()


def _undamaged(case: Case) -> bytes:
    return zlib.decompress(base64.b64decode(case.means["answer"]))
