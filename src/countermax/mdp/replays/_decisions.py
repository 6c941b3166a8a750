"""The single decision that would have mattered most, found by changing one action at a time."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.intervals._interval import percentile_interval
from countermax.mdp._arrays import Floats, Values, as_whole
from countermax.mdp._estimation import as_policy, deterministic, usual_policy
from countermax.mdp._labels import spoken
from countermax.mdp._log import EpisodeLog, check_single
from countermax.mdp._posterior import Doubt, doubt_of, doubted
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._choices import as_logged
from countermax.mdp.replays._course import Course, course_of, observed_returns
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays.engines import AbstractEngine, engine_for

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SMALL = 1e-9
"""An effect below this is rounding."""

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
    visits: int | None
    """How often the other action was taken in that state, where the process has counts."""
    interval: Interval | None
    """What the effect would be with other data; None where the model is taken as given."""
    doubted: Interval | None
    """What the effect would be with other data and any coupling."""

    @property
    def robust(self) -> bool:
        """Whether every coupling says that it would have helped, with the stated confidence in the model too."""
        limits = self.doubted or self.effect_bounds
        return min(self.effect_bounds.lower, limits.lower) > SMALL


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Decisions(AbstractOldResult):
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
    doubt: str
    """How the model was doubted, in words."""

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __getitem__(self, place: int) -> Decision:
        return self.decisions[place]

    def to_frame(self) -> "pd.DataFrame":
        """One row for each decision, the largest effect first."""
        records = [
            {
                **dict(zip(Decision._fields[:6], each, strict=False)),
                "effect_lower": each.effect_bounds.lower,
                "effect_upper": each.effect_bounds.upper,
                **_limits("effect_ci", each.interval),
                **_limits("effect_any_ci", each.doubted),
                "visits": each.visits,
                "robust": each.robust,
            }
            for each in self
        ]
        return import_pandas().DataFrame(records)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words: one record for each decision, in the same order."""
        return plain(vars(self))

    def plot(self, most: int = _MOST_SHOWN) -> "Figure":
        """The effects of the first decisions within their bounds.

        Args:
            most: Number of decisions to show.
        """
        first = self.decisions[: as_whole("most", most, least=1)]
        limits = np.array([each.doubted[:2] for each in first if each.doubted is not None])
        return plotting.draw_effects(
            [f"{each.step}: {self.action_names[each.other_action]}" for each in first],
            {self.coupling: np.array([each.effect for each in first])},
            Bounds(*np.array([each.effect_bounds for each in first]).reshape(-1, 2).T),
            title=f"Episode {self.episode}: one decision changed, the rest as it was",
            label="what the other action would have added",
            kind="step and other action",
            doubted=None if not len(limits) else (limits[:, 0], limits[:, 1]),
        )

    def __rich__(self) -> Group:
        title = (
            f"Episode {self.episode}, {len(self)} single decisions by {self.coupling}; horizon {self.horizon}, "
            f"discount {self.discount:g}"
        )
        headers = [
            "step",
            "done",
            "instead",
            "effect",
            "effect lower",
            "effect upper",
            "other data",
            "visits",
            "robust",
        ]
        shown = listing(title, headers, left=3)
        for each in self.decisions[:_MOST_SHOWN]:
            numbers = (f"{number:z.4f}" for number in (each.effect, *each.effect_bounds))
            actions = (self.action_names[action] for action in (each.action, each.other_action))
            other = "" if each.doubted is None else f"{each.doubted.lower:z.4f} to {each.doubted.upper:z.4f}"
            visits = "" if each.visits is None else str(each.visits)
            add_line(shown, [str(each.step), *actions, *numbers, other, visits, "yes" if each.robust else "no"])
        if len(self) > _MOST_SHOWN:
            add_line(shown, [f"... {len(self) - _MOST_SHOWN} more", *[""] * 8])
        return Group(shown, Text(f"Lower and upper are over all couplings, other data too. {self.doubt}"))

    def __repr__(self) -> str:
        return f"Decisions({len(self)} of episode {self.episode!r}, by {self.coupling})"


def single_decisions(
    mdp: FiniteMDP,
    log: EpisodeLog,
    coupling: str | Path | AbstractCoupling,
    *,
    otherwise: Values | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    doubt: Doubt | None = None,
    progress: bool | None = None,
) -> Decisions:
    """Every other action at every step of one episode, the largest effect first; exact.

    All other actions stay as logged, whatever the state; so without the change the episode would be what it was.
    Where a logged action is not known, and after the episode's end, the policy `otherwise` acts.

    Args:
        mdp: The process.
        log: One episode.
        coupling: One with an exact law, or its name or file.
        otherwise: [state, action]; by default what was done most often, as far as the process has counts.
        outcomes: Label of each state as an outcome; see `replay`.
        horizon: Number of steps, also of the logged episode; by default that of the episode.
        discount: Discount factor for each step; by default the process's own.
        censored: Treatment of an episode that stops before its end; see `replay`.
        doubt: Doubt about the process; by default an estimate is doubted, and a process without counts is not.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    check_single(log)
    chosen = TransitionCoupling.exact(mdp, coupling, outcomes).coupling
    usual = deterministic(usual_policy(mdp).argmax(axis=1), mdp.num_actions)
    rest = usual if otherwise is None else as_policy(mdp, otherwise)

    def asked(process: FiniteMDP) -> tuple[Course, Floats]:
        facts = facts_of(process, log)
        choices = as_logged(process, facts, rest)
        course = course_of(process, log, facts, choices, horizon=horizon, discount=discount, censored=censored)
        law = engine_for(course, TransitionCoupling.exact(process, chosen, outcomes))
        every = engine_for(course, None)
        return course, _worth_of_actions(course, log, ((law, 1), (every, -1), (every, 1)))

    course, worth = asked(mdp)
    doubts = doubt_of(mdp, doubt)
    observed = float(observed_returns(course, log)[0])
    others = doubted(mdp, doubts, lambda each: asked(each)[1] - observed, progress, outcomes=outcomes)
    visits = None if mdp.counts is None else mdp.counts.sum(axis=2)
    decisions = []
    for step in range(int(course.seen[0])):
        state, action = int(log.states[0, step]), int(log.actions[0, step])
        for other in np.flatnonzero(mdp.allowed[state]).tolist():
            if other == action:
                continue
            value, lower, upper = (float(each) for each in worth[:, step, other])
            decisions.append(
                Decision(
                    step,
                    state,
                    action,
                    other,
                    value,
                    value - observed,
                    Bounds(lower - observed, upper - observed),
                    None if visits is None else int(visits[state, other]),
                    *_intervals(others[..., step, other] if len(others) else others, doubts.level),
                )
            )
    return Decisions(
        decisions=tuple(sorted(decisions, key=lambda each: (-each.effect, each.step))),
        episode=log.name_of(0),
        observed=observed,
        coupling=name_of(chosen),
        horizon=course.horizon,
        discount=course.discount,
        action_names=tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
        doubt=doubts.told(mdp),
    )


def _intervals(others: Floats, level: float) -> tuple[Interval | None, Interval | None]:
    """What other data would give by one coupling, and by any: from resamples of its effect, the least, the largest."""
    found = percentile_interval(others, level)
    if found is None:
        return None, None
    return (
        Interval(float(found.lower[0]), float(found.upper[0]), level),
        Interval(float(found.lower[1]), float(found.upper[2]), level),
    )


def _limits(name: str, interval: Interval | None) -> dict[str, float]:
    return {} if interval is None else {f"{name}_lower": interval.lower, f"{name}_upper": interval.upper}


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
