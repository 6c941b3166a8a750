"""Consistency: who would have been treated as they were has the outcome that they had, whatever the coupling.

That two worlds have equal probabilities does not say so, since other circumstances may happen to have them too. It has
to be known from the change itself: it leaves what a row's outcome depends on as it was.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import BOOLEAN, NUMBER, identity, listed
from countermax._tables.frames import AbstractFrame, as_frame
from countermax.tables._probabilities import AbstractProbabilities, Predicted

Flags = NDArray[np.bool_]

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


def as_unchanged(frame: AbstractFrame, given: Any) -> Flags:
    """Which rows are left as they were, from a column or an array of booleans; in text files true and false."""
    is_name = isinstance(given, str | int) and not isinstance(given, bool)
    column = frame.column("unchanged", given) if is_name else frame.own("unchanged", given)
    codes, values = frame.factorised(column)
    if (codes < 0).any():
        row = frame.row_name(int((codes < 0).argmax()))
        raise InputError(f"`unchanged` must say true or false for every row, but is missing in {row}")
    known = np.array([_as_flag(value) for value in values], bool)
    return known[codes] if len(known) else np.zeros(len(codes), bool)


def unchanged_inputs(worlds: Sequence[AbstractProbabilities], inputs: Sequence[Any], rows: AbstractFrame) -> Flags:
    """Rows whose inputs are the same in both worlds, as far as the worlds are predicted and the change says so.

    Two classifiers may stand for two treatments, and a world in columns says nothing about how it came about.

    Args:
        worlds: The factual and the other world.
        inputs: Inputs of their classifiers; None where there is none.
        rows: The rows themselves.
    """
    factual, other = worlds
    none = np.zeros(rows.num_rows, bool)
    if not isinstance(other, Predicted):
        return none
    if isinstance(factual, Predicted):
        if factual.classifier is not other.classifier:
            return none
        columns = [*factual.change, *(name for name in other.change if name not in factual.change)]
        before = as_frame(inputs[0])
    else:
        columns, before = list(other.change), rows
        if not columns:
            return none
    after, same = as_frame(inputs[1]), ~none
    for name in columns:
        here = before if name in before.columns else rows
        there = after if name in after.columns else rows
        same &= _equal(here, there, name)
    return same


def _equal(here: AbstractFrame, there: AbstractFrame, name: Any) -> Flags:
    """Where two columns hold the same value; a missing one is the same as a missing one."""
    places: dict[Any, int] = {}
    found = []
    for frame in (here, there):
        codes, values = frame.factorised(frame.column("change", name))
        known = [places.setdefault(_as_input(value), len(places)) for value in values]
        found.append(np.array([*known, -1])[codes])
    return np.asarray(found[0] == found[1])


def _as_input(value: Any) -> Any:
    """What a classifier can tell apart: true is one to it."""
    kind, key = identity(value)
    return (NUMBER, key) if kind == BOOLEAN else (kind, key)


def _as_flag(value: Any) -> bool:
    kind, key = identity(value)
    text = str(key).strip().lower()
    if kind == BOOLEAN or text in (*_TRUE, *_FALSE) or (kind == NUMBER and key in (0, 1)):
        return bool(key) if kind in (BOOLEAN, NUMBER) else text in _TRUE
    raise InputError(f"`unchanged` must hold true and false only, got {listed([value])}")
