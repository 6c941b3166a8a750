"""The question itself: checked, then put to every coupling in one compiled program."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import jax
import numpy as np

from countermax._core.checks import as_answer, as_array, log_probs_from
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.memory import check_memory
from countermax._core.quantities import as_seed
from countermax._core.types import Labelled, Numbers
from countermax.bounds import Bounds
from countermax.comparison._given import in_order, own_labels, plain_numbers
from countermax.comparison._measuring import Found, Limits, Measures, intervals_of, solved
from countermax.comparison._result import (
    SCORE_COLUMNS,
    Answer,
    AnswerIntervals,
    Comparison,
    ComparisonIntervals,
    Floats,
    ScoreBounds,
)
from countermax.comparison._sharing import sharing_of
from countermax.comparison._sharing_result import SHARING_COLUMNS
from countermax.comparison._showing import GIVEN_ORDER, order_note
from countermax.comparison._unseen import with_nothing_known
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_couplings, is_same, named_couplings
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.intervals._inversion import inverted_intervals
from countermax.intervals._portable import DRAWS
from countermax.intervals._sampling import AbstractSampling, CountSampling

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
    counts: bool = False,
    level: float = 0.95,
    seed: int = 0,
    draws: str = "numpy",
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    tolerance: int | float = 0.05,
    sharing: bool = False,
) -> Comparison:
    """Asks every coupling: this was seen; what would have happened in the other world?

    Probabilities are taken as known; how far they themselves are estimates is not in the answer. Counts of people are
    not: every answer then has a confidence interval, and every range over couplings one that holds all of it.

    Everything is computed in double precision, whatever JAX's default is.

    Dictionaries and pandas series are matched by label, whatever order they are in; everything else is in the order of
    `labels`.

    Args:
        p: Probabilities of the outcomes in the factual world, the one in which something was seen.
        q: Probabilities of the same outcomes in the other world.
        observed: Outcome that was seen: a label where there are labels, otherwise an index.
        labels: Names of the outcomes, in their order; by default those that `p` or `q` bring along.
        score: One number for each outcome; adds expected scores and effects, and the couplings that are made for it.
        counterfactual_score: The score in the other world, if it is another one.
        logits: Whether `p` and `q` are logits instead of probabilities.
        normalise: Whether to rescale `p` and `q` to sum to one.
        counts: Whether `p` and `q` count people, independent of each other, in two samples.
        level: Confidence of the intervals that counts have.
        seed: Seed of the draws behind these intervals.
        draws: Source of these draws: `numpy`, or `portable`, which the explorer in the browser draws too.
        couplings: The couplings to ask, by name; by default the library's own.
        tolerance: Largest width of the bounds at which the choice of coupling does not matter.
        sharing: Whether to ask also how much the two worlds must share for the answer to turn.
    """
    if counts and (logits or normalise):
        raise InputError("`counts` excludes `logits` and `normalise`; pass one of them only")
    if draws not in DRAWS:
        raise InputError(f"`draws` must be one of {', '.join(DRAWS)}, got {draws!r}")
    given = {"p": p, "q": q, "score": score, "counterfactual_score": counterfactual_score}
    own = {name: own_labels(value) for name, value in given.items()}
    if labels is None:
        labels = next((each for each in own.values() if each is not None), None)
    elif isinstance(labels, str):
        raise InputError(f"`labels` must be a list of names, got the text {labels!r}")
    listed = None if labels is None else Labels(tuple(labels))
    first, second = (in_order(listed, name, given[name], own[name]) for name in ("p", "q"))
    log_p, log_q = (
        log_probs_from(name, each, logits=logits, normalise=normalise or counts)
        for name, each in (("p", first), ("q", second))
    )
    size = log_p.size
    if size != log_q.size:
        raise InputError(f"`p` and `q` must have the same number of outcomes, got {size} and {log_q.size}")
    if not isinstance(tolerance, Real) or not tolerance >= 0:
        raise InputError(f"`tolerance` must not be negative, got {tolerance}")
    names = listed or Labels(tuple(range(size)))
    if len(names) != size:
        raise InputError(f"`labels` must name each of the {size} outcomes, got {len(names)} labels")
    names.refuse(SCORE_COLUMNS, "columns of the result")
    seen = names.place_of("observed", observed)
    if log_p[seen] == -np.inf and not counts:
        hint = "; it is possible in the other world: are p and q swapped?" if log_q[seen] > -np.inf else ""
        raise InputError(f"{names.names[seen]!r} was observed but has probability zero under p{hint}")
    if counterfactual_score is not None and score is None:
        raise InputError("`counterfactual_score` needs a `score`")
    scores = None
    if score is not None:
        here, there = (
            None
            if given[name] is None
            else names.scores(name, given[name] if own[name] else as_array(name, plain_numbers(given[name]), 1))
            for name in ("score", "counterfactual_score")
        )
        assert here is not None
        scores = (here, here if there is None else there)
    return answered(
        names,
        seen,
        log_p,
        log_q,
        sampling=CountSampling(np.asarray(first, np.float64), np.asarray(second, np.float64)) if counts else None,
        scores=scores,
        couplings=couplings,
        tolerance=tolerance,
        level=level,
        seed=seed,
        method=partial(inverted_intervals, draws=draws),
        sharing=sharing,
    )


def answered(
    names: Labels,
    seen: int,
    log_p: Floats,
    log_q: Floats,
    *,
    sampling: AbstractSampling | None,
    scores: tuple[Floats, Floats] | None,
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None,
    tolerance: int | float = 0.05,
    level: float = 0.95,
    seed: int = 0,
    worlds: tuple[str, str] = ("p", "q"),
    order: str = GIVEN_ORDER,
    notes: tuple[str, ...] = (),
    some_unknown: bool = False,
    method: Callable[..., Interval] = inverted_intervals,
    sharing: bool = False,
) -> Comparison:
    """`compare` for worlds, scores and labels that have been checked.

    Args:
        names: Labels of the outcomes.
        seen: The outcome that was observed.
        log_p: Log-probabilities of the factual world.
        log_q: Log-probabilities of the other world.
        sampling: Sampling by which the worlds were estimated; None where they are known.
        scores: A number for each outcome in either world.
        couplings: The couplings to ask, by name; by default the library's own.
        tolerance: Largest width of the bounds at which the choice of coupling does not matter.
        level: Confidence of the intervals.
        seed: Seed of the draws behind the intervals.
        worlds: Names of the factual world and of the other one.
        order: Source of the order of the outcomes, for the couplings that depend on it.
        notes: Further remarks about the data for the reader.
        some_unknown: Whether the last entry of both worlds is for people whose outcome is not known.
        method: Method that finds the intervals.
        sharing: Whether to ask for all that the two worlds may share.
    """
    check_level(level)
    seed = as_seed("seed", seed)
    if sharing:
        names.refuse(SHARING_COLUMNS, "columns of the curve over what two worlds share")
        if log_p[seen] == -np.inf:
            raise InputError(
                f"`sharing` must be asked about somebody, but nobody under {worlds[0]} had {names.names[seen]!r}; "
                "leave it out"
            )
    with jax.enable_x64(True):
        by_score: dict[str, Any] = {} if scores is None else {"score": scores[0], "counterfactual_score": scores[1]}
        asked = named_couplings(**by_score) if couplings is None else as_couplings(couplings, len(names), **by_score)
        check_memory(
            f"the joint laws of {len(asked)} couplings of {len(names)} by {len(names)} outcomes",
            3.0 * len(asked) * len(names) ** 2 * 8,
            "ask for rows with `counterfactual_probs`, which need no matrix",
        )
        same = {name: next(first for first in asked if is_same(asked[first], asked[name])) for name in asked}
        distinct = {name: asked[name] for name in same.values()}
        rare = bool(-np.inf < log_p[seen] < _RARE)
        found, joints = solved(distinct, log_p, log_q, seen, scores, rare, some_unknown)
        doubt = None
        if sampling is not None:
            doubt = intervals_of(
                sampling, distinct, seen, scores, some_unknown=some_unknown, level=level, seed=seed, method=method
            )
    if some_unknown:
        log_p, log_q = (each[:-1] - np.log1p(-np.exp(each[-1])) for each in (log_p, log_q))
        notes = (*notes, "With outcomes that are not known, stable couplings get the bounds of all couplings.")
    for name in asked if log_p[seen] > -np.inf else ():
        as_answer(f"the coupling {name!r}", (found.answers[same[name]], joints[same[name]]))
    if log_p[seen] > -np.inf:
        as_answer("the bounds", (found.any, found.stable))
    curve = None
    if sharing:
        with jax.enable_x64(True):
            curve = sharing_of(
                names.names, seen, worlds, log_p, log_q, scores, found,
                sampling=sampling, some_unknown=some_unknown, level=level, seed=seed, method=method,
            )  # fmt: skip
    start = None if scores is None else float(scores[0][seen])
    if log_p[seen] == -np.inf:  # nobody had it, which is not to say that nobody can
        there = None if scores is None else scores[1]
        found = with_nothing_known(found, len(names), there, Bounds, lambda size: np.full(size, np.nan))
        if doubt is not None:
            doubt = with_nothing_known(
                doubt, len(names), there, lambda lower, upper: Interval(lower, upper, level), None
            )
    answers = tuple(_answer(name, found.answers[same[name]], joints[same[name]], start) for name in asked)
    return Comparison(
        labels=names.names,
        observed=seen,
        worlds=worlds,
        p=np.exp(log_p),
        q=np.exp(log_q),
        answers=answers,
        bounds=found.any.probabilities,
        stable_bounds=found.stable.probabilities,
        score_bounds=_score_bounds(found.any, start),
        stable_score_bounds=_score_bounds(found.stable, start),
        win_probability=None if found.win_probability is None else float(found.win_probability),
        intervals=None if doubt is None or sampling is None else _intervals(doubt, sampling, same, level, start),
        notes=(*notes, *order_note(names, asked, order)),
        tolerance=tolerance,
        sharing=curve,
    )


def _answer(name: str, found: Measures, joint: Floats, start: float | None) -> Answer:
    agreement = float(found.agreement)
    if start is None:
        return Answer(name, found.probabilities, joint, agreement, None, None, None, None, None)
    expected = float(found.expected_score)
    rest = (float(each) for each in (found.effect_variance, found.better, found.worse))
    return Answer(name, found.probabilities, joint, agreement, expected, expected - start, *rest)


def _score_bounds(found: Limits, start: float | None) -> ScoreBounds | None:
    if found.expected_score is None or start is None:
        return None
    expected = Bounds(*map(float, found.expected_score))
    better, worse = (None if each is None else Bounds(*map(float, each)) for each in (found.better, found.worse))
    return ScoreBounds(expected, expected.shifted(-start), better, worse)


def _intervals(
    doubt: Found, sampling: AbstractSampling, same: Mapping[str, str], level: float, start: float | None
) -> ComparisonIntervals:
    def of(each: Measures | Limits) -> AnswerIntervals:
        expected = each.expected_score
        effect = None
        if expected is not None and start is not None:
            effect = Interval(expected.lower - start, expected.upper - start, level)
        agreement, variance = (each.agreement, each.effect_variance) if isinstance(each, Measures) else (None, None)
        return AnswerIntervals(each.probabilities, agreement, expected, effect, variance, each.better, each.worse)

    return ComparisonIntervals(
        level=level,
        sample=sampling.words(),
        answers={name: of(doubt.answers[first]) for name, first in same.items()},
        bounds=of(doubt.any),
        stable_bounds=of(doubt.stable),
        win_probability=doubt.win_probability,
    )
