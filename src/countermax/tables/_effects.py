"""Effects of the change on a score: their mean, their variance under each coupling, and which coupling to choose."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, final

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from rich.console import Group
from rich.text import Text

from countermax import plotting
from countermax._core.console import add_line, listing
from countermax._core.errors import InputError
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2, as_couplings, is_same
from countermax.learning import LEARNED, Fit
from countermax.tables._moments import EffectMoments
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._rows import Question, RowReader
from countermax.tables._scores import (
    Scores,
    as_scores,
    bounds_by_transport,
    choose,
    fixed_couplings,
    learned_coupling,
)
from countermax.tables.frames import Floats, as_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False)
class TableEffects(AbstractResult):
    """Effects `score(Y) - score(X)` in a table: the other world's score minus the factual one's, over its rows."""

    scores: tuple[str, ...]
    mean: Floats
    """The mean effect on each score, which data fix."""
    mean_error: Floats | None
    """Its standard error over rows, each row's probabilities taken as known; None for a single row."""
    variances: Mapping[str, float]
    """The variance of the effect over everybody under each coupling; summed over scores where there are several."""
    variance_bounds: Bounds | None
    """The least and the largest variance over all couplings; None where it would take too long to find out."""
    couplings: Mapping[str, AbstractCoupling]
    choice: str
    """The name of the coupling to choose for this score."""
    reason: str
    fit: Fit[Gadget2] | None
    """How the learned coupling came about, if one was asked for."""
    individual: Any
    """A frame with each row's effect under each coupling and its bounds; None where no outcome was given."""
    num_rows: int
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
        return {
            "coupling": list(self.variances),
            "variance": values,
            "standard_deviation": np.sqrt(values).tolist(),
            "above_least": [self._above_least(value) for value in values],
        }

    def to_frame(self) -> Any:
        """One row for each coupling; the rows' own effects are in `individual`."""
        return self.make_frame(self.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; the rows' own effects are in `individual`."""
        return plain(
            {
                "num_rows": self.num_rows,
                "num_left_out": self.num_left_out,
                "scores": self.scores,
                "mean": self.mean,
                "mean_error": self.mean_error,
                "variances": self.columns(),
                "variance_bounds": self.variance_bounds,
                "choice": self.choice,
                "reason": self.reason,
            }
        )

    def plot(self, title: str = "The mean effect is the same; its variance is not") -> "Figure":
        """Bars: the variance of the effect under each coupling."""
        least = None if self.variance_bounds is None else self.variance_bounds.lower
        return plotting.draw_variances(self.variances, title, "variance of the effect", least)

    def __rich__(self) -> Group:
        words = [f"{name} {mean:+.4g}" for name, mean in zip(self.scores, self.mean, strict=True)]
        if self.mean_error is not None:
            words = [f"{each} +- {error:.2g}" for each, error in zip(words, self.mean_error, strict=True)]
        headers = ["coupling", "variance", "standard deviation", "above the least"]
        table = listing(f"{self.num_rows:,} rows, mean effect: {', '.join(words)}", headers)
        for name, value in sorted(self.variances.items(), key=lambda item: item[1]):
            above = self._above_least(value)
            add_line(table, [name, f"{value:.4g}", f"{np.sqrt(value):.4g}", "" if above is None else f"{above:.1%}"])
        return Group(table, Text(" ".join(self._notes())), Text(f"Choose {self.choice}: {self.reason}"))

    def _notes(self) -> list[str]:
        """What the numbers are, and what they leave out."""
        notes = ["An effect is the other world's score minus the factual one's; couplings agree on its mean."]
        if self.mean_error is not None:
            notes.append("+- is its standard error over rows, which takes each row's probabilities as known.")
        if self.variance_bounds is not None:
            lower, upper = self.variance_bounds
            notes.append(f"Any coupling has a variance between {lower:.4g} and {upper:.4g}.")
        if self.num_left_out:
            notes.append(f"{self.num_left_out:,} rows were left out.")
        return notes

    def _above_least(self, variance: float) -> float | None:
        if self.variance_bounds is None or self.variance_bounds.lower <= 0:
            return None
        return variance / self.variance_bounds.lower - 1


def effects(
    frame: Any,
    *,
    factual: ProbabilitiesLike,
    counterfactual: ProbabilitiesLike,
    score: Any,
    counterfactual_score: Any = None,
    outcome: Any = None,
    couplings: Mapping[str, str | Path | AbstractCoupling] | Sequence[str | Path] | None = None,
    labels: Sequence[Hashable] | None = None,
    learn: bool | Gadget2 = False,
    key: PRNGKeyArray | None = None,
    fit_options: Mapping[str, Any] | None = None,
    normalise: bool = False,
    errors: str = "raise",
    progress: bool | None = None,
) -> TableEffects:
    """Mean and individual effects of the change, their variance under each coupling, and which one to choose.

    An effect is what the change would have added, `score(Y) - score(X)`: the other world's score minus the factual
    one's. Data fix its mean; how much it varies between people is up to the coupling. For one score the inverse CDF in
    the order of the score has the least variance of all couplings, for every row at once, and nothing has to be
    learned; where the two worlds' scores sort the outcomes differently, the coupling of their quantiles has. For
    several scores no order is optimal; then `learn=True` trains a gadget on the frame's own pairs of worlds. Each row's
    probabilities are taken as known.

    Args:
        frame: A pandas or polars DataFrame, or an Arrow table.
        factual: Probabilities in the world that was seen; see `counterfactuals`.
        counterfactual: Probabilities in the other world.
        score: A number for each outcome, by label or in the order of the labels; or several scores by name,
            `{"quality": {...}, "cost": {...}}`, or as an array [outcomes, scores]. Variances of several are added up,
            so bring them to one scale.
        counterfactual_score: The score in the other world, if it is another one.
        outcome: The column with the outcomes seen, or an array of them; adds individual effects.
        couplings: The couplings to compare, by name, or names of fixed ones; by default the library's own.
        labels: The outcomes in their order; by default that of `factual`.
        learn: Whether to train a gadget; or the gadget to train.
        key: Key of the training, consumed once; by default `jax.random.key(0)`.
        fit_options: Options of `countermax.fit` by name, in place of its defaults, of 500 steps and of batches of 64:
            for instance `{"steps": 2000, "learning_rate": 3e-3, "checkpoint": "gadget.npz"}`.
        normalise: Whether to rescale columns and arrays to sum to one, for instance counts.
        errors: What to do with rows that cannot be answered: `raise`, or leave them out (`missing`).
        progress: Whether to show progress bars; by default on a terminal.
    """
    reader = RowReader(as_frame(frame), Question(outcome, factual, counterfactual, labels, normalise, errors))
    scores = as_scores(reader.labels, score, counterfactual_score)
    compared = _compared(couplings, scores, len(reader.labels))
    learned: Fit[Gadget2] | None = None
    if learn is not False:
        key = jax.random.key(0) if key is None else key
        gadget = None if learn is True else learn
        if LEARNED in compared:
            _refuse_name(LEARNED)
        learned = learned_coupling(reader, scores, gadget, fit_options or {}, progress, key=key)
        compared[LEARNED] = learned.coupling
    elif fit_options is not None:
        raise InputError("`fit_options` needs learn=True beside it")

    moments = EffectMoments(scores, compared, num_rows=reader.frame.num_rows, individual=outcome is not None)
    with reader.bar("effects", progress) as bar:
        for chunk in reader.chunks(bar):
            moments.add(chunk)
    if moments.count == 0:
        raise InputError("`frame` must have at least one row that can be answered, got none")
    several = len(scores.names) > 1
    bounds = bounds_by_transport(reader, scores, moments.mean) if several else moments.variance_bounds
    choice, reason = choose(scores, moments.variances, bounds)
    return TableEffects(
        scores=scores.names,
        mean=moments.mean,
        mean_error=moments.mean_error,
        variances=moments.variances,
        variance_bounds=bounds,
        couplings=compared,
        choice=choice,
        reason=reason,
        fit=learned,
        individual=None if moments.rows is None else reader.frame.made([(moments.names, moments.rows)], extend=False),
        num_rows=moments.count,
        num_left_out=reader.frame.num_rows - moments.count,
        make_frame=reader.frame.from_columns,
    )


def _compared(
    given: Mapping[str, str | Path | AbstractCoupling] | Sequence[str | Path] | None, scores: Scores, num_outcomes: int
) -> dict[str, AbstractCoupling]:
    """The couplings asked for, with the one that is best where there is one; by default the fixed ones."""
    fixed = fixed_couplings(scores)
    if given is None:
        return fixed
    with jax.enable_x64(True):
        single = len(scores.names) == 1  # couplings that are made for a score look at one
        both = {"score": scores.factual[:, 0], "counterfactual_score": scores.counterfactual[:, 0]} if single else {}
        own = as_couplings(given, num_outcomes, **both)
    if scores.best in own and not is_same(own[scores.best], fixed[scores.best]):
        _refuse_name(scores.best)
    return own | {name: each for name, each in fixed.items() if name == scores.best}


def _refuse_name(name: str) -> NoReturn:
    raise InputError(f"`couplings` must not call one of yours {name!r}, which is the library's own; rename it")
