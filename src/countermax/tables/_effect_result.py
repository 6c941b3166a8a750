"""Effects of the change on a score: the result, and how it shows itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.results import AbstractOldResult, plain
from countermax._tables.frames import Floats
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2
from countermax.intervals import Interval
from countermax.learning import Fit
from countermax.tables._notes import left_out_notes, shown_name, unchanged_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False)
class TableEffects(AbstractOldResult):
    """Effects `score(Y) - score(X)` in a table: the other world's score minus the factual one's, over its rows."""

    scores: tuple[str, ...]
    mean: Floats
    """The mean effect on each score, which data fix."""
    mean_error: Floats | None
    """Its standard error over rows, each row's probabilities taken as known; None for a single row."""
    mean_interval: Interval | None
    """What other data could have shown for the mean; only where the classifier was fitted again."""
    variances: Mapping[str, float]
    """The variance of the effect over everybody under each coupling; summed over scores where there are several."""
    variance_bounds: Bounds | None
    """The least and the largest variance over all couplings; None where it would take too long to find out."""
    variance_intervals: Mapping[str, Interval] | None
    """What other data could have shown for each variance; only where the classifier was fitted again."""
    variance_bounds_interval: Interval | None
    """Holds the whole range of `variance_bounds`; only where the classifier was fitted again."""
    what_is_known: str
    """What errors and intervals leave out, in words."""
    label_notes: tuple[str, ...]
    """That an order of the outcomes decides which nobody gave, and which labels look alike, where that is so."""
    couplings: Mapping[str, AbstractCoupling]
    choice: str
    """The name of the coupling to choose for this score."""
    reason: str
    fit: Fit[Gadget2] | None
    """How the learned coupling came about, if one was asked for."""
    individual: Any
    """A frame with each row's effect under each coupling and its bounds; None where no outcome was given."""
    num_rows: int
    num_unchanged: int
    """Rows that the change leaves as they were."""
    num_left_out: int
    """Rows without an answer, where they were to be left out."""
    make_frame: Callable[[Mapping[str, Sequence[Any]]], Any]
    """Turns columns into a frame of the library that the data came in."""

    @property
    def coupling(self) -> AbstractCoupling:
        """The coupling to choose."""
        return self.couplings[self.choice]

    def columns(self) -> dict[str, list[Any]]:
        """One entry for each coupling."""
        values = list(self.variances.values())
        columns = {
            "coupling": [shown_name(name) for name in self.variances],
            "variance": values,
            "standard_deviation": np.sqrt(values).tolist(),
            "above_least": [self._above_least(value) for value in values],
        }
        if self.variance_intervals is not None:
            found = [self.variance_intervals[name] for name in self.variances]
            columns |= {"variance_ci_lower": [each.lower for each in found]}
            columns |= {"variance_ci_upper": [each.upper for each in found]}
        return columns

    def to_frame(self) -> Any:
        """One row for each coupling; the rows' own effects are in `individual`."""
        return self.make_frame(self.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; the rows' own effects are in `individual`."""
        return plain(
            {
                "num_rows": self.num_rows,
                "num_unchanged": self.num_unchanged,
                "num_left_out": self.num_left_out,
                "scores": self.scores,
                "mean": self.mean,
                "mean_error": self.mean_error,
                "mean_interval": self.mean_interval,
                "variances": self.columns(),
                "variance_bounds": self.variance_bounds,
                "variance_bounds_interval": self.variance_bounds_interval,
                "choice": shown_name(self.choice),
                "reason": self.reason,
                "notes": self.notes,
            }
        )

    def plot(self, title: str = "The mean effect is the same; its variance is not") -> "Figure":
        """Bars: the variance of the effect under each coupling."""
        least = None if self.variance_bounds is None else self.variance_bounds.lower
        label = "variance of the effect"
        if self.variance_bounds is not None:
            label += "; any coupling: {:.3g} to {:.3g}".format(*self.variance_bounds)
        shown = {shown_name(name): value for name, value in self.variances.items()}
        found = self.variance_intervals
        intervals = None if found is None else {shown_name(name): interval for name, interval in found.items()}
        return plotting.draw_variances(shown, title, label, least, intervals=intervals)

    def __rich__(self) -> Group:
        words = [f"{name} {mean:+.4g}" for name, mean in zip(self.scores, self.mean, strict=True)]
        found = self.mean_interval
        if found is not None:
            words = [
                f"{each} ({100 * found.level:g} % interval {low:+.4g} to {high:+.4g})"
                for each, low, high in zip(words, found.lower, found.upper, strict=True)
            ]
        elif self.mean_error is not None:
            words = [f"{each} +- {error:.2g}" for each, error in zip(words, self.mean_error, strict=True)]
        headers = ["coupling", "variance", "standard deviation", "above the least"]
        if self.variance_intervals is not None and found is not None:
            headers.append(f"{100 * found.level:g} % interval of the variance")
        table = listing(f"{self.num_rows:,} rows, mean effect: {', '.join(words)}", headers)
        for name, value in sorted(self.variances.items(), key=lambda item: item[1]):
            above = self._above_least(value)
            cells = [
                shown_name(name),
                f"{value:.4g}",
                f"{np.sqrt(value):.4g}",
                "" if above is None else f"{above:z.1%}",
            ]
            if self.variance_intervals is not None:
                cells.append("{:.4g} to {:.4g}".format(*self.variance_intervals[name][:2]))
            add_line(table, cells)
        choice = f"Choose {shown_name(self.choice)}: {self.reason}"
        return Group(table, Text(" ".join(self.notes)), Text(choice))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers are, and what they leave out."""
        notes = ["An effect is the other world's score minus the factual one's; couplings agree on its mean."]
        if self.mean_interval is not None:
            notes.append(f"Intervals: what other data could have shown. {self.what_is_known}")
        elif self.mean_error is not None:
            notes.append(f"+- is its standard error over rows. {self.what_is_known}")
        if self.variance_bounds is not None:
            lower, upper = self.variance_bounds
            words = f"Any coupling has a variance between {lower:.4g} and {upper:.4g}"
            if self.variance_bounds_interval is not None:
                low, high, level = self.variance_bounds_interval
                words += (
                    f"; other data could have shown {low:.4g} to {high:.4g} ({100 * level:g} % interval of that range)"
                )
            notes.append(f"{words}.")
        notes += [*self.label_notes, *unchanged_notes(self.num_unchanged), *left_out_notes(self.num_left_out)]
        return tuple(notes)

    def _above_least(self, variance: float) -> float | None:
        if self.variance_bounds is None or self.variance_bounds.lower <= 0:
            return None
        return variance / self.variance_bounds.lower - 1
