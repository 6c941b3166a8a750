"""Settings that are dataclasses: every value checked against its field, in Python and in files alike."""

import math
from collections.abc import Mapping
from dataclasses import Field, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from countermax._core.errors import InputError
from countermax._core.quantities import as_amount, as_count, shown
from countermax._core.seeds import as_seed


def check_settings(settings: Any, *, prefix: str = "`", suffix: str = "`") -> None:
    """Checks every field of a dataclass.

    Args:
        settings: The dataclass.
        prefix: Text before the name of a field in a message.
        suffix: Text after it.
    """
    for field in fields(settings):
        check_setting(f"{prefix}{field.name}{suffix}", field, getattr(settings, field.name))


def check_setting(name: str, field: "Field[Any]", value: Any) -> None:
    """One value against the type of its field and its metadata: `choices`, `least`, `above`, `seed`.

    Args:
        name: Name in error messages.
        field: Field of the dataclass.
        value: Value that was given.
    """
    kinds = get_args(field.type) if get_origin(field.type) is UnionType else (field.type,)
    if value is None and NoneType in kinds:
        return
    kind, limits = kinds[0], field.metadata
    if kind is str:
        if not isinstance(value, str) or value not in limits["choices"]:
            raise InputError(f"{name} must be one of {', '.join(limits['choices'])}, got {shown(value)}")
    elif kind is bool:
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {shown(value)}")
    elif kind is int:
        if "seed" in limits:
            as_seed(name.strip("`"), value)
        else:
            as_count(name, value, least=limits["least"])
    elif kind is float:
        as_amount(name, value, **_only(limits, "above", "least"))
    elif kind == tuple[int, ...]:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list of positive whole numbers, got {shown(value)}")
        for each in value:
            as_count(f"every entry of {name}", each)
    elif kind == list[float]:
        check_numbers(name, value)
    else:
        check_rows(name, value)


def check_numbers(name: str, value: Any, *, finite: bool = False) -> None:
    """A list of numbers; infinities among them are for the caller to judge unless all must be finite."""
    if not isinstance(value, list) or not value:
        raise InputError(f"{name} must be a list of numbers, got {shown(value)}")
    for each in value:
        try:
            number = math.nan if isinstance(each, bool) or not isinstance(each, int | float) else float(each)
        except OverflowError:
            number = math.nan
        if math.isnan(number) or (finite and math.isinf(number)):
            raise InputError(f"{name} must be a list of numbers, but {shown(each)} is among them")


def check_rows(name: str, value: Any) -> None:
    """A list of finite numbers, or of such lists that have one length."""
    if not isinstance(value, list) or not value:
        raise InputError(f"{name} must be a list of numbers, or of lists of numbers, got {shown(value)}")
    if not isinstance(value[0], list):
        check_numbers(name, value, finite=True)
        return
    for row in value:
        check_numbers(f"every entry of {name}", row, finite=True)
    lengths = sorted({len(row) for row in value})
    if len(lengths) > 1:
        raise InputError(f"the lists in {name} must have one length, got {', '.join(map(str, lengths[:5]))}")


def _only(limits: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: limits[name] for name in names if name in limits}
