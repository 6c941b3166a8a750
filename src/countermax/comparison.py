"""One counterfactual question, every mechanism's answer, and what data alone can say."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from countermax import plotting
from countermax._checks import as_numbers, log_probs_from
from countermax._errors import InputError
from countermax._extras import import_pandas
from countermax._types import Numbers
from countermax.bounds import Bounds, outcome_bounds, score_bounds
from countermax.couplings import AbstractCoupling, GumbelMax, Independent, InverseCDF, Maximal, Optimal

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.floating]

_MOST_SHOWN_OUTCOMES = 8  # in a terminal; dataframes and JSON have them all
_MOST_NAMED_LABELS = 10  # in an error message
_LARGEST_SCORE = 1e100  # the squares of larger ones overflow
_SCORE_COLUMNS = ("expected_score", "effect", "effect_variance", "agreement")
_EVERYBODY = ("any mechanism", "any stable one")


@dataclass(frozen=True, eq=False)
class Answer:
    """What one mechanism says."""

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
    """score(observed) - E[score(Y) | X=observed]."""
    effect_variance: float | None
    """The variance of score(X) - score(Y) over everybody."""


@dataclass(frozen=True, eq=False)
class Interval:
    """The least and the largest answer: one number each, or one for each outcome."""

    lower: Any
    upper: Any


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """What data alone say about a score."""

    expected_score: Interval
    effect: Interval


@dataclass(frozen=True, eq=False)
class Comparison:
    """All answers to one question. Print it with rich, or take `to_frame`, `to_json`, `plot` and `plot_couplings`."""

    labels: tuple[str, ...]
    observed: int
    p: Floats
    q: Floats
    answers: tuple[Answer, ...]
    bounds: Interval
    """On P(Y=j | X=observed), over all couplings."""
    stable_bounds: Interval
    """The same over counterfactually stable couplings."""
    score_bounds: ScoreBounds | None
    stable_score_bounds: ScoreBounds | None
    tolerance: float

    @property
    def slack(self) -> float:
        """The widest interval that data leave for the probability of an outcome."""
        return float((self.bounds.upper - self.bounds.lower).max())

    @property
    def disagreement(self) -> float:
        """The largest difference between two of the compared mechanisms about the probability of an outcome."""
        rows = np.stack([answer.probabilities for answer in self.answers])
        return float((rows.max(axis=0) - rows.min(axis=0)).max())

    @property
    def mechanism_matters(self) -> bool:
        """Whether data alone leave the answer open by more than the tolerance."""
        return self.slack > self.tolerance

    @property
    def verdict(self) -> str:
        """The flag in words."""
        if not self.mechanism_matters:
            fixed = f"data alone fix every probability within {self.slack:.2g}"
            return f"The choice of mechanism hardly matters here: {fixed}."
        widest = int((self.bounds.upper - self.bounds.lower).argmax())
        low, high = self.bounds.lower[widest], self.bounds.upper[widest]
        return (
            f"The choice of mechanism matters here: data alone allow anything from {low:.2f} to {high:.2f} for "
            f"{self.labels[widest]!r}, and the mechanisms compared differ by up to {self.disagreement:.2f}."
        )

    def to_frame(self) -> "pd.DataFrame":
        """One row for each mechanism and for each end of the bounds; one column for each outcome, then the scores'."""
        pd = import_pandas()
        names, rows = zip(*self.rows(), strict=True)
        return pd.DataFrame(list(rows), index=pd.Index(names, name="mechanism")).dropna(axis="columns", how="all")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        plain: dict[str, Any] = _plain(asdict(self))
        plain["observed"] = self.labels[self.observed]
        plain["mechanism_matters"] = self.mechanism_matters
        plain["verdict"] = self.verdict
        return plain

    def to_json(self, indent: int | None = 2) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def plot(self) -> Figure:
        """Bars of the counterfactual probabilities, with the bounds as whiskers."""
        return plotting.draw_answers(
            {answer.name: answer.probabilities for answer in self.answers},
            self.labels,
            (self.bounds.lower, self.bounds.upper),
            (self.stable_bounds.lower, self.stable_bounds.upper),
            f"Seen: {self.labels[self.observed]}. What would have happened instead?",
        )

    def plot_couplings(self) -> Figure:
        """A heatmap of each mechanism's joint law, with p and q on its margins."""
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
        parts: list[RenderableType] = [self._table(title, shown, shown, rows)]
        if len(shown) < len(self.labels):
            parts.append(f"{len(self.labels) - len(shown)} more outcomes in the dataframe and the JSON.\n")
        if self.score_bounds is not None:
            headers = [column.replace("_", " ") for column in _SCORE_COLUMNS]
            parts.append(self._table("Scores: of this one, then over everybody", _SCORE_COLUMNS, headers, rows))
        return Group(*parts, Text(self.verdict))

    def _table(
        self,
        title: str,
        columns: Sequence[str],
        headers: Sequence[str],
        rows: list[tuple[str, dict[str, float | None]]],
    ) -> Table:
        # People's own words go in as plain text: square brackets in them are no markup.
        table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("mechanism", no_wrap=True)
        for header in headers:
            table.add_column(Text(header), justify="right")
        for index, (name, row) in enumerate(rows):
            cells = ("" if row[column] is None else f"{row[column]:.3f}" for column in columns)
            table.add_row(Text(name), *cells, end_section=index == len(self.answers) - 1)
        return table

    def rows(self) -> list[tuple[str, dict[str, float | None]]]:
        """A name and a number for each column, for each mechanism and each end of the bounds."""

        def row(probabilities: Floats, *rest: float | None) -> dict[str, float | None]:
            scores = dict(zip(_SCORE_COLUMNS, rest, strict=True))
            return {**dict(zip(self.labels, map(float, probabilities), strict=True)), **scores}

        rows = [
            (each.name, row(each.probabilities, each.expected_score, each.effect, each.effect_variance, each.agreement))
            for each in self.answers
        ]
        for whose, bounds, scores in zip(
            _EVERYBODY,
            (self.bounds, self.stable_bounds),
            (self.score_bounds, self.stable_score_bounds),
            strict=True,
        ):
            for end, side in (("least", "lower"), ("most", "upper")):
                expected = None if scores is None else getattr(scores.expected_score, side)
                effect = None if scores is None else getattr(scores.effect, side)
                rows.append((f"{whose}, {end}", row(getattr(bounds, side), expected, effect, None, None)))
        return rows


