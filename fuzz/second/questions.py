"""The rows of a table as questions: which outcome was seen, and how likely outcomes are in both worlds."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fuzz.second.laws import World, world
from fuzz.second.reading import MustRefuseError, Sheet, Token, UnsureError, number

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Question:
    """One row that can be answered."""

    x: int
    p: World
    q: World


@dataclass(frozen=True)
class Table:
    """Every row's question; None where a row has none."""

    labels: list[str]
    """As the command line, or the names of columns, write them."""
    questions: list[Question | None]
    read: set[str]
    """Columns that were read for their numbers."""


def words(text: str) -> list[str]:
    """Words separated by commas, as on the command line: spaces around one count where it stands in quotes."""
    try:
        cells = next(csv.reader([text], skipinitialspace=True))
    except (StopIteration, csv.Error):
        raise UnsureError("no words") from None
    return [cell if '"{}"'.format(cell.replace('"', '""')) in text else cell.strip() for cell in cells]


def numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise MustRefuseError(f"{text!r} are no numbers") from None


def _pairs(text: str) -> list[tuple[str, str, str]]:
    """What stands before and after each equals sign."""
    parts = words(text)
    if any(word != word.strip() for word in parts):
        raise UnsureError("spaces in quotes")
    return [word.partition("=") for word in parts]


def scores(text: str, labels: Sequence[str], kind: str) -> list[float]:
    """A number for each label: by label, or in their order."""
    if "=" in text:
        pairs = _pairs(text)
        if any(not (label and equals) for label, equals, _ in pairs):
            raise MustRefuseError("no label=number")
        names = [label.strip() for label, _, _ in pairs]
        if len({same(name, kind) for name in names}) != len(names):
            raise MustRefuseError("a label twice")
        found = {same(label.strip(), kind): numbers(value)[0] for label, _, value in pairs}
        if set(found) != {same(label, kind) for label in labels}:
            raise MustRefuseError("other labels")
        values = [found[same(label, kind)] for label in labels]
    else:
        values = numbers(text)
    if len(values) != len(labels) or not all(abs(each) <= 1e100 for each in values):
        raise MustRefuseError("not a finite number for each label")
    return values


def same(text: str, kind: str) -> Any:
    """A label by which it is compared: in a column of numbers by its value, elsewhere by its characters."""
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            raise UnsureError(f"label {text!r} in a column of numbers") from None
    if kind == "boolean":
        if text not in ("True", "False"):
            raise UnsureError(f"label {text!r} in a column of booleans")
        return text == "True"
    return text


def kind_of(sheet: Sheet, cells: Sequence[Any]) -> str:
    """What a column of outcomes holds: text, numbers or booleans."""
    if sheet.kind != "parquet":
        if any(isinstance(each, Token) and each.text in ("true", "false") for each in cells):
            raise UnsureError("true and false as outcomes in JSON")
        if any(isinstance(each, list | dict) for each in cells):
            raise MustRefuseError("a nested outcome")
        return "text"
    known = [each for each in cells if each is not None]
    if all(isinstance(each, str) for each in known):
        return "text"
    if all(isinstance(each, bool) for each in known):
        return "boolean"
    if all(isinstance(each, int | float) for each in known):
        return "number"
    raise UnsureError("outcomes of another type")


def read_questions(
    sheet: Sheet,
    *,
    outcome: str,
    factual: str,
    counterfactual: str,
    labels: str | None,
    normalise: bool,
    errors: str,
) -> Table:
    """What a file of rows asks."""
    if errors not in ("raise", "missing"):
        raise MustRefuseError("no such way with errors")
    given = None if labels is None else words(labels)
    cells = sheet.column(outcome)
    kind = kind_of(sheet, cells)
    first = _columns(sheet, factual, given)
    second = _columns(sheet, counterfactual, given)
    names = given or [label for label, _ in first if label is not None] or [label for label, _ in second if label]
    if not names:
        raise UnsureError("nothing names the outcomes")
    keys = [same(label, kind) for label in names]
    if len(set(keys)) != len(keys):
        raise MustRefuseError("a label twice")
    worlds = [_in_order(columns, names, keys, kind) for columns in (first, second)]
    for each in (name for world_ in worlds for name in world_):
        sheet.place(each)
        _check_type(sheet, each)
    found: list[Question | None] = []
    try:
        values = [[_numbers(sheet, name) for name in world_] for world_ in worlds]
    except MustRefuseError as error:
        if errors == "missing":
            raise UnsureError(f"a row that is no question, or a file that is no table: {error}") from None
        raise
    for row, cell in enumerate(cells):
        ask = _question(cell, keys, [[column[row] for column in each] for each in values], normalise)
        if ask is None and errors == "raise":
            raise MustRefuseError(f"row {row} cannot be answered")
        found.append(ask)
    return Table(names, found, {name for world_ in worlds for name in world_})


