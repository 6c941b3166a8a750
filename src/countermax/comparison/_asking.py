"""A question about one person, put to every coupling in one compiled program."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import jax
import numpy as np

from countermax._core.checks import as_answer
from countermax._core.errors import InputError
from countermax._core.labels import Labels, told_apart
from countermax._core.results import Row
from countermax._core.words import ANY, PERSON, STABLE, confidence, number, span
from countermax.bounds import Bounds
from countermax.comparison._measuring import (
    MOST_JOINT,
    Floats,
    Found,
    Measures,
    TwoWorlds,
    by_quantity,
    intervals_of,
    many_solved,
    solved,
)
from countermax.comparison._result import WIN, Comparison
from countermax.comparison._sensitivity import (
    FEW,
    NESTING,
    NUMBERS,
    SHARING,
    Nested,
    SensitivityCurve,
    many_on_curve,
    on_curve,
)
from countermax.couplings import AbstractCoupling, InverseCDF, NestedGumbelMax
from countermax.couplings._named import as_couplings, is_same, named_couplings
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.intervals._linearised import win_limits

Couplings = Mapping[str, str | AbstractCoupling] | Sequence[str] | str

_RARE = -200.0  # log-probability of what was seen, below which it may vanish in the products of the joint law
_ROUNDING = 1e-4  # of the laws of a coupling, which may have been saved, or trained, in single precision
_MOST_NAMED = 12  # outcomes in a sentence
_LEAST_VARIANCE = ("comonotone", "inverse CDF by score")


def compare_worlds(
    worlds: TwoWorlds,
    seen: Hashable,
    *,
    couplings: Couplings | None = None,
    tolerance: int | float = 0.05,
    sharing: bool = False,
    nests: Mapping[str, Any] | None = None,
    level: float = 0.95,
) -> Comparison:
    """Everything that can be said about somebody who had an outcome in the factual world."""
    check_level(level)
    if not isinstance(tolerance, Real) or not 0 <= tolerance <= 1:
        raise InputError(f"`tolerance` is a width of probabilities and must lie between 0 and 1, got {tolerance}")
    labels, log_p, log_q, scores = worlds.labels, worlds.log_p, worlds.log_q, worlds.scores
    place = labels.place_of("seen", seen)
    occurs = bool(log_p[place] > -np.inf)
    here, there = worlds.names
    if not occurs and worlds.sampling is None:
        hint = f"; it is possible under {there}: are the two worlds swapped?" if log_q[place] > -np.inf else ""
        raise InputError(f"{labels.names[place]!r} was seen but has probability zero under {here}{hint}")
    varied = ["sharing"] * sharing + ["nests"] * (nests is not None)
    if varied and worlds.unknown:
        raise InputError(f"`{varied[0]}` must be asked with every outcome known; say missing='drop', or leave it out")
    if varied and not occurs:
        raise InputError(
            f"`{varied[0]}` must be asked about somebody, but nobody under {here} had {labels.names[place]!r}; leave "
            "it out"
        )
    dials: list[Nested | None] = [None] * sharing
    if nests is not None:
        tree = NestedGumbelMax(nests, 0.5, labels=labels)
        dials.append((np.asarray(tree.home, np.int64), tree.parents))
    with jax.enable_x64(True):
        asked = _couplings(couplings, worlds)
        same = {name: next(first for first in asked if is_same(asked[first], asked[name])) for name in asked}
        distinct = {name: asked[name] for name in same.values()}
        rare = bool(-np.inf < log_p[place] < _RARE)
        intervals, limits = None, [None] * len(dials)
        if worlds.sampling is not None:
            solve_many = many_solved(distinct, place, scores, worlds.unknown)
            along = [many_on_curve(nested, place, scores) for nested in dials]

            def answers(p: Floats, q: Floats) -> tuple[Any, Any]:
                answered, of_first = solve_many(p, q)
                return (answered, [each(p, q) for each in along]), of_first

            work = len(distinct) + len(dials) * len(FEW)
            given = worlds.sampling, answers, place, scores, work, level
            (found, _), (intervals, limits), joints = intervals_of(*given)
            if scores is not None and not worlds.unknown:
                here_score, there_score = scores[0][:, None], scores[1][None, :]
                wins = (there_score > here_score) + 0.5 * (there_score == here_score)
                win = Interval(*win_limits(worlds.sampling, wins, level), level)
                intervals = intervals._replace(win_probability=win)
        if worlds.sampling is None or rare:
            found, joints = solved(distinct, log_p, log_q, place, scores, rare, worlds.unknown)
    if worlds.unknown:
        log_p, log_q = (each[:-1] - np.log1p(-np.exp(each[-1])) for each in (log_p, log_q))
        worlds = replace(worlds, log_p=log_p, log_q=log_q)
    if occurs:
        for name in distinct:
            as_answer(f"the coupling {name!r}", (found.by[name], joints.get(name)))
            _check_laws(name, joints.get(name), found.by[name].probabilities, worlds, place)
        as_answer("the bounds", (found.by[ANY], found.by[STABLE]))
    else:  # nobody had it, which is not to say that nobody can
        found = _nothing_known(found, worlds, place, Bounds, np.nan)
        if intervals is not None:
            intervals = _nothing_known(intervals, worlds, place, partial(Interval, level=level), None)
    rows = _rows(worlds, place, same, found, intervals)
    curves = [_curve(worlds, place, rows, *each, level) for each in zip(dials, limits, strict=True)]
    notes = [*worlds.notes, *_notes(worlds, asked, rows, None if intervals is None else level)]
    return Comparison(
        known=worlds,
        seen=place,
        joints={name: joints[first] for name, first in same.items() if first in joints},
        rows=rows,
        level=None if intervals is None else level,
        notes=tuple(dict.fromkeys([*notes, *(note for each in curves for note in (each._summary(), *each.notes))])),
        tolerance=float(tolerance),
        sharing=curves[0] if sharing else None,
        nesting=None if nests is None else curves[-1],
    )


def _couplings(given: Couplings | None, worlds: TwoWorlds) -> dict[str, AbstractCoupling]:
    """The couplings to ask, by name; called where double precision is on."""
    labels = worlds.labels
    if worlds.unknown:  # bounds hold whatever missing outcomes were; a coupling would need to know them
        if given:
            raise InputError(
                "`couplings` must be left out with missing='worst': they need every outcome; or say 'drop'"
            )
        return {}
    if given is not None and not isinstance(given, str) and not len(given):  # bounds alone
        return {}
    asked = chosen_couplings(given, labels, worlds.scores, worlds.order)
    refuse_families(asked)
    return asked


def _check_laws(name: str, joint: Floats | None, row: Floats, worlds: TwoWorlds, seen: int) -> None:
    """Refuses a coupling whose law is not one of these two worlds; a user's own may be wrong."""
    p, q = np.exp(worlds.log_p), np.exp(worlds.log_q)
    laws = [(row.sum(), 1.0)] if joint is None else [(joint.sum(axis=1), p), (joint.sum(axis=0), q)]
    off = max(float(np.abs(found - law).max()) for found, law in laws)
    most = float((p[seen] * row - q).max())  # of those who had what was seen, no more than all can have an outcome
    if max(off, most) > _ROUNDING:
        raise InputError(
            f"the coupling {name!r} must couple the two worlds, but its laws are off by {max(off, most):.2g}: its rows "
            "and columns must add up to theirs; `countermax.testing.check_coupling` checks all it must satisfy"
        )


