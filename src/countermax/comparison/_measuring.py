"""Every number of a question, compiled in one piece; and all of them again for thousands of other worlds."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax._core.compilation import quickly_compiled
from countermax._core.labels import Labels
from countermax._core.words import ANY, EVERYBODY, PERSON, STABLE, confidence
from countermax.bounds import Bounds
from countermax.bounds._questions import unchecked_better_bounds, unchecked_outcome_bounds, unchecked_score_bounds
from countermax.comonotone import expected_squared_difference
from countermax.couplings import AbstractCoupling, GumbelMax, Independent, Maximal
from countermax.effects import _unchecked_effect
from countermax.intervals import Interval
from countermax.intervals._linearised import CONCAVE, CONVEX, MIXED, Answers, limits_of, ranked_columns
from countermax.intervals._sampling import Sampling
from countermax.race import agreement

Floats = NDArray[np.float64]
Scores = tuple[ArrayLike, ArrayLike]

_FEW_OUTCOMES = 64  # for which compiling takes far longer than running
MOST_JOINT = 2048  # outcomes of which joint laws are computed; of more, the row of what was seen is found alone
_FEW_NUMBERS = 2**13  # in all joint laws of a question; with more of them intervals take fewer points
_AT_ONCE = 2**21  # numbers of joint laws in memory at one time


GIVEN_ORDER = "as they were given"
"""Source of the order of the outcomes, where a person gave them."""


@dataclass(frozen=True, eq=False)
class TwoWorlds:
    """Two worlds, or two arms, that have been read and checked."""

    labels: Labels
    names: tuple[str, str]
    """Of the factual world and of the other one."""
    log_p: Floats
    log_q: Floats
    scores: tuple[Floats, Floats] | None = None
    """A number for each outcome, in either world."""
    sampling: Sampling | None = None
    """How the worlds were estimated; None where they are known."""
    unknown: bool = False
    """Whether the last entry of both worlds is for people whose outcome is not known."""
    order: str | None = GIVEN_ORDER
    """Source of the order of the outcomes, for the couplings that depend on it; None where nobody gave one."""
    notes: tuple[str, ...] = ()
    scale: str = "outcome"
    """What the outcomes are called together."""

    def kinds(self, seen: int) -> dict[str, NDArray[np.bool_]]:
        """Which outcomes are better or worse than what was seen, or score the same; nothing without a score."""
        if self.scores is None:
            return {}
        start, there = self.scores[0][seen], self.scores[1]
        return {"better": there > start, "worse": there < start, "same": there == start}


class Measures(NamedTuple):
    """What one coupling says, or the bounds over a family of them; None for what there is not."""

    probabilities: Any
    expected_score: Any = None
    better: Any = None
    worse: Any = None
    same: Any = None
    """Up to here about the person; the rest about everybody."""
    all_better: Any = None
    all_worse: Any = None
    agreement: Any = None
    effect_variance: Any = None
    score_correlation: Any = None


class Found(NamedTuple):
    """Everything that is asked of two worlds, by coupling and family of couplings."""

    by: dict[str, Measures]
    win_probability: Any


def assumed(level: float | None) -> tuple[str, ...]:
    """What the numbers take as given: two known laws, or two arms that were sampled."""
    if level is None:
        return ("the probabilities are known; how well they were estimated is not included.",)
    return (
        "the two arms are comparable: randomised, or alike in all that matters. For a person who chose her "
        "treatment, a trial alone says nothing.",
    )


def design_words(notes: Iterable[str]) -> str:
    """What was done to these people, for a paper: the facts among the notes of a trial, without advice."""
    kinds = r"People |Standardised |Strata with |Bounds are averages |[\d,]+ of [\d,]+ people "
    facts = (re.match(rf"(?:{kinds}).*?\.(?= |$)", each) for each in notes)
    return "".join(f"{each[0]} " for each in facts if each)


def interval_methods(level: float | None, *, crossed: bool = False) -> str:
    """How confidence intervals were computed, for a paper; nothing where there are none."""
    if level is None:
        return ""
    if crossed:
        return (
            "Binding constraints were chosen on one half of the people and measured on the other, averaged over all "
            f"halves (cross-fitting). Confidence intervals ({confidence(level)}) are Fieller's, with Student's "
            "distribution and Taylor-linearised errors; the interval of a range covers all of it. They are for the "
            "sampling of people, not simultaneous, and not for the choice of coupling. "
        )
    return (
        f"Confidence intervals ({confidence(level)}) are score intervals (Koopman 1984; Miettinen and Nurminen "
        "1985), exact for single proportions (Clopper and Pearson 1934; in designs Korn and Graubard 1998), of the "
        "locally linearised answers: the union over the pieces that the data leave possible (intersection-union test, "
        "Berger 1982), with Hunter and Worsley's joint correction for bounds; the interval of a range covers all of "
        "it. They are for the sampling of people, not simultaneous, and not for the choice of coupling. "
    )


def on_ends(values: Any, of: Callable[[Any], Any]) -> Any:
    """A function of a number, or of both ends of a range or interval."""
    if isinstance(values, Bounds | Interval):
        return values._replace(lower=of(values.lower), upper=of(values.upper))
    return of(values)


def by_quantity(
    found: Measures, labels: Sequence[str], scores: tuple[Floats, Floats] | None, seen: int
) -> dict[tuple[str, str], Any]:
    """What there is, by quantity and whom it is about: better or worse, outcomes from worst to best, then the rest."""
    said = {(name, PERSON): getattr(found, name) for name in ("better", "worse", "same")}
    for place in range(len(labels)) if scores is None else np.argsort(scores[1], kind="stable").tolist():
        said[f"P({labels[place]})", PERSON] = on_ends(found.probabilities, itemgetter((..., place)))
    said["expected score", PERSON] = found.expected_score
    if scores is not None:
        start = scores[0][seen]
        said["effect", PERSON] = on_ends(found.expected_score, lambda score: score - start)
    said |= {
        ("better", EVERYBODY): found.all_better,
        ("worse", EVERYBODY): found.all_worse,
        ("agreement", EVERYBODY): found.agreement,
        ("effect variance", EVERYBODY): found.effect_variance,
        ("score correlation", EVERYBODY): found.score_correlation,
    }
    return {key: value for key, value in said.items() if value is not None}


def solved(
    couplings: Mapping[str, AbstractCoupling],
    log_p: Floats,
    log_q: Floats,
    seen: int,
    scores: tuple[Floats, Floats] | None,
    rare: bool,
    unknown: bool,
) -> tuple[Found, dict[str, Any]]:
    """All numbers for one pair of worlds, and each coupling's joint law."""
    solve = _solve_few if log_p.size <= _FEW_OUTCOMES else _solve_many
    return jax.tree.map(np.asarray, solve(dict(couplings), log_p, log_q, np.asarray(seen), scores, rare, unknown))


