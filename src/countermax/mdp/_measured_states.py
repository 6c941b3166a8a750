"""What the states are that were made from measurements."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from countermax import _plotting as plotting
from countermax._core.labels import listed
from countermax._core.results import AbstractResult, Row, Table
from countermax._core.words import number
from countermax.mdp._arrays import Ints


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredStates(AbstractResult):
    """States that were made from measurements, from worst to best, and the ends of episodes among them."""

    names: tuple[str, ...]
    sizes: Ints
    """Rows of each state; of an end, episodes."""
    features: tuple[str, ...]
    means: Float[np.ndarray, "s f"]
    """The mean of each feature; NaN for ends."""
    returns: Float[np.ndarray, " s"]
    """The mean return of the episodes that come there."""
    usual: tuple[str, ...]
    """What was done there most often; nothing at ends."""
    sample_size: int
    told: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{len(self.names)} states, {int(self._ends.sum())} of them ends, from {listed(self.features)}"

    @property
    def rows(self) -> tuple[Row, ...]:
        found = []
        for place, name in enumerate(self.names):
            found += [
                Row("rows" if not self._ends[place] else "episodes", name, "", float(self.sizes[place])),
                Row("mean return", name, "", float(self.returns[place])),
            ]
            if not self._ends[place]:
                means = zip(self.features, self.means[place], strict=True)
                found += [Row(f"mean {each}", name, "", float(mean)) for each, mean in means]
        return tuple(found)

    @property
    def sample(self) -> str:
        return f"{self.sample_size} episodes, {int(self.sizes[~self._ends].sum())} rows"

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            "What comes next depends on the state and on what is done, not on what else was measured or came before.",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return self.told

    def summary(self) -> str:
        order = np.flatnonzero(~self._ends)
        worst, best = order[self.returns[order].argmin()], order[self.returns[order].argmax()]
        return (
            f'Episodes that come to "{self.names[worst]}" earn {number(self.returns[worst])} on average, those that '
            f'come to "{self.names[best]}" {number(self.returns[best])}. The smallest state has '
            f"{self.sizes[order].min()} rows, the largest {self.sizes[order].max()}."
        )

    def tables(self) -> list[Table]:
        heads = ["state", "most often", "rows", "mean return", *self.features]
        lines = [
            [
                name,
                self.usual[place] or "(end)",
                str(self.sizes[place]),
                number(self.returns[place]),
                *("" if mean != mean else f"{mean:.4g}" for mean in self.means[place]),
            ]
            for place, name in enumerate(self.names)
        ]
        return [Table(heads, lines, 2)]

    def plot(self) -> "plotting.Figure":
        kept = np.flatnonzero(~self._ends)
        return plotting.draw_states(
            [self.names[each] for each in kept],
            list(self.features),
            self.means[kept],
            self.sizes[kept],
            title=self.title,
        )

    @property
    def _ends(self) -> Bool[np.ndarray, " s"]:
        return np.array([not each for each in self.usual])