def chosen_couplings(
    given: Couplings | None, labels: Labels, scores: tuple[Floats, Floats] | None, order: str | None
) -> dict[str, AbstractCoupling]:
    """Gumbel-max by default, `all` of the library's own that the outcomes allow, or those that are given."""
    by_score: dict[str, Any] = {} if scores is None else {"score": scores[0], "counterfactual_score": scores[1]}
    if given is None:
        return named_couplings(["gumbel-max"])
    if given != "all":
        return as_couplings(given, labels, **by_score)
    found = named_couplings(**by_score)
    return {name: each for name, each in found.items() if order is not None or name != "inverse CDF"}


def refuse_families(asked: Iterable[str], families: Sequence[str] = (ANY, STABLE)) -> None:
    """Refuses couplings that are called like a family of couplings."""
    taken = next((name for name in asked if name in families), None)
    if taken is not None:
        raise InputError(f"`couplings` must not reuse the name {taken!r}, which is the library's own; rename yours")


def _nothing_known(
    found: Found, worlds: TwoWorlds, seen: int, range_of: Callable[[Any, Any], Any], unknown: float | None
) -> Found:
    """The same with nothing known about the person: ranges as wide as can be, and no answers."""
    size = len(worlds.labels)
    wide: dict[str, Any] = {"probabilities": range_of(np.zeros(size), np.ones(size))}
    if worlds.scores is not None:
        wide["expected_score"] = range_of(float(worlds.scores[1].min()), float(worlds.scores[1].max()))
    for name, some in worlds.kinds(seen).items():
        wide[name] = range_of(float(some.all()), float(some.any()))
    own = dict.fromkeys(wide, unknown) | {"probabilities": np.full(size, unknown)} if unknown is not None else wide
    by = {name: each._replace(**(wide if name in (ANY, STABLE) else own)) for name, each in found.by.items()}
    return found._replace(by=by)


