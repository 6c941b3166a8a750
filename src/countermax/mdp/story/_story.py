"""One patient's story, and how it is told: in sentences, as a picture, as a frame, as a page."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core import page as report
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, column_names, plain
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp.replays import SMALL, Decision, Decisions
from countermax.mdp.story import _words
from countermax.mdp.story._page import page
from countermax.mdp.story._words import Claim, Meaning, Told, claim_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Story(AbstractOldResult):
    """Factual and counterfactual side by side, over time."""

    episode: Hashable
    features: tuple[str, ...]
    observed: Float[np.ndarray, "times f"]
    """The features of the logged states, up to the end of the episode or of what was asked for."""
    counterfactual: Mapping[str, Float[np.ndarray, "all_times f"]]
    """By coupling: their probabilities, or means, under the other policy."""
    bounds: Bounds
    """The same over all couplings: [time, feature]."""
    discount: float
    """Factor by which a reward is worth less one step later, in the returns and values below."""
    observed_return: float
    values: Mapping[str, float]
    """By coupling: what the episode would have earned on average."""
    standard_deviations: Mapping[str, float]
    value_bounds: Bounds
    """The value over all couplings."""
    intervals: Mapping[str, Interval]
    """By coupling: what the value would be with other data; empty where the model is taken as given."""
    doubted: Interval | None
    """What the value would be with other data and any coupling."""
    ended: bool
    """Whether the record goes on to an end of the process."""
    ends: tuple[str, ...]
    """The ends that episodes of the log come to."""
    end_rewards: Float[np.ndarray, " e"] | None
    """What each of them earns, where nothing else earns anything."""
    chances: Mapping[str, Float[np.ndarray, " e"]]
    """By coupling: how likely each end would have been."""
    chance_bounds: Bounds
    """The same over all couplings."""
    chances_doubted: Interval | None
    """The same with other data and any coupling."""
    unfinished: Mapping[str, float]
    """By coupling: how likely there would have been no end within the steps that are compared."""
    unfinished_bounds: Bounds
    """The same over all couplings."""
    unfinished_doubted: Interval | None
    """The same with other data and any coupling."""
    step_bounds: Bounds
    """The value if one step's coupling is any other, for each step; the first coupling is that of the others."""
    decisions_by_coupling: Mapping[str, Decisions]
    """Single actions changed, the largest effect first."""
    treatments: tuple[str, ...]
    """What actions are made of."""
    graded: tuple[bool, ...]
    """Which of these come in levels."""
    given: Float[np.ndarray, "steps p"]
    """How much of each was given at each step: its level, or 1."""
    wanted: Float[np.ndarray, "t p"]
    """How likely the other policy is to give any of each, by the first coupling."""
    wanted_levels: Float[np.ndarray, "t p"]
    """How much of each it gives on average while the episode lasts."""
    visits: Float[np.ndarray, " t"]
    """How often the log saw what the other policy does at each step, at least; NaN where nothing rests on that."""
    differing: tuple[int, ...]
    """Steps at which the other policy would rather have done something else in the logged state."""
    state_labels: tuple[str, ...]
    """The logged states, in words."""
    action_labels: tuple[str, ...]
    """The logged actions, in words."""
    action_names: tuple[str, ...]
    """All actions, in words."""
    notes: tuple[str, ...]
    """What the numbers leave out, and what was chosen, in words."""

    @property
    def decisions(self) -> Decisions:
        """Single actions changed, the largest effect first, by the first coupling."""
        return next(iter(self.decisions_by_coupling.values()))

    @property
    def claim(self) -> Claim:
        """What the first coupling says the other policy would have added."""
        name, value = next(iter(self.values.items()))
        earned, interval = self.observed_return, self.intervals.get(name)
        return Claim(
            value - earned,
            self.value_bounds.shifted(-earned),
            _shifted(interval, earned),
            _shifted(self.doubted, earned),
        )

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What could turn the answer around, in words; nothing if it is robust."""
        return self.claim.depends_on

    @property
    def num_steps(self) -> int:
        """How many steps are compared, in both worlds."""
        return len(self.bounds.lower) - 1

    @property
    def findings(self) -> tuple[str, ...]:
        """The story in sentences."""
        told = self.told
        return (*told.happened, *told.instead, *told.sure, *self.notes)

    @property
    def told(self) -> Told:
        """The sentences by what they are about, and what would change the answer."""
        from countermax.mdp.story._telling import tell  # which reads the whole story

        return tell(self)

    @property
    def meaning(self) -> Meaning:
        """What the return stands for."""
        return Meaning(self.ends, self.end_rewards, self.discount)

    @property
    def best(self) -> Decision | None:
        """The single decision that would have helped most; None where none would have helped."""
        return self.decisions[0] if self.decisions and self.decisions[0].effect > SMALL else None

    def to_frame(self) -> "pd.DataFrame":
        """One row for each time and feature."""
        lower, upper = self.bounds
        seen = np.full(lower.shape, np.nan)
        seen[: len(self.observed)] = self.observed
        columns: dict[str, Any] = {
            "time": np.repeat(np.arange(len(lower)), len(self.features)),
            "feature": list(self.features) * len(lower),
            "observed": seen.ravel(),
        }
        bounds = {"counterfactual_lower": lower.ravel(), "counterfactual_upper": upper.ravel()}
        names = column_names("counterfactual_", self.counterfactual, bounds)
        columns |= zip(names, (each.ravel() for each in self.counterfactual.values()), strict=True)
        columns |= bounds
        return import_pandas().DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words."""
        shown = {name: each for name, each in vars(self).items() if name != "decisions_by_coupling"}
        effects = self._effects()
        decisions = [
            {
                **each._asdict(),
                "effects": {name: found[each.step, each.other_action] for name, found in effects.items()},
                "robust": each.robust,
                "depends_on": claim_of(each).depends_on,
            }
            for each in self.decisions
        ]
        return plain({**shown, "decisions": decisions, "depends_on": self.depends_on, "findings": self.findings})

    def plot(self) -> "Figure":
        """Treatments, features and the coupling's part, over time."""
        best = self.best
        return plotting.draw_trajectory(
            features=self.features,
            observed=self.observed,
            answers=self.counterfactual,
            bounds=self.bounds,
            treatments=self.treatments,
            graded=self.graded,
            given=self.given,
            wanted=self.wanted,
            levels=self.wanted_levels,
            step_bounds=self.step_bounds,
            visits=self.visits,
            few=_words.FEW_VISITS,
            measure=self.meaning.drawn,
            decision=None if best is None else best.step,
            title=f"Episode {self.episode}: what happened, and what would have happened under the other policy",
        )

    def plot_decisions(self) -> "Figure":
        """The best alternative at each step: what it would have added by every coupling, with bounds and doubt."""
        best: dict[int, Decision] = {}
        for each in self.decisions:
            best.setdefault(each.step, each)
        chosen, effects = [best[step] for step in sorted(best)], self._effects()
        scale = self.meaning.scale()
        return plotting.draw_gains(
            steps=[each.step for each in chosen],
            done=[self.action_names[each.action] for each in chosen],
            instead=[self.action_names[each.other_action] for each in chosen],
            gains={
                name: np.array([found[each.step, each.other_action] for each in chosen])
                for name, found in effects.items()
            },
            bounds=[each.effect_bounds for each in chosen],
            doubted=[each.doubted for each in chosen],
            visits=[each.visits for each in chosen],
            few=_words.FEW_VISITS,
            label=f"what it would have added to the {self.meaning.drawn}" + (f" ({scale})" if scale else ""),
            title=f"Episode {self.episode}: the best other decision at each step, the rest as it was",
        )

    def __rich__(self) -> Group:
        title = (
            f"Episode {self.episode}: what it would have earned; horizon {self.num_steps}, discount {self.discount:g}"
        )
        headers = ["coupling", "observed", "counterfactual", "standard deviation"]
        shown = listing(title, [*headers, "other data"] if self.doubted else headers)
        for name, observed, value, deviation, *other in self._answers():
            add_line(shown, [str(name), f"{observed:z.4f}", f"{value:z.4f}", f"{deviation:z.4f}", *map(str, other)])
        least, most = self.value_bounds
        doubted = [] if self.doubted is None else [_range(self.doubted)]
        add_line(shown, ["any coupling", "", f"{least:z.4f} to {most:z.4f}", "", *doubted])
        return Group(*(Text(sentence) for sentence in self.findings), Text(), shown)

    def write_report(self, path: str | Path) -> Path:
        """A self-contained page with the story, the pictures, what would change the answer, and the numbers."""
        effects = self._effects()
        decisions = [
            (
                f"step {each.step}",
                self.action_labels[each.step],
                self.action_names[each.other_action],
                *(found[each.step, each.other_action] for found in effects.values()),
                *each.effect_bounds,
                "" if each.doubted is None else _range(each.doubted),
                "" if each.visits is None else f"{each.visits}{', few' if _words.few(each.visits) else ''}",
                claim_of(each).sure,
            )
            for each in self.decisions
        ]
        pictures = [plotting.picture(self.plot()), *([plotting.picture(self.plot_decisions())] if decisions else [])]
        other = ["other data"] if self.doubted else []
        answers = report.Grid(("coupling", "observed", "counterfactual", "standard deviation", *other), self._answers())
        blocks = page(self.told, self.notes, pictures, answers, tuple(effects), decisions, self.to_json())
        return report.write_page(Path(path), f"Episode {self.episode}", blocks)

    def _answers(self) -> list[tuple[str | float, ...]]:
        return [
            (
                name,
                self.observed_return,
                value,
                self.standard_deviations[name],
                *([_range(self.intervals[name])] if self.intervals else []),
            )
            for name, value in self.values.items()
        ]

    def _effects(self) -> dict[str, dict[tuple[int, int], float]]:
        """By coupling: the effect of each step and other action."""
        return {
            name: {(each.step, each.other_action): each.effect for each in found}
            for name, found in self.decisions_by_coupling.items()
        }


def _shifted(interval: Interval | None, by: float) -> Interval | None:
    return None if interval is None else Interval(interval.lower - by, interval.upper - by, interval.level)


def _range(interval: Interval) -> str:
    return f"{interval.lower:z.4f} to {interval.upper:z.4f}"
