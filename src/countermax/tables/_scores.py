"""Scores of labelled outcomes, one or several, and the variance that they leave to the choice of mechanism."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from countermax import race
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.types import LogProbs, Scalar
from countermax.bounds import unchecked_score_bounds
from countermax.couplings import AbstractCoupling, GumbelMax
from countermax.tables._batches import in_batches, numbers_for
from countermax.tables._rows import Questions
from countermax.tables.frames import Floats


@dataclass(frozen=True, eq=False)
class Scores:
    """What outcomes are worth in either world, [outcomes, scores]."""

    names: tuple[str, ...]
    factual: Floats
    counterfactual: Floats

    @property
    def one_order(self) -> bool:
        """Whether one order of the outcomes sorts both worlds' only score, so that sorting is optimal."""
        if self.factual.shape[1] > 1:
            return False
        order = np.argsort(self.factual[:, 0], kind="stable")
        return bool((np.diff(self.counterfactual[order, 0]) >= 0).all())


def as_scores(labels: Labels, score: Any, counterfactual_score: Any = None) -> Scores:
    """One score (by label, or in their order), several by name, or an array [outcomes, scores]."""
    names, factual = _table("score", labels, score)
    if counterfactual_score is None:
        return Scores(names, factual, factual)
    others, counterfactual = _table("counterfactual_score", labels, counterfactual_score)
    if others != names:
        raise InputError(f"both scores must have the same names, got {names} and {others}")
    return Scores(names, factual, counterfactual)


def _table(name: str, labels: Labels, given: Any) -> tuple[tuple[str, ...], Floats]:
    if isinstance(given, Mapping) and (labels.places(list(given)) < 0).all() and given:
        columns = [labels.scores(f"{name}[{each!r}]", value) for each, value in given.items()]
        return tuple(map(str, given)), np.stack(columns, axis=1)
    if not isinstance(given, Mapping) and np.ndim(given) == 2:
        array = np.asarray(given, np.float64)
        columns = [labels.scores(name, column) for column in array.T]
        return tuple(f"score {place}" for place in range(len(columns))), np.stack(columns, axis=1)
    return ("score",), labels.scores(name, given)[:, None]


class EffectSums:
    """Effects of many rows, added up chunk by chunk.

    The variance over everybody is the mean of the rows' own variances plus the variance of their means.
    """

    def __init__(self, scores: Scores, mechanisms: Mapping[str, AbstractCoupling], *, num_rows: int, individual: bool):
        self._scores, self._names, self._mechanisms = scores, list(mechanisms), list(mechanisms.values())
        self.count = 0
        size = len(scores.names)
        self._shift: Floats | None = None  # near the mean, so that sums of squares lose no digits
        self._sum, self._squares = np.zeros(size), np.zeros(size)
        self._within = np.zeros(len(mechanisms) + 2)
        each = [f"effect_{name}_" for name in scores.names] if size > 1 else ["effect_"]
        self.names = [f"{begin}{name.replace(' ', '_')}" for name in mechanisms for begin in each]
        self.names += [f"{begin}{end}" for begin in each for end in ("lower", "upper")]
        self.rows = np.full((len(self.names), num_rows), np.nan) if individual else None

    def add(self, start: int, questions: Questions) -> None:
        """Some rows, the first of which is row `start`."""
        good = np.flatnonzero(~questions.bad)
        if not len(good):
            return
        log_p, log_q, x = questions.log_p[good], questions.log_q[good], questions.x[good]
        scores = (self._scores.factual, self._scores.counterfactual)
        rows, laws = (
            max(numbers_for(each, log_p.shape[1], law=law) for each in self._mechanisms) for law in (False, True)
        )
        numbers = in_batches(partial(_population, self._mechanisms, scores), (log_p, log_q), laws)
        size = len(self._scores.names)
        means, squares = numbers[:size], numbers[size:]
        self._shift = means.mean(axis=1) if self._shift is None else self._shift
        centred = means - self._shift[:, None]
        self._sum += centred.sum(axis=1)
        self._squares += (centred**2).sum(axis=1)
        self._within += np.maximum(squares - (means**2).sum(axis=0), 0).sum(axis=1)
        self.count += len(good)
        if self.rows is not None:
            ask = partial(_individual, self._mechanisms, scores)
            self.rows[:, start + good] = in_batches(ask, (log_p, log_q, x), rows)

    @property
    def average(self) -> Floats:
        """The mean effect on each score."""
        assert self._shift is not None
        return self._shift + self._sum / self.count

    @property
    def average_error(self) -> Floats:
        """The standard error of the mean over rows; NaN for a single one."""
        return np.sqrt(self._between * self.count / (self.count - 1 or np.nan) / self.count)

    @property
    def variances(self) -> dict[str, float]:
        """The variance over everybody under each mechanism, summed over scores."""
        total = self._within[:-2] / self.count + self._between.sum()
        return dict(zip(self._names, total.tolist(), strict=True))

    @property
    def least_variance(self) -> float:
        """The least over all couplings, for one score."""
        return float(self._within[-2] / self.count + self._between.sum())

    @property
    def most_variance(self) -> float | None:
        """The most over all couplings, for one score."""
        if len(self._scores.names) > 1:
            return None
        return float(self._within[-1] / self.count + self._between.sum())

    @property
    def _between(self) -> Floats:
        return np.maximum(self._squares / self.count - (self._sum / self.count) ** 2, 0)


