"""Everything that can go wrong, in one line; the traceback only for those who ask for it."""

import os
import sys
import traceback

from countermax._core.errors import InputError
from countermax._core.files import reason_of
from countermax._core.interruption import stop_status, was_asked_to_stop

_VARIABLE = "COUNTERMAX_DEBUG"
_LONGEST = 2000
_BAD_INPUT, _FAULT = 2, 1
_wanted = False


def want_traceback(wanted: bool) -> None:
    """Says whether faults come with a traceback; the variable COUNTERMAX_DEBUG asks for one as well."""
    global _wanted
    _wanted = wanted


def report(error: BaseException) -> int:
    """Prints what went wrong, as one line; returns the exit status."""
    if _wanted or os.environ.get(_VARIABLE, "0") not in ("", "0"):
        sys.stderr.write("".join(traceback.format_exception(error)))
    line, status = _in_words(error)
    complain(line)
    return status


def complain(line: str) -> None:
    """One line on standard error, whatever is in it."""
    sys.stderr.write(f"countermax: {_shortened(_printable(' '.join(line.split())))}\n")


def _in_words(error: BaseException) -> tuple[str, int]:
    text = str(error)
    if isinstance(error, KeyboardInterrupt) or was_asked_to_stop():  # whatever the exception became on its way
        return text if text and isinstance(error, KeyboardInterrupt) else "interrupted", stop_status()
    if isinstance(error, InputError) or (isinstance(error, ImportError) and "pip install" in text):
        return text, _BAD_INPUT
    if isinstance(error, OSError):
        return f"{error.filename}: {reason_of(error)}" if error.filename else reason_of(error), _BAD_INPUT
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return "out of memory; ask for less at once, or use a machine with more memory (--debug shows where)", _FAULT
    if isinstance(error, RecursionError):
        return "the input is nested too deeply; make it flatter (--debug shows where)", _BAD_INPUT
    if isinstance(error, UnicodeDecodeError):
        found = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        return f"the input must be UTF-8 text, got {found}; save it as UTF-8 (--debug shows where)", _BAD_INPUT
    if isinstance(error, UnicodeEncodeError):
        return "names must be valid UTF-8 here; rename the file or the label (--debug shows where)", _BAD_INPUT
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"unexpected {what}; this is a fault of countermax: run it again with --debug and report both", _FAULT


def _printable(text: str) -> str:
    return "".join(
        letter if letter.isprintable() or "\udc80" <= letter <= "\udcff" else ascii(letter)[1:-1] for letter in text
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 403]} ... {text[-398:]}"
