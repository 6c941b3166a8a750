"""The single decision that would have mattered most, found by changing one action at a time."""

from collections.abc import Hashable, Iterator, Sequence
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
from countermax.mdp._arrays import Floats, Values, as_whole
from countermax.mdp._labels import spoken
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP
from countermax.mdp.log import EpisodeLog, check_single
from countermax.mdp.policies import as_policy, deterministic, usual_policy
from countermax.mdp.replays._choices import as_logged
from countermax.mdp.replays._course import Course, course_of
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays.engines import AbstractEngine, engine_for

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
    facts = facts_of(mdp, log)
    usual = deterministic(usual_policy(mdp).argmax(axis=1), mdp.num_actions)
    rest = usual if otherwise is None else as_policy(mdp, otherwise)
    course = course_of(mdp, log, facts, as_logged(mdp, facts, rest), horizon=horizon, discount=discount)
    law = engine_for(course, TransitionCoupling.exact(mdp, coupling, outcomes))
    worth = _worth_of_actions(course, log, ((law, 1), (open_ := engine_for(course, None), -1), (open_, 1)))
    observed = float(log.returns(course.discount, horizon=course.horizon)[0])
    decisions = []
    for step in range(int(course.seen[0])):
        state, action = int(log.states[0, step]), int(log.actions[0, step])
        for other in np.flatnonzero(mdp.allowed[state]).tolist():
            if other != action:
                value, lower, upper = (float(each) for each in worth[:, step, other])
                bounds = Bounds(lower - observed, upper - observed)
                decisions.append(Decision(step, state, action, other, value, value - observed, bounds))
    return Decisions(
        decisions=tuple(sorted(decisions, key=lambda each: (-each.effect, each.step))),
        episode=log.name_of(0),
        observed=observed,
        coupling=name_of(coupling),
        horizon=course.horizon,
        discount=course.discount,
        action_names=tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
    )


def _worth_of_actions(course: Course, log: EpisodeLog, asked: Sequence[tuple[AbstractEngine, int]]) -> Floats:
    """[question, step, action]: what the episode would have earned, had this been done at this step.

    Up to the change nothing differs, so the other world is where the log was: what was earned until then, and one row
    that leads to states whose worth under the logged actions a single walk back gives for all decisions at once.

    Args:
        course: The episode, with the logged actions.
        log: The same.
        asked: Engines, and whether they are asked for the least (-1) or for the largest (1) worth.
    """
    count = int(course.seen[0])
    earned = course.discount ** np.arange(count) * course.earned[0, :count]
    before = np.concatenate([[0], np.cumsum(earned)])
    found = np.zeros((len(asked), count, course.mdp.num_actions))
    for place, (engine, sign) in enumerate(asked):
        values = engine.backwards(np.zeros(1, np.int64), *course.to_come(), keep=True).values
        assert values is not None
        for step in range(count):
            later = np.ascontiguousarray(values[0 if sign < 0 else 1, 0, step + 1])
            rows = engine.one_row(
                int(course.facts.of_step[0, step]),
                float(course.earned[0, step]),
                later,
                int(log.states[0, step]),
                sign=sign,
            )
            found[place, step] = before[step] + course.discount**step * rows
    return found
