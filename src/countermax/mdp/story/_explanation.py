"""One patient's story, and how it is told: in sentences, as a picture, as a table, as a page."""

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from countermax import plotting, report
from countermax._core.extras import import_pandas
from countermax.mdp.replays import Decision, Leeway

if TYPE_CHECKING:
    import pandas as pd

_MOST_DECISIONS = 8  # in the page; the frame and the JSON have all of them
_SMALL = 0.005  # effects and widths below this are not worth a sentence


@final
@dataclass(frozen=True, eq=False)
class Explanation:
    """Factual and counterfactual side by side, over time."""

    episode: Hashable
    features: tuple[str, ...]
    observed: Float[np.ndarray, "times f"]
    """The features of the logged states, up to the end of the episode."""
    counterfactual: Mapping[str, Float[np.ndarray, "all_times f"]]
    """By mechanism: their probabilities, or means, under the other policy."""
    lower: Float[np.ndarray, "all_times f"]
    """The least that any mechanism gives."""
    upper: Float[np.ndarray, "all_times f"]
    """The most."""
    observed_return: float
    values: Mapping[str, float]
    """By mechanism: what the episode would have earned on average."""
    standard_deviations: Mapping[str, float]
    value_bounds: tuple[float, float]
    leeway: Leeway
    """How the value moves if one step's mechanism is another, the first mechanism being that of the others."""
    decisions: tuple[Decision, ...]
    """Single actions changed, the largest effect first, by the first mechanism."""
    treatments: tuple[str, ...]
    """What actions are made of."""
    given: Float[np.ndarray, "steps p"]
    """Which of them was given at each step."""
    wanted: Float[np.ndarray, "t p"]
    """How likely the other policy is to give each, by the first mechanism."""
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
        times = len(self.lower)
        seen = np.full(self.lower.shape, np.nan)
        seen[: len(self.observed)] = self.observed
        columns: dict[str, Any] = {
            "time": np.repeat(np.arange(times), len(self.features)),
            "feature": list(self.features) * times,
            "observed": seen.ravel(),
        }
        columns |= {name: each.ravel() for name, each in self.counterfactual.items()}
        columns |= {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        return import_pandas().DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {
            "episode": self.episode if isinstance(self.episode, int | str) else str(self.episode),
            "findings": list(self.findings),
            "observed_return": self.observed_return,
            "values": dict(self.values),
            "standard_deviations": dict(self.standard_deviations),
            "value_bounds": {"lower": self.value_bounds[0], "upper": self.value_bounds[1]},
            "states": list(self.state_labels),
            "actions": list(self.action_labels),
            "features": list(self.features),
            "observed": self.observed.tolist(),
            "counterfactual": {name: each.tolist() for name, each in self.counterfactual.items()},
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "leeway": {"lower": self.leeway.lower.tolist(), "upper": self.leeway.upper.tolist()},
            "decisions": [each._asdict() for each in self.decisions],
            "treatments": list(self.treatments),
            "given": self.given.tolist(),
            "wanted": self.wanted.tolist(),
        }

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2)

    def plot(self) -> Figure:
        """Treatments, features and the mechanism's part, over time."""
        return plotting.draw_trajectory(
            features=self.features,
            observed=self.observed,
            answers=self.counterfactual,
            bounds=(self.lower, self.upper),
            treatments=self.treatments,
            given=self.given,
            wanted=self.wanted,
            leeway=(self.leeway.lower, self.leeway.upper),
            decision=self.decisions[0].step if self.decisions and self.decisions[0].effect > 0 else None,
            title=f"Episode {self.episode}: what happened, and what would have happened under the other policy",
        )

    def write_report(self, path: str | Path) -> Path:
        """A self-contained page with the story, the picture and the tables."""
        names = list(self.values)
        decisions = [
            (
                f"step {each.step}",
                self.action_labels[each.step],
                self.action_names[each.other_action],
                each.effect,
                each.lower,
                each.upper,
            )
            for each in self.decisions[:_MOST_DECISIONS]
        ]
        answers = [(name, self.observed_return, self.values[name], self.standard_deviations[name]) for name in names]
        parts: list[report.Part] = [
            *(report.Text(sentence) for sentence in self.findings),
            report.Picture(plotting.picture(self.plot()), "treatments and features over time"),
            report.Text(
                "Black: what happened. Coloured: what would have happened under the other policy, by mechanism. Grey: "
                "what any mechanism could say; the data do not tell which of them is right.",
                note=True,
            ),
            report.Heading("What the episode would have earned"),
            report.Rows(("mechanism", "observed", "counterfactual", "standard deviation"), answers),
            report.Heading("One decision changed, the rest as it was"),
            report.Rows(
                ("when", "done", "instead", "effect", "least, any mechanism", "most, any mechanism"), decisions
            ),
            report.Preformatted("All numbers", self.to_json()),
        ]
        return report.write_report(Path(path), f"Episode {self.episode}", parts)


def _findings(story: Explanation) -> Iterator[str]:
    name, value = next(iter(story.values.items()))
    least, most = story.value_bounds
    steps = len(story.given)
    spent = f"{steps} steps" if steps > 1 else "one step"
    yield f"In {spent} the episode earned {story.observed_return:.3g} and ended in: {story.state_labels[-1]}."
    others = ", ".join(f"{other} {each:.3g}" for other, each in list(story.values.items())[1:])
    yield (
        f"Under the other policy it would have earned {value:.3g} on average by {name}"
        + (f" ({others})" if others else "")
        + f"; whatever the mechanism, between {least:.3g} and {most:.3g}."
    )
    if most - least < _SMALL:
        yield "The data fix the answer: the mechanism hardly matters."
    elif least > story.observed_return + _SMALL:
        yield "Every mechanism agrees that this would have been better."
    elif most < story.observed_return - _SMALL:
        yield "Every mechanism agrees that this would have been worse."
    else:
        yield "Whether this would have been better depends on the mechanism, which data do not tell."
    width = story.leeway.width
    if len(width) and width.max() > _SMALL:
        step = int(width.argmax())
        yield (
            f"The choice of mechanism matters most at step {step}: another one there alone would give anything between "
            f"{story.leeway.lower[step]:.3g} and {story.leeway.upper[step]:.3g}."
        )
    if story.decisions and story.decisions[0].effect > _SMALL:
        best = story.decisions[0]
        robust = "by every mechanism" if best.lower > _SMALL else "but not by every mechanism"
        yield (
            f"The single decision that would have mattered most: at step {best.step}, "
            f"{story.action_names[best.other_action]} instead of {story.action_names[best.action]} would have added "
            f"{best.effect:.3g} ({robust}: {best.lower:.3g} to {best.upper:.3g})."
        )
    elif story.decisions:
        yield "No other single decision would have helped."
