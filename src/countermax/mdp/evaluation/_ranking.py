"""For which episodes the model claims most, beside how robust the claim is."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, column_names, plain
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._interval import percentile_interval
from countermax.mdp._arrays import Floats, Values, as_whole
from countermax.mdp._couplings import Couplings, chosen_couplings
from countermax.mdp._log import EpisodeLog
from countermax.mdp._posterior import Doubt, doubt_of, doubted
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP
from countermax.mdp.replays import SMALL, replay, replayed_values, trajectory_bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_SHOWN = 20


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking(AbstractOldResult):
    """Effects of a policy on each episode, by coupling and over all of them."""

    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    effects: Mapping[str, Float[np.ndarray, " n"]]
    """What each coupling says the policy would have added."""
    bounds: Bounds
    """The effects over all couplings."""
    intervals: Mapping[str, Interval]
    """By coupling: what the effects would be with other data; empty where the model is taken as given."""
    doubted: Interval | None
    """What the effects would be with other data and any coupling."""
    horizon: int
    discount: float
    notes: tuple[str, ...]
    """What the numbers leave out, and what was chosen, in words."""

    @property
    def robust(self) -> Bool[np.ndarray, " n"]:
        """Whether every coupling says that the policy would have helped, and with the stated confidence every model."""
        agreed = self.bounds.lower > SMALL
        return agreed if self.doubted is None else agreed & (self.doubted.lower > SMALL)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The positions of the episodes, the largest claim of the first coupling first."""
        return np.lexsort((-self.bounds.lower, -next(iter(self.effects.values()))))

    def to_frame(self) -> "pd.DataFrame":
        """One row for each episode, the largest claim of the first coupling first."""
        columns: dict[str, Any] = {"episode": list(self.episodes), "observed": self.observed}
        bounds = {"effect_lower": self.bounds.lower, "effect_upper": self.bounds.upper}
        columns |= zip(column_names("effect_", self.effects, bounds), self.effects.values(), strict=True)
        columns |= bounds
        limits: dict[str, Any] = {}
        if self.doubted is not None:
            limits = {"effect_any_ci_lower": self.doubted.lower, "effect_any_ci_upper": self.doubted.upper}
        for name, interval in zip(column_names("effect_", self.effects, bounds), self.intervals.values(), strict=False):
            columns |= {f"{name}_ci_lower": interval.lower, f"{name}_ci_upper": interval.upper}
        columns |= {**limits, "robust": self.robust}
        return import_pandas().DataFrame(columns).iloc[self.order].reset_index(drop=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: one record for each episode, in the same order."""
        robust = self.robust
        records = [
            {
                "episode": self.episodes[place],
                "observed": self.observed[place],
                "effects": {name: effect[place] for name, effect in self.effects.items()},
                "effect_bounds": Bounds(self.bounds.lower[place], self.bounds.upper[place]),
                "intervals": {name: _at(each, place) for name, each in self.intervals.items()},
                "doubted": None if self.doubted is None else _at(self.doubted, place),
                "robust": robust[place],
            }
            for place in self.order.tolist()
        ]
        return plain(
            {
                "couplings": list(self.effects),
                "horizon": self.horizon,
                "discount": self.discount,
                "notes": self.notes,
                "num_robust": robust.sum(),
                "episodes": records,
            }
        )

    def plot(self, most: int = _MOST_SHOWN) -> "Figure":
        """The effects of the first episodes, by coupling, within their bounds.

        Args:
            most: Number of episodes to show.
        """
        first = self.order[: as_whole("most", most, least=1)]
        return plotting.draw_effects(
            [str(self.episodes[place]) for place in first],
            {name: effect[first] for name, effect in self.effects.items()},
            Bounds(self.bounds.lower[first], self.bounds.upper[first]),
            title=f"The {len(first)} of {len(self.episodes)} episodes that would have gained most",
            label="what the other policy would have added",
            doubted=None if self.doubted is None else (self.doubted.lower[first], self.doubted.upper[first]),
        )

    def listing(self, most: int) -> Group:
        """The first episodes on a terminal, and what is left out.

        Args:
            most: Number of episodes to show.
        """
        effects = [f"effect, {name}" for name in self.effects]
        title = f"{self._summary}; horizon {self.horizon}, discount {self.discount:g}"
        other = [] if self.doubted is None else ["other data"]
        shown = listing(title, ["episode", "observed", *effects, "effect lower", "effect upper", *other, "robust"])
        robust = self.robust
        for place in self.order[: as_whole("most", most, least=1)].tolist():
            numbers = (self.observed, *self.effects.values(), *self.bounds)
            cells = [f"{each[place]:z.3f}" for each in numbers]
            if self.doubted is not None:
                cells.append(f"{self.doubted.lower[place]:z.3f} to {self.doubted.upper[place]:z.3f}")
            add_line(shown, [str(self.episodes[place]), *cells, "yes" if robust[place] else "no"])
        told = "Lower and upper are over all couplings" + ("." if self.doubted is None else ", other data too.")
        return Group(shown, Text(told), *(Text(note) for note in self.notes))

    def __rich__(self) -> Group:
        return self.listing(_MOST_SHOWN)

    def __repr__(self) -> str:
        return f"Ranking({self._summary})"

    @property
    def _summary(self) -> str:
        name, first = next(iter(self.effects.items()))
        agreed = int((self.bounds.lower > SMALL).sum())
        told = (
            f"{len(first)} episodes; {name} says {int((first > SMALL).sum())} would have gained; "
            f"every coupling says so of {agreed}"
        )
        if self.doubted is None:
            return f"{told}, if the model is right"
        return f"{told}, and of {int(self.robust.sum())} with {100 * self.doubted.level:g}% confidence in the model too"


def rank_episodes(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    *,
    couplings: Couplings | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    actions: str = "fresh",
    behaviour: Values | None = None,
    doubt: Doubt | None = None,
    engine: str = "local",
    progress: bool | None = None,
) -> Ranking:
    """Sorts out which claims rest on the coupling and which on the data.

    Args:
        mdp: The process.
        log: Logged episodes.
        policy: [state, action]: what would have been done.
        couplings: Couplings by name, the one to sort by first; by default Gumbel-max and inverse CDF.
        outcomes: Label of each state as an outcome; see `replay`.
        horizon: Number of steps, also of the logged episodes; by default that of the longest episode.
        discount: Discount factor for each step; by default the process's own.
        censored: Treatment of episodes that stop before their end; see `replay`.
        actions: Way in which actions are drawn; see `replay`.
        behaviour: [state, action]: what the log was made with, for coupled actions.
        doubt: Doubt about the process; by default an estimate is doubted, and a process without counts is not.
        engine: "local", or "ray" for parts of the episodes, and processes of a doubt, on a cluster; see `replay`.
        progress: Whether to show progress bars; by default if the output is a terminal.
    """
    asked = chosen_couplings(couplings)
    options: dict[str, Any] = {
        "horizon": horizon,
        "discount": discount,
        "censored": censored,
        "actions": actions,
        "behaviour": behaviour,
    }
    replays = {
        name: replay(mdp, log, policy, each, outcomes=outcomes, engine=engine, progress=progress, **options)
        for name, each in asked.items()
    }
    bounds = trajectory_bounds(mdp, log, policy, engine=engine, progress=progress, **options)
    first = next(iter(replays.values()))

    doubts = doubt_of(mdp, doubt)
    effects = partial(_effects, log, policy, asked, outcomes, options, first.observed)
    drawn = doubted(mdp, doubts, effects, progress, outcomes=outcomes, engine=engine)
    found = percentile_interval(drawn, doubts.level)
    return Ranking(
        episodes=first.episodes,
        observed=first.observed,
        effects={name: each.effects for name, each in replays.items()},
        bounds=bounds.shifted(-first.observed),
        intervals={}
        if found is None
        else {name: Interval(found.lower[place], found.upper[place], found.level) for place, name in enumerate(asked)},
        doubted=None if found is None else Interval(found.lower[-2], found.upper[-1], found.level),
        horizon=first.horizon,
        discount=first.discount,
        notes=(*(note for note in first.notes if note != MODEL_GIVEN), doubts.told(mdp)),
    )


def _effects(
    log: EpisodeLog,
    policy: Values,
    couplings: Mapping[str, AbstractCoupling],
    outcomes: Values | None,
    options: dict[str, Any],
    observed: Floats,
    process: FiniteMDP,
) -> Floats:
    """[coupling and two bounds, episode]."""
    found = [replayed_values(process, log, policy, each, outcomes=outcomes, **options) for each in couplings.values()]
    limits = trajectory_bounds(process, log, policy, progress=False, **options)
    return np.stack([*found, *limits]) - observed


def _at(interval: Interval, place: int) -> Interval:
    return Interval(interval.lower[place], interval.upper[place], interval.level)
