"""Levels of categorical columns, and columns of labels that pandas takes for categories again."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import Labels, listed, sorted_labels

pd = import_pandas()


class CategoryColumn(np.ndarray):
    """Labels [rows, 1] that become a pandas Categorical where DoWhy makes a column of them.

    DoWhy flattens what a mechanism returns by `reshape(-1)` or `squeeze()` and puts it into a frame. Here these two
    return a Categorical, so that the column has its categories and their order again. What is computed from it is an
    array like any other.
    """

    dtype_of_column: Any = None
    """Not handed on to views and results."""

    @classmethod
    def of(cls, values: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """The values as such a column; unchanged where there are no categories."""
        if dtype is None:
            return values
        column = values.view(cls)
        column.dtype_of_column = dtype
        return column

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """As of any array, but one axis is a Categorical."""
        return self._flat() if shape in ((-1,), ((-1,),)) else np.asarray(self).reshape(*shape, **options)

    def squeeze(self, axis: Any = None) -> Any:
        """A Categorical, of a single row too."""
        return self._flat() if axis is None else np.asarray(self).squeeze(axis)

    def _flat(self) -> Any:
        values = np.asarray(self).reshape(-1)
        return values if self.dtype_of_column is None else pd.Categorical(values.tolist(), dtype=self.dtype_of_column)


def as_labels(given: Any) -> tuple[tuple[Hashable, ...], Any]:
    """Labels in their order, checked, and the category dtype that they came as, if they did."""
    dtype = given if isinstance(given, pd.CategoricalDtype) else getattr(given, "dtype", None)
    if not isinstance(dtype, pd.CategoricalDtype):
        return Labels(tuple(given)).values, None
    if dtype.categories is None:
        raise InputError("`labels` must name the categories, got a category dtype without any")
    return Labels(tuple(dtype.categories.tolist())).values, dtype


def levels_of(values: NDArray[Any]) -> Labels | None:
    """The distinct values of a column of texts or booleans, sorted; None for numbers."""
    distinct = [value for value in pd.unique(np.asarray(values, object).reshape(-1)).tolist() if not pd.isna(value)]
    if not distinct or not all(isinstance(value, str | bool | np.bool_) for value in distinct):
        return None
    return Labels(tuple(sorted_labels(each.item() if isinstance(each, np.generic) else each for each in distinct)))


def unknown_level(levels: Labels, values: Sequence[Any] | NDArray[Any]) -> tuple[int, Hashable] | None:
    """Where the first value is that is none of the levels, and the value; None where there is no such value."""
    objects = np.asarray(values, object).reshape(-1)
    codes, distinct = pd.factorize(objects, use_na_sentinel=False)
    bad = levels.places(list(distinct)) < 0
    rows = np.flatnonzero(bad[codes])
    return (int(rows[0]), objects[rows[0]]) if len(rows) else None


def check_parents(levels: dict[int, tuple[Hashable, ...]], parents: NDArray[Any]) -> None:
    """Refuses a level that a classifier was not fitted with: DoWhy would take it for no level at all."""
    for column, known in levels.items():
        values = parents[:, column]
        if all(isinstance(each, bool) for each in known):
            values = np.array([bool(each) if each in (0, 1) else each for each in values.tolist()], object)
        found = unknown_level(Labels(known), values)
        if found is not None:
            raise InputError(
                f"a categorical parent must have one of the levels it was fitted with, {listed(known)}, got "
                f"{listed([found[1]])} (column {column} of the parents by name, row {found[0]}, both counted from 0)"
            )
