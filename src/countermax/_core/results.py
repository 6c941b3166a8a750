"""What every result can do: print itself, become a frame, plain numbers, JSON and a picture.

Numbers that travel through compiled code (`Bounds`, `Effect`) are values, not results; what a question returns to a
person is a result, and a result is one of these.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType

from countermax._core.console import as_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AbstractResult(ABC):
    """An answer that explains itself."""

    @abstractmethod
    def to_frame(self) -> Any:
        """The numbers as a dataframe."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words; None where there is no number."""

    @abstractmethod
    def plot(self) -> "Figure":
        """The picture."""

    @abstractmethod
    def __rich__(self) -> RenderableType: ...

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def __str__(self) -> str:
        return as_text(self.__rich__())


def column_names(prefix: str, names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Names of columns for couplings, none of them taken, and no two alike: `effect_Gumbel-max`, `effect_lower_2`."""
    used, found = set(taken), []
    for name in names:
        column = wanted = f"{prefix}{name.replace(' ', '_')}"
        number = 1
        while column in used:
            number += 1
            column = f"{wanted}_{number}"
        used.add(column)
        found.append(column)
    return found


def plain(value: Any) -> Any:
    """Arrays as lists, tuples as lists, NaN and infinities as None, labels of any kind as JSON can have them."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return plain(np.asarray(value)) if hasattr(value, "__array__") else str(value)
