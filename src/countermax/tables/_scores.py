"""Scores of labelled outcomes, one or several, and which coupling to choose for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._tables.frames import Floats, check_new_names
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.learning import Fit, MatrixLoss, ObservedPairs, SquaredDifference, Training, fit
from countermax.learning._losses import least_losses
from countermax.learning._recipe import LEARNED
from countermax.tables._notes import PRECISION
from countermax.tables._pairs import AbstractRows, NothingChangesError, Weighted

_IN_ORDER, _BY_QUANTILE = "inverse CDF by score", "comonotone"
MOST_SOLVED = 100_000  # pairs times outcomes for which transport problems are worth solving
MOST_SOLVED_IN_ALL = 2_000_000  # where classifiers are fitted again
MOST_PLANNED = 10_000  # rows times outcomes for which a vector quantile is fitted without being asked for


@dataclass(frozen=True, eq=False)
class Scores:
    """What outcomes are worth in either world, [outcomes, scores]."""

    names: tuple[str, ...]
    factual: Floats
    counterfactual: Floats

    @property
    def one_order(self) -> bool:
        """Whether one order of the outcomes sorts both worlds' only score, so that sorting is optimal."""
        if len(self.names) > 1:
            return False
        order = np.argsort(self.factual[:, 0], kind="stable")
        return bool((np.diff(self.counterfactual[order, 0]) >= 0).all())

    @property
    def best(self) -> str | None:
        """The fixed coupling that has the least variance of all couplings; None where there is none, for several."""
        return None if len(self.names) > 1 else _IN_ORDER if self.one_order else _BY_QUANTILE

    @property
    def are_shared(self) -> bool:
        """Whether both worlds have the same scores, as a mechanism needs them."""
        return np.array_equal(self.factual, self.counterfactual)

    @property
    def centred(self) -> "Scores":
        """The scores less that of the first outcome in each world: large ones would cost variances their digits."""
        return Scores(self.names, self.factual - self.factual[0], self.counterfactual - self.counterfactual[0])

    @property
    def offset(self) -> Floats:
        """What an effect on each of the scores is more than that on the centred ones."""
        return self.counterfactual[0] - self.factual[0]

    def loss(self) -> SquaredDifference:
        """The squared effect, added up over scores."""
        return SquaredDifference(jnp.asarray(self.factual), jnp.asarray(self.counterfactual))


def as_scores(labels: Labels, score: Any, counterfactual_score: Any = None) -> Scores:
    """One score (by label, or in their order), several by name, or an array [outcomes, scores]."""
    names, factual = _by_name("score", labels, score)
    if counterfactual_score is None:
        return Scores(names, factual, factual)
    others, counterfactual = _by_name("counterfactual_score", labels, counterfactual_score)
    if others != names:
        raise InputError(f"both scores must have the same names, got {names} and {others}")
    return Scores(names, factual, counterfactual)


def _by_name(argument: str, labels: Labels, given: Any) -> tuple[tuple[str, ...], Floats]:
    several = isinstance(given, Mapping) and all(isinstance(each, Mapping) or np.ndim(each) for each in given.values())
    if several and given and (labels.places(list(given)) < 0).all():
        columns = [labels.scores(f"{argument}[{each!r}]", value) for each, value in given.items()]
        names = tuple(map(str, given))
        check_new_names((), names, "give the scores different names")
        return names, np.stack(columns, axis=1)
    if not isinstance(given, Mapping) and np.ndim(given) == 2:
        array = np.asarray(given, np.float64)
        columns = [labels.scores(argument, column) for column in array.T]
        return tuple(f"score {place}" for place in range(len(columns))), np.stack(columns, axis=1)
    return ("score",), labels.scores(argument, given)[:, None]


def fixed_couplings(scores: Scores, rows: AbstractRows, num_times: int) -> dict[str, AbstractCoupling]:
    """The fixed couplings, with those that are made for the scores.

    Several scores have a vector quantile among them, fitted to the frame's own worlds, where its rows are so few that
    plans of all of them take seconds.

    Args:
        scores: Scores of the outcomes.
        rows: Rows of the table.
        num_times: Number of passes over its rows.
    """
    with jax.enable_x64(True):  # scores that differ in their last digits have an order too
        if len(scores.names) > 1:
            each = zip(scores.names, scores.factual.T, strict=True)
            by_one = {f"inverse CDF by {name}": InverseCDF.sorted_by(values) for name, values in each}
            if not scores.are_shared or num_times * rows.num_rows * len(scores.factual) > MOST_PLANNED:
                return named_couplings() | by_one
            try:
                pairs = own_pairs(rows)
            except NothingChangesError:
                return named_couplings() | by_one
            return named_couplings(score=scores.factual, pairs=pairs) | by_one
        return named_couplings(score=scores.factual[:, 0], counterfactual_score=scores.counterfactual[:, 0])


