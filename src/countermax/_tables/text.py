"""Text files in blocks of whole records: checked to be UTF-8, and every complaint names the line."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from countermax._core.errors import InputError

BLOCK_BYTES = 2**24  # that are looked at at a time
BOM = b"\xef\xbb\xbf"

_MARKS = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")

T = TypeVar("T")


class Block(NamedTuple):
    """Whole records of a file."""

    data: bytes
    line: int
    """The number of its first line, counted from 1."""

    def line_at(self, place: int) -> int:
        """The number of the line that a byte is in."""
        return self.line + _count_lines(self.data[:place])


def blocks(path: Path, cut: Callable[[bytes, bool], tuple[int, T]], size: int) -> Iterator[tuple[Block, T]]:
    """Blocks of about `size` bytes, and what was found out about each while it was cut.

    `cut` is a function of bytes that begin with a record, and of whether the file ends with them: it says how many of
    them are whole records, and what else it found out.
    """
    with path.open("rb") as file:
        waiting, offset, line, more = b"", 0, 1, size
        while True:
            found = file.read(more)
            data, last = waiting + found, len(found) < more
            if offset == 0 and line == 1:
                _check_beginning(path, data)
                if data.startswith(BOM):
                    data, offset = data[len(BOM) :], len(BOM)
            if last and not data:
                return
            end, known = cut(data, last)
            if end:
                block = Block(data[:end], line)
                _check_text(path, block, offset)
                yield block, known
                offset, line = offset + end, line + _count_lines(block.data)
            waiting = data[end:]
            if last and waiting:
                raise InputError(
                    f"{path} must close every quoted cell, but ends in one of a row that begins in line {line}"
                )
            more = size if end else len(data)  # a record that is longer than a block: look twice as far


def _check_beginning(path: Path, data: bytes) -> None:
    for mark, packed in _MARKS.items():
        if data.startswith(mark):
            raise InputError(f"{path} must be text, but is compressed ({packed}); unpack it first")
    if data.startswith(_UTF16):
        raise InputError(f"{path} must be UTF-8, but is UTF-16; {_conversion(path, 'UTF-16')}")


def _check_text(path: Path, block: Block, offset: int) -> None:
    if (place := block.data.find(b"\0")) >= 0:
        raise InputError(
            f"{path} must be text, but line {block.line_at(place)} has a NUL byte (byte {offset + place} of the file); "
            "it is damaged, or UTF-16"
        )
    if block.data.isascii():
        return
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        byte = block.data[error.start]
        raise InputError(
            f"{path} must be UTF-8, but line {block.line_at(error.start)} has the byte 0x{byte:02x} (byte "
            f"{offset + error.start} of the file, {chr(byte)!r} in Latin-1); {_conversion(path, 'LATIN1')}"
        ) from error


def _conversion(path: Path, coding: str) -> str:
    return f"convert it, for instance: iconv -f {coding} -t UTF-8 {path} > utf8{path.suffix}"


def _count_lines(data: bytes) -> int:
    """Lines that end: by a line feed, a carriage return, or both."""
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)
