"""Scores of labelled outcomes; the couplings whose effects on them are compared, and which of them to choose."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._tables.frames import Codes, Floats, check_new_names
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2, InverseCDF
from countermax.couplings._named import as_couplings, is_same, named_couplings
from countermax.couplings._words import LEARNED
from countermax.tables._reading import MOST_PAIRS, NOBODY, Chunk
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from countermax.learning import Fit, ObservedPairs, SquaredDifference, Training

PRECISION = "Least variance is a criterion of precision, not evidence that the mechanism is true."
MOST_SOLVED = 100_000  # pairs times outcomes for which transport problems are worth solving
MOST_SOLVED_IN_ALL = 2_000_000  # where classifiers are refitted
MOST_PLANNED = 10_000  # rows times outcomes for which a vector quantile is fitted without being asked for
_IN_ORDER, _BY_QUANTILE = "inverse CDF by score", "comonotone"

Weighted = tuple[Floats, Floats, Floats]
"""Distinct pairs of log-probabilities, and in how many rows each stands."""
CouplingsLike: TypeAlias = Mapping[str, str | Path | AbstractCoupling] | Sequence[str | Path]
"""Couplings by name, or names of fixed ones."""


class NothingChangesError(InputError):
    """There is no pair of worlds to look at."""


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
    def centred(self) -> "Scores":
        """The scores less that of the first outcome in each world: large ones would cost variances their digits."""
        return Scores(self.names, self.factual - self.factual[0], self.counterfactual - self.counterfactual[0])

    @property
    def offset(self) -> Floats:
        """What an effect on each of the scores is more than that on the centred ones."""
        return self.counterfactual[0] - self.factual[0]

    def loss(self) -> "SquaredDifference":
        """The squared effect, added up over scores."""
        from countermax.learning import SquaredDifference  # where it is asked for, since it takes long to import

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


def fixed_couplings(scores: Scores, rows: AbstractSource, num_times: int) -> dict[str, AbstractCoupling]:
    """The fixed couplings, with those that are made for the scores; none by an order that nobody gave.

    Several scores have a vector quantile among them, fitted to the frame's own worlds, where its rows are so few that
    plans of all of them take seconds.
    """
    with jax.enable_x64(True):  # scores that differ in their last digits have an order too
        found = _all_fixed(scores, rows, num_times)
    return {name: each for name, each in found.items() if name != "inverse CDF" or rows.reader.order != NOBODY}


def _all_fixed(scores: Scores, rows: AbstractSource, num_times: int) -> dict[str, AbstractCoupling]:
    if len(scores.names) == 1:
        return named_couplings(score=scores.factual[:, 0], counterfactual_score=scores.counterfactual[:, 0])
    asked: dict[str, Any] = {}
    shared = np.array_equal(scores.factual, scores.counterfactual)  # as a mechanism needs them
    if shared and num_times * rows.num_rows * len(scores.factual) <= MOST_PLANNED:
        with suppress(NothingChangesError):
            asked = {"pairs": own_pairs(rows), "score": scores.factual}
    each = zip(scores.names, scores.factual.T, strict=True)
    return named_couplings(**asked) | {f"inverse CDF by {name}": InverseCDF.sorted_by(values) for name, values in each}


@dataclass(frozen=True, eq=False)
class Compared:
    """Scores of the outcomes, and the couplings whose effects on them are compared."""

    scores: Scores
    couplings: dict[str, AbstractCoupling]
    learned: "Fit[Gadget2] | None"
    """How the learned coupling came about, if one was asked for."""


def own_scores(rows: AbstractSource, counterfactual_score: Any) -> Scores:
    """The scores that the table was given, else the ranks of an ordered category."""
    reader = rows.reader
    score = reader.ranks if reader.question.score is None else reader.question.score
    if score is None:
        raise InputError("`score` must say what each outcome is worth, unless the outcomes are an ordered category")
    return as_scores(reader.labels, score, counterfactual_score)


def compare_couplings(rows: AbstractSource, scores: Scores, given: CouplingsLike | None, num_times: int) -> Compared:
    """The couplings asked for, with the one that is best where there is one; by default the fixed ones.

    `num_times` is the number of passes over the rows.
    """
    fixed = fixed_couplings(scores, rows, num_times) if given is None or scores.best is not None else {}
    if given is None:
        return Compared(scores, fixed, None)
    with jax.enable_x64(True):
        both: dict[str, Any] = {"score": scores.factual, "counterfactual_score": scores.counterfactual}
        if len(scores.names) == 1:  # couplings that are made for a score look at one
            both = {name: each[:, 0] for name, each in both.items()}
        elif _wants_pairs(given):
            both["pairs"] = own_pairs(rows)
        own = as_couplings(given, rows.reader.labels, **both)
    if scores.best in own and not is_same(own[scores.best], fixed[scores.best]):
        _refuse_name(scores.best)
    return Compared(scores, own | {name: each for name, each in fixed.items() if name == scores.best}, None)


def learn_coupling(
    rows: AbstractSource,
    compared: Compared,
    learn: bool | Gadget2,
    training: "Training | None",
    checkpoint: str | Path | None,
    key: PRNGKeyArray | None,
) -> Compared:
    """Trains a gadget on the table's own worlds, and compares it too."""
    from countermax.learning import Training, fit

    if LEARNED in compared.couplings:
        _refuse_name(LEARNED)
    size = len(compared.scores.factual)
    key_gadget, key_fit = jax.random.split(jax.random.key(0) if key is None else key)
    gadget = learn if isinstance(learn, Gadget2) else Gadget2(size, 16, key=key_gadget, hidden=(64, 64))
    if gadget.num_outcomes != size:
        raise InputError(f"`learn` must be a gadget for {size} outcomes, got one for {gadget.num_outcomes}")
    training = Training(steps=500, batch_size=64) if training is None else training
    learned = fit(gadget, own_pairs(rows), compared.scores.loss(), training, key=key_fit, checkpoint=checkpoint)
    return Compared(compared.scores, compared.couplings | {LEARNED: learned.coupling}, learned)


