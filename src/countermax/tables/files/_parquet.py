"""Parquet: its schema says what columns hold."""

import os
from collections.abc import Iterator
from typing import Any, final

from countermax.tables.files._base import AbstractTableFile


@final
class ParquetTable(AbstractTableFile):
    """A table in a Parquet file."""

    kind = "parquet"

    @property
    def num_rows(self) -> int | None:
        """How many rows there are."""
        return self._open().metadata.num_rows

    def empty_table(self) -> Any:
        """All columns without rows."""
        return self._open().schema_arrow.empty_table()

    def _find_names(self) -> list[str]:
        return list(self._open().schema_arrow.names)

    def _tables(self) -> Iterator[Any]:
        for batch in self._open().iter_batches(columns=self._wanted):
            batch.validate(full=True)  # Arrow takes it on trust that texts are UTF-8
            yield self._pa.Table.from_batches([batch])

    def _open(self) -> Any:
        return self._pa.parquet.ParquetFile(self._pa.OSFile(os.fsencode(self.path)))  # any name, also one not UTF-8
