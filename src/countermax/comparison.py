"""One counterfactual question, every coupling's answer, and what data alone can say."""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from countermax import plotting
from countermax._core.checks import log_probs_from
from countermax._core.compilation import quickly_compiled
from countermax._core.console import Listing, add_line, listing
from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import Labels
from countermax._core.results import AbstractResult, plain
from countermax._core.types import Numbers
from countermax.bounds import Bounds, unchecked_outcome_bounds, unchecked_score_bounds
from countermax.couplings import AbstractCoupling, as_couplings, is_same, named_couplings
from countermax.effects import unchecked_effect

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.floating]

_MOST_SHOWN_OUTCOMES = 8  # in a terminal; dataframes and JSON have them all
_FEW_OUTCOMES = 64
_RARE = -200.0  # log-probability of what was seen, below which it may vanish in the products of the joint law
_SCORE_COLUMNS = ("expected_score", "effect", "effect_variance", "agreement")
_EVERY_COUPLING = ("any coupling", "any stable coupling")


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
        """The widest interval that data leave for the probability of an outcome."""
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
            headers = [column.replace("_", " ") for column in _SCORE_COLUMNS]
            parts.append(self._listing("Scores: of this one, then over everybody", _SCORE_COLUMNS, headers, rows))
        return Group(*parts, Text(self.verdict))

    def _listing(
        self,
        title: str,
        columns: Sequence[str],
        headers: Sequence[str],
        rows: list[tuple[str, dict[str, float | None]]],
    ) -> Listing:
        table = listing(title, ["coupling", *headers])
        for index, (name, row) in enumerate(rows):
            cells = ("" if row[column] is None else f"{row[column]:.3f}" for column in columns)
            add_line(table, [name, *cells], last=index == len(self.answers) - 1)
        return table

    def rows(self) -> list[tuple[str, dict[str, float | None]]]:
        """A name and a number for each column, for each coupling and each limit of the bounds."""

        def row(probabilities: Floats, *rest: float | None) -> dict[str, float | None]:
            scores = dict(zip(_SCORE_COLUMNS, rest, strict=True))
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
            for limit, side in (("least", "lower"), ("most", "upper")):
                expected = None if scores is None else getattr(scores.expected_score, side)
                effect = None if scores is None else getattr(scores.effect, side)
                rows.append((f"{whose}, {limit}", row(getattr(bounds, side), expected, effect, None, None)))
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
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    tolerance: float = 0.05,
) -> Comparison:
    """Asks every coupling: this was seen; what would have happened in the other world?

    Probabilities are taken as known; how far they themselves are estimates is not in the answer.

    Everything is computed in double precision, whatever JAX's default is.

    Args:
        p: Probabilities of the outcomes in the factual world, the one in which something was seen.
        q: Probabilities of the same outcomes in the other world.
        observed: What was seen: a label where there are `labels`, an index where not.
        labels: Names of the outcomes.
        score: One number for each outcome; adds expected scores and effects, and the couplings that are made for it.
        counterfactual_score: The score in the other world, if it is another one.
        logits: Whether `p` and `q` are logits instead of probabilities.
        normalise: Whether to rescale `p` and `q` to sum to one, for instance when they are counts.
        couplings: The couplings to ask, by name; by default the library's own.
        tolerance: How wide the bounds may be for the choice of coupling not to matter.
    """
    log_p = log_probs_from("p", p, logits=logits, normalise=normalise)
    log_q = log_probs_from("q", q, logits=logits, normalise=normalise)
    size = log_p.size
    if size != log_q.size:
        raise InputError(f"`p` and `q` must have the same number of outcomes, got {size} and {log_q.size}")
    if not tolerance >= 0:
        raise InputError(f"`tolerance` must not be negative, got {tolerance}")
    names = Labels(tuple(range(size)) if labels is None else tuple(labels))
    if len(names) != size:
        raise InputError(f"`labels` must name each of the {size} outcomes, got {len(names)} labels")
    names.refuse(_SCORE_COLUMNS, "columns of the result")
    seen = names.place_of("observed", observed)
    if log_p[seen] == -np.inf:
        hint = "; it is possible in the other world: are p and q swapped?" if log_q[seen] > -np.inf else ""
        raise InputError(f"{names.names[seen]!r} was observed but has probability zero under p{hint}")
    if counterfactual_score is not None and score is None:
        raise InputError("`counterfactual_score` needs a `score` beside it")
    scores = None
    if score is not None:
        here = names.scores("score", score)
        there = here if counterfactual_score is None else names.scores("counterfactual_score", counterfactual_score)
        scores = (here, there)
    with jax.enable_x64(True):
        by_score = {} if scores is None else {"score": scores[0], "counterfactual_score": scores[1]}
        asked = named_couplings(**by_score) if couplings is None else as_couplings(couplings, size, **by_score)
        distinct = {name: next(first for first in asked if is_same(asked[first], asked[name])) for name in asked}
        solve = _solved_quickly if size <= _FEW_OUTCOMES else _solved
        rare = bool(log_p[seen] < _RARE)
        found = jax.tree.map(
            np.asarray,
            solve()({name: asked[name] for name in distinct.values()}, log_p, log_q, np.asarray(seen), scores, rare),
        )
    return Comparison(
        labels=names.names,
        observed=seen,
        p=np.exp(log_p),
        q=np.exp(log_q),
        answers=tuple(_answer(name, found.laws[distinct[name]], seen, scores) for name in asked),
        bounds=found.bounds,
        stable_bounds=found.stable_bounds,
        score_bounds=_score_bounds(found.score_bounds, scores, seen),
        stable_score_bounds=_score_bounds(found.stable_score_bounds, scores, seen),
        tolerance=tolerance,
    )