def compare(
    p: Numbers,
    q: Numbers,
    observed: Hashable,
    *,
    labels: Sequence[Hashable] | None = None,
    score: Numbers | None = None,
    counterfactual_score: Numbers | None = None,
    logits: bool = False,
    normalise: bool = False,
    couplings: Mapping[str, AbstractCoupling] | None = None,
    tolerance: float = 0.05,
) -> Comparison:
    """Asks every mechanism: this was seen; what would have happened in the other world?

    Everything is computed in double precision, whatever JAX's default is.

    Args:
        p: Probabilities of the outcomes in the factual world, the one in which something was seen.
        q: Probabilities of the same outcomes in the other world.
        observed: What was seen: a label where there are `labels`, an index where not.
        labels: Names of the outcomes.
        score: One number for each outcome; adds expected scores and effects, and the mechanisms that are made for it.
        counterfactual_score: The score in the other world, if it is another one.
        logits: Whether `p` and `q` are logits instead of probabilities.
        normalise: Whether to rescale `p` and `q` to sum to one, for instance when they are counts.
        couplings: The mechanisms to ask, by name; by default the library's own.
        tolerance: How wide the bounds may be for the choice of mechanism not to matter.
    """
    log_p = log_probs_from("p", p, logits=logits, normalise=normalise)
    log_q = log_probs_from("q", q, logits=logits, normalise=normalise)
    if log_p.size != log_q.size:
        raise InputError(f"`p` and `q` must have the same number of outcomes, got {log_p.size} and {log_q.size}")
    if not tolerance >= 0:
        raise InputError(f"`tolerance` must not be negative, got {tolerance}")
    names = _label_names(labels, log_p.size)
    seen = _index_of(observed, labels, names)
    if log_p[seen] == -np.inf:
        hint = "; it is possible in the other world: are p and q swapped?" if log_q[seen] > -np.inf else ""
        raise InputError(f"{names[seen]!r} was observed but has probability zero under p{hint}")
    if counterfactual_score is not None and score is None:
        raise InputError("`counterfactual_score` needs a `score` beside it")
    scores = None if score is None else _as_score("score", score, log_p.size)
    other_scores = (
        scores if counterfactual_score is None else _as_score("counterfactual_score", counterfactual_score, log_p.size)
    )
    with jax.enable_x64(True):
        asked = standard_couplings(scores, other_scores) if couplings is None else dict(couplings)
        if not asked:
            raise InputError("`couplings` must name at least one mechanism")
        for name, each in asked.items():
            if not isinstance(each, AbstractCoupling):
                hint = "; make an instance of it" if isinstance(each, type) else ""
                raise InputError(f"`couplings` must hold couplings with an exact law, got {each!r} as {name!r}{hint}")
        laws, intervals = jax.tree.map(np.asarray, _solve(asked, log_p, log_q, np.asarray(seen), other_scores))
    return Comparison(
        labels=names,
        observed=seen,
        p=np.exp(log_p),
        q=np.exp(log_q),
        answers=tuple(_answer(name, laws[name], seen, scores, other_scores) for name in asked),
        bounds=Interval(*intervals["outcomes"]),
        stable_bounds=Interval(*intervals["stable outcomes"]),
        score_bounds=_score_bounds(intervals, "scores", scores, seen),
        stable_score_bounds=_score_bounds(intervals, "stable scores", scores, seen),
        tolerance=tolerance,
    )


