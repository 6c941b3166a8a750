"""What a replay shows, exact or drawn: one line for each episode."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax.intervals import Interval
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
    interval: Interval | None = None
    """Of the effect."""

    def columns(self) -> dict[str, Any]:
        """For a frame."""
        return {"episode": list(self.episode), **dict(zip(self._names[1:], self._numbers, strict=True))}

    def records(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [dict(zip(self._names, row, strict=True)) for row in zip(self.episode, *self._numbers, strict=True)]

    def shown(self, title: str, notes: tuple[str, ...]) -> Group:
        """For a terminal: the first episodes, then the mean over all of them, and what is left out."""
        headers = [name.replace("_ci_", " interval ").replace("_", " ") for name in self._names]
        shown = listing(title, headers)
        count = len(self.episode)
        last = min(count, _MOST_SHOWN) - 1
        for place in range(last + 1):
            numbers = (f"{column[place]:z.4f}" for column in self._numbers)
            add_line(shown, [str(self.episode[place]), *numbers], last=place == last)
        empty = [""] * (len(self._names) - 1)
        if count > _MOST_SHOWN:
            add_line(shown, [f"... {count - _MOST_SHOWN} more", *empty])
        means = [f"{np.mean(column):z.4f}" for column in self._numbers[:3]]
        add_line(shown, ["mean", *means, *empty[3:]])
        return Group(shown, *(Text(note) for note in notes))

    @property
    def _names(self) -> tuple[str, ...]:
        return self._fields[:-1] + (() if self.interval is None else ("effect_ci_lower", "effect_ci_upper"))

    @property
    def _numbers(self) -> tuple[Floats, ...]:
        return self[1:-1] + (() if self.interval is None else (self.interval.lower, self.interval.upper))

    def plot(self, title: str) -> "Figure":
        """Effects from the largest to the smallest."""
        return plotting.draw_waterfall(self.effect, self.standard_deviation, title=title, label="effect on the return")


def notes(
    of_log: tuple[str, ...],
    censored: Bool[np.ndarray, " n"],
    carried_on: bool,
    actions: str,
    doubt: str = MODEL_GIVEN,
) -> tuple[str, ...]:
    """What is said beside the numbers of a replay.

    Args:
        of_log: Sentences about the log.
        censored: [episode]: whether it stops before its end.
        carried_on: Whether the model carries them on.
        actions: Description of how actions are drawn.
        doubt: Description of how the model was doubted.
    """
    stopped = int(censored.sum())
    told = (
        "carried on with the model in both worlds, the factual one by what was usually done"
        if carried_on
        else "compared up to where they stop"
    )
    which = f"{stopped} of {len(censored)} episodes stop before their end: {told}." if stopped else ""
    return tuple(each for each in (*of_log, which, actions, doubt) if each)
