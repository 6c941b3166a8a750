"""JSON lines: an object in each line; a value is the exact characters of its token, of a string what it says."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax._tables import text as _text
from countermax._tables.files import BARE, RECORD, AbstractTextTable, MoreColumnsError

BLOCK_BYTES = 2**22  # an object of Python takes many times the memory of its text

_SPACE = " \t\r"


class _Members(list[tuple[str, Any]]):
    """The members of an object, in their order."""

    __slots__ = ()


# Numbers stay as they are written: bytes, which no other value is. NaN and the infinities, which JSON does not have but
# many programs write, are taken for numbers.
_decode = json.JSONDecoder(
    parse_int=str.encode, parse_float=str.encode, parse_constant=str.encode, object_pairs_hook=_Members
).raw_decode


@final
class JsonLinesTable(AbstractTextTable):
    """A table in a file with a JSON object in each line."""

    kind = "jsonl"

    def _find_names(self) -> list[str]:
        """The names in the first block; should others follow, reading begins again with all of them."""
        for block, lines in self._blocks():
            names = {name: None for row in self._objects(block, lines) for name in row}
            if lines:
                self.newline = b"\r\n" if block.data.partition(b"\n")[0].endswith(b"\r") else b"\n"
                return list(names)
        raise InputError(f"{self.path} must have a JSON object in each line, but is empty")

    def _tables(self) -> Iterator[Any]:
        pa = self._pa
        known = set(self.names)
        for block, lines in self._blocks():
            rows = self._objects(block, lines)
            if not all(known.issuperset(row) for row in rows):
                every = (row for block, lines in self._blocks() for row in self._objects(block, lines))
                self.names = list({name: None for row in every for name in row})
                self._check_names()
                new = listed(name for name in self.names if name not in known)
                raise MoreColumnsError(
                    f"cannot read {self.path}: its first rows must have all columns, but have no {new}"
                )
            columns: dict[str, Any] = {}
            for name in self._wanted:
                values = [row.get(name) for row in rows]
                if name in self._numbers:
                    columns[name] = self._as_numbers(block, name, values)
                    continue
                if name == self._outcome:
                    columns[BARE] = pa.array([type(value) is not str for value in values], pa.bool_())
                    values = self._labels(block, name, values)
                texts = [value if value is None or isinstance(value, str) else _nested(value) for value in values]
                columns[name] = self._as_texts(block, name, texts)
            if self._with_records:
                both = zip(lines, rows, strict=True)
                heads = [line[:-1].rstrip(_SPACE) + (", " if row else "") for line, row in both]
                columns[RECORD] = pa.array(heads, pa.large_string()).cast(pa.large_binary())
            yield pa.table(columns)

    def _blocks(self) -> Iterator[tuple[_text.Block, list[str]]]:
        """Blocks, and their lines but for empty ones."""
        for block, _ in _text.blocks(self.path, _cut, BLOCK_BYTES):
            lines = [line.strip(_SPACE) for line in block.data.decode().split("\n")]
            yield block, [line for line in lines if line]

    def _objects(self, block: _text.Block, lines: Sequence[str]) -> list[dict[str, Any]]:
        rows = []
        for place, line in enumerate(lines):
            try:
                value, end = _decode(line)
            except (ValueError, RecursionError) as error:
                reason = "it is nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", None)
                self._refuse(block, place, f"must hold a JSON object, got {listed([line])}", reason)
            if end < len(line) or type(value) is not _Members:
                self._refuse(block, place, f"must hold one JSON object, got {listed([line])}")
            row = dict(value)
            if len(row) < len(value):
                names = [name for name, _ in value]
                twice = next(name for name in names if names.count(name) > 1)
                self._refuse(block, place, f"must have each name once, but has {twice!r} twice")
            rows.append(row)
        return rows

    def _labels(self, block: _text.Block, name: str, values: Sequence[Any]) -> list[Any]:
        """Outcomes, which must not be lists or objects; NaN is a missing one."""
        if list in (kinds := set(map(type, values))) or _Members in kinds:
            place = next(at for at, value in enumerate(values) if isinstance(value, list))
            self._refuse(block, place, f"must have a label in {name!r}, got {listed([_nested(values[place])])}")
        return [None if value == b"NaN" else value for value in values]

    def _as_numbers(self, block: _text.Block, name: str, values: Sequence[Any]) -> Any:
        if not set(map(type, values)) <= {bytes, bool, type(None)}:
            place = next(at for at, value in enumerate(values) if isinstance(value, str | list))
            rule = f"must have a number in {name!r}, and null where one is missing, got "
            self._refuse(block, place, rule + _shown(values[place]))
        numbers = (np.nan if value is None else float(value) for value in values)
        return self._pa.array(np.fromiter(numbers, np.float64, len(values)), from_pandas=True)

    def _as_texts(self, block: _text.Block, name: str, texts: Sequence[str | None]) -> Any:
        try:
            return self._pa.array(texts, self._pa.string())
        except UnicodeEncodeError:  # half of a surrogate pair
            halves = (any("\ud800" <= each <= "\udfff" for each in text or "") for text in texts)
            place = next(at for at, half in enumerate(halves) if half)
            self._refuse(block, place, f"must have text in {name!r} that is Unicode, got half of a surrogate pair")

    def _refuse(self, block: _text.Block, place: int, rule: str, reason: str | None = None) -> NoReturn:
        """Says in words what is wrong with one of the lines that are not empty."""
        filled = [number for number, line in enumerate(block.data.decode().split("\n")) if line.strip(_SPACE)]
        why = "" if reason is None else f" ({reason.lower()})"
        raise InputError(f"cannot read {self.path}: line {block.line + filled[place]} {rule}{why}")


def _cut(data: bytes, last: bool) -> tuple[int, None]:
    return (len(data) if last else data.rfind(b"\n") + 1), None


def _nested(value: Any) -> str:
    """JSON again, numbers as they were written."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, _Members):
        return "{" + ", ".join(f"{_nested(name)}: {_nested(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    return listed([value]) if isinstance(value, str) else listed([_nested(value)]).strip("'")