def _wants_pairs(given: Mapping[str, Any] | Sequence[Any] | str | Path) -> bool:
    """Whether something among the couplings has to be fitted."""
    each = given.values() if isinstance(given, Mapping) else [given] if isinstance(given, str | Path) else given
    return any(isinstance(one, str) and one in ("vector-quantile", "vector quantile") for one in each)


def _refuse_name(name: str) -> NoReturn:
    raise InputError(f"`couplings` must not reuse the name {name!r}, which is the library's own; rename yours")


def own_pairs(rows: AbstractSource, most: int = MOST_PAIRS, seed: int = 0) -> "ObservedPairs":
    """The table's own pairs of worlds; of at most `most` rows, drawn without replacement, where there are more."""
    from countermax.learning import ObservedPairs

    count = rows.num_rows
    drawn = np.sort(np.random.default_rng(seed).choice(count, min(most, count), replace=False))
    some = [each for each in rows.each(_drawn_pairs, drawn) if len(each)]
    if not some:
        raise NothingChangesError("`frame` must have a row that can be answered and that is changed, got none")
    log_p, log_q, weights = _divided(*np.unique(np.concatenate(some), axis=0, return_counts=True))
    return ObservedPairs(jnp.asarray(log_p), jnp.asarray(log_q), weights)


def _drawn_pairs(drawn: Codes, first_row: int, chunks: Iterable[Chunk]) -> Floats:
    """Pairs side by side, in the rows that were drawn; those left as they were do not count."""
    found = []
    for chunk in chunks:
        start, stop = first_row + chunk.rows.start, first_row + chunk.rows.stop
        rows = drawn[(drawn >= start) & (drawn < stop)] - start
        rows = rows[~(chunk.bad | chunk.kept)[rows]]
        found.append(np.concatenate([chunk.log_p[rows], chunk.log_q[rows]], axis=1))
    return np.concatenate(found) if found else np.zeros((0, 0))


def all_pairs(most: int, first_row: int, chunks: Iterable[Chunk]) -> Weighted | None:
    """All distinct pairs, without rows that are left as they were; None if there are more than `most`."""
    used = ((chunk, ~(chunk.bad | chunk.kept)) for chunk in chunks)
    return together(((chunk.log_p[good], chunk.log_q[good], chunk.weight[good]) for chunk, good in used), most)


def together(parts: Iterable[Weighted | None], most: int) -> Weighted | None:
    """Distinct pairs among those of all parts, weights added up; None if there are more than `most`."""
    pairs: Floats | None = None
    weights: Floats = np.zeros(0)
    for part in parts:
        if part is None:
            return None
        new = np.concatenate(part[:2], axis=1)
        pairs, place = np.unique(new if pairs is None else np.concatenate([pairs, new]), axis=0, return_inverse=True)
        counted = np.concatenate([weights, part[2]])
        weights = np.bincount(place.ravel(), counted, len(pairs)).astype(np.float64)
        if len(pairs) > most:
            return None
    return None if pairs is None else _divided(pairs, weights)


def _divided(pairs: Floats, weights: Any) -> Weighted:
    log_p, log_q = np.split(pairs, 2, axis=1)
    return log_p, log_q, weights.astype(np.float64)


def bounds_by_transport(pairs: Weighted, scores: Scores, mean: Floats, kept_square: float, total: float) -> Bounds:
    """The least and the largest variance over all couplings with several scores."""
    from countermax.learning import MatrixLoss
    from countermax.learning._losses import least_losses

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
    """The name of the coupling to choose, and why."""
    if scores.best is not None and bounds is not None:
        why = "" if scores.one_order else "the two worlds' scores sort the outcomes differently, and "
        return scores.best, f"{why}with one score no coupling varies less than this one."
    best = min(variances, key=lambda name: variances[name])
    if bounds is not None and variances[best] <= bounds.lower * (1 + 1e-6):
        return best, "no coupling can have less variance on these rows."
    why = "no order of the outcomes is optimal for several scores at once"
    if best == LEARNED:
        return best, f"{why}, and training on these rows found less variance than any fixed coupling has."
    more = "training did not do better" if LEARNED in variances else "learn=True may find a better one"
    return best, f"{why}; of those compared it has the least variance, and {more}."
