"""For which episodes the model claims most, beside how robust the claim is."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Float
from rich import box
from rich.table import Table
from rich.text import Text

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax.couplings import AbstractSampler, GumbelMax, InverseCDF
from countermax.mdp._arrays import Values
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays import replay, trajectory_bounds

if TYPE_CHECKING:
    import pandas as pd

_MOST_SHOWN = 20


@final
@dataclass(frozen=True, eq=False)
class Ranking:
    """Effects of a policy on each episode, by mechanism and over all of them."""

    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    effects: Mapping[str, Float[np.ndarray, " n"]]
    """What each mechanism says the policy would have added."""
    lower: Float[np.ndarray, " n"]
    """The least that any mechanism says."""
    upper: Float[np.ndarray, " n"]
    """The most."""

    @property
    def robust(self) -> Bool[np.ndarray, " n"]:
        """Whether every mechanism says that the policy would have helped."""
        return self.lower > 1e-9

    def to_frame(self) -> "pd.DataFrame":
        """One row for each episode, the largest claim of the first mechanism first."""
        columns = {"episode": list(self.episodes), "observed": self.observed}
        columns |= {f"effect, {name}": effect for name, effect in self.effects.items()}
        columns |= {"least effect": self.lower, "most effect": self.upper, "robust": self.robust}
        first = next(iter(self.effects.values()))
        order = np.lexsort((-self.lower, -first))
        return import_pandas().DataFrame(columns).iloc[order].reset_index(drop=True)

    def table(self, most: int) -> Table:
        """The first rows as a table that rich can draw."""
        frame = self.to_frame()
        shown = Table(
            title=Text(repr(self)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for column in frame.columns:
            shown.add_column(Text(column), justify="left" if column == "episode" else "right", no_wrap=True)
        for row in frame.head(most).itertuples(index=False):
            *values, robust = row[1:]
            shown.add_row(Text(str(row[0])), *(f"{value:.3f}" for value in values), "yes" if robust else "no")
        return shown

    def __rich__(self) -> Table:
        return self.table(_MOST_SHOWN)

    def __repr__(self) -> str:
        name, first = next(iter(self.effects.items()))
        helped = first > 1e-9
        return (
            f"Ranking({len(first)} episodes; {name} says {int(helped.sum())} would have gained; "
            f"every mechanism says so of {int(self.robust.sum())})"
        )


def rank_episodes(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    *,
    mechanisms: Mapping[str, AbstractSampler] | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Sorts out which claims rest on the mechanism and which on the data.

    Args:
        mdp: The process.
        log: What happened.
        policy: [state, action]: what would have been done.
        mechanisms: Couplings by name, the one to sort by first; by default Gumbel-max and inverse CDF.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps; by default as many as the longest episode has.
        discount: In place of the process's own.
        progress: Whether to show progress bars; by default if the output is a terminal.
    """
    if mechanisms is None:
        mechanisms = {"Gumbel-max": GumbelMax(), "inverse CDF": InverseCDF()}
    if not mechanisms:
        raise InputError("`mechanisms` must name at least one mechanism")
    replays = {
        name: replay(mdp, log, policy, each, outcomes=outcomes, horizon=horizon, discount=discount, progress=progress)
        for name, each in mechanisms.items()
    }
    bounds = trajectory_bounds(mdp, log, policy, horizon=horizon, discount=discount, progress=progress)
    first = next(iter(replays.values()))
    return Ranking(
        first.episodes,
        first.observed,
        {name: each.effects for name, each in replays.items()},
        bounds.lower - first.observed,
        bounds.upper - first.observed,
    )
