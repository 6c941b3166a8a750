"""What an experiment is: cells to compute, and a section to write from their results."""

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.figure import Figure

from countermax._core.errors import InputError
from countermax._core.sheet import Sheet
from countermax._version import __version__

PRESETS = ("quick", "published", "best")
"""`published`: the paper's settings and objective; `best`: this library's; `quick`: the whole picture in minutes."""

Result = dict[str, Any]
"""What a cell computes: plain numbers, strings, lists and mappings, as JSON has them."""


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment that is computed, and stored, as a whole."""

    experiment: str
    name: str
    settings: Result
    """Everything the result depends on; a stored result counts only if it was made with the same."""
    cost: float = 1.0
    """How long it takes beside the other cells, roughly; for the time left."""


@dataclass(frozen=True)
class CellContext:
    """What a cell is given while it works."""

    folder: Path
    """Its own place for trained couplings and checkpoints."""
    train_only: bool = False
    """Stop once everything is trained; measuring can be done later, elsewhere."""
    advance: Callable[[float], None] = lambda _: None
    """Function that is told which fraction of the cell is done."""


@dataclass(frozen=True)
class Section:
    """What an experiment has to show."""

    title: str
    words: Sequence[str]
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)


class AbstractExperiment(ABC):
    """A part of the paper, or beyond it, that can be computed again."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The plan; `seeds` None means as many as the preset has."""

    @abstractmethod
    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """The result of one cell; None where only training was asked for."""

    @abstractmethod
    def section(self, stored: Mapping[str, Result]) -> Section:
        """Sheets and figures from the stored results, by cell; nothing is computed but means and ratios."""


def checked_preset(preset: str) -> str:
    """The preset, if there is one of that name."""
    if preset not in PRESETS:
        raise InputError(f"`preset` must be one of {', '.join(PRESETS)}, got {preset!r}")
    return preset


def provenance() -> dict[str, str]:
    """Which versions, on which kind of device."""
    import jax

    found = {"countermax": __version__, "python": platform.python_version(), "device": jax.devices()[0].device_kind}
    for package in ("jax", "equinox", "optax", "numpy", "POT"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
