"""Frames of pandas, polars and Arrow behind one small interface; a library is imported when a frame of it comes.

What the libraries have in common goes through narwhals. What they do differently, and what our laws are about, stands
below: which values are missing, which labels a column can hold, what becomes of an index and of categories.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from difflib import get_close_matches
from itertools import repeat
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError, refusing
from countermax._core.extras import import_pandas, import_polars, import_pyarrow
from countermax._core.labels import BOOLEAN, NUMBER, OTHER, TEXT, Labels, identity, is_missing, listed, looks

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]
Columns = tuple[Sequence[str], Floats]
"""Names, and one row of numbers for each of them."""
Where = Callable[[int], tuple[int, str]]
"""What a message says of a row: its position in what it comes from, and which file or row group that is."""


def as_frame(frame: Any, first_row: int = 0, where: Where | None = None) -> "AbstractFrame":
    """The interface to a frame of any supported library.

    It may be a part of a longer table: messages count from its first row there, and `where` says which table that is.
    """
    import narwhals as nw  # where the first frame comes

    kinds = "`frame` must be a pandas or polars DataFrame or an Arrow table"
    if type(frame).__name__ == "LazyFrame":
        raise InputError(f"{kinds}, got LazyFrame; collect() it first")
    names: Any = getattr(frame, "column_names", None) or getattr(frame, "columns", ())
    if getattr(names, "nlevels", 1) > 1:
        raise InputError("`frame` must have one name for each column, got several levels; flatten them")
    try:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"`frame` must have each column once, but has {listed(twice)} twice; rename one of them")
        wrapped = nw.from_native(frame, eager_only=True)
        kind = _KINDS[wrapped.implementation.name]
    except (TypeError, KeyError) as error:
        raise InputError(f"{kinds}, got {type(frame).__name__}") from error
    return kind(wrapped, first_row, where)


def no_column(argument: str, name: Hashable, columns: Sequence[Hashable]) -> str:
    """That there is no such column, and which one may be meant."""
    alike = next((f"; {each!r} differs in how it is written" for each in columns if looks(each) == looks(name)), "")
    if near := () if alike else get_close_matches(str(name), [str(each) for each in columns], 1, 0.75):
        alike = f"; is {near[0]!r} meant?"
    if isinstance(name, str) and {part.strip() for part in name.split(",")} <= {*columns}:
        alike = "; name several columns by a list"
    return f"`{argument}` must name a column, got {name!r}; the columns are {listed(columns)}{alike}"


class AbstractFrame(ABC):
    """A frame, or some of its rows. Columns that go in and out are columns of its library."""

    def __init__(self, wrapped: Any, first_row: int = 0, where: Where | None = None):
        self._frame, self.first_row, self.where = wrapped, first_row, where
        self.native: Any = wrapped.to_native()
        self.untyped = False  # all but numbers that were asked for is text, because a text file has no types
        self.columns: list[Hashable] = list(wrapped.columns)
        self._names = frozenset(self.columns)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._frame)

    def rows(self, start: int, stop: int) -> "AbstractFrame":
        """Some of the rows."""
        return type(self)(self._frame[start:stop], self.first_row + start, self.where)

    def column(self, argument: str, name: Hashable) -> Any:
        """A column by its name, which must be there."""
        if name in self._names:
            return self.native[name]
        raise InputError(no_column(argument, name, self.columns))

    def own(self, argument: str, values: Any) -> Any:
        """An array or column of values that has one for each row, as a column of this library."""
        column = self._own(argument, values)
        if len(column) != self.num_rows:
            raise InputError(f"`{argument}` must have one value for each of {self.num_rows} rows, got {len(column)}")
        return column

    def kind_of(self, values: Any) -> str | None:
        """What a column's type says of its values (`countermax._core.labels.TEXT`, ...); None where it says nothing."""
        import narwhals as nw

        dtype = nw.from_native(values, series_only=True).dtype
        if isinstance(dtype, nw.Categorical | nw.Enum):
            return self._kind_of_categories(values)
        if isinstance(dtype, nw.Object | nw.Unknown):
            return None
        if isinstance(dtype, nw.String):
            return TEXT
        return BOOLEAN if isinstance(dtype, nw.Boolean) else NUMBER if dtype.is_numeric() else OTHER

    def numbers(self, argument: str, names: Sequence[Hashable]) -> Floats:
        """Columns of numbers side by side; NaN where one is missing."""
        result = np.empty((self.num_rows, len(names)))
        for place, name in enumerate(names):
            column = self.column(argument, name)
            numbers = self._numbers(column)
            if numbers is None:
                kind = self.kind_of(column) or getattr(column, "dtype", None) or getattr(column, "type", None)
                raise InputError(f"`{argument}` must name columns of numbers, but column {name!r} holds {kind}")
            result[:, place] = numbers
        return result

    def row_name(self, row: int) -> str:
        """How a message calls a row."""
        index = getattr(self.native, "index", None)  # of pandas
        named = "" if index is None or type(index).__name__ == "RangeIndex" else f", index {index[row]!r}"
        number, place = self.place(row)
        return f"row {number} (counted from 0{named}){place}"

    def place(self, row: int) -> tuple[int, str]:
        """The position of a row in the table that it comes from, and of which one that is."""
        number, name = (self.first_row + row, "") if self.where is None else self.where(self.first_row + row)
        return number, f" of {name}" if name else ""

    def to_arrow(self) -> Any:
        """The frame as an Arrow table."""
        import_pyarrow()
        return self._frame.to_arrow()

    @abstractmethod
    def texts(self, values: Sequence[str | None]) -> Any:
        """A column of text."""

    @abstractmethod
    def features(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> Any:
        """Some of the columns as a frame that classifiers read, with others in place of those in `change`."""

    @abstractmethod
    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        """A column as indices into its distinct values; a missing one has the index -1."""

    @abstractmethod
    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The categories that a column's type lists, in their order, and whether it says that this is an order."""

    @abstractmethod
    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        """A column of labels, in the type of the column `like`; missing where the code is negative."""

    @abstractmethod
    def made(self, pieces: Sequence[Columns | tuple[str, Any]], *, extend: bool) -> Any:
        """A frame of this library from columns of numbers and single ones, behind this frame's own or alone."""

    @abstractmethod
    def noted(self, native: Any, notes: Mapping[str, Any]) -> Any:
        """A frame of this library with notes about all of it, where the library has a place for them."""

    @abstractmethod
    def flags(self, values: Flags, missing: Flags) -> Any:
        """A column of booleans, some of them missing."""

    @abstractmethod
    def _kind_of_categories(self, values: Any) -> str | None: ...

    @abstractmethod
    def _numbers(self, column: Any) -> Floats | None:
        """A column as numbers, NaN where one is missing; None if it does not hold numbers."""

    @abstractmethod
    def _own(self, argument: str, values: Any) -> Any: ...


@final
class PandasFrame(AbstractFrame):
    """A pandas DataFrame: the index is kept, and so are categories."""

    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        pd = import_pandas()
        try:
            if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) not in _OF_ONE_KIND:
                return _by_identity(values)
            codes, uniques = pd.factorize(values)
        except TypeError as error:
            raise InputError(f"`outcome` must hold plain labels, got some that cannot be compared ({error})") from error
        return np.asarray(codes, np.int64), uniques.tolist()

    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        if not isinstance(values.dtype, import_pandas().CategoricalDtype):
            return None, False
        return values.dtype.categories.tolist(), bool(values.dtype.ordered)

    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        pd = import_pandas()
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
        if not _same_labels(labels, array.tolist()):
            array = pd.array(values, dtype=object)  # labels of a kind that the column cannot hold
        elif (codes < 0).any() and dtype.kind in "biu" and not isinstance(dtype, pd.api.extensions.ExtensionDtype):
            array = pd.array(values)  # the type of the same name that can be missing
        return pd.Series(array.take(codes, allow_fill=True), index=self.native.index, dtype=array.dtype)

    def features(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> Any:
        pd = import_pandas()
        chosen = self.native[list(names)]
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

    def made(self, pieces: Sequence[Columns | tuple[str, Any]], *, extend: bool) -> Any:
        pd = import_pandas()
        parts = [self.native] if extend else []
        for name, values in pieces:
            if isinstance(name, str):
                parts.append(pd.Series(values, index=self.native.index, name=name).to_frame())
            else:
                parts.append(pd.DataFrame(values.T, columns=list(name), index=self.native.index, copy=False))
        return pd.concat(parts, axis=1)

    def noted(self, native: Any, notes: Mapping[str, Any]) -> Any:
        """The DataFrame, with the notes in `attrs["countermax"]`."""
        native.attrs = {**native.attrs, "countermax": dict(notes)}
        return native

    def texts(self, values: Sequence[str | None]) -> Any:
        pd = import_pandas()
        text = "str" if int(pd.__version__.partition(".")[0]) >= 3 else object  # "str" made words of missing values
        return pd.Series(values, index=self.native.index, dtype=text)

    def flags(self, values: Flags, missing: Flags) -> Any:
        return import_pandas().arrays.BooleanArray(values, missing) if missing.any() else values

    def _kind_of_categories(self, values: Any) -> str | None:
        return self.kind_of(values.dtype.categories.to_series())

    def _own(self, argument: str, values: Any) -> Any:
        pd = import_pandas()
        if isinstance(values, pd.Series):
            if not values.index.equals(self.native.index):
                raise InputError(f"`{argument}` must have the index of the frame; align them, or pass its values")
            return values
        known = isinstance(values, pd.Index | pd.api.extensions.ExtensionArray | list | tuple)
        return pd.Series(values if known else np.asarray(values))  # NumPy would make [1, "a"] texts

    def _numbers(self, column: Any) -> Floats | None:
        types, inside = import_pandas().api.types, column.dtype == object
        numbers = inside and types.infer_dtype(column, skipna=True) in _NUMBERS_IN_OBJECTS
        if not (numbers or (not inside and types.is_numeric_dtype(column.dtype))):
            return None
        return column.to_numpy(dtype=np.float64, na_value=np.nan)


@final
class PolarsFrame(AbstractFrame):
    """A polars DataFrame."""

    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        pl = import_polars()
        if values.dtype.is_nested() or values.dtype == pl.Object:
            raise InputError(f"`outcome` must hold plain labels, got {values.dtype}")
        series = values.fill_nan(None) if values.dtype.is_float() else values
        uniques = series.drop_nulls().unique(maintain_order=True)
        codes = pl.Series(range(len(uniques)), dtype=pl.Int64)
        known = series.replace_strict(uniques, codes, default=None, return_dtype=pl.Int64)
        return known.fill_null(-1).to_numpy(), uniques.to_list()

    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The categories of an Enum, which are ordered; of a Categorical none, for those depend on what came first."""
        is_enum = isinstance(values.dtype, import_polars().Enum)
        return (values.dtype.categories.to_list(), True) if is_enum else (None, False)

    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        pl = import_polars()
        try:
            array = pl.Series(_with_whole_numbers(labels), dtype=like.dtype)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            array = None
        if array is None or not _same_labels(labels, array.to_list()):
            array = pl.Series(labels.names)  # labels of a kind that the column cannot hold
        places = pl.Series(codes)
        return array.gather(pl.select(pl.when(places >= 0).then(places)).to_series())

    def features(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> Any:
        pl = import_polars()
        chosen, columns = self.native.select(names), []
        for name, value in change.items():
            several = isinstance(value, pl.Series | np.ndarray | list | tuple)
            column = pl.Series(name, value) if several else pl.Series(name, [value]).new_from_index(0, self.num_rows)
            dtype = chosen[name].dtype
            try:
                columns.append(column if several else column.cast(dtype))
            except pl.exceptions.PolarsError as error:
                raise InputError(f"`change` must set {name!r} to a value of type {dtype}, got {value!r}") from error
        return chosen.with_columns(columns) if columns else chosen

    def made(self, pieces: Sequence[Columns | tuple[str, Any]], *, extend: bool) -> Any:
        pl, columns = import_polars(), []
        for name, values in pieces:
            if isinstance(name, str):
                columns.append(pl.Series(name, values))
            else:
                columns += [pl.Series(each, row) for each, row in zip(name, values, strict=True)]
        return self.native.with_columns(columns) if extend else pl.DataFrame(columns)

    def noted(self, native: Any, notes: Mapping[str, Any]) -> Any:
        """The DataFrame itself: polars has no place for notes."""
        return native

    def texts(self, values: Sequence[str | None]) -> Any:
        return import_polars().Series(values, dtype=import_polars().String)

    def flags(self, values: Flags, missing: Flags) -> Any:
        pl = import_polars()
        return pl.select(pl.when(pl.Series(~missing)).then(pl.Series(values))).to_series()

    def _kind_of_categories(self, values: Any) -> str | None:
        return TEXT

    def _own(self, argument: str, values: Any) -> Any:
        pl = import_polars()
        if isinstance(values, list | tuple) and len({type(value) is bool for value in values if value is not None}) > 1:
            raise InputError(f"`{argument}` must hold values of one type, got booleans among others")
        kinds = TypeError, ValueError, OverflowError, pl.exceptions.PolarsError
        with refusing(f"`{argument}` must hold values of one type", *kinds):
            return values if isinstance(values, pl.Series) else pl.Series(argument, values)

    def _numbers(self, column: Any) -> Floats | None:
        pl = import_polars()
        if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
            return None
        return column.cast(pl.Float64).to_numpy()


@final
class ArrowFrame(AbstractFrame):
    """An Arrow table, which is what files are read into."""

    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        pa = import_pyarrow()
        if pa.types.is_null(values.type):
            return np.full(len(values), -1, np.int64), []
        if pa.types.is_floating(values.type):
            values = pa.compute.if_else(pa.compute.is_null(values, nan_is_null=True), None, values)
        if pa.types.is_string_view(values.type):  # of which Arrow cannot encode none
            values = values.cast(pa.string())
        if not pa.types.is_dictionary(values.type):
            try:
                values = values.dictionary_encode()
            except pa.ArrowNotImplementedError as error:
                raise InputError(f"`outcome` must hold plain labels, got {values.type}") from error
        if not values.num_chunks:
            return np.zeros(0, np.int64), []
        values = values.unify_dictionaries().combine_chunks()
        return numbers_of(values.indices, np.int64(-1)).astype(np.int64), values.dictionary.to_pylist()

    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The dictionary of a column that says that it is ordered."""
        if not (import_pyarrow().types.is_dictionary(values.type) and values.type.ordered):
            return None, False
        chunks = values.unify_dictionaries().chunks
        return (chunks[0].dictionary.to_pylist(), True) if chunks else (None, False)

    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        pa = import_pyarrow()
        dtype = like.type.value_type if pa.types.is_dictionary(like.type) else like.type
        if pa.types.is_string_view(dtype):  # of which Arrow cannot take some
            dtype = pa.string()
        try:
            array = _labels_as(_with_whole_numbers(labels), dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = None
        if array is None or not _same_labels(labels, array.to_pylist()):
            array = _labels_as(list(labels.names), pa.string())  # labels of a kind that the column cannot hold
        return array.take(arrow_array(codes, codes < 0))

    def features(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> Any:
        return for_classifiers(self, names, change).features(names, change)

    def made(self, pieces: Sequence[Columns | tuple[str, Any]], *, extend: bool) -> Any:
        pa, table = import_pyarrow(), self.native if extend else self.native.select([])
        fields, columns = list(table.schema), list(table.columns)  # to append one by one would take their square
        for name, values in pieces:
            if isinstance(name, str):
                known = isinstance(values, pa.Array | pa.ChunkedArray)
                new: list[tuple[str, Any]] = [(name, values if known else arrow_array(values))]
            else:
                gaps = np.isnan(values) if np.isnan(values.sum()) else repeat(None)
                new = [(each, arrow_array(*row)) for each, *row in zip(name, values, gaps, strict=False)]
            fields += [pa.field(each, array.type) for each, array in new]
            columns += [array for _, array in new]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))

    def noted(self, native: Any, notes: Mapping[str, Any]) -> Any:
        """The table, with the notes as JSON in the metadata of its schema, under `countermax`."""
        known = native.schema.metadata or {}
        return native.replace_schema_metadata({**known, b"countermax": json.dumps(notes).encode()})

    def texts(self, values: Sequence[str | None]) -> Any:
        return import_pyarrow().array(values, type=import_pyarrow().string())

    def flags(self, values: Flags, missing: Flags) -> Any:
        return arrow_array(values, missing)

    def _kind_of_categories(self, values: Any) -> str | None:
        return self.kind_of(import_pyarrow().chunked_array([], values.type.value_type))

    def _own(self, argument: str, values: Any) -> Any:
        pa = import_pyarrow()
        if isinstance(values, pa.ChunkedArray):
            return values
        kinds = TypeError, ValueError, OverflowError, pa.ArrowException
        with refusing(f"`{argument}` must hold values of one type", *kinds):
            return pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values)])

    def _numbers(self, column: Any) -> Floats | None:
        pa = import_pyarrow()
        kind, types = column.type, pa.types
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if not (numeric or types.is_boolean(kind) or types.is_null(kind)):
            return None
        if types.is_boolean(kind):
            column = column.cast(pa.int8())
        if not types.is_float64(kind):
            column = column.cast(pa.float64(), safe=False)
        found = [numbers_of(each, np.float64(np.nan)) for each in column.chunks]
        return found[0] if len(found) == 1 else np.concatenate([np.zeros(0), *found])


