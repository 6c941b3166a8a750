"""Frames of pandas: the index is kept, and so are categories."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import BOOLEAN, NUMBER, OTHER, TEXT, Labels, identity, is_missing
from countermax.tables.frames._base import AbstractFrame, Block, Codes, Floats, same_labels

pd = import_pandas()

_TEXT = "str" if int(pd.__version__.partition(".")[0]) >= 3 else object  # before, "str" made words of missing values
_KINDS = {"b": BOOLEAN, "i": NUMBER, "u": NUMBER, "f": NUMBER, "M": OTHER, "m": OTHER, "U": TEXT, "S": OTHER}
_OF_ONE_KIND = ("string", "floating", "integer", "boolean", "empty")
_NUMBERS_IN_OBJECTS = ("floating", "integer", "mixed-integer-float", "decimal", "boolean", "empty")


@final
class PandasFrame(AbstractFrame):
    """A pandas DataFrame."""

    @property
    def columns(self) -> list[Hashable]:
        """The names of the columns."""
        if self.native.columns.nlevels > 1:
            raise InputError("`frame` must have one name for each column, got several levels; flatten them")
        return self.native.columns.tolist()

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.native)

    def rows(self, start: int, stop: int) -> "PandasFrame":
        """Some of the rows."""
        return PandasFrame(self.native.iloc[start:stop], self.first_row + start, self.where)

    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        """A column as indices into its distinct values; a missing one has the index -1."""
        try:
            if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) not in _OF_ONE_KIND:
                return _by_identity(values)
            codes, uniques = pd.factorize(values)
        except TypeError as error:
            raise InputError(
                f"`outcome` must hold plain labels, got values that cannot be compared ({error})"
            ) from error
        return np.asarray(codes, np.int64), uniques.tolist()

    def kind_of(self, values: Any) -> str | None:
        """What a column's type says of its values; None where it says nothing."""
        dtype = values.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            return self.kind_of(dtype.categories)
        if isinstance(dtype, pd.StringDtype):
            return TEXT
        return _KINDS.get(dtype.kind)

    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The categories of a column, and whether they are ordered."""
        if not isinstance(values.dtype, pd.CategoricalDtype):
            return None, False
        return values.dtype.categories.tolist(), bool(values.dtype.ordered)

    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        """A column of labels, in the type of the column `like`; missing where the code is negative."""
        dtype, values = like.dtype, list(labels.values)
        if isinstance(dtype, pd.CategoricalDtype):
            own = dtype.categories.tolist()
            places = labels.places(own)
            for category, place in zip(own, places, strict=True):
                if place >= 0:
                    values[place] = category
            more = [value for place, value in enumerate(values) if place not in places]
            dtype = pd.CategoricalDtype([*own, *more], dtype.ordered) if more else dtype
        try:
            array = pd.array(values, dtype=dtype)
        except (TypeError, ValueError, OverflowError):
            array = pd.array(values, dtype=object)
        if not same_labels(labels, array.tolist()):
            array = pd.array(values, dtype=object)  # labels of a kind that the column cannot hold
        elif (codes < 0).any() and dtype.kind in "biu" and not isinstance(dtype, pd.api.extensions.ExtensionDtype):
            array = pd.array(values)  # the type of the same name that can be missing
        return pd.Series(array.take(codes, allow_fill=True), index=self.native.index, dtype=array.dtype)

    def for_classifiers(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> "PandasFrame":
        """These rows themselves."""
        return self

    def features(self, names: Sequence[Hashable] | None, change: Mapping[str, Any]) -> Any:
        """Some of the columns as a DataFrame, with others in place of those in `change`."""
        chosen = self.native if names is None else self.native[list(names)]
        if not change:
            return chosen
        chosen = chosen.copy(deep=False)
        for name, value in change.items():
            column = pd.Series(value, index=chosen.index)
            if isinstance(chosen[name].dtype, pd.CategoricalDtype):
                column = column.astype(chosen[name].dtype)
                if column.isna().any():
                    raise InputError(f"`change` must set {name!r} to one of its categories, got {value!r}")
            chosen[name] = column
        return chosen

    def made(self, pieces: Sequence[Block | tuple[str, Any]], *, extend: bool) -> Any:
        """A DataFrame from blocks of numbers and single columns, behind this frame's own or alone."""
        parts = [self.native] if extend else []
        for name, values in pieces:
            if isinstance(name, str):
                parts.append(pd.Series(values, index=self.native.index, name=name).to_frame())
            else:
                parts.append(pd.DataFrame(values.T, columns=list(name), index=self.native.index, copy=False))
        return pd.concat(parts, axis=1)

    @staticmethod
    def from_columns(columns: Mapping[str, Sequence[Any]]) -> Any:
        """A new DataFrame."""
        return pd.DataFrame(dict(columns))

    @staticmethod
    def noted(native: Any, notes: Mapping[str, Any]) -> Any:
        """The DataFrame, with the notes in `attrs["countermax"]`."""
        native.attrs = {**native.attrs, "countermax": dict(notes)}
        return native

    def texts(self, values: Sequence[str | None]) -> Any:
        """A column of text."""
        return pd.Series(values, index=self.native.index, dtype=_TEXT)

    def flags(self, values: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Any:
        """A column of booleans, some of them missing."""
        return pd.arrays.BooleanArray(values, missing) if missing.any() else values

    def _column(self, name: Hashable) -> Any:
        return self.native[name]

    def _own(self, argument: str, values: Any) -> Any:
        if isinstance(values, pd.Series) and not values.index.equals(self.native.index):
            raise InputError(f"`{argument}` must have the index of the frame; align them, or pass its values")
        if isinstance(values, pd.Series | pd.Index):
            return values
        known = isinstance(values, pd.api.extensions.ExtensionArray | list | tuple)  # NumPy would make [1, "a"] texts
        return pd.Series(values if known else np.asarray(values))

    def _index_of(self, row: int) -> str | None:
        index = self.native.index
        return None if isinstance(index, pd.RangeIndex) else repr(index[row])

    def _numbers(self, name: Hashable) -> Floats | None:
        column = self.native[name]
        if column.dtype == object:
            if pd.api.types.infer_dtype(column, skipna=True) not in _NUMBERS_IN_OBJECTS:
                return None
        elif not pd.api.types.is_numeric_dtype(column.dtype):
            return None
        return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _by_identity(values: Any) -> tuple[Codes, list[Any]]:
    """As `pandas.factorize`, which takes 1 and True for one value."""
    places: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values.tolist()):
        known = -1 if is_missing(value) else places.setdefault(identity(value), len(distinct))
        if known == len(distinct):
            distinct.append(value)
        codes[row] = known
    return codes, distinct