def standard_couplings(
    score: Floats | None = None, counterfactual_score: Floats | None = None
) -> dict[str, AbstractCoupling]:
    """The library's fixed couplings by name, with the ones that a score singles out."""
    couplings: dict[str, AbstractCoupling] = {"Gumbel-max": GumbelMax(), "inverse CDF": InverseCDF()}
    if score is not None:
        couplings["inverse CDF by score"] = InverseCDF.sorted_by(score)
    couplings |= {"maximal": Maximal(), "independent": Independent()}
    if score is not None:
        couplings["optimal"] = Optimal.for_score(score, counterfactual_score)
    return couplings


@eqx.filter_jit
def _solve(
    couplings: dict[str, AbstractCoupling], log_p: ArrayLike, log_q: ArrayLike, seen: ArrayLike, score: ArrayLike | None
) -> tuple[dict[str, tuple[Array, Array]], dict[str, Bounds]]:
    """Every number that has to be computed, compiled in one piece: a dozen small programs would take far longer."""
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)
    laws = {
        name: (each._counterfactual_probs(log_p, log_q, seen), each._joint(log_p, log_q))
        for name, each in couplings.items()
    }
    intervals = {
        "outcomes": outcome_bounds(log_p, log_q, seen),
        "stable outcomes": outcome_bounds(log_p, log_q, seen, stable=True),
    }
    if score is not None:
        intervals["scores"] = score_bounds(log_p, log_q, seen, score)
        intervals["stable scores"] = score_bounds(log_p, log_q, seen, score, stable=True)
    return laws, intervals


def _answer(
    name: str, law: tuple[Floats, Floats], seen: int, score: Floats | None, other_score: Floats | None
) -> Answer:
    probabilities, joint = law
    expected = effect = variance = None
    if score is not None and other_score is not None:
        difference = score[:, None] - other_score[None, :]
        expected = float(probabilities @ other_score)
        effect = float(score[seen] - expected)
        variance = float((joint * (difference - (joint * difference).sum()) ** 2).sum())
    return Answer(name, probabilities, joint, float(np.trace(joint)), expected, effect, variance)


def _score_bounds(intervals: dict[str, Bounds], which: str, score: Floats | None, seen: int) -> ScoreBounds | None:
    if score is None:
        return None
    lower, upper = map(float, intervals[which])
    return ScoreBounds(Interval(lower, upper), Interval(float(score[seen]) - upper, float(score[seen]) - lower))


def _label_names(labels: Sequence[Hashable] | None, size: int) -> tuple[str, ...]:
    if labels is None:
        return tuple(str(index) for index in range(size))
    if len(labels) != size:
        raise InputError(f"`labels` must name each of the {size} outcomes, got {len(labels)} labels")
    names = tuple(str(label) for label in labels)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"`labels` must differ from each other, got {twice!r} more than once")
    taken = next((name for name in names if name in _SCORE_COLUMNS), None)
    if taken is not None:
        raise InputError(
            f"`labels` must not be {', '.join(_SCORE_COLUMNS)}, which are columns of the result, got {taken!r}"
        )
    return names


def _index_of(observed: Hashable, labels: Sequence[Hashable] | None, names: tuple[str, ...]) -> int:
    name = str(observed)
    if name not in names:
        kind = "one of the labels" if labels is not None else "an outcome's index"
        more = len(names) - _MOST_NAMED_LABELS
        listed = ", ".join(names[:_MOST_NAMED_LABELS]) + (f" and {more} more" if more > 0 else "")
        raise InputError(f"`observed` must be {kind} ({listed}), got {name!r}")
    return names.index(name)


def _as_score(name: str, score: Numbers, size: int) -> Floats:
    array = as_numbers(name, score)
    if array.shape != (size,):
        raise InputError(f"`{name}` must have one number for each of {size} outcomes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"`{name}` must be finite, got {array.tolist()}")
    if (np.abs(array) > _LARGEST_SCORE).any():
        raise InputError(f"`{name}` must stay within {_LARGEST_SCORE:g}, got {np.abs(array).max():g}; scale it down")
    return array


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
