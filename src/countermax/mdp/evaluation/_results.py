"""What an evaluation returns: every estimate of one policy's value, and what they rest on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds
from countermax.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_ANY_COUPLING = "any coupling"
_NO_BOUNDS = "no bounds: the model calls logged steps impossible"
_NOTE = "The range over couplings takes the model as given: how well it was estimated is left out."


class Estimate(NamedTuple):
    """One estimate of the policy's value."""

    name: str
    kind: str
    """`observed`, `importance sampling`, `model` or `counterfactual`."""
    value: float | None
    """None where the log has no episode that the estimate could rest on."""
    interval: Interval | None
    """From resampled episodes; None where there are no resamples, or too many without a value."""
    reason: str | None = None
    """Why there is no value, or no interval, in words."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyEvaluation(AbstractOldResult):
    """All estimates, what they rest on, and what to be careful about."""

    estimates: tuple[Estimate, ...]
    bounds: Bounds | None
    """The counterfactual mean over these patients, whatever the coupling, if the model is right.

    None where the model calls logged steps impossible: then no coupling can say anything about them.
    """
    target: str
    """Which policy every estimate but the observed return is of, in words."""
    policy: Float[np.ndarray, "s a"]
    """The same as an array [state, action]; left out of `to_dict`."""
    effective_sample_size: float
    """How many equally weighted episodes importance sampling rests on."""
    num_episodes: int
    num_censored: int
    """How many episodes stop before the horizon without reaching an end; they count as far as they were seen."""
    num_resamples: int
    level: float
    horizon: int
    discount: float
    notes: tuple[str, ...]
    """What was taken as an end, in words, if nobody named the ends."""
    warnings: tuple[str, ...]

    def __getitem__(self, name: str) -> Estimate:
        """An estimate by its name."""
        for each in self.estimates:
            if each.name == name:
                return each
        raise KeyError(f"no estimate is called {name!r}; there are {', '.join(each.name for each in self.estimates)}")

    def to_frame(self) -> "pd.DataFrame":
        """One row for each estimate, and one for what any coupling could say: bounds in place of a value."""
        missing, intervals = float("nan"), [each.interval for each in self.estimates]
        bounds = Bounds(missing, missing) if self.bounds is None else self.bounds
        none = [missing] * len(self.estimates)
        columns = {
            "kind": [*(each.kind for each in self.estimates), "counterfactual"],
            "value": [*(missing if each.value is None else each.value for each in self.estimates), missing],
            "value_ci_lower": [*(missing if each is None else each.lower for each in intervals), missing],
            "value_ci_upper": [*(missing if each is None else each.upper for each in intervals), missing],
            "value_lower": [*none, bounds.lower],
            "value_upper": [*none, bounds.upper],
            "reason": [*(each.reason or "" for each in self.estimates), _NO_BOUNDS if self.bounds is None else ""],
        }
        pandas = import_pandas()
        index = pandas.Index([*(each.name for each in self.estimates), _ANY_COUPLING], name="estimate")
        return pandas.DataFrame(columns, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words; what cannot be estimated is None."""
        return plain({name: value for name, value in vars(self).items() if name != "policy"})

    def plot(self, *, truth: float | None = None) -> "Figure":
        """Dots with intervals, one line for each estimate.

        Args:
            truth: The value to be estimated, drawn as a line where it is known.
        """
        return plotting.draw_estimates(
            [
                (each.name, each.kind, each.value, *((None, None) if each.interval is None else each.interval[:2]))
                for each in self.estimates
                if each.value is not None
            ],
            bounds=self.bounds,
            truth=truth,
            title=f"The target policy's value, from {self.num_episodes} episodes",
            label=f"mean return over {self.horizon} steps",
        )

    def __rich__(self) -> Group:
        title = f"{self.num_episodes} episodes, horizon {self.horizon}, discount {self.discount:g}"
        shown = listing(title, ["estimate", "value", f"{100 * self.level:g}% interval"])
        for place, each in enumerate(self.estimates):
            interval = "" if each.interval is None else f"{each.interval.lower:z.4f} to {each.interval.upper:z.4f}"
            last = place == len(self.estimates) - 1
            add_line(shown, [each.name, "none" if each.value is None else f"{each.value:z.4f}", interval], last=last)
        bounds = "none" if self.bounds is None else f"{self.bounds.lower:z.4f} to {self.bounds.upper:z.4f}"
        add_line(shown, [_ANY_COUPLING, bounds, ""])
        size = f"effective sample size of importance sampling: {self.effective_sample_size:.1f}"
        reasons = [f"{each.name}: {each.reason}" for each in self.estimates if each.reason is not None]
        note = _NOTE if self.bounds is not None else f"{_ANY_COUPLING}: {_NO_BOUNDS}"
        return Group(
            shown,
            *map(Text, (f"Values of {self.target}.", size, *reasons, note, *self.notes)),
            *(Text(f"careful: {each}", style="yellow") for each in self.warnings),
        )
