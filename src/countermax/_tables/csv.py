"""CSV: cells are text, but for the columns that are asked for as numbers."""

import re
from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError, first_line
from countermax._core.labels import listed
from countermax._tables import text as _text
from countermax._tables.files import RECORD, AbstractTextTable
from countermax._tables.frames import arrow_array

_LF, _CR, _QUOTE, _COMMA = b'\n\r",'
# A quotation mark counts where a cell begins; within a quoted cell it stands twice. What follows the closing one
# belongs to the cell. That is how Arrow reads.
_CELL = re.compile(rb'("[^"]*(?:""[^"]*)*"(?!")[^,\r\n]*|[^",\r\n][^,\r\n]*|)(,|\r\n|\n|\r|\Z)')
_QUOTED = re.compile(rb'"([^"]*(?:""[^"]*)*)"(?!")(.*)', re.DOTALL)

Places = NDArray[np.int64]
Records = tuple[Places, Places]
"""Where the records of a block begin and end, without what ends their lines; empty lines are none."""


@final
class CsvTable(AbstractTextTable):
    """A table in a CSV file with a header."""

    kind = "csv"

    header: bytes
    """The first record as it stands in the file."""

    def _find_names(self) -> list[str]:
        for block, (starts, ends) in _text.blocks(self.path, _cut, _text.BLOCK_BYTES):
            if not len(starts):
                continue
            header = block.data[starts[0] : ends[0]]
            with self.path.open("rb") as file:
                mark = file.read(len(_text.BOM))
            self.header = _text.BOM + header if mark == _text.BOM else header
            self.newline = b"\r\n" if block.data.startswith(b"\r\n", ends[0]) else b"\n"
            names = cells_of(header)
            separator = next((each for each in ";\t|" if each in names[0]), None)
            if len(names) == 1 and separator is not None:
                raise InputError(f"{self.path} must be separated by commas, but its header has {separator!r} instead")
            return names
        raise InputError(f"{self.path} must begin with a line of column names, but is empty")

    def _tables(self) -> Iterator[Any]:
        first = True
        for block, (starts, ends) in _text.blocks(self.path, _cut, _text.BLOCK_BYTES):
            if first and len(starts):
                first, starts, ends = False, starts[1:], ends[1:]
            if not len(starts):
                continue
            table = self._parsed(block, starts, ends)
            if self._with_records:
                table = table.append_column(RECORD, _slices(self._pa, block.data, starts, ends))
            yield table

    def _parsed(self, block: _text.Block, starts: Places, ends: Places) -> Any:
        pa, csv = self._pa, self._pa.csv
        types = {name: pa.float64() if name in self._numbers else pa.string() for name in self._wanted}
        longest = int((ends - starts).max())
        rows = pa.py_buffer(block.data)[int(starts[0]) :]
        # A mark at the beginning of a cell, which Arrow would take for that of a file.
        if block.data.startswith(_text.BOM, starts[0]):
            rows = pa.py_buffer(b"\n" + rows.to_pybytes())
        try:
            table = csv.read_csv(
                pa.BufferReader(rows),
                read_options=csv.ReadOptions(column_names=self.names, block_size=max(2**20, 4 * longest)),
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=types,
                    include_columns=self._wanted,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            self._explain(block, starts, ends, error)
        if table.num_rows != len(starts):
            raise InputError(f"cannot read {self.path}: its quotation marks do not match; quote cells as RFC 4180 says")
        return table

    def _explain(self, block: _text.Block, starts: Places, ends: Places, error: Exception) -> NoReturn:
        """Finds out which line Arrow cannot read."""
        numbers = [(place, name) for place, name in enumerate(self.names) if name in self._numbers]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            cells = cells_of(block.data[start:end])
            where = f"cannot read {self.path}: line {block.line_at(start)}"
            if len(cells) != len(self.names):
                raise InputError(
                    f"{where} must have {len(self.names)} cells, as the header has, got {len(cells)}; quote a cell "
                    "that has a comma in it"
                ) from error
            for place, name in numbers:
                if not _is_number(cells[place]):
                    raise InputError(
                        f"{where}: column {name!r} must hold numbers, and nothing where one is missing, got "
                        f"{listed([cells[place]])}; name a column of numbers; if this one was taken for "
                        "probabilities, name the outcomes with `labels`"
                    ) from error
        raise InputError(f"cannot read {self.path}: {first_line(error)}") from error


def cells_of(record: bytes) -> list[str]:
    """The cells of one record."""
    cells: list[str] = []
    place, delimiter = 0, b","
    while delimiter == b",":
        match = _CELL.match(record, place)
        if match is None:  # a quoted cell that nothing closes
            return [*cells, record[place:].decode()]
        cell, delimiter, place = match[1], match[2], match.end()
        if quoted := _QUOTED.fullmatch(cell):
            cell = quoted[1].replace(b'""', b'"') + quoted[2]
        cells.append(cell.decode())
    return cells


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return "_" not in cell


def _cut(data: bytes, last: bool) -> tuple[int, Records]:
    """How many bytes are whole records, and where those are."""
    size = len(data)
    if last and not data.endswith((b"\n", b"\r")):
        data += b"\n"
    array = np.frombuffer(data, np.uint8)
    closing = array == _LF
    if b"\r" in data:
        lone = array == _CR
        lone[:-1] &= array[1:] != _LF
        lone[-1] &= last  # otherwise a line feed may follow
        closing |= lone
    newlines = np.flatnonzero(closing)
    if b'"' in data:
        quotes = np.flatnonzero(array == _QUOTE)
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0] if _tidy(array, quotes) else _scanned(data)
    if not len(newlines):
        return 0, (newlines, newlines)
    starts = np.append(0, newlines[:-1] + 1)
    ends = newlines - ((array[newlines] == _LF) & (newlines > 0) & (array[newlines - 1] == _CR))
    some = starts < ends
    return min(int(newlines[-1]) + 1, size), (starts[some], ends[some])


def _tidy(array: NDArray[np.uint8], quotes: Places) -> bool:
    """Whether every other quotation mark begins a cell, or repeats the one before it, and all others end one."""
    opening, closing = quotes[::2], quotes[1::2]
    before = np.where(opening > 0, array[opening - 1], _COMMA)
    after = np.where(closing + 1 < len(array), array[np.minimum(closing + 1, len(array) - 1)], _COMMA)
    return bool(np.isin(before, (_COMMA, _LF, _CR, _QUOTE)).all() and np.isin(after, (_COMMA, _LF, _CR, _QUOTE)).all())


def _scanned(data: bytes) -> Places:
    """Where records end, cell by cell: for cells with quotation marks where none belong."""
    ends, place = [], 0
    while match := _CELL.match(data, place):
        place = match.end()
        if match[2] in (b"\n", b"\r", b"\r\n"):
            ends.append(place - 1)
        elif match[2] == b"":
            break
    return np.asarray(ends, np.int64)


def _slices(pa: Any, data: bytes, starts: Places, ends: Places) -> Any:
    """The records as an Arrow array of bytes."""
    offsets = np.stack([starts, ends], axis=1).ravel()
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    with_gaps = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return with_gaps.take(arrow_array(np.arange(0, len(offsets) - 1, 2)))
