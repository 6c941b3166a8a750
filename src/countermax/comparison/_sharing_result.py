"""What is answered over all that two worlds may share, and how it is shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.labels import told_apart
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds
from countermax.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_OF_THE_PERSON = ("expected_score", "effect", "better_given_observed")
_OF_EVERYBODY = ("better", "worse", "agreement", "score_correlation")
SHARING_COLUMNS = ("shared", "noise_correlation", *_OF_THE_PERSON, *_OF_EVERYBODY)
"""Columns of a curve beside those of the outcomes."""

_SHOWN = 10  # of the rates, every tenth is listed
_MOST_ACROSS = 6  # outcomes in a listing; dataframes and JSON have them all
_CAVEAT = (
    "Turning points are those of this one family, from independent worlds to Gumbel-max. That there is none, or where "
    "one lies, says nothing about other mechanisms; what any coupling could say is in the bounds."
)


_SIGNS = {
    frozenset({1}): "positive",
    frozenset({-1}): "negative",
    frozenset({0}): "zero",
    frozenset({0, 1}): "never negative",
    frozenset({0, -1}): "never positive",
}


class TurningPoint(NamedTuple):
    """Where a conclusion turns."""

    what: str
    """`most likely outcome`, `sign of the effect` (of the person asked about), or `better off` (as likely as not)."""
    shared: float
    """Rate of the shared clocks."""
    noise_correlation: float
    """Pearson's correlation of the two worlds' noises there."""
    before: str
    """The conclusion if the worlds share less."""
    after: str
    """The conclusion if they share more."""


@dataclass(frozen=True, eq=False)
class SharingIntervals:
    """What other data would have given, at some of the rates; each interval for itself."""

    level: float
    sample: str
    """Whose outcomes were counted, in words."""
    shared: Floats
    """The rates with intervals."""
    probabilities: Interval
    agreement: Interval
    expected_score: Interval | None
    effect: Interval | None
    better_given_observed: Interval | None
    better: Interval | None
    worse: Interval | None
    score_correlation: Interval | None


@final
@dataclass(frozen=True, eq=False)
class SharingCurve(AbstractOldResult):
    """One question, answered by `SharedGumbelMax(shared)` for all rates from 0 (independent worlds) to 1 (Gumbel-max).

    Every curve has one number for each rate in `shared`. Numbers of a score are None without one.
    """

    labels: tuple[str, ...]
    observed: int
    worlds: tuple[str, str]
    """What the factual world and the other one are called."""
    shared: Floats
    """Rates of the clocks that both worlds hear: not a correlation."""
    noise_correlation: Floats
    """Pearson's correlation of the Gumbels that the two worlds add to the logit of an outcome."""
    probabilities: Floats
    """P(Y=. | X=observed), a row for each rate."""
    agreement: Floats
    """P(X=Y) over everybody."""
    expected_score: Floats | None
    """E[score(Y) | X=observed]."""
    effect: Floats | None
    """E[score(Y) | X=observed] - score(observed)."""
    better_given_observed: Floats | None
    """P(score(Y) > score(observed) | X=observed): whether this person would have done better."""
    better: Floats | None
    """P(score(Y) > score(X)) over everybody."""
    worse: Floats | None
    """P(score(Y) < score(X)) over everybody."""
    score_correlation: Floats | None
    """Pearson's correlation of score(X) and score(Y) over everybody; 0 where one of them does not vary."""
    bounds: Bounds
    """On P(Y=j | X=observed), over all couplings."""
    stable_bounds: Bounds
    """The same over counterfactually stable couplings, of which this family has one: Gumbel-max, at 1."""
    effect_bounds: Bounds | None
    stable_effect_bounds: Bounds | None
    turning_points: tuple[TurningPoint, ...]
    """All that were found between 1,025 rates; two in between that undo each other are not seen."""
    intervals: SharingIntervals | None
    """None where `p` and `q` were taken as known."""

    @property
    def verdict(self) -> str:
        """Where the conclusions turn, in words."""
        sentences = list(self._turns("most likely outcome", self._leader()))
        if self.effect is not None and self.better_given_observed is not None:
            size = max(float(np.abs(self.effect).max()), np.finfo(np.float64).tiny)
            signs = frozenset(np.sign(np.round(self.effect / size, 9)).astype(int).tolist())
            sentences += self._turns("sign of the effect", _SIGNS.get(signs, ""))
            even = "likelier than not" if self.better_given_observed.mean() > 0.5 else "not likelier than not"
            sentences += self._turns("better off", even)
        if self.intervals is not None:
            sentences.append("That is said of the estimates; what other data could have shown is in the intervals.")
        return " ".join(sentences)

    @property
    def left_out(self) -> str:
        """What the numbers take as given."""
        if self.intervals is None:
            return "Takes p and q as known: how well they were estimated is left out, of turning points too."
        return (
            f"Intervals are for the sampling of {self.intervals.sample}, at each rate by itself; turning points are "
            "those of the estimates, without intervals. Left out: whether the two groups are comparable (randomised, "
            "or alike in all that matters)."
        )

    @property
    def caveat(self) -> str:
        """What a turning point does not say."""
        return _CAVEAT

    def to_frame(self) -> "pd.DataFrame":
        """One row for each rate: the outcomes' probabilities, then the other curves.

        With sampling uncertainty each has two more columns, `_ci_lower` and `_ci_upper`, missing between the rates that
        have intervals.
        """
        pd = import_pandas()
        columns: dict[str, Any] = {"noise_correlation": self.noise_correlation}
        for name, values, interval in self._columns():
            columns[name] = values
            if interval is not None and self.intervals is not None:
                known = np.isin(self.shared, self.intervals.shared)
                for side, limit in zip(("lower", "upper"), interval[:2], strict=True):
                    columns[f"{name}_ci_{side}"] = np.full(len(self.shared), np.nan)
                    columns[f"{name}_ci_{side}"][known] = limit
        return pd.DataFrame(columns, index=pd.Index(self.shared, name="shared"))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        found = None if self.intervals is None else vars(self.intervals)
        words = {"verdict": self.verdict, "caveat": self.caveat, "left_out": self.left_out}
        return plain({**vars(self), "observed": self.labels[self.observed], "intervals": found, **words})

    def plot(self) -> "Figure":
        """A panel for each outcome, and for the effect: the curve, the bounds as bands, and where conclusions turn."""
        found, labels = self.intervals, told_apart(self.labels)
        panels = [
            plotting.SharingPanel(
                f"P({label})",
                self.probabilities[:, place],
                (self.bounds.lower[place], self.bounds.upper[place]),
                (self.stable_bounds.lower[place], self.stable_bounds.upper[place]),
                None if found is None else (found.probabilities.lower[:, place], found.probabilities.upper[:, place]),
            )
            for place, label in enumerate(labels)
        ]
        effect = None
        if self.effect is not None and self.effect_bounds is not None and self.stable_effect_bounds is not None:
            interval = None if found is None or found.effect is None else (found.effect.lower, found.effect.upper)
            bounds, stable = (
                (float(each[0]), float(each[1])) for each in (self.effect_bounds, self.stable_effect_bounds)
            )
            effect = plotting.SharingPanel("effect", self.effect, bounds, stable, interval)
        here, there = self.worlds
        return plotting.draw_sharing(
            self.shared,
            self.noise_correlation,
            panels,
            effect,
            [(each.what, each.shared) for each in self.turning_points],
            f"Seen under {here}: {labels[self.observed]}. What would have happened under {there}, by how much the two "
            "worlds share",
            None if found is None else (found.shared, found.level),
        )

    def __rich__(self) -> Group:
        shown = self._likeliest()
        numbers = {name: (values, interval) for name, values, interval in self._columns()}
        scored = () if self.effect is None else ("effect", "better_given_observed", "score_correlation")
        columns = [*(self.labels[place] for place in shown), *scored]
        labels = told_apart(self.labels)
        headers = [*(labels[place] for place in shown), *(name.replace("_", " ") for name in scored)]
        title = "By how much the two worlds share: from independent (0) to Gumbel-max (1)"
        table = listing(title, ["shared", "noise correlation", *headers], left=0)
        for place in range(0, len(self.shared), _SHOWN):
            cells = [_cell(*numbers[name], place, self.intervals, self.shared) for name in columns]
            add_line(table, [f"{self.shared[place]:.1f}", f"{self.noise_correlation[place]:.3f}", *cells])
        texts = [self.verdict, _CAVEAT, self.left_out]
        if len(shown) < len(self.labels):
            left = len(self.labels) - len(shown)
            texts.insert(0, f"Outcomes that are not shown, {left} of them, are in the dataframe and the JSON.")
        rate = (
            "'shared' is the rate of the clocks that both worlds hear; 'noise correlation' is Pearson's correlation of "
            "the noise that they add to the logit of an outcome."
        )
        return Group(table, *(Text(text) for text in (rate, *texts)))

    def _likeliest(self) -> list[int]:
        """The outcomes that are the likeliest anywhere on the curve, in their order."""
        return sorted(np.argsort(-self.probabilities.max(axis=0), kind="stable")[:_MOST_ACROSS].tolist())

    def _columns(self) -> Iterable[tuple[str, Any, Interval | None]]:
        """Name, numbers and intervals of each curve there is."""
        found = self.intervals
        for place, label in enumerate(self.labels):
            interval = None if found is None else found.probabilities
            limits = interval and Interval(interval.lower[:, place], interval.upper[:, place], interval.level)
            yield label, self.probabilities[:, place], limits
        for name in (*_OF_THE_PERSON, *_OF_EVERYBODY):
            if getattr(self, name) is not None:
                yield name, getattr(self, name), None if found is None else getattr(found, name)

    def _leader(self) -> str:
        """The likeliest outcome under Gumbel-max."""
        last = [each.after for each in self.turning_points if each.what == "most likely outcome"]
        return last[-1] if last else self.labels[int(self.probabilities.mean(axis=0).argmax())]

    def _turns(self, what: str, at_one: str) -> Iterable[str]:
        """One sentence for a conclusion."""
        points = [each for each in self.turning_points if each.what == what]
        form = {
            "most likely outcome": "the most likely outcome is {!r}".format,
            "sign of the effect": "the effect is {}".format,
            "better off": "it is {} that this one would have done better".format,
        }[what]
        if not points:
            yield f"However much the two worlds share, {form(at_one)}."
            return
        parts = [form(points[0].before)]
        for each in points:
            parts.append(
                f"from {each.shared:.3f} on (noise correlation {each.noise_correlation:.3f}) {form(each.after)}"
            )
        yield f"If the two worlds share nothing, {'; '.join(parts)}."


def _cell(values: Any, interval: Interval | None, place: int, found: SharingIntervals | None, shared: Floats) -> str:
    text = f"{values[place]:z.3f}"
    if interval is None or found is None:
        return text
    at = int(np.searchsorted(found.shared, shared[place]))
    return f"{text}\n({interval.lower[at]:z.3f} to {interval.upper[at]:z.3f})"
