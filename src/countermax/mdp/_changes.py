"""What may be changed in logged episodes, and how plans of changes are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool

from countermax._core.errors import InputError
from countermax._core.quantities import as_amount, as_choice, as_count, shown
from countermax.mdp._arrays import Values, as_finite
from countermax.mdp._labels import places_of
from countermax.mdp._process import FiniteMDP

FAMILIES = {"any": "any coupling", "stable": "stable couplings", "monotone": "stable and monotone"}
"""Families of couplings by name, and what their ranges are called."""
PLANS = ("reacting", "fixed")
"""Plans that depend on where the other world is, and sequences that are fixed in advance."""
SAME = 1e-12
"""Share of the largest return: values nearer than that are the same."""
JUDGED = 1e-7
"""Masses below it are dropped where other models judge a plan: their draws are much coarser."""


@final
@dataclass(frozen=True, kw_only=True)
class Changes:
    """What may be changed in logged episodes, and how plans of changes are made.

    Args:
        most: Largest number of changes; all smaller ones are answered too. None allows one at every step.
        plan: Kind of plan: "reacting" looks at where the patient then is, "fixed" is a sequence that is set in advance
            and is followed whatever comes of it.
        aim: Quantity that a plan maximises: its value by the "coupling", or its worst case over a family: "any",
            "stable", or "monotone" (observed row stable, and monotone).
        cost: Cost of a change in units of reward: a number, or a matrix, by what was done and what would be done
            instead, for instance by the distance of two doses.
        forbidden: Actions that must not take the place of what was done, by name or index. Also a mask by state and
            action.
        min_visits: Least number of times that an action must have been seen in a state to be taken there instead.
        within: Influence that what was logged must have on every step of every path: total variation between the
            counterfactual and the plain row, above this number. By default plans may leave what the log informs.
        ahead: Number of steps within which a row without that influence must be able to lead to one that has it.
    """

    most: int | None = 3
    plan: str = "reacting"
    aim: str = "coupling"
    cost: Values = 0.0
    forbidden: Values | Sequence[Any] | None = None
    min_visits: int = 0
    within: float | None = None
    ahead: int = 0

    def __post_init__(self) -> None:
        if self.most is not None:
            as_count("`most`", self.most, least=0)
        as_choice("`plan`", self.plan, PLANS)
        as_choice("`aim`", self.aim, ("coupling", *FAMILIES))
        as_count("`min_visits`", self.min_visits, least=0)
        if self.within is not None:
            as_amount("`within`", self.within, least=0.0, most=1.0)
        if as_count("`ahead`", self.ahead, least=0) and self.within is None:
            raise InputError(f"`ahead` needs `within`, how much influence of the log counts; got ahead={self.ahead}")
        if self.aim != "coupling" and (self.plan == "fixed" or self.within is not None):
            raise InputError(
                '`aim` must be "coupling" for plans that are fixed, or kept `within` what the log informs, got '
                f"{shown(self.aim)}: both rest on one coupling's rows"
            )
        if self.plan == "fixed" and self.within is not None:
            raise InputError('`within` needs plan="reacting", got "fixed": what is fixed in advance cannot turn back')

    def rules(self, mdp: FiniteMDP, small: float) -> Any:
        """The same for one process, checked, as the compiled loops take them."""
        from countermax._kernel import _loops  # Numba is imported with the first question

        cost = as_finite("cost", self.cost)
        if cost.shape not in ((), (mdp.num_actions, mdp.num_actions)) or (cost < 0).any():
            raise InputError(
                f"`cost` must be a number, or [action, action] of {mdp.num_actions} actions, and not negative, got "
                f"{shown(self.cost)}"
            )
        may = mdp.allowed & ~mdp.absorbing[:, None] & ~self._forbidden(mdp)
        if self.min_visits:
            if mdp.visits is None:
                raise InputError("`min_visits` needs a process with counts: estimate it from a log")
            may &= mdp.visits >= self.min_visits
        within = -np.inf if self.within is None else float(self.within) + SAME
        prices = np.broadcast_to(cost, (mdp.num_actions, mdp.num_actions)).astype(np.float64).copy()
        return _loops.Rules(prices, may, small, within, float(self.ahead), self.plan == "fixed")

    def _forbidden(self, mdp: FiniteMDP) -> Bool[np.ndarray, "s a"]:
        shape = mdp.allowed.shape
        if self.forbidden is None:
            return np.zeros(shape, bool)
        given = [self.forbidden] if isinstance(self.forbidden, str) else self.forbidden
        mask = np.asarray(given)
        if mask.dtype == bool:
            if mask.shape not in (shape, shape[1:]):
                raise InputError(f"`forbidden` must be a mask of shape {shape} or {shape[1:]}, got {mask.shape}")
            return np.broadcast_to(mask, shape)
        names = mdp.action_names or tuple(range(mdp.num_actions))
        place = places_of("forbidden", "actions", given, names)  # type: ignore[arg-type]
        return np.broadcast_to(np.isin(np.arange(mdp.num_actions), place), shape)


def as_changes(changes: int | Changes) -> Changes:
    """A number of changes stands for all else by default."""
    return changes if isinstance(changes, Changes) else Changes(most=as_count("`changes`", changes, least=0))


class PathStep(NamedTuple):
    """One step of the most likely path."""

    step: int
    state: int
    action: int
    """-1 at an end."""
    changed: bool
