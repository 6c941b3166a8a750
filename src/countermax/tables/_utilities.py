"""Utilities of a choice model in place of probabilities: what the model makes of them, and whom a row stands for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from countermax import _kernel
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._tables.frames import Flags, Floats

if TYPE_CHECKING:
    from countermax.couplings import AbstractCoupling, GumbelMax, NestedGumbelMax


@final
@dataclass(frozen=True, eq=False)
class Utilities:
    """A choice model whose utilities a table holds, in place of probabilities.

    Args:
        coupling: Choice model: gumbel-max for the logit; nested-gumbel-max-0.5[bus|tram], a file with nests
            (.json, .yaml as of ActivitySim) or a `NestedGumbelMax` for the nested logit.
        weights: Column with the number of choosers that each row stands for, in `switching`; by default one. Of a
            frame also an array.
        money: Marginal utility of money, so that surplus is in its unit; by default it is in that of utility.
    """

    coupling: str | Path | AbstractCoupling = "gumbel-max"
    weights: Any = None
    money: float | None = None

    def __post_init__(self) -> None:
        if self.money is not None and not 0 < self.money < np.inf:
            raise InputError(f"`money` must be positive, got {self.money}; it is minus the coefficient of cost")

    def model(self, labels: Labels) -> GumbelMax | NestedGumbelMax:
        """The choice model of these alternatives."""
        import jax

        from countermax.couplings import GumbelMax, NestedGumbelMax
        from countermax.couplings._named import as_coupling

        with jax.enable_x64(True):
            found = as_coupling(self.coupling, labels)
        if not isinstance(found, GumbelMax | NestedGumbelMax):
            raise InputError(
                f"`coupling` must be a `NestedGumbelMax` or `GumbelMax`, which have utilities, got {found!r:.60}"
            )
        if isinstance(found, NestedGumbelMax) and found.is_limit:
            raise InputError("`dissimilarity` must be above 0 for utilities: at 0 those within a nest are all alike")
        return found


class ChoiceRows(NamedTuple):
    """What rows of utilities say beside probabilities."""

    logsums: Floats
    """[world, row]."""
    weights: Floats
    """How many choosers each row stands for."""
    like_probabilities: Flags
    """Which rows are not negative and sum to one in both worlds."""


def look_like_probabilities(values: Floats) -> Flags:
    """Which rows could be probabilities: none negative, and a sum of one."""
    with np.errstate(invalid="ignore"):
        return np.asarray((values >= 0).all(axis=1) & (np.abs(values.sum(axis=1) - 1) < 1e-6))


def choices(model: GumbelMax | NestedGumbelMax, utilities: Floats) -> tuple[Floats, Floats]:
    """Log-probabilities, [row, alternative], and logsums; what is not available has the utility -inf."""
    home, parents, _, scale = _kernel.choice_tree(model, utilities.shape[1])
    worth, logs = np.full((len(parents), len(utilities)), -np.inf), np.zeros_like(utilities)
    below: list[list[int]] = [[] for _ in parents]
    for nest in range(len(parents) - 1, -1, -1):
        own = [int(each) for each in np.flatnonzero(home == nest)]
        inner = [each for each in range(nest + 1, len(parents)) if parents[each] == nest]
        held = [utilities[:, each] for each in own] + [worth[each] for each in inner]
        worth[nest] = _logsum(held, scale[nest])
        for each in own:
            logs[:, each] = _less(utilities[:, each], worth[nest], scale[nest])
        for each in inner:
            logs[:, below[each]] += _less(worth[each], worth[nest], scale[nest])[:, None]
        below[nest] = [*own, *(outcome for each in inner for outcome in below[each])]
    return logs, worth[0]


def _logsum(held: Sequence[Floats], scale: float) -> Floats:
    most = functools.reduce(np.maximum, held)
    most = np.where(most > -np.inf, most, 0.0)
    with np.errstate(divide="ignore"):
        return most + scale * np.log(sum(np.exp((each - most) / scale) for each in held))


def _less(part: Floats, whole: Floats, scale: float) -> Floats:
    """Logarithms of the share of a part; -inf where it is not available."""
    with np.errstate(invalid="ignore"):
        return np.where(part > -np.inf, (part - whole) / scale, -np.inf)


def available(name: str, values: Floats, note: Callable[[Flags, str], None]) -> Floats:
    """Utilities with -inf for what is missing; rows without any, or with endless ones, are noted."""
    values = np.where(np.isnan(values), -np.inf, values)
    endless, none = (values == np.inf).any(axis=1), (values == -np.inf).all(axis=1)
    note(endless, f"a utility in `{name}` is infinite")
    note(none, f"`{name}` leaves no alternative available")
    return np.where((endless | none)[:, None], 0.0, values)
