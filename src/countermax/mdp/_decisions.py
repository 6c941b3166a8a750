"""The single decision that would have mattered most, found by changing one action at a time."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from countermax import _plotting as plotting
from countermax._core.results import Row
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._arrays import as_whole
from countermax.mdp._labels import spoken
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting
from countermax.mdp._results import (
    SMALL,
    AbstractCohortResult,
    Context,
    any_row,
    at,
    coupled_row,
    persistent_row,
    widest,
)

FEW_VISITS = 5
"""What rests on fewer visits than this is marked."""


class Decision(NamedTuple):
    """One action changed, the rest as it was."""

    step: int
    state: int
    action: int
    """What was done."""
    other_action: int
    """What might have been done."""
    value: float
    """What the episode would have earned on average."""
    effect: float
    """How much more than it did."""
    effect_bounds: Bounds
    """The effect over all adapted couplings, which draw afresh at each step."""
    visits: int | None
    """How often the other action was taken in that state, where the process has counts."""
    interval: Interval | None
    """Model uncertainty of the effect; None where the model is taken as given."""
    any_interval: Interval | None
    """Model uncertainty of the whole range over couplings."""
    persistent: Bounds
    """The effect if chance may persist across steps, model uncertainty included."""
    untried: bool
    """Whether it may lead to an action that nobody took there, or is one."""

    @property
    def robust(self) -> bool:
        """Whether it would have helped under every coupling, even if chance persists, with confidence in the model.

        Nothing that rests on no visit is robust.
        """
        known = widest(self.effect_bounds, self.any_interval).lower, self.persistent.lower
        return min(known) > SMALL and not self.untried


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Decisions(AbstractCohortResult):
    """Every other action at every step of one episode, the largest effect first; a sequence of `Decision`."""

    context: Context
    decisions: tuple[Decision, ...]
    episode: Hashable
    observed: float
    """What the episode earned."""
    coupling: str
    """What kind of coupling answered; bounds are over all of them."""
    action_names: tuple[str, ...]
    """All actions, in words."""

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> Decision:
        return self.decisions[place]

    @property
    def title(self) -> str:
        return f"Episode {self.episode}: one decision changed, the rest as it was"

    @property
    def rows(self) -> tuple[Row, ...]:
        return decision_rows({self.coupling: self})

    @property
    def effects(self) -> dict[tuple[int, int], float]:
        """By step and other action."""
        return {(each.step, each.other_action): each.effect for each in self}

    def summary(self) -> str:
        best = self.decisions[0] if self.decisions else None
        if best is None or best.effect <= SMALL:
            return f"No other single decision in episode {self.episode} would have helped, by {self.coupling}."
        sure = "" if best.any_interval is None else ", with confidence in the model too"
        (least, most), robust = best.effect_bounds, sum(each.robust for each in self)
        done, instead = self.action_names[best.action], self.action_names[best.other_action]
        return (
            f"By {self.coupling}, {instead} instead of {done} at step {best.step} would have added most: "
            f"{best.effect:.3g}; over all couplings that draw afresh at each step, {least:.3g} to {most:.3g}. {robust} "
            f"of {len(self)} decisions are robust: they would have helped under every coupling, even if chance "
            f"persists across steps{sure}."
        )

    def plot(self, most: int = 20) -> "plotting.Figure":
        first = self.decisions[: as_whole("most", most, least=1)]
        bounds, limits = ranges_of(first)
        return plotting.draw_effects(
            [f"{each.step}: {self.action_names[each.other_action]}" for each in first],
            {self.coupling: np.array([each.effect for each in first])},
            bounds,
            title=self.title,
            label="what the other action would have added",
            kind="step and other action",
            limits=limits,
        )

    def __repr__(self) -> str:
        return f"Decisions({len(self)} of episode {self.episode!r}, by {self.coupling})"

    def _sentences(self) -> tuple[str, ...]:
        rare = [
            f"{self.action_names[each.other_action]} at step {each.step} ({each.visits})"
            for each in self
            if each.visits is not None and each.visits < FEW_VISITS
        ]
        return (f"Resting on fewer than {FEW_VISITS} visits: {', '.join(rare)}.",) if rare else ()

    def _details(self) -> Mapping[str, Any]:
        decisions = [{**each._asdict(), "robust": each.robust} for each in self]
        return self._fields("episode", "observed", "coupling") | {"decisions": decisions}


def ranges_of(decisions: Sequence[Decision]) -> tuple[Bounds, Interval | None]:
    """The effects over all couplings, and the model uncertainty of these ranges."""
    bounds = Bounds(*np.array([each.effect_bounds for each in decisions]).reshape(-1, 2).T)
    limits = [each.any_interval for each in decisions if each.any_interval is not None]
    if not limits:
        return bounds, None
    lower, upper = np.array([each[:2] for each in limits]).T
    return bounds, Interval(lower, upper, limits[0].level)


def decision_rows(by_coupling: Mapping[str, Decisions]) -> tuple[Row, ...]:
    """The effects of all decisions, in the order of the first coupling."""
    first = next(iter(by_coupling.values()))
    about, found = f"episode {first.episode}", []
    others = {name: {(each.step, each.other_action): each for each in of} for name, of in by_coupling.items()}
    for each in first:
        quantity = f"effect of {first.action_names[each.other_action]} at step {each.step}"
        for name, decisions in others.items():
            same = decisions[each.step, each.other_action]
            found.append(coupled_row(quantity, about, name, same.effect, same.interval))
        found.append(any_row(quantity, about, each.effect_bounds, each.any_interval))
        found.append(persistent_row(quantity, about, each.persistent))
    return tuple(found)


def decisions_of(
    mdp: FiniteMDP,
    setting: Setting,
    context: Context,
    couplings: Mapping[str, str],
    found_of: tuple[Float[np.ndarray, "k t a"], Interval | None],
    untried: Bool[np.ndarray, "t a"],
    observed: float,
) -> dict[str, Decisions]:
    """All decisions about one episode, by coupling.

    The effects, with their intervals, are those by each coupling, then the least and the largest over all adapted
    ones, then the same if chance may persist.
    """
    visits = None if mdp.counts is None else mdp.counts.sum(axis=2)
    log = setting.log
    effects, limits = found_of
    found = {}
    for place, (name, kind) in enumerate(couplings.items()):
        decisions = []
        for step in range(effects.shape[1]):
            state, action = int(log.states[0, step]), int(log.actions[0, step])
            for other in np.flatnonzero(mdp.allowed[state]).tolist():
                if other == action:
                    continue
                effect, lower, upper, *wide = (float(effects[each, step, other]) for each in (place, -4, -3, -2, -1))
                seen = None if visits is None else int(visits[state, other])
                own, whole = at(limits, (place, step, other)), at(limits, (-4, step, other), (-3, step, other))
                persistent = widest(Bounds(*wide), at(limits, (-2, step, other), (-1, step, other)))
                claim = effect + observed, effect, Bounds(lower, upper), seen, own, whole, persistent
                decisions.append(Decision(step, state, action, other, *claim, bool(untried[step, other])))
        found[name] = Decisions(
            context=context,
            decisions=tuple(sorted(decisions, key=lambda each: (-each.effect, each.step))),
            episode=log.name_of(0),
            observed=observed,
            coupling=kind,
            action_names=tuple(spoken("action", each, mdp.action_names) for each in range(mdp.num_actions)),
        )
    return found