def many_solved(
    couplings: Mapping[str, AbstractCoupling], seen: int, scores: tuple[Floats, Floats] | None, unknown: bool
) -> Callable[[Floats, Floats], tuple[Found, dict[str, Floats]]]:
    """The same numbers for many pairs of worlds, from their log-probabilities, and the joint laws of the first pair."""
    return lambda log_p, log_q: _many(dict(couplings), log_p, log_q, np.asarray(seen), scores, unknown)


def intervals_of(
    sampling: Sampling,
    many: Callable[[Floats, Floats], tuple[Any, Any]],
    seen: int,
    scores: tuple[Floats, Floats] | None,
    num_couplings: int,
    level: float,
) -> tuple[Any, Any, Any]:
    """The answers for the estimates, their confidence intervals in a like tree, and what else is said of the first.

    The interval of a range spans it whole.
    """
    size, cells = sampling.cells[0], len(sampling.laws)
    tree, shapes, estimates, rest = None, [], None, None

    def ask(laws: Floats) -> tuple[Floats, Answers]:
        nonlocal tree, shapes, estimates, rest
        step = min(len(laws), max(1, _AT_ONCE // size**2))
        lacking = -len(laws) % step  # batches of one shape, so that one program is compiled
        with np.errstate(divide="ignore"):
            log_p, log_q = sampling.split(np.log(np.concatenate([laws, np.repeat(laws[-1:], lacking, axis=0)])))
        batches = [many(log_p[at : at + step], log_q[at : at + step]) for at in range(0, len(log_p), step)]
        answers = jax.tree.map(lambda *each: np.concatenate(each)[: len(laws)], *(each for each, _ in batches))
        estimates, rest = jax.tree.map(lambda each: each[0], answers), jax.tree.map(np.asarray, batches[0][1])
        paths, tree = jax.tree_util.tree_flatten_with_path(answers)
        shapes = [leaf.shape[1:] for _, leaf in paths]
        return np.concatenate([leaf.reshape(len(laws), -1) for _, leaf in paths], axis=1), _questions(paths, scores)

    denominators = np.stack([np.full(cells, 0.5), np.arange(cells) == seen])
    features = [*(scores or ()), 1.0 * (np.arange(size) == seen)]
    columns = ranked_columns(sampling.laws, sampling.cells, size, features, sampling.sizes)
    work = max(1.0, num_couplings * size**2 / _FEW_NUMBERS)
    limits = limits_of(sampling, ask, denominators, level, work, columns)
    splits = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    lower, upper = (
        jax.tree.unflatten(
            tree, [each.reshape(shape) for each, shape in zip(np.split(side, splits), shapes, strict=True)]
        )
        for side in limits
    )
    return estimates, _within_all(_paired(lower, upper, level)), rest


def _questions(paths: Any, scores: tuple[Floats, Floats] | None) -> Answers:
    """What is known about every number of an answer, by its path in the tree."""
    kinds = dict.fromkeys(("agreement", "all_better", "all_worse", "win_probability"), (0, 0.0, 1.0))
    kinds |= dict.fromkeys(("probabilities", "better", "worse", "same"), (1, 0.0, 1.0))
    kinds["score_correlation"] = 0, -1.0, 1.0
    if scores is not None:
        kinds["expected_score"] = 1, float(scores[1].min()), float(scores[1].max())
        kinds["effect_variance"] = 0, 0.0, float(np.ptp(scores[0]) + np.ptp(scores[1])) ** 2 / 4
    columns = []
    for path, leaf in paths:
        names = [str(getattr(step, "name", getattr(step, "key", ""))) for step in path]
        whom, least, largest = next(kinds[name] for name in names if name in kinds)
        linear = ANY in names and "effect_variance" not in names  # in the joint law
        shape = {"lower": CONVEX, "upper": CONCAVE}.get(names[-1], MIXED) if linear else MIXED
        columns += int(np.prod(leaf.shape[1:])) * [(shape, whom, least, largest)]
    return Answers(*map(np.array, zip(*columns, strict=True)))


def _within_all(intervals: Any) -> Any:
    """The same, where no coupling's interval leaves that of all couplings."""
    found, curves = intervals

    def within(measures: Measures) -> Measures:
        both = zip(measures, found.by[ANY], strict=True)
        return Measures(*(own if own is None or whole is None else own.within(whole) for own, whole in both))

    return found._replace(by={name: within(each) for name, each in found.by.items()}), [*map(within, curves)]


def _paired(lower: Any, upper: Any, level: float) -> Any:
    """Two trees of limits as one of intervals; of a `Bounds` the outer limits count."""

    def pair(low: Any, high: Any) -> Interval:
        return Interval(low.lower, high.upper, level) if isinstance(low, Bounds) else Interval(low, high, level)

    return jax.tree.map(pair, lower, upper, is_leaf=lambda each: isinstance(each, Bounds))


def _solve(
    couplings: dict[str, AbstractCoupling],
    log_p: ArrayLike,
    log_q: ArrayLike,
    seen: ArrayLike,
    scores: Scores | None,
    rare: bool,
    unknown: bool,
) -> tuple[Found, dict[str, Any]]:
    """Every number that has to be computed: a dozen small programs would take far longer.

    The inputs have been checked. A check in here would call the host, and what calls the host cannot be kept compiled.
    An answer is the row of the joint law; only for an outcome so `rare` that products underflow, or where a matrix
    would be too large, it is asked for by itself. If `unknown`, the last entry of both worlds is for people whose
    outcome is not known: couplings answer for the others, bounds cover whatever it was.
    """
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)
    here, there = (None, None) if scores is None else map(jnp.asarray, scores)
    by: dict[str, Measures] = {}
    if unknown:
        worst = _worst_case(log_p, log_q, seen, here, there)
        by |= {ANY: worst, STABLE: worst._replace(all_better=None, all_worse=None)}
        log_p, log_q = (each[:-1] - jax.nn.logsumexp(each[:-1]) for each in (log_p, log_q))
    else:
        by |= {name: _limits(log_p, log_q, seen, here, there, stable=name == STABLE) for name in (ANY, STABLE)}
    joints = {}
    for name, each in couplings.items():
        if log_p.size > MOST_JOINT:
            row = each._counterfactual_probs(log_p, log_q, seen)
            own = () if here is None else _of_person(here, there, seen) @ row
            by[name] = Measures(row, *own)._replace(agreement=_agreement(each, log_p, log_q))
            continue
        joint = joints[name] = each._joint(log_p, log_q)
        total = joint[seen].sum()
        row = each._counterfactual_probs(log_p, log_q, seen) if rare else joint[seen] / jnp.where(total > 0, total, 1)
        by[name] = Measures(row, agreement=jnp.trace(joint))
        if here is None or there is None:
            continue
        better = (joint * (there[None, :] > here[:, None])).sum()
        worse = (joint * (there[None, :] < here[:, None])).sum()
        own, variance = _of_person(here, there, seen) @ row, _unchecked_effect(joint, here, there).variance
        by[name] = Measures(row, own[0], own[1], own[2], own[3], better, worse, jnp.trace(joint), variance)
    win = None
    if here is not None and there is not None and not unknown and log_p.size <= MOST_JOINT:
        alone = jnp.exp(log_p)[:, None] * jnp.exp(log_q)[None, :]
        win = (alone * ((there[None, :] > here[:, None]) + 0.5 * (there[None, :] == here[:, None]))).sum()
    return Found(by, win), joints


def _agreement(coupling: AbstractCoupling, log_p: Any, log_q: Any) -> Any:
    """P(X=Y) without a matrix; None where only the matrix has it."""
    match coupling:
        case GumbelMax():
            return agreement(log_p, log_q)
        case Maximal():
            return jnp.exp(jnp.minimum(log_p, log_q)).sum()
        case Independent():
            return jnp.exp(log_p + log_q).sum()
    return None


def _of_person(here: Any, there: Any, seen: Any) -> Any:
    """[4, outcomes]: the score, and whether it is better than, worse than or the same as what was seen."""
    start = here[seen]
    return jnp.stack([there, there > start, there < start, there == start])


def _limits(log_p: Any, log_q: Any, seen: Any, here: Any, there: Any, *, stable: bool) -> Measures:
    found = Measures(unchecked_outcome_bounds(log_p, log_q, seen, stable=stable))
    if not stable:
        p, q = jnp.exp(log_p), jnp.exp(log_q)
        found = found._replace(agreement=Bounds(jnp.maximum((p + q).max() - 1, 0), jnp.minimum(p, q).sum()))
    if here is None:
        return found
    person = jax.vmap(lambda score: unchecked_score_bounds(log_p, log_q, seen, score, stable=stable))(
        _of_person(here, there, seen)
    )
    shares = jnp.clip(person.lower[1:], 0, 1), jnp.clip(person.upper[1:], 0, 1)
    better, worse, same = map(Bounds, *shares)
    score = Bounds(person.lower[0], person.upper[0])
    found = found._replace(expected_score=score, better=better, worse=worse, same=same)
    if stable:
        return found
    if log_p.size <= MOST_JOINT:
        found = found._replace(
            all_better=unchecked_better_bounds(log_p, log_q, here, there),
            all_worse=unchecked_better_bounds(log_p, log_q, -here, -there),
        )
    least, largest = (
        expected_squared_difference(log_p, log_q, here, there, opposed=turned) for turned in (False, True)
    )
    squared_mean = (jnp.exp(log_q) @ there - jnp.exp(log_p) @ here) ** 2
    return found._replace(effect_variance=Bounds(jnp.maximum(least - squared_mean, 0), largest - squared_mean))


def _worst_case(log_p: Any, log_q: Any, seen: Any, here: Any, there: Any) -> Measures:
    """Limits that hold whatever those had whose outcome is not known: the last entry of both worlds.

    All ranges widen with fewer who had what was seen; then everybody unknown had the same, the worst for each limit.
    """
    size = log_p.size - 1

    def had(log_probs: Any, outcome: Any) -> Any:
        return log_probs[:-1].at[outcome].set(jnp.logaddexp(log_probs[outcome], log_probs[-1]))

    another = had(log_p, (seen + 1) % size)
    each = jnp.arange(size)
    most = jax.vmap(lambda j: unchecked_outcome_bounds(another, had(log_q, j), seen).upper[j])(each)
    least = jax.vmap(lambda j: unchecked_outcome_bounds(another, had(log_q, (j + 1) % size), seen).lower[j])(each)
    probabilities = Bounds(least, most)
    if here is None:
        return Measures(probabilities)

    def own(score: Any) -> Bounds:
        return Bounds(
            unchecked_score_bounds(another, had(log_q, jnp.argmin(score)), seen, score).lower,
            unchecked_score_bounds(another, had(log_q, jnp.argmax(score)), seen, score).upper,
        )

    def better(here: Any, there: Any) -> Bounds:
        worst, best = (
            unchecked_better_bounds(had(log_p, start(here)), had(log_q, end(there)), here, there)
            for start, end in ((jnp.argmax, jnp.argmin), (jnp.argmin, jnp.argmax))
        )
        return Bounds(worst.lower, best.upper)

    score, above, below, same = (own(each) for each in _of_person(here, there, seen))
    return Measures(probabilities, score, above, below, same, better(here, there), better(-here, -there))


_solve_few, _solve_many = quickly_compiled(_solve), eqx.filter_jit(_solve)


@functools.partial(quickly_compiled, many_numbers=True)
def _many(
    couplings: Any, log_p: Any, log_q: Any, seen: Any, scores: Any, unknown: bool
) -> tuple[Found, dict[str, Any]]:
    found, joints = jax.vmap(lambda p, q: _solve(couplings, p, q, seen, scores, False, unknown))(log_p, log_q)
    return found, jax.tree.map(lambda joint: joint[0], joints)
