"""Frames of polars."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_polars
from countermax._core.labels import BOOLEAN, NUMBER, OTHER, TEXT, Labels
from countermax.tables.frames._base import AbstractFrame, Block, Codes, Floats, same_labels, with_whole_numbers

pl = import_polars()


@final
class PolarsFrame(AbstractFrame):
    """A polars DataFrame."""

    @property
    def columns(self) -> list[Hashable]:
        """The names of the columns."""
        return self.native.columns

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.native.height

    def rows(self, start: int, stop: int) -> "PolarsFrame":
        """Some of the rows."""
        return PolarsFrame(self.native.slice(start, stop - start), self.first_row + start, self.where)

    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        """A column as indices into its distinct values; a missing one has the index -1."""
        if values.dtype.is_nested() or values.dtype == pl.Object:
            raise InputError(f"`outcome` must hold plain labels, got {values.dtype}")
        series = values.fill_nan(None) if values.dtype.is_float() else values
        uniques = series.drop_nulls().unique(maintain_order=True)
        codes = pl.Series(range(len(uniques)), dtype=pl.Int64)
        known = series.replace_strict(uniques, codes, default=None, return_dtype=pl.Int64)
        return known.fill_null(-1).to_numpy(), uniques.to_list()

    def kind_of(self, values: Any) -> str | None:
        """What a column's type says of its values; None where it says nothing."""
        dtype = values.dtype
        if dtype in (pl.String, pl.Categorical, pl.Enum):
            return TEXT
        if dtype in (pl.Null, pl.Object):
            return None
        return BOOLEAN if dtype == pl.Boolean else NUMBER if dtype.is_numeric() else OTHER

    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The categories of an Enum, which are ordered; of a Categorical none, for those depend on what came first."""
        return (values.dtype.categories.to_list(), True) if isinstance(values.dtype, pl.Enum) else (None, False)

    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        """A column of labels, in the type of the column `like`; missing where the code is negative."""
        try:
            array = pl.Series(with_whole_numbers(labels), dtype=like.dtype)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            array = None
        if array is None or not same_labels(labels, array.to_list()):
            array = pl.Series(labels.names)  # labels of a kind that the column cannot hold
        places = pl.Series(codes)
        return array.gather(pl.select(pl.when(places >= 0).then(places)).to_series())

    def for_classifiers(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> "PolarsFrame":
        """These rows themselves."""
        return self

    def features(self, names: Sequence[Hashable] | None, change: Mapping[str, Any]) -> Any:
        """Some of the columns as a DataFrame, with others in place of those in `change`."""
        chosen = self.native if names is None else self.native.select(names)
        if not change:
            return chosen
        columns = []
        for name, value in change.items():
            several = isinstance(value, pl.Series | np.ndarray | list | tuple)
            column = pl.Series(name, value) if several else pl.Series(name, [value]).new_from_index(0, self.num_rows)
            try:
                columns.append(column.cast(chosen[name].dtype) if not several else column)
            except pl.exceptions.PolarsError as error:
                raise InputError(
                    f"`change` must set {name!r} to a value of type {chosen[name].dtype}, got {value!r}"
                ) from error
        return chosen.with_columns(columns)

    def made(self, pieces: Sequence[Block | tuple[str, Any]], *, extend: bool) -> Any:
        """A DataFrame from blocks of numbers and single columns, behind this frame's own or alone."""
        columns = []
        for name, values in pieces:
            if isinstance(name, str):
                columns.append(pl.Series(name, values))
            else:
                columns += [pl.Series(each, row) for each, row in zip(name, values, strict=True)]
        return self.native.with_columns(columns) if extend else pl.DataFrame(columns)

    @staticmethod
    def from_columns(columns: Mapping[str, Sequence[Any]]) -> Any:
        """A new DataFrame."""
        return pl.DataFrame(dict(columns))

    @staticmethod
    def noted(native: Any, notes: Mapping[str, Any]) -> Any:
        """The DataFrame itself: polars has no place for notes."""
        return native

    def texts(self, values: Sequence[str | None]) -> Any:
        """A column of text."""
        return pl.Series(values, dtype=pl.String)

    def flags(self, values: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Any:
        """A column of booleans, some of them missing."""
        known, flags = pl.Series(~missing), pl.Series(values)
        return pl.select(pl.when(known).then(flags)).to_series()

    def _column(self, name: Hashable) -> Any:
        return self.native.get_column(name)

    def _own(self, argument: str, values: Any) -> Any:
        if isinstance(values, list | tuple) and len({type(value) is bool for value in values if value is not None}) > 1:
            raise InputError(f"`{argument}` must hold values of one type, got booleans among others")
        try:
            return values if isinstance(values, pl.Series) else pl.Series(argument, values)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            raise InputError(f"`{argument}` must hold values of one type: {str(error).splitlines()[0]}") from error

    def _index_of(self, row: int) -> str | None:
        return None

    def _numbers(self, name: Hashable) -> Floats | None:
        column = self.native.get_column(name)
        if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
            return None
        return column.cast(pl.Float64).to_numpy()
