"""All answers to one question, and how they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from countermax import plotting
from countermax._core.console import Listing, add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.floating]

SCORE_COLUMNS = ("expected_score", "effect", "effect_variance", "agreement")

_MOST_SHOWN_OUTCOMES = 8  # in a terminal; dataframes and JSON have them all
_EVERY_COUPLING = ("any coupling", "any stable coupling")
_LEFT_OUT = "Takes p and q as known: how well they were estimated is left out."


@dataclass(frozen=True, eq=False)
class Answer:
    """What one coupling says."""

    name: str
    probabilities: Floats
    """P(Y=. | X=observed)."""
    joint: Floats
    """P(X=i, Y=j)."""
    agreement: float
    """P(X=Y): how often the outcome would have been the same."""
    expected_score: float | None
    """E[score(Y) | X=observed]."""
    effect: float | None
    """E[score(Y) | X=observed] - score(observed): what the change would have added."""
    effect_variance: float | None
    """The variance of score(Y) - score(X) over everybody."""


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """What data alone say about a score."""

    expected_score: Bounds
    effect: Bounds


@final
@dataclass(frozen=True, eq=False)
class Comparison(AbstractResult):
    """All answers to one question."""

    labels: tuple[str, ...]
    observed: int
    p: Floats
    q: Floats
    answers: tuple[Answer, ...]
    bounds: Bounds
    """On P(Y=j | X=observed), over all couplings."""
    stable_bounds: Bounds
    """The same over counterfactually stable couplings."""
    score_bounds: ScoreBounds | None
    stable_score_bounds: ScoreBounds | None
    tolerance: float

    @property
    def slack(self) -> float:
        """The widest bounds that data leave for the probability of an outcome."""
        return float((self.bounds.width).max())

    @property
    def disagreement(self) -> float:
        """The largest difference between two of the compared couplings about the probability of an outcome."""
        rows = np.stack([answer.probabilities for answer in self.answers])
        return float((rows.max(axis=0) - rows.min(axis=0)).max())

    @property
    def coupling_matters(self) -> bool:
        """Whether p and q alone leave the answer open by more than the tolerance."""
        return self.slack > self.tolerance

    @property
    def verdict(self) -> str:
        """The flag in words."""
        if not self.coupling_matters:
            fixed = f"p and q alone fix every probability within {self.slack:.2g}"
            return f"The choice of coupling hardly matters here: {fixed}."
        widest = int((self.bounds.width).argmax())
        low, high = self.bounds.lower[widest], self.bounds.upper[widest]
        return (
            f"The choice of coupling matters here: p and q alone allow anything from {low:.2f} to {high:.2f} for "
            f"{self.labels[widest]!r}, and the couplings compared differ by up to {self.disagreement:.2f}."
        )

    def to_frame(self) -> "pd.DataFrame":
        """One row for each coupling and for each limit of the bounds; one column for each outcome, then the scores'."""
        pd = import_pandas()
        names, rows = zip(*self.rows(), strict=True)
        return pd.DataFrame(list(rows), index=pd.Index(names, name="coupling")).dropna(axis="columns", how="all")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return plain(
            {
                "observed": self.labels[self.observed],
                "labels": self.labels,
                "p": self.p,
                "q": self.q,
                "answers": [vars(each) for each in self.answers],
                "bounds": self.bounds,
                "stable_bounds": self.stable_bounds,
                "score_bounds": None if self.score_bounds is None else vars(self.score_bounds),
                "stable_score_bounds": None if self.stable_score_bounds is None else vars(self.stable_score_bounds),
                "tolerance": self.tolerance,
                "coupling_matters": self.coupling_matters,
                "verdict": self.verdict,
                "left_out": _LEFT_OUT,
            }
        )

    def plot(self) -> "Figure":
        """Bars of the counterfactual probabilities, with the bounds as whiskers."""
        return plotting.draw_answers(
            {answer.name: answer.probabilities for answer in self.answers},
            self.labels,
            self.bounds,
            self.stable_bounds,
            f"Seen: {self.labels[self.observed]}. What would have happened instead?",
        )

    def plot_couplings(self) -> "Figure":
        """A heatmap of each coupling's joint law, with p and q on its margins."""
        return plotting.draw_couplings(
            {answer.name: answer.joint for answer in self.answers},
            self.p,
            self.q,
            self.labels,
            "P(row seen, column in the other world)",
        )

    def __rich__(self) -> Group:
        rows = self.rows()
        likely = np.sort(np.argsort(-self.bounds.upper, kind="stable")[:_MOST_SHOWN_OUTCOMES])
        shown = [self.labels[index] for index in likely]
        title = f"Seen: {self.labels[self.observed]}. What would have happened instead?"
        parts: list[RenderableType] = [self._listing(title, shown, shown, rows)]
        if len(shown) < len(self.labels):
            parts.append(f"{len(self.labels) - len(shown)} more outcomes in the dataframe and the JSON.\n")
        if self.score_bounds is not None:
            headers = [column.replace("_", " ") for column in SCORE_COLUMNS]
            parts.append(self._listing("Scores: of this one, then over everybody", SCORE_COLUMNS, headers, rows))
        return Group(*parts, Text(self.verdict), Text(_LEFT_OUT))

    def _listing(
        self,
        title: str,
        columns: Sequence[str],
        headers: Sequence[str],
        rows: list[tuple[str, dict[str, float | None]]],
    ) -> Listing:
        table = listing(title, ["coupling", *headers])
        for index, (name, row) in enumerate(rows):
            cells = ("" if row[column] is None else f"{row[column]:z.3f}" for column in columns)
            add_line(table, [name, *cells], last=index == len(self.answers) - 1)
        return table

    def rows(self) -> list[tuple[str, dict[str, float | None]]]:
        """A name and a number for each column, for each coupling and each limit of the bounds."""

        def row(probabilities: Floats, *rest: float | None) -> dict[str, float | None]:
            scores = dict(zip(SCORE_COLUMNS, rest, strict=True))
            return {**dict(zip(self.labels, map(float, probabilities), strict=True)), **scores}

        rows = [
            (each.name, row(each.probabilities, each.expected_score, each.effect, each.effect_variance, each.agreement))
            for each in self.answers
        ]
        for whose, bounds, scores in zip(
            _EVERY_COUPLING,
            (self.bounds, self.stable_bounds),
            (self.score_bounds, self.stable_score_bounds),
            strict=True,
        ):
            for side in ("lower", "upper"):
                expected = None if scores is None else getattr(scores.expected_score, side)
                effect = None if scores is None else getattr(scores.effect, side)
                rows.append((f"{whose}, {side}", row(getattr(bounds, side), expected, effect, None, None)))
        return rows