def _columns(sheet: Sheet, text: str, labels: Sequence[str] | None) -> list[tuple[str | None, str]]:
    """Labels, where they are told, and columns."""
    parts = words(text)
    if "=" in text:
        pairs = [word.partition("=") for word in parts]
        if any(not (label and equals) for label, equals, _ in pairs):
            raise MustRefuseError("no label=column")
        names = [label.strip() for label, _, _ in pairs]
        if len(set(names)) != len(names):
            raise MustRefuseError("a label twice")
        return [(label.strip(), column.strip()) for label, _, column in pairs]
    if len(parts) > 1:
        if labels is None:
            raise UnsureError("columns without labels")
        return [(None, column) for column in parts]
    if labels is not None:
        wanted = [(label, text + label) for label in labels]
        if all(column in sheet.columns for _, column in wanted):
            return wanted
        raise UnsureError("labels that are written another way in the names of columns, or are missing")
    found = [(name.removeprefix(text), name) for name in sheet.columns if name.startswith(text) and name != text]
    if not found:
        raise MustRefuseError(f"no column begins with {text!r}")
    return list(found)


def _in_order(columns: list[tuple[str | None, str]], names: list[str], keys: list[Any], kind: str) -> list[str]:
    if all(label is None for label, _ in columns):
        if len(columns) != len(names):
            raise MustRefuseError("not a column for each label")
        return [column for _, column in columns]
    by_key = {same(str(label), kind): column for label, column in columns}
    if set(by_key) != set(keys) or len(by_key) != len(columns):
        raise MustRefuseError("other labels in the two worlds")
    return [by_key[key] for key in keys]


def _check_type(sheet: Sheet, name: str) -> None:
    """Where a format tells texts from numbers a text is no number, whatever it says."""
    cells = [] if sheet.kind == "csv" else sheet.column(name)
    if any(isinstance(cell, str) for cell in cells):
        raise MustRefuseError(f"{name!r} holds texts")
    if sheet.kind == "parquet" and all(cell is None for cell in cells):
        raise UnsureError(f"{name!r} holds nothing, of whatever type")


def _numbers(sheet: Sheet, name: str) -> list[float | None]:
    return [number(cell) for cell in sheet.column(name)]


def _question(cell: Any, keys: list[Any], worlds: list[list[float | None]], normalise: bool) -> Question | None:
    """What a row asks; None where it has no answer."""
    value = cell.text if isinstance(cell, Token) else cell
    if value is None or value != value:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = float(value)
    exact = []
    for values in worlds:
        if any(each is None or each < 0 or math.isinf(each) for each in values):
            return None
        known = [Fraction(each) for each in values if each is not None]
        total = sum(known)
        if not total:
            return None
        if total > Fraction(10) ** 300:
            raise UnsureError("sums at the limits of double precision")
        off = abs(float(total) - 1)
        if not normalise:
            if abs(off - _SUM_TOLERANCE) < 1e-9:
                raise UnsureError("at the limit of what sums to one")
            if off > _SUM_TOLERANCE:
                return None
        elif float(total) < 1e-300:
            raise UnsureError("sums at the limits of double precision")
        if any(each and float(each / total) < 5e-308 for each in known):
            raise UnsureError("a probability below double precision")
        exact.append(world(known))
    if value not in keys:
        return None
    x = keys.index(value)
    return Question(x, *exact) if exact[0][x] else None
