"""The question itself: checked, then put to every coupling in one compiled program."""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from countermax._core.arrays import as_array
from countermax._core.checks import as_answer, log_probs_from
from countermax._core.compilation import quickly_compiled
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.memory import check_memory
from countermax._core.types import Labelled, Numbers
from countermax.bounds import Bounds, unchecked_outcome_bounds, unchecked_score_bounds
from countermax.comparison._result import SCORE_COLUMNS, Answer, Comparison, Floats, ScoreBounds
from countermax.couplings import AbstractCoupling, as_couplings, is_same, named_couplings
from countermax.effects import unchecked_effect

_FEW_OUTCOMES = 64
_RARE = -200.0  # log-probability of what was seen, below which it may vanish in the products of the joint law


def compare(
    p: Numbers | Labelled,
    q: Numbers | Labelled,
    observed: Hashable,
    *,
    labels: Sequence[Hashable] | None = None,
    score: Numbers | Labelled | None = None,
    counterfactual_score: Numbers | Labelled | None = None,
    logits: bool = False,
    normalise: bool = False,
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    tolerance: int | float = 0.05,
) -> Comparison:
    """Asks every coupling: this was seen; what would have happened in the other world?

    Probabilities are taken as known; how far they themselves are estimates is not in the answer.

    Everything is computed in double precision, whatever JAX's default is.

    Dictionaries and pandas series are matched by label, whatever order they are in; everything else is in the order of
    `labels`.

    Args:
        p: Probabilities of the outcomes in the factual world, the one in which something was seen.
        q: Probabilities of the same outcomes in the other world.
        observed: What was seen: a label where there are labels, an index where not.
        labels: Names of the outcomes, in their order; by default those that `p` or `q` bring along.
        score: One number for each outcome; adds expected scores and effects, and the couplings that are made for it.
        counterfactual_score: The score in the other world, if it is another one.
        logits: Whether `p` and `q` are logits instead of probabilities.
        normalise: Whether to rescale `p` and `q` to sum to one, for instance when they are counts.
        couplings: The couplings to ask, by name; by default the library's own.
        tolerance: How wide the bounds may be for the choice of coupling not to matter.
    """
    given = {"p": p, "q": q, "score": score, "counterfactual_score": counterfactual_score}
    own = {name: _own_labels(value) for name, value in given.items()}
    if labels is None:
        labels = next((each for each in own.values() if each is not None), None)
    elif isinstance(labels, str):
        raise InputError(f"`labels` must be a list of names, got the text {labels!r}")
    names = None if labels is None else Labels(tuple(labels))
    log_p, log_q = (
        log_probs_from(name, _in_order(names, name, given[name], own[name]), logits=logits, normalise=normalise)
        for name in ("p", "q")
    )
    size = log_p.size
    if size != log_q.size:
        raise InputError(f"`p` and `q` must have the same number of outcomes, got {size} and {log_q.size}")
    if not isinstance(tolerance, Real) or not tolerance >= 0:
        raise InputError(f"`tolerance` must not be negative, got {tolerance}")
    names = names or Labels(tuple(range(size)))
    if len(names) != size:
        raise InputError(f"`labels` must name each of the {size} outcomes, got {len(names)} labels")
    names.refuse(SCORE_COLUMNS, "columns of the result")
    seen = names.place_of("observed", observed)
    if log_p[seen] == -np.inf:
        hint = "; it is possible in the other world: are p and q swapped?" if log_q[seen] > -np.inf else ""
        raise InputError(f"{names.names[seen]!r} was observed but has probability zero under p{hint}")
    if counterfactual_score is not None and score is None:
        raise InputError("`counterfactual_score` needs a `score` beside it")
    scores = None
    if score is not None:
        here, there = (
            None
            if given[name] is None
            else names.scores(name, given[name] if own[name] else _vector(name, given[name]))
            for name in ("score", "counterfactual_score")
        )
        scores = (here, here if there is None else there)
    with jax.enable_x64(True):
        by_score = {} if scores is None else {"score": scores[0], "counterfactual_score": scores[1]}
        asked = named_couplings(**by_score) if couplings is None else as_couplings(couplings, size, **by_score)
        check_memory(
            f"the joint laws of {len(asked)} couplings of {size} by {size} outcomes",
            3.0 * len(asked) * size**2 * 8,
            "ask for rows with `counterfactual_probs`, which need no matrix",
        )
        distinct = {name: next(first for first in asked if is_same(asked[first], asked[name])) for name in asked}
        solve = _solved_quickly if size <= _FEW_OUTCOMES else _solved
        rare = bool(log_p[seen] < _RARE)
        found = jax.tree.map(
            np.asarray,
            solve()({name: asked[name] for name in distinct.values()}, log_p, log_q, np.asarray(seen), scores, rare),
        )
    for name in asked:
        as_answer(f"the coupling {name!r}", found.laws[distinct[name]])
    as_answer("the bounds", found[1:])
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


def _own_labels(given: Any) -> list[Any] | None:
    """The labels that a dictionary or a pandas series brings along; none where they only count from 0."""
    if not isinstance(given, Labelled):
        return None
    keys = list(given.keys())
    counts = type(given.keys()).__name__ == "RangeIndex" and keys == list(range(len(keys)))
    return None if counts else keys


def _in_order(labels: Labels | None, name: str, given: Any, own: list[Any] | None) -> Any:
    """Numbers in the order of the labels, by their own labels where they have some."""
    numbers = _plain(given)
    return numbers if own is None or labels is None else [numbers[place] for place in labels.order_of(name, own)]


def _vector(name: str, given: Any) -> Any:
    return as_array(name, _plain(given), 1)


def _plain(given: Any) -> Any:
    return [number for _, number in given.items()] if isinstance(given, Labelled) else given


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
    bounds = Bounds(*map(float, expected))
    return ScoreBounds(bounds, bounds.shifted(-float(scores[0][seen])))