def _rows(
    worlds: TwoWorlds, seen: int, same: Mapping[str, str], found: Found, intervals: Found | None
) -> tuple[Row, ...]:
    """Every number; single couplings before families."""
    names = {**same, ANY: ANY} if worlds.unknown else {**same, STABLE: STABLE, ANY: ANY}

    def said(of: Found) -> dict[str, dict[tuple[str, str], Any]]:
        return {
            name: by_quantity(of.by[first], worlds.labels.names, worlds.scores, seen) for name, first in names.items()
        }

    values, ends = said(found), None if intervals is None else said(intervals)
    rows = [
        row_of(*key, name, values[name][key], None if ends is None else ends[name][key])
        for key in values[ANY]
        for name in names
        if key in values[name]
    ]
    if found.win_probability is not None:
        interval = None if intervals is None else intervals.win_probability
        rows.append(row_of(WIN, "two people", "", found.win_probability, interval))
    return tuple(rows)


def row_of(quantity: str, about: str, coupling: str, value: Any, interval: Any) -> Row:
    """A number or a range, with its interval; None where the estimates have none, and only the interval is known."""
    lower = upper = None
    if isinstance(value, Bounds):
        value, lower, upper = None, float(value.lower), float(value.upper)
    elif value is not None:
        value = float(value)
    if interval is None:
        return Row(quantity, about, coupling, value, lower, upper, None, None)
    known = [each for each in (value, lower, upper) if each is not None and each == each]  # not left out by rounding
    ends = min([float(interval.lower), *known]), max([float(interval.upper), *known])
    return Row(quantity, about, coupling, value, lower, upper, *ends)


def _curve(
    worlds: TwoWorlds, seen: int, rows: Sequence[Row], nested: Nested | None, limits: Measures | None, level: float
) -> SensitivityCurve:
    families = tuple(each for each in rows if each.coupling in (ANY, STABLE) and each.about == PERSON)
    labels, scores = worlds.labels.names, worlds.scores
    with jax.enable_x64(True):
        curves, turns = on_curve(nested, labels, seen, (worlds.log_p, worlds.log_q), scores)
    return SensitivityCurve(
        labels=labels,
        seen=seen,
        worlds=worlds.names,
        dial=SHARING if nested is None else NESTING,
        numbers=NUMBERS,
        curves=by_quantity(curves, labels, scores, seen),
        intervals={} if limits is None else by_quantity(limits, labels, scores, seen),
        families=families,
        turning_points=turns,
        level=None if limits is None else level,
        sample="" if worlds.sampling is None else worlds.sampling.words,
    )