_KINDS: dict[str, type[AbstractFrame]] = {"PANDAS": PandasFrame, "POLARS": PolarsFrame, "PYARROW": ArrowFrame}
_OF_ONE_KIND = ("string", "floating", "integer", "boolean", "empty")
_NUMBERS_IN_OBJECTS = ("floating", "integer", "mixed-integer-float", "decimal", "boolean", "empty")


def for_classifiers(rows: AbstractFrame, names: Sequence[Hashable], change: Mapping[str, Any]) -> AbstractFrame:
    """Rows in a library whose frames classifiers read: of Arrow the columns `names` in pandas, some of which change."""
    if not isinstance(rows, ArrowFrame):
        return rows
    frame = rows.native.select(list(dict.fromkeys(map(str, names)))).to_pandas()
    for name, value in change.items():  # a part of a table need not list the category that a column is changed to
        known = getattr(frame[name].dtype, "categories", None) if name in frame else None
        if known is not None and isinstance(value, str) and value not in known:
            frame[name] = frame[name].cat.add_categories([value])
    return as_frame(frame, rows.first_row, rows.where)


# To and from Arrow by its memory: its own converters import pandas, which takes longer than most answers.


def numbers_of(array: Any, missing: np.int64 | np.float64) -> NDArray[Any]:
    """The numbers of an Arrow array of 1 to 8 bytes each, with another one where there is none; may share memory."""
    if not len(array):
        return np.zeros(0, type(missing))
    (known, content), rows = array.buffers(), slice(array.offset, array.offset + len(array))
    values = np.frombuffer(content, array.type.to_pandas_dtype(), rows.stop)[rows]
    if not array.null_count:
        return values
    return np.where(np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")[rows], values, missing)


def arrow_array(values: NDArray[Any], missing: Flags | None = None) -> Any:
    """Numbers or flags as an Arrow array around the same memory."""
    pa = import_pyarrow()
    known = None if missing is None or not missing.any() else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    content = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [known, pa.py_buffer(content)])


