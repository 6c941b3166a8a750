"""Counts, amounts and seeds that a person chose: one rule and one wording for all of them."""

import math
import operator
from collections.abc import Iterable
from typing import Any

from countermax._core.errors import InputError

MOST = 2**31 - 1
"""Counts are steps, sizes and indices in compiled code, which has 32 bits for them."""

MOST_SEED = 2**32 - 1
"""JAX keeps 32 bits of a seed, so a larger one would silently be another one."""


def as_count(name: str, value: Any, *, least: int = 1, most: int = MOST) -> int:
    """A whole number."""
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None:
        raise InputError(f"{name} must be a whole number, got {shown(value)}")
    if count < least:
        raise InputError(f"{name} must be at least {least}, got {shown(count)}")
    if count > most:
        raise InputError(f"{name} must be at most {most}, got {shown(count)}")
    return count


def as_amount(
    name: str, value: Any, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> float:
    """A finite real number."""
    try:
        amount = None if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        amount = None
    if amount is None or not math.isfinite(amount):
        raise InputError(f"{name} must be a finite number, got {shown(value)}")
    if above is not None and not amount > above:
        raise InputError(f"{name} must be above {above}, got {shown(value)}")
    if least is not None and amount < least:
        raise InputError(f"{name} must be at least {least}, got {shown(value)}")
    if most is not None and amount > most:
        raise InputError(f"{name} must be at most {most}, got {shown(value)}")
    return amount


def as_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")
    return value


def as_flag(name: str, value: Any) -> bool:
    """True or false, and nothing that only counts as one of them."""
    if type(value) is not bool:
        raise InputError(f"{name} must be true or false, got {shown(value)}")
    return value


MOST_SHOWN = 60
"""Characters of a value in a message."""


def shown(value: Any) -> str:
    """Anything in a message: short, and never an error of its own; a number of NumPy's as Python writes it."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # thousands of digits, which Python does not print, or thousands of brackets
        return "a number with thousands of digits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def as_seed(argument: str, value: Any) -> int:
    """A seed from 0 to 2**32 - 1."""
    try:
        seed = operator.index(value)
    except TypeError:
        seed = -1
    if isinstance(value, bool) or not 0 <= seed <= MOST_SEED:
        raise InputError(f"`{argument}` must be a whole number from 0 to {MOST_SEED}, got {shown(value)}")
    return seed