def _notes(
    worlds: TwoWorlds, asked: Mapping[str, AbstractCoupling], rows: Sequence[Row], level: float | None
) -> list[str]:
    notes = family_notes((ANY,) if worlds.unknown else (ANY, STABLE), level)
    if len(worlds.labels) > MOST_JOINT:
        notes.append(
            f"Left out are numbers about everybody that need the joint law of {len(worlds.labels):,} by "
            f"{len(worlds.labels):,} outcomes."
        )
    here, there = told_apart(worlds.names)
    meanings = ["Agreement: the same outcome under both."] if any(each.quantity == "agreement" for each in rows) else []
    if worlds.scores is not None:
        notes.append(sentence(score_words(worlds.labels.names, worlds.scores)))
        meanings.insert(0, f"Effect: the score under {there} less that under {here}.")
    notes += [" ".join(meanings)] if meanings else []
    notes += order_note(worlds.labels, asked, worlds.order)
    best = next((name for name in _LEAST_VARIANCE if name in asked), None)
    if best is not None:
        notes.append(
            f"{best[0].upper()}{best[1:]} has the least variance of the effect of this score: a criterion of "
            "precision, no evidence that it is how the two worlds are coupled."
        )
    win = next((each for each in rows if each.quantity == WIN), None)
    if win is not None:
        ends = "" if win.ci_lower is None else f" ({span(win.ci_lower, win.ci_upper)})"
        notes.append(
            f"Win probability (Mann and Whitney): somebody under {there} does better than somebody else under {here} "
            f"with probability {number(win.value)}{ends}, ties counted half. That compares two people; 'better' "
            "compares a person with herself, which no trial shows."
        )
    return notes


def family_notes(families: Sequence[str], level: float | None, known: str = "") -> list[str]:
    """What the words of a table mean; what is `known` are two distributions or arms, if not something else."""
    words = [f"Any coupling: smallest to largest answer compatible with {known or 'both distributions'}."]
    if level is not None:
        words = [
            f"(...): {confidence(level)} confidence interval, not simultaneous. Any coupling: smallest to "
            f"largest answer compatible with {known or 'the two arms'}; its interval covers that whole range."
        ]
    if STABLE in families:
        there = "under the other distribution" if level is None else "in the other arm"
        words.append(f"Stable couplings: an outcome changes only to one that is relatively more likely {there}.")
    return [" ".join(words)]


def score_words(labels: Sequence[str], scores: tuple[Floats, Floats] | None) -> str:
    """Which outcomes are better: `score: dead 0 < ill 0.5 < well 1 (higher is better)`; ranks need no numbers."""
    if scores is None:
        return "no score: outcomes are not better or worse than each other"
    if np.array_equal(*scores):
        order = np.argsort(scores[0], kind="stable")
        if np.array_equal(scores[0][order], np.arange(len(order))):
            apart = told_apart(labels)
            names = [apart[place] for place in order]
            if len(names) > _MOST_NAMED:
                names = [*names[: _MOST_NAMED - 1], "...", names[-1]]
            return f"from worst to best: {', '.join(names)} (scored 0 to {len(order) - 1})"
        return f"score: {_ranked(labels, scores[0])} (higher is better)"
    here, there = (_ranked(labels, each) for each in scores)
    return f"score: {here}; in the other world: {there} (higher is better)"


def sentence(words: str) -> str:
    """The same words as a sentence."""
    return f"{words[0].upper()}{words[1:]}."


def _ranked(labels: Sequence[str], score: Floats) -> str:
    order, names = np.argsort(score, kind="stable"), told_apart(labels)
    if any(each[-1:].isdigit() for each in names):  # 6 0 < 5 1 would be read as numbers
        names = [repr(each) for each in names]
    text = f"{names[order[0]]} {score[order[0]]:g}"
    for place, (before, each) in enumerate(zip(order, order[1:], strict=False), 1):
        if len(order) > _MOST_NAMED and place == _MOST_NAMED - 1:
            last = order[-1]
            return f"{text} < ... < {names[last]} {score[last]:g}"
        text += f" {'=' if score[each] == score[before] else '<'} {names[each]} {score[each]:g}"
    return text


def order_note(names: Labels, asked: Mapping[str, AbstractCoupling], order: str | None) -> list[str]:
    """The order of the outcomes, where it decides an answer."""
    plain = next((name for name, each in asked.items() if is_same(each, InverseCDF())), None)
    if plain is None or len(names) < 3:
        return []
    labels = told_apart(names.names)
    listed = ", ".join(labels[:_MOST_NAMED]) + (", and so on" if len(labels) > _MOST_NAMED else "")
    how = "as they are sorted, because nobody gave them an order (say one with `labels`)" if order is None else order
    return [f"{plain[0].upper()}{plain[1:]} runs through the outcomes {how}: {listed}."]
