"""All answers to one question, and how they are shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from rich.console import Group

from countermax import _plotting as plotting
from countermax._core.extras import import_pandas
from countermax._core.labels import told_apart
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds
from countermax.comparison import _showing
from countermax.comparison._sharing_result import SharingCurve
from countermax.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

SCORE_COLUMNS = ("expected_score", "effect", "effect_variance", "better", "worse", "agreement")

EVERY_COUPLING = ("any coupling", "any stable coupling")


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
    better: float | None
    """P(score(Y) > score(X)) over everybody."""
    worse: float | None
    """P(score(Y) < score(X)) over everybody."""


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """What data alone say about a score; over stable couplings there are no bounds on how many are better off."""

    expected_score: Bounds
    effect: Bounds
    better: Bounds | None
    worse: Bounds | None


@dataclass(frozen=True, eq=False)
class AnswerIntervals:
    """What other data would have made one coupling say; of a whole family of couplings, the whole range."""

    probabilities: Interval
    agreement: Interval | None
    expected_score: Interval | None
    effect: Interval | None
    effect_variance: Interval | None
    better: Interval | None
    worse: Interval | None


@dataclass(frozen=True, eq=False)
class ComparisonIntervals:
    """Sampling uncertainty of everything in a comparison: what other data could have shown."""

    level: float
    sample: str
    """Whose outcomes were counted, in words."""
    answers: Mapping[str, AnswerIntervals]
    """By coupling."""
    bounds: AnswerIntervals
    """Of the whole range over all couplings."""
    stable_bounds: AnswerIntervals
    """Of the whole range over counterfactually stable couplings."""
    win_probability: Interval | None


@final
@dataclass(frozen=True, eq=False)
class Comparison(AbstractOldResult):
    """All answers to one question."""

    labels: tuple[str, ...]
    observed: int
    worlds: tuple[str, str]
    """What the factual world and the other one are called."""
    p: Floats
    q: Floats
    answers: tuple[Answer, ...]
    bounds: Bounds
    """On P(Y=j | X=observed), over all couplings."""
    stable_bounds: Bounds
    """The same over counterfactually stable couplings."""
    score_bounds: ScoreBounds | None
    stable_score_bounds: ScoreBounds | None
    win_probability: float | None
    """P(score(Y) > score(X)), half of P(equal) added, for two people drawn independently: Mann and Whitney's."""
    intervals: ComparisonIntervals | None
    """None where `p` and `q` were taken as known."""
    notes: tuple[str, ...]
    """What the reader should know about the data and the couplings."""
    tolerance: float
    sharing: SharingCurve | None = None
    """The same question for all that the two worlds may share; None where nobody asked."""

    @property
    def slack(self) -> float:
        """The widest bounds that data leave for the probability of an outcome."""
        return float(self.bounds.width.max())

    @property
    def disagreement(self) -> float:
        """The largest difference between two of the compared couplings about the probability of an outcome."""
        rows = np.stack([answer.probabilities for answer in self.answers])
        return float((rows.max(axis=0) - rows.min(axis=0)).max())

    @property
    def was_seen(self) -> bool:
        """Whether anybody in the factual world had the outcome that the question is about."""
        return bool(self.p[self.observed] > 0)

    @property
    def coupling_matters(self) -> bool:
        """Whether p and q alone leave the answer open by more than the tolerance."""
        return not self.was_seen or self.slack > self.tolerance

    @property
    def verdict(self) -> str:
        """The flag in words."""
        return _showing.verdict(self)

    @property
    def left_out(self) -> str:
        """What the numbers take as given."""
        return _showing.left_out(self)

    def to_frame(self) -> "pd.DataFrame":
        """One row for each coupling and for each limit of the bounds; one column for each outcome, then the scores'.

        With sampling uncertainty each has two more: `_ci_lower` and `_ci_upper`.
        """
        pd = import_pandas()
        names, rows = zip(*self.rows(), strict=True)
        return pd.DataFrame(list(rows), index=pd.Index(names, name="coupling")).dropna(axis="columns", how="all")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return plain(
            {
                "observed": self.labels[self.observed],
                "labels": self.labels,
                "worlds": self.worlds,
                "p": self.p,
                "q": self.q,
                "answers": [vars(each) for each in self.answers],
                "bounds": self.bounds,
                "stable_bounds": self.stable_bounds,
                "score_bounds": None if self.score_bounds is None else vars(self.score_bounds),
                "stable_score_bounds": None if self.stable_score_bounds is None else vars(self.stable_score_bounds),
                "win_probability": self.win_probability,
                "intervals": None if self.intervals is None else _plain_intervals(self.intervals),
                "tolerance": self.tolerance,
                "coupling_matters": self.coupling_matters,
                "verdict": self.verdict,
                "notes": self.notes,
                "left_out": self.left_out,
                "sharing": None if self.sharing is None else self.sharing.to_dict(),
            }
        )

    def plot(self) -> "Figure":
        """Bars of the counterfactual probabilities, with the bounds as whiskers; both with their intervals."""
        found = self.intervals
        return plotting.draw_answers(
            {answer.name: answer.probabilities for answer in self.answers},
            told_apart(self.labels),
            self.bounds,
            self.stable_bounds,
            _showing.title(self),
            intervals=None if found is None else {name: each.probabilities for name, each in found.answers.items()},
            bounds_intervals=None if found is None else (found.bounds.probabilities, found.stable_bounds.probabilities),
        )

    def plot_couplings(self) -> "Figure":
        """A heatmap of each coupling's joint law, with p and q on its margins."""
        return plotting.draw_couplings(
            {answer.name: answer.joint for answer in self.answers},
            self.p,
            self.q,
            told_apart(self.labels),
            "P(row seen, column in the other world)",
        )

    def __rich__(self) -> Group:
        return _showing.shown(self)

    def rows(self) -> list[tuple[str, dict[str, float | None]]]:
        """A name and a number for each column, for each coupling and each limit of the bounds."""
        found = self.intervals
        rows = [
            (each.name, self._row(vars(each), None if found is None else found.answers[each.name]))
            for each in self.answers
        ]
        families = (
            (self.bounds, self.score_bounds, None if found is None else found.bounds),
            (self.stable_bounds, self.stable_score_bounds, None if found is None else found.stable_bounds),
        )
        for whose, (bounds, scores, intervals) in zip(EVERY_COUPLING, families, strict=True):
            for side in ("lower", "upper"):
                values = {"probabilities": getattr(bounds, side)}
                for column, value in ({} if scores is None else vars(scores)).items():
                    values[column] = None if value is None else getattr(value, side)
                rows.append((f"{whose}, {side}", self._row(values, intervals, side)))
        return rows

    def _row(
        self, values: Mapping[str, Any], intervals: AnswerIntervals | None, side: str | None = None
    ) -> dict[str, float | None]:
        """Numbers by column; of a range's interval the limit on the given side only."""
        row: dict[str, float | None] = {}

        def put(column: str, value: Any, interval: tuple[Any, Any] | None) -> None:
            row[column] = None if value is None else float(value)
            if intervals is not None:
                for place, limit in enumerate(("lower", "upper")):
                    known = interval is not None and side in (None, limit)
                    row[f"{column}_ci_{limit}"] = float(interval[place]) if known and interval is not None else None

        for index, label in enumerate(self.labels):
            interval = None if intervals is None else intervals.probabilities
            put(label, values["probabilities"][index], interval and (interval.lower[index], interval.upper[index]))
        for column in SCORE_COLUMNS:
            interval = None if intervals is None else getattr(intervals, column)
            put(column, values.get(column), interval and interval[:2])
        return row


def _plain_intervals(intervals: ComparisonIntervals) -> dict[str, Any]:
    return {
        **vars(intervals),
        "answers": {name: vars(each) for name, each in intervals.answers.items()},
        "bounds": vars(intervals.bounds),
        "stable_bounds": vars(intervals.stable_bounds),
    }