def learned_coupling(
    rows: AbstractRows,
    scores: Scores,
    gadget: Gadget2 | None,
    options: Mapping[str, Any],
    progress: bool | None,
    *,
    key: PRNGKeyArray,
) -> Fit[Gadget2]:
    """Trains a gadget on the frame's own pairs to let the effect vary as little as possible."""
    size = len(scores.factual)
    key_gadget, key_fit = jax.random.split(key)
    if gadget is None:
        gadget = Gadget2(size, 16, key=key_gadget, hidden=(64, 64))
    if gadget.num_outcomes != size:
        raise InputError(f"`learn` must be a gadget for {size} outcomes, got one for {gadget.num_outcomes}")
    pairs = own_pairs(rows)
    settings = {"steps": 500, "batch_size": 64} | dict(options)
    checkpoint = settings.pop("checkpoint", None)
    return fit(gadget, pairs, scores.loss(), Training(**settings), key=key_fit, checkpoint=checkpoint)


def own_pairs(rows: AbstractRows) -> ObservedPairs:
    """The table's own pairs of worlds, or some of them where there are many."""
    log_p, log_q, weights = rows.some_pairs()
    return ObservedPairs(jnp.asarray(log_p), jnp.asarray(log_q), weights)


def bounds_by_transport(pairs: Weighted, scores: Scores, mean: Floats, kept_square: float, total: float) -> Bounds:
    """The least and the largest variance over all couplings with several scores.

    Args:
        pairs: Pairs of worlds of rows that the change does something to.
        scores: Scores of the outcomes.
        mean: The mean effect on each of the centred scores.
        kept_square: The sum of expected squared effects, on centred scores, of all other rows: those that are left as
            they were.
        total: Sum of the weights of all rows.
    """
    log_p, log_q, weights = pairs
    least = most = np.zeros(len(log_p))
    if len(log_p):
        with jax.enable_x64(True):
            first, second = jnp.asarray(log_p), jnp.asarray(log_q)
            loss = scores.centred.loss()
            opposite = MatrixLoss(-loss(first[0], second[0]))
            least, most = least_losses(loss, first, second), -least_losses(opposite, first, second)
    squares = [(float(np.asarray(each) @ weights) + kept_square) / total for each in (least, most)]
    lower, upper = (max(square - float((mean**2).sum()), 0.0) for square in squares)
    return Bounds(lower, upper)


def choose(scores: Scores, variances: Mapping[str, float], bounds: Bounds | None) -> tuple[str, str]:
    """The name of the coupling to choose, and why; and that this is no evidence that the coupling is true."""
    choice, why = _least(scores, variances, bounds)
    return choice, f"{why} {PRECISION}"


def _least(scores: Scores, variances: Mapping[str, float], bounds: Bounds | None) -> tuple[str, str]:
    if scores.best is not None and bounds is not None:
        why = "with one score, outcomes in its order have"
        if not scores.one_order:
            why = "the two worlds' scores sort the outcomes differently; matching their quantiles has"
        return scores.best, (
            f"{why} the least variance of all couplings, {bounds.lower:.4g}, for every row at once; nothing has to be "
            "learned."
        )
    best = min(variances, key=lambda name: variances[name])
    if bounds is not None and variances[best] <= bounds.lower * (1 + 1e-6):
        least = f"{bounds.lower:.4g}"
        return best, f"no coupling can have less variance than {least} on these rows; nothing has to be learned."
    why = "no order of the outcomes is optimal for several scores at once"
    if best == LEARNED:
        return best, f"{why}, and training on these rows found less variance than any fixed coupling has."
    more = "training did not do better" if LEARNED in variances else "learn=True may find a better one"
    return best, f"{why}; of those compared it has the least variance, and {more}."
