"""One patient's story, and how it is told: in sentences, as a picture, as a frame, as a page."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float
from rich.console import Group
from rich.text import Text

from countermax import plotting, report
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds
from countermax.mdp._couplings import column_names
from countermax.mdp._process import MODEL_GIVEN
from countermax.mdp.replays import Decisions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_DECISIONS = 8  # in the page; the JSON has all of them
_SMALL = 0.005  # effects and widths below this are not worth a sentence


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Story(AbstractResult):
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
    step_bounds: Bounds
    """The value if one step's coupling is any other, for each step; the first coupling is that of the others."""
    decisions: Decisions
    """Single actions changed, the largest effect first, by the first coupling."""
    treatments: tuple[str, ...]
    """What actions are made of."""
    given: Float[np.ndarray, "steps p"]
    """Which of them was given at each step."""
    wanted: Float[np.ndarray, "t p"]
    """How likely the other policy is to give each, by the first coupling."""
    state_labels: tuple[str, ...]
    """The logged states, in words."""
    action_labels: tuple[str, ...]
    """The logged actions, in words."""
    action_names: tuple[str, ...]
    """All actions, in words."""

    @property
    def findings(self) -> tuple[str, ...]:
        """The story in sentences."""
        return tuple(_findings(self))

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
        return plain({**vars(self), "decisions": self.decisions.decisions, "findings": self.findings})

    def plot(self) -> "Figure":
        """Treatments, features and the coupling's part, over time."""
        return plotting.draw_trajectory(
            features=self.features,
            observed=self.observed,
            answers=self.counterfactual,
            bounds=self.bounds,
            treatments=self.treatments,
            given=self.given,
            wanted=self.wanted,
            step_bounds=self.step_bounds,
            decision=self.decisions[0].step if self.decisions and self.decisions[0].effect > 0 else None,
            title=f"Episode {self.episode}: what happened, and what would have happened under the other policy",
        )

    def __rich__(self) -> Group:
        title = f"Episode {self.episode}: what it would have earned; discount {self.discount:g}"
        shown = listing(title, ["coupling", "observed", "counterfactual", "standard deviation"])
        for name, observed, value, deviation in self._answers():
            add_line(shown, [name, f"{observed:z.4f}", f"{value:z.4f}", f"{deviation:z.4f}"])
        least, most = self.value_bounds
        add_line(shown, ["any coupling", "", f"{least:z.4f} to {most:z.4f}", ""])
        return Group(*(Text(sentence) for sentence in self.findings), Text(), shown)

    def write_report(self, path: str | Path) -> Path:
        """A self-contained page with the story, the picture and the numbers."""
        decisions = [
            (
                f"step {each.step}",
                self.action_labels[each.step],
                self.action_names[each.other_action],
                each.effect,
                each.effect_bounds.lower,
                each.effect_bounds.upper,
            )
            for each in self.decisions.decisions[:_MOST_DECISIONS]
        ]
        blocks: list[report.Block] = [
            *(report.Paragraph(sentence) for sentence in self.findings),
            report.Picture(plotting.picture(self.plot()), "treatments and features over time"),
            report.Paragraph(
                "Black: what happened. Coloured: what would have happened under the other policy, by coupling. Grey: "
                "what any coupling could say; the data do not tell which of them is right.",
                note=True,
            ),
            report.Heading("What the episode would have earned"),
            report.Grid(("coupling", "observed", "counterfactual", "standard deviation"), self._answers()),
            report.Heading("One decision changed, the rest as it was"),
            report.Grid(("when", "done", "instead", "effect", "effect lower", "effect upper"), decisions),
            report.Preformatted("All numbers", self.to_json()),
        ]
        return report.write_report(Path(path), f"Episode {self.episode}", blocks)

    def _answers(self) -> list[tuple[str, float, float, float]]:
        return [
            (name, self.observed_return, value, self.standard_deviations[name]) for name, value in self.values.items()
        ]


def _findings(story: Story) -> Iterator[str]:
    name, value = next(iter(story.values.items()))
    least, most = story.value_bounds
    steps = len(story.given)
    spent = f"{steps} steps" if steps > 1 else "one step"
    yield f"In {spent} the episode earned {story.observed_return:.3g} and came to: {story.state_labels[-1]}."
    others = ", ".join(f"{other} {each:.3g}" for other, each in list(story.values.items())[1:])
    yield (
        f"Under the other policy it would have earned {value:.3g} on average by {name}"
        + (f" ({others})" if others else "")
        + f"; whatever the coupling, between {least:.3g} and {most:.3g}."
    )
    if most - least < _SMALL:
        yield "The data fix the answer: the coupling hardly matters."
    elif least > story.observed_return + _SMALL:
        yield "Every coupling agrees that this would have been better."
    elif most < story.observed_return - _SMALL:
        yield "Every coupling agrees that this would have been worse."
    else:
        yield "Whether this would have been better depends on the coupling, which data do not tell."
    width = story.step_bounds.width
    if len(width) and width.max() > _SMALL:
        step = int(width.argmax())
        yield (
            f"The choice of coupling matters most at step {step}: another one there alone would give anything between "
            f"{story.step_bounds.lower[step]:.3g} and {story.step_bounds.upper[step]:.3g}."
        )
    if story.decisions and story.decisions[0].effect > _SMALL:
        best = story.decisions[0]
        least, most = best.effect_bounds
        robust = "by every coupling" if least > _SMALL else "but not by every coupling"
        yield (
            f"The single decision that would have mattered most: at step {best.step}, "
            f"{story.action_names[best.other_action]} instead of {story.action_names[best.action]} would have added "
            f"{best.effect:.3g} ({robust}: {least:.3g} to {most:.3g})."
        )
    elif story.decisions:
        yield "No other single decision would have helped."
    yield MODEL_GIVEN
