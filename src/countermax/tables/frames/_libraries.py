"""Which library a frame comes from; none of them is imported to find out."""

from typing import Any

from countermax._core.errors import InputError
from countermax.tables.frames._base import AbstractFrame


def as_frame(frame: Any) -> AbstractFrame:
    """The interface to a frame of any supported library."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(frame).__mro__}
    if ("pandas", "DataFrame") in kinds:
        from countermax.tables.frames._pandas import PandasFrame

        return PandasFrame(frame)
    if ("polars", "DataFrame") in kinds:
        from countermax.tables.frames._polars import PolarsFrame

        return PolarsFrame(frame)
    if ("pyarrow", "Table") in kinds:
        from countermax.tables.frames._arrow import ArrowFrame

        return ArrowFrame(frame)
    hint = "; collect() it first" if ("polars", "LazyFrame") in kinds else ""
    raise InputError(
        f"`frame` must be a pandas or polars DataFrame or an Arrow table, got {type(frame).__name__}{hint}"
    )
