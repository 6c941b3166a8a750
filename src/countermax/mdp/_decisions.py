"""The single decision that would have mattered most, found by changing one action at a time."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from countermax import _plotting as plotting
from countermax._core.quantities import as_count
from countermax._core.results import Row
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._labels import spoken
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting
from countermax.mdp._results import SMALL, AbstractCohortResult, Answer, Claim, Context, answer_of


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
    def claim(self) -> Claim:
        """That it would have helped, with all that this depends on."""
        return Claim(self.effect, self.effect_bounds, *self[8:])

    @property
    def robust(self) -> bool:
        """Whether it would have helped under every coupling, even if chance persists, with confidence in the model."""
        return bool(self.claim.robust)


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
    moments: tuple[str, ...]
    """When each action was taken, in words."""

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

    def _summary(self) -> str:
        best = self.decisions[0] if self.decisions else None
        if best is None or best.effect <= SMALL:
            return f"No other single decision in episode {self.episode} would have helped, by {self.coupling}."
        sure = "" if best.any_interval is None else ", with confidence in the model too"
        (least, most), robust = best.effect_bounds, sum(each.robust for each in self)
        done, instead = self.action_names[best.action], self.action_names[best.other_action]
        meaning = self.context.meaning
        return (
            f"By {self.coupling}, {instead} instead of {done} at {self.moments[best.step]} would have helped most: it "
            f"would have {meaning.gain(best.effect)}; over all couplings that draw afresh at each step, "
            f"{meaning.between(least, most, gain=True)}. {robust} of {len(self)} decisions are robust: they would have "
            f"helped under every coupling, even if chance persists across steps{sure}."
        )

    def _plot(self, most: int = 20) -> "plotting.Figure":
        shown = drawn_effects({self.coupling: self}, self.decisions[: as_count("`most`", most)])
        label, kind = self.context.meaning.added("the other action"), "step and other action"
        return plotting.draw_effects(shown, title=self.title, label=label, kind=kind)

    def __repr__(self) -> str:
        return f"Decisions({len(self)} of episode {self.episode!r}, by {self.coupling})"

    def _sentences(self) -> tuple[str, ...]:
        rare = [
            f"{self.action_names[each.other_action]} at {self.moments[each.step]} ({each.visits})"
            for each in self
            if each.visits is not None and each.visits < plotting.FEW_VISITS
        ]
        return (f"Resting on fewer than {plotting.FEW_VISITS} visits: {', '.join(rare)}.",) if rare else ()

    def _details(self) -> Mapping[str, Any]:
        decisions = [{**each._asdict(), "robust": each.robust} for each in self]
        return self._fields("episode", "observed", "coupling") | {"decisions": decisions}


def drawn_effects(by_coupling: Mapping[str, Decisions], some: Sequence[Decision]) -> "plotting.Effects":
    """What is drawn of some decisions."""
    actions = next(iter(by_coupling.values())).action_names
    limits = [each.any_interval for each in some if each.any_interval is not None]
    effects = {name: each.effects for name, each in by_coupling.items()}
    lower, upper = np.array([each[:2] for each in limits]).reshape(-1, 2).T
    return plotting.Effects(
        [f"{each.step}: {actions[each.other_action]}" for each in some],
        {name: np.array([known[each.step, each.other_action] for each in some]) for name, known in effects.items()},
        Bounds(*np.array([each.effect_bounds for each in some]).reshape(-1, 2).T),
        Interval(lower, upper, limits[0].level) if limits else None,
    )


def decision_rows(by_coupling: Mapping[str, Decisions]) -> tuple[Row, ...]:
    """The effects of all decisions, in the order of the first coupling."""
    first = next(iter(by_coupling.values()))
    about, found = f"episode {first.episode}", list[Row]()
    others = {name: {(each.step, each.other_action): each for each in of} for name, of in by_coupling.items()}
    for each in first:
        quantity = f"effect of {first.action_names[each.other_action]} at {first.moments[each.step]}"
        same = {name: decisions[each.step, each.other_action] for name, decisions in others.items()}
        effects = {name: decision.effect for name, decision in same.items()}
        intervals = {name: decision.interval for name, decision in same.items() if decision.interval is not None}
        known = each.effect_bounds, intervals, each.any_interval, each.persistent
        found += Answer(quantity, None, effects, *known).rows(about)
    return tuple(found)


def decisions_of(
    mdp: FiniteMDP,
    setting: Setting,
    context: Context,
    couplings: Mapping[str, str],
    effects_of: tuple[Float[np.ndarray, "k t a"], Interval | None],
    untried: Bool[np.ndarray, "t a"],
    observed: float,
) -> dict[str, Decisions]:
    """All decisions about one episode, by coupling; the effects, with their intervals, are as `answer_of` has them."""
    visits, log = mdp.visits, setting.log
    found: dict[str, list[Decision]] = {name: [] for name in couplings}
    for step in range(len(untried)):
        state, action = int(log.states[0, step]), int(log.actions[0, step])
        for other in np.flatnonzero(mdp.allowed[state] & (np.arange(mdp.num_actions) != action)).tolist():
            seen = None if visits is None else int(visits[state, other])
            _, _, effects, bounds, own, whole, wide = answer_of(effects_of, couplings, "effect", step, other)
            assert wide is not None
            for name, effect in effects.items():
                known = effect + observed, effect, bounds, seen, own.get(name), whole, wide
                found[name].append(Decision(step, state, action, other, *known, bool(untried[step, other])))
    return {
        name: Decisions(
            context=context,
            decisions=tuple(sorted(decisions, key=lambda each: (-each.effect, each.step))),
            episode=log.name_of(0),
            observed=observed,
            coupling=couplings[name],
            action_names=tuple(spoken("action", each, mdp.action_names) for each in range(mdp.num_actions)),
            moments=tuple(log.when(0, step) for step in range(len(untried))),
        )
        for name, decisions in found.items()
    }
