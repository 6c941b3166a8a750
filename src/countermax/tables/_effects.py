"""Effects of the change on a score: their mean, their variance under each mechanism, and which mechanism to choose."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from countermax import plotting
from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax.couplings import AbstractCoupling, Gadget2, as_coupling
from countermax.learning import Fit
from countermax.tables._choice import BY_SCORE, LEARNED, choose, learned_on, least_by_transport, standard
from countermax.tables._probabilities import Given
from countermax.tables._rows import CHUNK_ROWS, Reader
from countermax.tables._scores import EffectSums, as_scores
from countermax.tables.frames import Floats, as_frame


@dataclass(frozen=True, eq=False)
class TableEffects:
    """Effects `score(X) - score(Y)` of a frame's rows. Print it with rich, or take `to_frame` and `plot`."""

    scores: tuple[str, ...]
    average: Floats
    """The mean effect on each score, which data fix."""
    average_error: Floats
    """Its standard error over rows."""
    variances: Mapping[str, float]
    """The variance of the effect over everybody under each mechanism; summed over scores where there are several."""
    least_variance: float | None
    """The least that any mechanism can have; None where it would take too long to find out."""
    most_variance: float | None
    """The most that any mechanism can have, for one score."""
    mechanisms: Mapping[str, AbstractCoupling]
    choice: str
    """The mechanism to choose for this score."""
    reason: str
    fit: Fit[Gadget2] | None
    """How the learned mechanism came about, if one was asked for."""
    individual: Any
    """A frame with each row's effect under each mechanism and its bounds; None where no outcome was given."""
    num_rows: int
    make_frame: Any
    """Turns columns into a frame of the library that the data came in."""

    @property
    def mechanism(self) -> AbstractCoupling:
        """The mechanism to choose."""
        return self.mechanisms[self.choice]

    def to_frame(self) -> Any:
        """One row for each mechanism."""
        return self.make_frame(
            {
                "mechanism": list(self.variances),
                "variance": list(self.variances.values()),
                "standard_deviation": [float(np.sqrt(value)) for value in self.variances.values()],
                "above_least": [self._above_least(value) for value in self.variances.values()],
            }
        )

    def plot(self, title: str = "The mean effect is the same; its variance is not") -> Figure:
        """Bars: the variance of the effect under each mechanism."""
        return plotting.draw_variances(self.variances, title, "variance of the effect", self.least_variance)

    def __rich__(self) -> Group:
        means = ", ".join(
            f"{name} {mean:+.4g} +- {error:.2g}"
            for name, mean, error in zip(self.scores, self.average, self.average_error, strict=True)
        )
        table = Table(title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.title = Text(f"{self.num_rows:,} rows, mean effect: {means}")
        for place, header in enumerate(("mechanism", "variance", "standard deviation", "above the least")):
            table.add_column(header, justify="right" if place else "left", no_wrap=True)
        for name, value in sorted(self.variances.items(), key=lambda item: item[1]):
            above = self._above_least(value)
            words = "" if above is None else f"{above:.1%}"
            table.add_row(Text(name), f"{value:.4g}", f"{np.sqrt(value):.4g}", words)
        return Group(table, Text(f"Choose {self.choice}: {self.reason}"))

    def _above_least(self, variance: float) -> float | None:
        if self.least_variance is None or self.least_variance <= 0:
            return None
        return variance / self.least_variance - 1


def effects(
    frame: Any,
    *,
    factual: Given,
    counterfactual: Given,
    score: Any,
    counterfactual_score: Any = None,
    outcome: Any = None,
    mechanisms: Mapping[str, str | Path | AbstractCoupling] | None = None,
    labels: Sequence[Hashable] | None = None,
    learn: bool | Gadget2 = False,
    key: PRNGKeyArray | None = None,
    fit_options: Mapping[str, Any] | None = None,
    normalise: bool = False,
    errors: str = "raise",
    progress: bool | None = None,
) -> TableEffects:
    """Average and individual effects of the change, their variance under each mechanism, and which one to choose.

    An effect is what was seen less what would have been, `score(X) - score(Y)`. Data fix its mean; how much it varies
    between people is the mechanism's doing. For one score the inverse CDF in the order of the score has the least
    variance of all mechanisms, for every row at once, and nothing has to be learned. For several scores no order is
    optimal; then `learn=True` trains a gadget on the frame's own pairs of worlds.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        score: A number for each outcome, by label or in the order of the labels; or several scores by name,
            `{"quality": {...}, "cost": {...}}`, or as an array [outcomes, scores]. Variances of several are added up,
            so bring them to one scale.
        counterfactual_score: The score in the other world, if it is another one.
        outcome: The column with the outcomes seen, or an array of them; adds individual effects.
        mechanisms: The mechanisms to compare, by name; by default the library's own.
        labels: The outcomes in their order; by default that of `factual`.
        learn: Whether to train a gadget; or the gadget to train.
        key: Of training; by default `jax.random.key(0)`.
        fit_options: Passed on to `countermax.fit`: steps, batch_size, learning_rate, ...
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: What to do with rows that cannot be answered: `raise`, or leave them out (`missing`).
        progress: Whether to show progress bars; by default on a terminal.
    """
    asked = as_frame(frame)
    reader = Reader(asked, outcome, factual, counterfactual, labels=labels, normalise=normalise, errors=errors)
    scores = as_scores(reader.labels, score, counterfactual_score)
    compared = standard(scores)
    if mechanisms is not None:
        by_score = scores.factual[:, 0] if scores.one_order else None
        given = {name: as_coupling(each, len(reader.labels), by_score) for name, each in mechanisms.items()}
        compared = given | {name: each for name, each in compared.items() if name == BY_SCORE}
    if not compared and learn is False:
        raise InputError("`mechanisms` must name at least one mechanism, got none")
    learned: Fit[Gadget2] | None = None
    if learn is not False:
        key = jax.random.key(0) if key is None else key
        gadget = None if learn is True else learn
        learned = learned_on(reader, scores, gadget, dict(fit_options or {}), progress, key=key)
        compared[LEARNED] = learned.coupling
    elif fit_options is not None:
        raise InputError("`fit_options` needs learn=True beside it")

    sums = EffectSums(scores, compared, num_rows=asked.num_rows, individual=outcome is not None)
    shown = False if asked.num_rows <= CHUNK_ROWS else progress
    with ProgressBar("effects", asked.num_rows, shown, unit="rows") as bar:
        for start, stop, questions in reader.chunks():
            sums.add(start, questions)
            bar.advance(stop - start)
    if sums.count == 0:
        raise InputError("`frame` must have at least one row that can be answered, got none")
    least = sums.least_variance if len(scores.names) == 1 else least_by_transport(reader, scores, sums.average)
    choice, reason = choose(scores, sums.variances, least)
    return TableEffects(
        scores=scores.names,
        average=sums.average,
        average_error=sums.average_error,
        variances=sums.variances,
        least_variance=least,
        most_variance=sums.most_variance,
        mechanisms=compared,
        choice=choice,
        reason=reason,
        fit=learned,
        individual=None if sums.rows is None else asked.made([(sums.names, sums.rows)], extend=False),
        num_rows=sums.count,
        make_frame=asked.from_columns,
    )
