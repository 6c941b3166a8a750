"""What a command prints to: whatever the terminal can show, whoever reads it, and if it is closed."""

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_READER_GONE = 128 + 13  # what a shell says of a program that SIGPIPE ended
_PLAIN = {"±": "+/-", "…": "...", "→": "->", "←": "<-"}
_ERRORS = "countermax"


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
            reason = (error.strerror or str(error)).lower()
            raise SystemExit(f"countermax: cannot write to {self.called}: {reason}") from error


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
