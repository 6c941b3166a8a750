"""What a replay shows, exact or drawn: one line for each episode."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool
from rich.console import Group
from rich.text import Text

from countermax import plotting
from countermax._core.console import add_line, listing
from countermax.mdp._arrays import Floats
from countermax.mdp._process import MODEL_GIVEN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SHOWN = 20  # on a terminal; frames and JSON have them all


class ByEpisode(NamedTuple):
    """The numbers that are shown; one for each episode."""

    episode: tuple[Hashable, ...]
    observed: Floats
    counterfactual: Floats
    effect: Floats
    standard_deviation: Floats

    def columns(self) -> dict[str, Any]:
        """For a frame."""
        return {**self._asdict(), "episode": list(self.episode)}

    def records(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [dict(zip(self._fields, row, strict=True)) for row in zip(*self, strict=True)]

    def shown(self, title: str, notes: tuple[str, ...]) -> Group:
        """For a terminal: the first episodes, then the mean over all of them, and what is left out."""
        shown = listing(title, [name.replace("_", " ") for name in self._fields])
        count = len(self.episode)
        last = min(count, _MOST_SHOWN) - 1
        for place in range(last + 1):
            numbers = (f"{column[place]:z.4f}" for column in self[1:])
            add_line(shown, [str(self.episode[place]), *numbers], last=place == last)
        if count > _MOST_SHOWN:
            add_line(shown, [f"... {count - _MOST_SHOWN} more", *[""] * 4])
        means = (f"{np.mean(column):z.4f}" for column in self[1:4])
        add_line(shown, ["mean", *means, ""])
        return Group(shown, *(Text(note) for note in notes))

    def plot(self, title: str) -> "Figure":
        """Effects from the largest to the smallest."""
        return plotting.draw_waterfall(self.effect, self.standard_deviation, title=title, label="effect on the return")


def notes(censored: Bool[np.ndarray, " n"], carried_on: bool, actions: str) -> tuple[str, ...]:
    """What is said beside the numbers of a replay.

    Args:
        censored: Which episodes stop before their end.
        carried_on: Whether the model carries them on.
        actions: How actions are drawn, in words.
    """
    stopped = int(censored.sum())
    told = (
        "carried on with the model in both worlds, the factual one by what was usually done"
        if carried_on
        else "compared up to where they stop"
    )
    which = f"{stopped} of {len(censored)} episodes stop before their end: {told}." if stopped else ""
    return tuple(each for each in (which, actions, MODEL_GIVEN) if each)
