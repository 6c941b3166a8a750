"""For which episodes the model claims most, beside how robust the claim is."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from rich.console import Group
from rich.text import Text

from countermax import plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds
from countermax.mdp._arrays import Values, as_whole
from countermax.mdp._couplings import Couplings, chosen_couplings, column_names
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP
from countermax.mdp.log import EpisodeLog
from countermax.mdp.replays import replay, trajectory_bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_SHOWN = 20
_SMALL = 1e-9  # an effect below this is rounding


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking(AbstractResult):
    """Effects of a policy on each episode, by coupling and over all of them."""

    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    effects: Mapping[str, Float[np.ndarray, " n"]]
    """What each coupling says the policy would have added."""
    bounds: Bounds
    """The effects over all couplings."""
    horizon: int
    discount: float

    @property
    def robust(self) -> Bool[np.ndarray, " n"]:
        """Whether every coupling says that the policy would have helped."""
        return self.bounds.lower > _SMALL

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The positions of the episodes, the largest claim of the first coupling first."""
        return np.lexsort((-self.bounds.lower, -next(iter(self.effects.values()))))

    def to_frame(self) -> "pd.DataFrame":
        """One row for each episode, the largest claim of the first coupling first."""
        columns: dict[str, Any] = {"episode": list(self.episodes), "observed": self.observed}
        bounds = {"effect_lower": self.bounds.lower, "effect_upper": self.bounds.upper}
        columns |= zip(column_names("effect_", self.effects, bounds), self.effects.values(), strict=True)
        columns |= {**bounds, "robust": self.robust}
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
                "robust": robust[place],
            }
            for place in self.order.tolist()
        ]
        return plain(
            {
                "couplings": list(self.effects),
                "horizon": self.horizon,
                "discount": self.discount,
                "num_robust": robust.sum(),
                "episodes": records,
            }
        )

    def plot(self, most: int = _MOST_SHOWN) -> "Figure":
        """The effects of the first episodes, by coupling, within their bounds.

        Args:
            most: How many episodes to show.
        """
        first = self.order[: as_whole("most", most, least=1)]
        return plotting.draw_effects(
            [str(self.episodes[place]) for place in first],
            {name: effect[first] for name, effect in self.effects.items()},
            Bounds(self.bounds.lower[first], self.bounds.upper[first]),
            title=f"The {len(first)} of {len(self.episodes)} episodes that would have gained most",
            label="what the other policy would have added",
        )

    def listing(self, most: int) -> Group:
        """The first episodes on a terminal, and what is left out.

        Args:
            most: How many episodes to show.
        """
        effects = [f"effect, {name}" for name in self.effects]
        title = f"{self._summary}; horizon {self.horizon}, discount {self.discount:g}"
        shown = listing(title, ["episode", "observed", *effects, "effect lower", "effect upper", "robust"])
        robust = self.robust
        for place in self.order[: as_whole("most", most, least=1)].tolist():
            numbers = (self.observed, *self.effects.values(), *self.bounds)
            cells = [f"{each[place]:z.3f}" for each in numbers]
            add_line(shown, [str(self.episodes[place]), *cells, "yes" if robust[place] else "no"])
        return Group(shown, Text(f"Lower and upper are over all couplings. {MODEL_GIVEN}"))

    def __rich__(self) -> Group:
        return self.listing(_MOST_SHOWN)

    def __repr__(self) -> str:
        return f"Ranking({self._summary})"

    @property
    def _summary(self) -> str:
        name, first = next(iter(self.effects.items()))
        return (
            f"{len(first)} episodes; {name} says {int((first > _SMALL).sum())} would have gained; "
            f"every coupling says so of {int(self.robust.sum())}"
        )


def rank_episodes(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    *,
    couplings: Couplings | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Sorts out which claims rest on the coupling and which on the data.

    Args:
        mdp: The process.
        log: What happened.
        policy: [state, action]: what would have been done.
        couplings: Couplings by name, the one to sort by first; by default Gumbel-max and inverse CDF.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps, of what happened too; by default as many as the longest episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own.
        progress: Whether to show progress bars; by default if the output is a terminal.
    """
    replays = {
        name: replay(mdp, log, policy, each, outcomes=outcomes, horizon=horizon, discount=discount, progress=progress)
        for name, each in chosen_couplings(couplings).items()
    }
    bounds = trajectory_bounds(mdp, log, policy, horizon=horizon, discount=discount, progress=progress)
    first = next(iter(replays.values()))
    return Ranking(
        episodes=first.episodes,
        observed=first.observed,
        effects={name: each.effects for name, each in replays.items()},
        bounds=bounds.shifted(-first.observed),
        horizon=first.horizon,
        discount=first.discount,
    )
