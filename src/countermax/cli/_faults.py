"""What a command prints to, and what it says when something goes wrong: one line; the traceback for those who ask."""

import codecs
import io
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TextIO

from countermax._core.errors import InputError
from countermax._core.files import reason_of
from countermax._core.interruption import stop_status, was_asked_to_stop

_VARIABLE = "COUNTERMAX_DEBUG"
_LONGEST = 2000
_BAD_INPUT, _FAULT = 2, 1
_wanted = False
_READER_GONE = 128 + 13  # what a shell says of a program that SIGPIPE ended
_PLAIN = {"±": "+/-", "…": "...", "→": "->", "←": "<-"}
_ERRORS = "countermax"
_SETTING = re.compile(r"\b([a-z_]+)=(?:True(?: \(--[a-z-]+\))?|'([a-z]+)')")  # as Python takes it
_ARGUMENT = re.compile(r"`(?:--)?([a-z_]+)`(?: \(--[a-z-]+\))?")
_METHODS = {"write_page": "page", "target": "out"}  # and the options that do the same


def want_traceback(wanted: bool) -> None:
    """Says whether faults come with a traceback; the variable COUNTERMAX_DEBUG asks for one as well."""
    global _wanted
    _wanted = wanted


def report(error: BaseException, options: Collection[str] = ()) -> int:
    """Prints what went wrong, as one line, of a command with these options; returns the exit status."""
    if _wanted or os.environ.get(_VARIABLE, "0") not in ("", "0"):
        sys.stderr.write("".join(traceback.format_exception(error)))
    line, status = _in_words(error, options)
    complain(line)
    return status


def complain(line: str) -> None:
    """One line on standard error, whatever is in it."""
    text = _printable(" ".join(line.split()))
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 403]} ... {text[-398:]}"
    sys.stderr.write(f"countermax: {text}\n")


def _in_words(error: BaseException, options: Collection[str]) -> tuple[str, int]:
    text = str(error)
    if isinstance(error, KeyboardInterrupt) or was_asked_to_stop():  # whatever the exception became on its way
        return text if text and isinstance(error, KeyboardInterrupt) else "interrupted", stop_status()
    if isinstance(error, InputError) or (isinstance(error, ImportError) and "pip install" in text):
        return in_options(text, options), _BAD_INPUT
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


def in_options(text: str, options: Collection[str]) -> str:
    """What is said of Python's arguments, said of a command's options that are called likewise."""

    def option(name: re.Match[str]) -> str:
        said = _METHODS.get(name[1], name[1])
        return f"--{said.replace('_', '-')}" if said in options else name[0]

    return _ARGUMENT.sub(option, _SETTING.sub(_as_option, text))


def _as_option(setting: re.Match[str]) -> str:
    name, value = setting.groups()
    return " ".join(filter(None, (f"--{name.replace('_', '-')}", value)))


def _printable(text: str) -> str:
    return "".join(
        letter if letter.isprintable() or "\udc80" <= letter <= "\udcff" else ascii(letter)[1:-1] for letter in text
    )


def prepare_streams() -> None:
    """Makes standard output and standard error safe to print to.

    Letters that the terminal lacks are spelled out, and names of files come out as the bytes that they are. A reader
    who has gone ends the command in silence. What is closed swallows everything: were it left so, the next file that
    is opened would take its place and be printed into.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error(_ERRORS, _spelled_out)
    sys.stdout = _safe(sys.stdout, "standard output")
    sys.stderr = _safe(sys.stderr, "standard error")


class _Stream(io.TextIOWrapper):
    """Ends the command where the text can go nowhere; `SystemExit` passes through every library."""

    called: str

    def write(self, text: str) -> int:
        with self._watched():
            return super().write(text)

    def flush(self) -> None:
        with self._watched():
            super().flush()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise SystemExit(_READER_GONE) from None
        except OSError as error:
            raise SystemExit(f"countermax: cannot write to {self.called}: {reason_of(error)}") from error


def _safe(stream: TextIO | None, called: str) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (it stays open to the end)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding, by_line, at_once = stream.encoding, stream.line_buffering, stream.write_through
    safe = _Stream(stream.detach(), encoding, _ERRORS, line_buffering=by_line, write_through=at_once)
    safe.called = called
    return safe


def _spelled_out(error: UnicodeError) -> tuple[bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return b"".join(map(_bytes_of, error.object[error.start : error.end])), error.end


def _bytes_of(letter: str) -> bytes:
    if "\udc80" <= letter <= "\udcff":  # a byte of a file's name that is not UTF-8
        return bytes([ord(letter) - 0xDC00])
    return _PLAIN.get(letter, letter).encode("ascii", "backslashreplace")
