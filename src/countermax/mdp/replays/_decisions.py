"""The single decision that would have mattered most, found by changing one action at a time."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, name_of
from countermax.mdp._arrays import Floats, Ints, Values, as_whole
from countermax.mdp._labels import spoken
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, check_single, steps_of
from countermax.mdp.policies import as_policy, deterministic, usual_policy
from countermax.mdp.replays._bounds import backward
from countermax.mdp.replays._exact import forward
from countermax.mdp.replays._questions import TransitionCoupling

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_SHOWN = 20  # on a terminal and in a picture; frames and JSON have them all


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
    """The effect over all couplings."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Decisions(AbstractResult):
    """Every other action at every step of one episode, the largest effect first; a sequence of `Decision`."""

    decisions: tuple[Decision, ...]
    episode: Hashable
    observed: float
    """What the episode earned."""
    coupling: str
    """What kind of coupling answered; bounds are over all of them."""
    horizon: int
    discount: float
    action_names: tuple[str, ...]
    """All actions, in words."""

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> Decision:
        return self.decisions[place]

    def to_frame(self) -> "pd.DataFrame":
        """One row for each decision, the largest effect first."""
        columns = [*Decision._fields[:-1], "effect_lower", "effect_upper"]
        return import_pandas().DataFrame([(*each[:-1], *each.effect_bounds) for each in self], columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words: one record for each decision, in the same order."""
        return plain(vars(self))

    def plot(self, most: int = _MOST_SHOWN) -> "Figure":
        """The effects of the first decisions within their bounds.

        Args:
            most: How many decisions to show.
        """
        first = self.decisions[: as_whole("most", most, least=1)]
        return plotting.draw_effects(
            [f"{each.step}: {self.action_names[each.other_action]}" for each in first],
            {self.coupling: np.array([each.effect for each in first])},
            Bounds(*np.array([each.effect_bounds for each in first]).reshape(-1, 2).T),
            title=f"Episode {self.episode}: one decision changed, the rest as it was",
            label="what the other action would have added",
            kind="step and other action",
        )

    def __rich__(self) -> Group:
        title = (
            f"Episode {self.episode}, {len(self)} single decisions by {self.coupling}; horizon {self.horizon}, "
            f"discount {self.discount:g}"
        )
        headers = ["step", "done", "instead", "effect", "effect lower", "effect upper"]
        shown = listing(title, headers, left=3)
        for each in self.decisions[:_MOST_SHOWN]:
            numbers = (f"{number:z.4f}" for number in (each.effect, *each.effect_bounds))
            actions = (self.action_names[action] for action in (each.action, each.other_action))
            add_line(shown, [str(each.step), *actions, *numbers])
        if len(self) > _MOST_SHOWN:
            add_line(shown, [f"... {len(self) - _MOST_SHOWN} more", *[""] * 5])
        return Group(shown, Text(f"Lower and upper are over all couplings. {MODEL_GIVEN}"))

    def __repr__(self) -> str:
        return f"Decisions({len(self)} of episode {self.episode!r}, by {self.coupling})"


def single_decisions(
    mdp: FiniteMDP,
    log: EpisodeLog,
    coupling: AbstractCoupling,
    *,
    otherwise: Values | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Decisions:
    """Every other action at every step of one episode, the largest effect first; exact.

    All other actions stay as logged, whatever the state; so without the change the episode would be what it was.
    Where a logged action is not known, and after the episode's end, the policy `otherwise` acts.

    Args:
        mdp: The process.
        log: One episode.
        coupling: One with an exact law.
        otherwise: [state, action]; by default what was done most often, as far as the process has counts.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps, of what happened too; by default as many as the episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own.
    """
    check_single(log)
    steps = steps_of(log, horizon)
    length = min(int(log.lengths[0]), steps)
    states, actions = log.states[0, :length], log.actions[0, :length]
    step, other = np.nonzero(mdp.allowed[states] & (np.arange(mdp.num_actions) != actions[:, None]))
    rest = usual_policy(mdp) if otherwise is None else as_policy(mdp, otherwise)

    def choose(now: int, copy: Ints, state: Ints) -> Floats:
        if now >= length:
            return rest[state]
        action = np.where(step[copy] == now, other[copy], actions[now])
        known = mdp.allowed[state, action]
        return np.where(known[:, None], deterministic(action, mdp.num_actions), rest[state])

    factor, rows = as_discount(mdp, discount), TransitionCoupling.exact(mdp, coupling, outcomes)
    observed = float(log.returns(factor, horizon=steps)[0])
    values, bounds = np.zeros(0), Bounds(np.zeros(0), np.zeros(0))
    if len(step):
        copies = log.select(np.zeros(len(step), np.int64))
        values = forward(rows, copies, choose, horizon=steps, discount=factor, progress=False).values
        bounds = backward(mdp, copies, choose, rest, horizon=steps, discount=factor, progress=False)
    decisions = (
        Decision(
            int(at),
            int(states[at]),
            int(actions[at]),
            int(action),
            float(value),
            float(value - observed),
            Bounds(float(lower), float(upper)),
        )
        for at, action, value, lower, upper in zip(step, other, values, *bounds.shifted(-observed), strict=True)
    )
    return Decisions(
        decisions=tuple(sorted(decisions, key=lambda each: (-each.effect, each.step))),
        episode=log.name_of(0),
        observed=observed,
        coupling=name_of(coupling),
        horizon=steps,
        discount=factor,
        action_names=tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
    )