class _Law(NamedTuple):
    probabilities: Any
    joint: Any
    effect_variance: Any


class _Found(NamedTuple):
    laws: dict[str, _Law]
    bounds: Bounds
    stable_bounds: Bounds
    score_bounds: Bounds | None
    stable_score_bounds: Bounds | None


def _solve(
    couplings: dict[str, AbstractCoupling],
    log_p: ArrayLike,
    log_q: ArrayLike,
    seen: ArrayLike,
    scores: tuple[ArrayLike, ArrayLike] | None,
    rare: bool,
) -> _Found:
    """Every number that has to be computed, compiled in one piece: a dozen small programs would take far longer.

    The inputs have been checked. A check in here would call the host, and what calls the host cannot be kept compiled.
    An answer is the row of the joint law; only for an outcome so `rare` that products underflow it is asked for by
    itself.
    """
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)
    laws = {}
    for name, each in couplings.items():
        joint = each._joint(log_p, log_q)
        variance = None if scores is None else unchecked_effect(joint, *map(jnp.asarray, scores)).variance
        row = each._counterfactual_probs(log_p, log_q, seen) if rare else joint[seen] / joint[seen].sum()
        laws[name] = _Law(row, joint, variance)
    outcomes, stable_outcomes = (
        unchecked_outcome_bounds(log_p, log_q, seen, stable=stable) for stable in (False, True)
    )
    if scores is None:
        return _Found(laws, outcomes, stable_outcomes, None, None)
    there = jnp.asarray(scores[1])
    return _Found(
        laws,
        outcomes,
        stable_outcomes,
        *(unchecked_score_bounds(log_p, log_q, seen, there, stable=stable) for stable in (False, True)),
    )


@functools.cache
def _solved_quickly() -> Callable[..., _Found]:
    """For few outcomes: compiling takes far longer than running."""
    return quickly_compiled(_solve)


@functools.cache
def _solved() -> Callable[..., _Found]:
    return eqx.filter_jit(_solve)


def _answer(name: str, law: _Law, seen: int, scores: tuple[Floats, Floats] | None) -> Answer:
    agreement = float(np.trace(law.joint))
    if scores is None:
        return Answer(name, law.probabilities, law.joint, agreement, None, None, None)
    expected = float(law.probabilities @ scores[1])
    effect, variance = expected - float(scores[0][seen]), float(law.effect_variance)
    return Answer(name, law.probabilities, law.joint, agreement, expected, effect, variance)


def _score_bounds(expected: Bounds | None, scores: tuple[Floats, Floats] | None, seen: int) -> ScoreBounds | None:
    if expected is None or scores is None:
        return None
    lower, upper = map(float, expected)
    here = float(scores[0][seen])
    return ScoreBounds(Bounds(lower, upper), Bounds(lower - here, upper - here))
