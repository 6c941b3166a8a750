"""Tables of Arrow, which is what files are read into."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pyarrow
from countermax._core.labels import BOOLEAN, NUMBER, OTHER, TEXT, Labels
from countermax.tables.frames._base import AbstractFrame, Block, Codes, Floats, same_labels, with_whole_numbers

pa = import_pyarrow()


@final
class ArrowFrame(AbstractFrame):
    """An Arrow table."""

    @property
    def columns(self) -> list[Hashable]:
        """The names of the columns."""
        return self.native.column_names

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.native.num_rows

    def rows(self, start: int, stop: int) -> "ArrowFrame":
        """Some of the rows."""
        return ArrowFrame(self.native.slice(start, stop - start), self.first_row + start, self.where)

    def factorised(self, values: Any) -> tuple[Codes, list[Any]]:
        """A column as indices into its distinct values; a missing one has the index -1."""
        if pa.types.is_null(values.type):
            return np.full(len(values), -1, np.int64), []
        if pa.types.is_floating(values.type):
            values = pa.compute.if_else(pa.compute.is_null(values, nan_is_null=True), None, values)
        if not pa.types.is_dictionary(values.type):
            try:
                values = values.dictionary_encode()
            except pa.ArrowNotImplementedError as error:
                raise InputError(f"`outcome` must hold plain labels, got {values.type}") from error
        if isinstance(values, pa.ChunkedArray):
            values = values.unify_dictionaries().combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # of nothing at all
            return np.zeros(0, np.int64), []
        codes = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64), values.dictionary.to_pylist()

    def kind_of(self, values: Any) -> str | None:
        """What a column's type says of its values; None where it says nothing."""
        dtype, types = _plain_type(values.type), pa.types
        if types.is_null(dtype):
            return None
        numeric = types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype)
        text = types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
        return BOOLEAN if types.is_boolean(dtype) else NUMBER if numeric else TEXT if text else OTHER

    def categories(self, values: Any) -> tuple[list[Any] | None, bool]:
        """The dictionary of a column that says that it is ordered."""
        if not (pa.types.is_dictionary(values.type) and values.type.ordered):
            return None, False
        chunks = values.unify_dictionaries().chunks if isinstance(values, pa.ChunkedArray) else [values]
        return (chunks[0].dictionary.to_pylist(), True) if chunks else (None, False)

    def labelled(self, codes: Codes, labels: Labels, like: Any) -> Any:
        """A column of labels, in the type of the column `like`; missing where the code is negative."""
        dtype = _plain_type(like.type)
        if pa.types.is_string_view(dtype):  # of which Arrow cannot take some
            dtype = pa.string()
        try:
            array = pa.array(with_whole_numbers(labels), type=None if pa.types.is_null(dtype) else dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = None
        if array is None or not same_labels(labels, array.to_pylist()):
            array = pa.array(labels.names)  # labels of a kind that the column cannot hold
        return array.take(pa.array(codes, mask=codes < 0))

    def for_classifiers(self, names: Sequence[Hashable], change: Mapping[str, Any]) -> AbstractFrame:
        """The columns that a classifier reads, in pandas: what it reads in place of Arrow tables.

        A part of a table need not list the category that a column is changed to.
        """
        from countermax.tables.frames._pandas import PandasFrame

        frame = self.native.select(list(dict.fromkeys(map(str, names)))).to_pandas()
        for name, value in change.items():
            listed = getattr(frame[name].dtype, "categories", None) if name in frame else None
            if listed is not None and isinstance(value, str) and value not in listed:
                frame[name] = frame[name].cat.add_categories([value])
        return PandasFrame(frame, self.first_row, self.where)

    def features(self, names: Sequence[Hashable] | None, change: Mapping[str, Any]) -> Any:
        """Some of the columns as a DataFrame of pandas, with others in place of those in `change`."""
        chosen = self.columns if names is None else names
        return self.for_classifiers(chosen, change).features(chosen, change)

    def made(self, pieces: Sequence[Block | tuple[str, Any]], *, extend: bool) -> Any:
        """A table from blocks of numbers and single columns, behind this table's own or alone."""
        table = self.native if extend else self.native.select([])
        for name, values in pieces:
            if isinstance(name, str):
                table = table.append_column(name, values if isinstance(values, pa.Array) else pa.array(values))
                continue
            for each, row in zip(name, values, strict=True):
                table = table.append_column(each, pa.array(row, from_pandas=True))
        return table

    @staticmethod
    def from_columns(columns: Mapping[str, Sequence[Any]]) -> Any:
        """A new table."""
        return pa.table(dict(columns))

    @staticmethod
    def noted(native: Any, notes: Mapping[str, Any]) -> Any:
        """The table, with the notes as JSON in the metadata of its schema, under `countermax`."""
        known = native.schema.metadata or {}
        return native.replace_schema_metadata({**known, b"countermax": json.dumps(notes).encode()})

    def texts(self, values: Sequence[str | None]) -> Any:
        """A column of text."""
        return pa.array(values, type=pa.string())

    def flags(self, values: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Any:
        """A column of booleans, some of them missing."""
        return pa.array(values, mask=missing)

    def _column(self, name: Hashable) -> Any:
        return self.native.column(name)

    def _own(self, argument: str, values: Any) -> Any:
        try:
            return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise InputError(f"`{argument}` must hold values of one type: {error}") from error

    def _index_of(self, row: int) -> str | None:
        return None

    def _numbers(self, name: Hashable) -> Floats | None:
        column = self.native.column(name)
        kind = column.type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (numeric or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            return None
        if pa.types.is_boolean(kind):
            column = column.cast(pa.int8())
        return column.cast(pa.float64(), safe=False).to_numpy()


def _plain_type(dtype: Any) -> Any:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype
