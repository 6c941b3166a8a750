"""What must hold whatever was called: no traceback, one line for an error, no half output, inputs as they were."""

import re
from collections.abc import Iterable

from fuzz.case import Case, Failure
from fuzz.hands import Outcome

REFUSED = 2
_STATUSES = {0, REFUSED}
_UNHEARD = 141  # the answer is there, and nobody listened when it was told
_USAGE = re.compile("^(Usage: |╭─ Error ─)".encode(), re.MULTILINE)
_NOTICES = {  # what may be said beside an answer, by the option that it is about
    "--logits": re.compile(
        r"countermax: (`p`|`q`|--factual|--counterfactual) must hold logits, and looks like probabilities: .*"
    ),
    "--plot": re.compile(r"\S+ shows the ranking; with --episode it would show one story"),
}
_TRACE = re.compile(r"Traceback \(most recent call last\)|^\s+File \".*\", line \d+", re.MULTILINE)
_UNEXPECTED = ("fault of countermax", "out of memory")  # the last net, which nothing should reach
_HIDDEN = re.compile(r"(^|/)\.[^/]*$")
_LAST = re.compile(r"^\w[\w.]*(Error|Exception|Interrupt|Warning|Exit)\b.*$", re.MULTILINE)


def dirty(case: Case, outcome: Outcome, *, outputs: Iterable[str] = (), statuses: Iterable[int] = ()) -> Failure | None:
    """What is wrong before any number is looked at.

    Args:
        case: What was run.
        outcome: What came of it.
        outputs: Files, or folders with a slash at the end, that the call may write where it succeeds.
        statuses: Exit statuses beside 0 and 2 that the command has.
    """
    found = _process(case, outcome, {*_STATUSES, *statuses}) if case.argv else _python(outcome)
    return found or _folder(case, outcome, list(outputs))


def refused(outcome: Outcome) -> bool:
    """Whether the call was told in words that it cannot be answered."""
    return outcome.status not in (0, _UNHEARD, None) or "InputError" in outcome.error


def _process(case: Case, outcome: Outcome, statuses: set[int]) -> Failure | None:
    if outcome.trouble:
        return _troubled(outcome.trouble)
    err = outcome.stderr.decode("utf-8", "replace")
    if _TRACE.search(err) or "Traceback" in outcome.stdout.decode("utf-8", "replace"):
        return Failure("traceback", _last(err))
    if any(each in err for each in _UNEXPECTED) and outcome.status != 0:
        return Failure("unexpected", err.strip()[:300])
    cut = case.outside.get("stdout")
    if outcome.status not in statuses and not (cut and outcome.status in (1, 141)):
        return Failure("status", f"exit status {outcome.status}; {err.strip()[:200]}")
    told = [line for line in err.strip().splitlines() if not _is_notice(case, line)]
    if outcome.status == 0 and not cut:
        return Failure("noise", "\n".join(told)[:300]) if told else None
    if _USAGE.search(outcome.stderr):
        return None  # of the parser of options, which shows how a command is used
    if len(told) > 1 or not (told or cut):
        return Failure("not one line", repr(err[:300]))
    if outcome.status != 0 and "written" in outcome.stdout.decode("utf-8", "replace"):
        return Failure("partial output", "says that something was written, and fails")
    return None


def _is_notice(case: Case, line: str) -> bool:
    return any(
        word.partition("=")[0] == option and pattern.fullmatch(line)
        for word in case.argv
        for option, pattern in _NOTICES.items()
    )


def _python(outcome: Outcome) -> Failure | None:
    if not outcome.error:
        if outcome.trouble:
            return _troubled(outcome.trouble)
        return Failure("noise", "; ".join(outcome.warnings)) if outcome.warnings else None
    if not {"InputError", "EquinoxRuntimeError"} & set(outcome.error):
        return Failure("traceback", f"{outcome.error[0]}: {_last(outcome.trouble)}")
    if len(outcome.words.strip().splitlines()) != 1:
        return Failure("not one line", repr(outcome.words[:300]))
    return None


def _troubled(trouble: str) -> Failure:
    for kind in ("never ends", "died"):
        if trouble.startswith(kind):
            return Failure(kind, trouble)
    return Failure("traceback", _last(trouble))


def _last(trace: str) -> str:
    """The last line of a traceback with the place in the library that it came from."""
    places = re.findall(r'File ".*?/src/countermax/([^"]*)", line \d+, in (\w+)', trace)
    last = _LAST.findall(trace) and [each.group(0) for each in _LAST.finditer(trace)][-1]
    where = f" [{places[-1][0]}: {places[-1][1]}]" if places else ""
    return f"{(last or trace.strip().splitlines()[-1])[:200]}{where}"


def _folder(case: Case, outcome: Outcome, outputs: list[str]) -> Failure | None:
    succeeded = outcome.status in (0, _UNHEARD) or (not case.argv and not outcome.error)
    allowed = outputs if succeeded else []
    for name, content in outcome.files.items():
        if name in case.files:
            if content != case.files[name][: len(content)] or len(content) < min(len(case.files[name]), 2**26):
                if name in allowed:
                    continue
                return Failure("input changed", f"{name} is not what it was")
        elif _HIDDEN.search(name):
            return Failure("left behind", name)
        elif not any(name == each or (each.endswith("/") and name.startswith(each)) for each in allowed):
            kind = "left behind" if succeeded else "partial output"
            return Failure(kind, f"{name}, and exit status {outcome.status}")
    gone = [name for name in case.files if name not in outcome.files]
    if gone:
        return Failure("input changed", f"{gone[0]} is gone")
    if succeeded:
        missing = [each for each in outputs if not each.endswith("/") and each not in outcome.files]
        if missing:
            return Failure("partial output", f"{missing[0]} was not written, and exit status 0")
    return None
