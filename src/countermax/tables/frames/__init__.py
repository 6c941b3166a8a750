"""Frames of pandas, polars and Arrow behind one small interface; a library is imported when a frame of it comes."""

from typing import Any

from countermax._core.errors import InputError
from countermax.tables.frames._base import AbstractFrame as AbstractFrame
from countermax.tables.frames._base import Block as Block
from countermax.tables.frames._base import Codes as Codes
from countermax.tables.frames._base import Floats as Floats
from countermax.tables.frames._base import Where as Where
from countermax.tables.frames._base import check_new_names as check_new_names


def as_frame(frame: Any, first_row: int = 0, where: Where | None = None) -> AbstractFrame:
    """The interface to a frame of any supported library.

    Args:
        frame: A frame, or a part of a longer one.
        first_row: Position of its first row in the longer one.
        where: Function that says which table that is, for a position in it.
    """
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(frame).__mro__}
    if ("pandas", "DataFrame") in kinds:
        from countermax.tables.frames._pandas import PandasFrame

        return PandasFrame(frame, first_row, where)
    if ("polars", "DataFrame") in kinds:
        from countermax.tables.frames._polars import PolarsFrame

        return PolarsFrame(frame, first_row, where)
    if ("pyarrow", "Table") in kinds:
        from countermax.tables.frames._arrow import ArrowFrame

        return ArrowFrame(frame, first_row, where)
    hint = "; collect() it first" if ("polars", "LazyFrame") in kinds else ""
    raise InputError(
        f"`frame` must be a pandas or polars DataFrame or an Arrow table, got {type(frame).__name__}{hint}"
    )