@eqx.filter_jit
def _population(
    mechanisms: list[AbstractCoupling],
    scores: tuple[Float[ArrayLike, "k d"], Float[ArrayLike, "k d"]],
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
) -> Float[Array, "columns n"]:
    """For each pair of worlds: the mean effect on each score, E|h(X) - h(Y)|^2 under each mechanism, and its extremes.

    The extremes are over all couplings, in closed form for one score; for several they are zero, and not used.
    """
    score_p, score_q = map(jnp.asarray, scores)

    def one(log_p: LogProbs, log_q: LogProbs) -> Float[Array, " columns"]:
        mean = jnp.exp(log_p) @ score_p - jnp.exp(log_q) @ score_q
        squares = [_expected_square(each, log_p, log_q, score_p, score_q) for each in mechanisms]
        if score_p.shape[1] == 1:
            ends = [_sorted_square(log_p, log_q, score_p[:, 0], score_q[:, 0], way) for way in (1, -1)]
        else:
            ends = [jnp.zeros((), log_p.dtype)] * 2
        return jnp.concatenate([mean, jnp.stack([*squares, *ends])])

    return jax.vmap(one, out_axes=1)(log_p, log_q)


def _expected_square(
    mechanism: AbstractCoupling, log_p: LogProbs, log_q: LogProbs, score_p: Array, score_q: Array
) -> Scalar:
    if isinstance(mechanism, GumbelMax):
        return jax.vmap(race.expected_squared_difference, (None, None, 1, 1))(log_p, log_q, score_p, score_q).sum()
    distance = ((score_p[:, None, :] - score_q[None, :, :]) ** 2).sum(axis=2)
    return (mechanism._joint(log_p, log_q) * distance).sum()


def _sorted_square(log_p: LogProbs, log_q: LogProbs, score_p: Array, score_q: Array, way: int) -> Scalar:
    """E (h(X) - h(Y))^2 when both scores rise along one line (`way` 1: the least), or one rises and the other falls."""
    here, there = jnp.argsort(score_p), jnp.argsort(way * score_q)
    ends_here, ends_there = jnp.cumsum(jnp.exp(log_p)[here]), jnp.cumsum(jnp.exp(log_q)[there])
    edges = jnp.sort(jnp.concatenate([ends_here, ends_there]))
    widths = jnp.diff(edges, prepend=jnp.zeros(1, edges.dtype))
    middles = edges - widths / 2
    last = log_p.size - 1
    first = score_p[here][jnp.minimum(jnp.searchsorted(ends_here, middles), last)]
    second = score_q[there][jnp.minimum(jnp.searchsorted(ends_there, middles), last)]
    return widths @ (first - second) ** 2


@eqx.filter_jit
def _individual(
    mechanisms: list[AbstractCoupling],
    scores: tuple[Float[ArrayLike, "k d"], Float[ArrayLike, "k d"]],
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
    x: Array,
) -> Float[Array, "columns n"]:
    """For each row: the effect on each score under each mechanism, then the bounds of each score's effect."""
    score_p, score_q = map(jnp.asarray, scores)

    def one(log_p: LogProbs, log_q: LogProbs, x: Array) -> Float[Array, " columns"]:
        effects = [score_p[x] - each._counterfactual_probs(log_p, log_q, x) @ score_q for each in mechanisms]
        for place in range(score_p.shape[1]):
            ends = unchecked_score_bounds(log_p, log_q, x, score_q[:, place])
            effects.append(score_p[x, place] - jnp.stack([ends.upper, ends.lower]))
        return jnp.concatenate(effects)

    return jax.vmap(one, out_axes=1)(log_p, log_q, x)