def no_rows(schema: Any) -> Any:
    """An Arrow table without rows."""
    return import_pyarrow().Table.from_batches([], schema)


def check_new_names(present: Collection[Hashable], names: Sequence[str], hint: str) -> None:
    """Refuses names that are there already, or that would be there twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    taken = [name for name in names if name in present]
    if twice or taken:
        where = "twice" if twice else "over one that is there"
        raise InputError(f"the column {(twice or taken)[0]!r} would be written {where}; {hint}")


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


def _same_labels(labels: Labels, values: Sequence[Any]) -> bool:
    """Whether values that were put into a column's type are still the labels."""
    return bool((labels.places(values) == np.arange(len(labels))).all())


def _labels_as(values: list[Any], dtype: Any) -> Any:
    """Labels as an Arrow array of a type; of the type that they have where that is null."""
    pa = import_pyarrow()
    if dtype == pa.int64() and all(type(value) is int for value in values):
        return arrow_array(np.array(values, np.int64))
    if dtype in (pa.string(), pa.large_string()) and all(type(value) is str for value in values):
        texts = [value.encode() for value in values]
        buffers = [None, *map(pa.py_buffer, (np.cumsum([0, *map(len, texts)]), b"".join(texts)))]
        return pa.Array.from_buffers(pa.large_string(), len(texts), buffers).cast(dtype)
    return pa.array(values, type=None if pa.types.is_null(dtype) else dtype)


def _with_whole_numbers(labels: Labels) -> list[Any]:
    """The labels, whole numbers among them as integers: columns of any type of number take those."""
    return [int(value) if isinstance(value, float) and value.is_integer() else value for value in labels.values]
