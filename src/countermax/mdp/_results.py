"""What every answer about a cohort says beside its numbers, and the answers by episode."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from countermax import _plotting as plotting
from countermax._core.quantities import as_count
from countermax._core.results import AbstractResult, Row, Table, tables_of
from countermax._core.words import brief, confidence, count_digits, number, span
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._arrays import Floats

ANY, PERSISTENT, OBSERVED = "any coupling", "chance may persist", "observed"
NOT_IN_LOG = "WARNING: your policy asks for what is not in the log"
Limits = TypeVar("Limits", bound=Bounds | Interval | None)
NUMBERS = "number expected to gain", "number expected to lose"
_SHOWN = "number at ", "number that would be at "  # in the table of fates
_IN_ALL = (
    "'In all' is what as many episodes from the same first states would come to; the lines above it are about these "
    "very episodes, so that sums differ."
)
SMALL = 1e-9
"""An effect below this is rounding."""
COUPLING, MODEL = "the coupling", "the estimated model"
PERSISTENCE, UNTRIED = "chance not persisting across steps", "actions that nobody took"


class Meaning(NamedTuple):
    """What the return stands for."""

    ends: tuple[str, ...]
    rewards: Float[np.ndarray, " e"] | None
    """What each end earns, where nothing else earns anything."""
    discount: float

    def scale(self) -> str:
        """What each end counts: `death -1, discharge 1`; empty where the return is a sum like any other."""
        if self.rewards is None:
            return ""
        return ", ".join(f"{end} {reward:g}" for end, reward in zip(self.ends, self.rewards, strict=True))

    def told(self) -> str:
        """The same as a sentence."""
        if self.rewards is None:
            return ""
        later = "" if self.discount == 1 else f", discounted by {self.discount:g} for each step"
        so = f"; so it is the {self.drawn}" if self.drawn != "score" else ""
        return f"The score counts nothing but how it ends: {self.scale()}, anything else 0{later}{so}."

    def added(self, what: str) -> str:
        """What a picture of effects shows: `what the other policy would have added to the score (home 1, dead -1)`."""
        scale = self.scale() if self.drawn == "score" else ""
        return f"what {what} would have added to the {self.drawn}" + (f" ({scale})" if scale else "")

    @property
    def counting(self) -> tuple[int, ...]:
        """The ends that count, where all count the same and nothing is discounted; then a return is their chance."""
        if self.rewards is None or self.discount != 1:
            return ()
        found = np.flatnonzero(self.rewards)
        return tuple(found.tolist()) if np.ptp(self.rewards[found]) == 0 else ()

    @property
    def measure(self) -> str:
        """What is added to: `total reward`, `score` where ends alone count, or `chance of survival`."""
        if self.counting:
            return f"chance of {' or '.join(self.ends[each] for each in self.counting)}"
        return "total reward" if self.rewards is None else "score"

    @property
    def drawn(self) -> str:
        """What pictures of returns show: a chance only where an end counts just 1."""
        return self.measure if self._worth == 1 else "score"

    def size(self, effect: float) -> str:
        """How large an effect is, in words: `0.12`, `12 percentage points`."""
        if not self.counting:
            return brief(effect, 2)
        points = 100 * abs(effect / self._worth)
        told = brief(points, 2) if points < 10 else f"{points:.0f}"
        return f"{told} percentage point{'' if told == '1' else 's'}"

    def gain(self, effect: float) -> str:
        """What a decision would have done: `raised the chance of survival by 12 percentage points`."""
        if not self.counting:
            return f"added {brief(effect)} to the {self.measure}"
        points = 100 * effect / self._worth
        told = f"{abs(points):.0f} percentage point{'' if round(abs(points)) == 1 else 's'}"
        if abs(points) < 0.5:
            told = "less than one percentage point"
        return f"{'raised' if points > 0 else 'lowered'} the {self.measure} by {told}"

    def between(self, lower: float, upper: float, *, gain: bool = False) -> str:
        """A range of returns, or of gains in them."""
        if not self.counting:
            return _joined(brief(lower), brief(upper))
        low, high = sorted(100 * each / self._worth for each in (lower, upper))
        return _joined(f"{low:z.0f}", f"{high:z.0f}") + (" points" if gain else " %")

    def least(self, earned: float) -> bool:
        """Whether no end counts less than this."""
        return self.rewards is not None and earned <= min(0.0, float(self.rewards.min())) + SMALL

    @property
    def _worth(self) -> float:
        return float(self.rewards[self.counting[0]]) if self.counting and self.rewards is not None else 1.0


def _joined(lower: str, upper: str) -> str:
    return lower if lower == upper else f"{lower} to {upper}"


class Context(NamedTuple):
    """What is said beside the numbers of an answer."""

    sample: str
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    horizon: int
    discount: float
    num_episodes: int
    num_cut: int
    """How many of them are censored and not carried on: what came later counts in neither world."""
    meaning: Meaning

    def told_mean(self, value: float) -> str:
        """What the log earned on average, and who counts nothing only because nobody saw the end."""
        cut = f", with {counted(self.num_cut, 'censored episode')} counted as 0" if self.num_cut else ""
        return f"The mean {self.meaning.drawn} was {number(value)}{'' if self.meaning.rewards is None else cut}"


class AbstractCohortResult(AbstractResult):
    """An answer about a cohort; what it says beside its numbers is in its context."""

    context: Context

    @property
    def sample(self) -> str:
        return self.context.sample

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self.context.assumptions

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._sentences(), *self.context.notes)

    @property
    def horizon(self) -> int:
        """Largest number of steps that are compared."""
        return self.context.horizon

    @property
    def discount(self) -> float:
        """Discount factor for each step."""
        return self.context.discount

    @property
    def measure(self) -> str:
        """What is added up: `return`, or `score` where nothing but ends counts."""
        return "return" if self.context.meaning.rewards is None else "score"

    def _sentences(self) -> tuple[str, ...]:
        """What is told before the notes of the context."""
        return ()

    def _fields(self, *names: str) -> dict[str, Any]:
        """What `to_dict` holds beyond the rows, by the names of properties; the horizon and the discount first."""
        return {name: getattr(self, name) for name in ("horizon", "discount", *names)}


class Answer(NamedTuple):
    """One number about one episode: as it was, by each coupling, over all of them, and with model uncertainty.

    With arrays in place of numbers, one answer for each episode.
    """

    quantity: str
    observed: float | None
    values: Mapping[str, Any]
    bounds: Bounds
    intervals: Mapping[str, Interval] = {}
    """By coupling; empty where the model is taken as given."""
    any_interval: Interval | None = None
    """Of the whole range over couplings."""
    persistent: Bounds | None = None
    """The range if chance may persist across steps, model uncertainty included."""

    def rows(self, about: str) -> Iterator[Row]:
        """One for each coupling, and one for all of them."""
        if self.observed is not None:
            yield Row(self.quantity, about, OBSERVED, self.observed)
        for name, value in self.values.items():
            yield Row.of(self.quantity, about, name, value, None, self.intervals.get(name))
        yield Row.of(self.quantity, about, ANY, None, self.bounds, self.any_interval)
        if self.persistent is not None:
            yield Row.of(self.quantity, about, PERSISTENT, None, self.persistent)

    def at(self, place: Any) -> "Answer":
        """One of several answers."""
        return Answer(
            self.quantity,
            None,
            {name: each[place] for name, each in self.values.items()},
            at(self.bounds, place),
            {name: at(each, place) for name, each in self.intervals.items()},
            at(self.any_interval, place),
            at(self.persistent, place),
        )


def answer_of(
    found: tuple[Floats, Interval | None], couplings: Iterable[str], quantity: str, *place: int | slice
) -> Answer:
    """The answer, or answers, in some place of the numbers that were found, with their intervals.

    First come those by each coupling, then the least and the largest over all adapted ones, then the same if chance may
    persist.
    """
    (numbers, known), of = found, {name: (row, *place) for row, name in enumerate(couplings)}
    least, most, wide, widest_ = ((row, *place) for row in (-4, -3, -2, -1))
    within = {name: at(known, each) for name, each in of.items()}
    return Answer(
        quantity,
        None,
        {name: _plain(numbers[each]) for name, each in of.items()},
        Bounds(_plain(numbers[least]), _plain(numbers[most])),
        {name: each for name, each in within.items() if each is not None},
        at(known, least, most),
        widest(Bounds(_plain(numbers[wide]), _plain(numbers[widest_])), at(known, wide, widest_)),
    )


def widest(bounds: Bounds, interval: Interval | None) -> Bounds:
    """A range with its model uncertainty."""
    if interval is None:
        return bounds
    limits = np.minimum(bounds.lower, interval.lower), np.maximum(bounds.upper, interval.upper)
    return Bounds(*map(_plain, limits))


def at(limits: Limits, place: Any, of_upper: Any = None) -> Limits:
    """The part of bounds or intervals for some of their numbers; with `of_upper`, up to the upper limit of others."""
    found: Any = limits
    if limits is None:
        return found
    upper = found.upper[place if of_upper is None else of_upper]
    return found._replace(lower=_plain(found.lower[place]), upper=_plain(upper))


def _plain(number: Any) -> Any:
    """A number as Python has it; arrays as they are."""
    return number if np.ndim(number) else float(number)


class Claim(NamedTuple):
    """That something would have helped, with all that could make it otherwise; of arrays, one claim for each entry."""

    effect: Any
    bounds: Bounds
    """Over all adapted couplings, which draw afresh at each step."""
    interval: Interval | None
    """Model uncertainty by the same coupling."""
    any_interval: Interval | None
    """Model uncertainty over all couplings."""
    persistent: Bounds
    """The effect if chance may persist across steps, model uncertainty included."""
    untried: Any = False
    """Whether it rests on an action that nobody took."""

    @property
    def agreed(self) -> Any:
        """Whether every adapted coupling says so, with confidence in the model too."""
        return agreed_on(self.bounds, self.any_interval, self.untried)

    @property
    def robust(self) -> Any:
        """The same even if chance may persist across steps. Nothing that rests on no visit is robust."""
        return self.agreed & (self.persistent.lower > SMALL)

    @property
    def same(self) -> bool:
        """Whether there is no effect, whatever the coupling."""
        return max(abs(self.bounds.lower), abs(self.bounds.upper), abs(self.effect)) <= SMALL

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What could make it none, or the opposite: nothing, if it is robust."""
        tried = (UNTRIED,) if self.untried else ()
        if self.same:
            known = self.any_interval is None or max(map(abs, self.any_interval[:2])) <= SMALL
            lasting = max(abs(self.persistent.lower), abs(self.persistent.upper)) <= SMALL
            return (*(() if known else (MODEL,)), *(() if lasting or not known else (PERSISTENCE,)), *tried)
        sign = 1 if self.effect > 0 else -1
        agreed = _beyond(self.bounds, sign)
        sure = self.any_interval is None or _beyond(self.any_interval, sign)
        if agreed and sure:
            return (*(() if _beyond(self.persistent, sign) else (PERSISTENCE,)), *tried)
        by_model = self.interval is not None and not _beyond(self.interval, sign)
        return (*(() if agreed else (COUPLING,)), *((MODEL,) if by_model or (agreed and not sure) else ()), *tried)

    @property
    def sure(self) -> str:
        """How sure the sign is, in words."""
        if self.depends_on == (PERSISTENCE,):
            return "holds under every coupling, unless an unrecorded trait of the patient acts at several steps"
        if self.depends_on:
            return f"depends on {' and on '.join(self.depends_on)}"
        if self.any_interval is None:
            return "holds under every coupling, even if chance persists across steps, if the model is right"
        level = confidence(self.any_interval.level)
        return (
            f"is robust: it holds under every coupling, even if chance persists across steps, with {level} confidence"
        )


def agreed_on(bounds: Bounds, any_interval: Interval | None, untried: Any) -> Any:
    """Whether a range, with its model uncertainty, is all gain, and rests on nothing that nobody tried."""
    return (widest(bounds, any_interval).lower > SMALL) & np.logical_not(untried)


def _beyond(limits: Bounds | Interval, sign: int) -> bool:
    """Whether all of a range lies on one side of zero."""
    return bool(limits.lower > SMALL if sign > 0 else limits.upper < -SMALL)


class Estimated(NamedTuple):
    """One number and how well it is known."""

    number: float
    """The mean over posterior draws, if there are any."""
    interval: Interval | None = None

    def told(self) -> str:
        """A count, rounded: `14 (95 % interval 9 to 17)`."""
        if self.interval is None or self.interval.lower == self.interval.upper:
            return f"{self.number:.0f}"
        lower, upper, level = self.interval
        return f"{self.number:.0f} ({confidence(level)} interval {lower:.0f} to {upper:.0f})"

    def row(self, quantity: str, about: str, coupling: str) -> Row:
        """The number as a row."""
        return Row.of(quantity, about, coupling, self.number, None, self.interval)

    def plus(self, more: float) -> "Estimated":
        """The same with something added."""
        limits = self.interval
        return Estimated(
            self.number + more, limits and Interval(limits.lower + more, limits.upper + more, limits.level)
        )


@final
@dataclass(frozen=True, eq=False)
class Fates:
    """Where episodes ended, and how many of them would have ended where; the worst end first where ends have a score.

    The last place, without an end, is for all other episodes.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    moved: Mapping[str, tuple[tuple[Estimated, ...], ...]]
    """By coupling: how many, from each place to each."""
    expected: tuple[Estimated, ...]
    """How many would come to each, which is the same under every coupling."""
    ranging: Callable[[], tuple[Answer, ...]]
    """Computes what `spared` keeps."""

    @cached_property
    def spared(self) -> tuple[Answer, ...]:
        """By end: how many of those who came to it would not have.

        The ranges over couplings take longer than all else, so they are computed when they are first looked at.
        """
        return self.ranging()

    def __getstate__(self) -> dict[str, Any]:
        """With the ranges, in place of the cohort that they come from."""
        return {**vars(self), "spared": self.spared, "ranging": tuple}

    def rows(self) -> Iterator[Row]:
        """How many went where, how many would, and from where."""
        count = counted(sum(self.sizes), "episode")
        for name, size, known in zip(self.names, self.sizes, self.expected, strict=True):
            yield Row(f"number at {name}", f"of {count}", OBSERVED, float(size))
            yield known.row(f"number at {name}", f"of {count}", ANY)
        for name, size, answer in zip(self.names, self.sizes, self.spared, strict=False):
            yield from answer.rows(f"of {size} at {name}")
        for coupling, table in self.moved.items():
            for name, size, line in zip(self.names, self.sizes, table, strict=True):
                for other, known in zip(self.names, line, strict=True):
                    yield known.row(f"number that would be at {other}", f"of {size} at {name}", coupling)

    def table(self) -> Table:
        """From where to where, by the first coupling, and in all."""
        name, moved = next(iter(self.moved.items()))
        rows = [[each.row("number at", "", "") for each in line] for line in (*moved, self.expected)]
        digits = count_digits(*(value for line in rows for each in line for value in each[3:]))
        lines = [[each.with_digits(digits) for each in line] for line in rows]
        kept = len(self.names) - (
            not self.sizes[-1] and not any(line[-1].number > SMALL for line in (*moved, self.expected))
        )
        heads, sizes = [*self.names[:kept], "in all, by any coupling"], [*self.sizes[:kept], sum(self.sizes)]
        return Table(
            [f"ended at (by {name})", "episodes", *(f"would: {each}" for each in self.names[:kept])],
            [
                [head, f"{size:,}", *line[:kept]]
                for head, size, line in zip(heads, sizes, (*lines[:kept], lines[-1]), strict=True)
            ],
        )

    def told(self) -> str:
        """What becomes of those who came to the worst end, and of all others.

        `125 of 392 ended at dead; 62 would be expected to, by any coupling. By Gumbel-max, 77 of the 125 would not
        have, and 14 of the others would; by any coupling 63 to 114 would not have.`
        """
        (name, moved), size, spared = next(iter(self.moved.items())), self.sizes[0], self.spared[0]
        value, (least, most) = Estimated(spared.values[name], spared.intervals.get(name)), spared.bounds
        others = sum(line[0].number for line in moved[1:])
        return (
            f"{size} of {counted(sum(self.sizes), 'episode')} ended at {self.names[0]}; under the other policy "
            f"{self.expected[0].told()} would be expected to, whatever the coupling. By {name}, {value.told()} of the "
            f"{size} would not have ended there, and {others:.0f} of the others would; by any coupling, "
            f"{_joined(f'{least:.0f}', f'{most:.0f}')} of the {size} would not have.\n"
        )


def _without_gaps(rows: Iterable[Row]) -> list[Table]:
    """Tables whose columns hold something in every line: those with other columns are tables of their own."""
    lines = dict[tuple[str, str], list[Row]]()
    for each in rows:
        lines.setdefault((each.about, each.quantity), []).append(each)
    tables = dict[frozenset[str], list[Row]]()
    for some in lines.values():
        tables.setdefault(frozenset(each.coupling for each in some), []).extend(some)
    return [table for some in tables.values() for table in tables_of(some)]


def signs(effects: Floats) -> Floats:
    """[..., 2]: how many of the last axis are gains, and how many losses."""
    return np.stack([(sign * effects > SMALL).sum(axis=-1) for sign in (1, -1)], axis=-1).astype(np.float64)


def counted(count: int, what: str) -> str:
    """`1 episode`, `1,204 steps`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Replay(AbstractCohortResult):
    """What would have become of each logged episode under one coupling: exactly, or as drawn trajectories show it."""

    context: Context
    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    """What each episode earned in the steps that are compared."""
    values: Float[np.ndarray, " n"]
    """What it would have earned on average, over what the log leaves open, and over the posterior if there is one."""
    variances: Float[np.ndarray, " n"]
    """How much that varies."""
    last: sparse.csr_array
    """[episode, state]: where it would have been at the end."""
    path: Float[np.ndarray, "n times s"] | None = None
    """The same at all times, if asked for."""
    coupling: str
    steps: Int[np.ndarray, " n"]
    """How many steps of each episode are compared, in both worlds."""
    censored: Bool[np.ndarray, " n"]
    """Which episodes stop before the horizon without having come to an end."""
    interval: Interval | None = None
    """Model uncertainty of the effects; None where the model is taken as given."""
    mean_effect: Estimated
    """The mean effect over episodes like these, from the same first states: the same under every coupling."""
    gains: Estimated
    """How many would have had a higher expected return: the posterior mean, if there is one."""
    losses: Estimated
    fates: Fates | None = None
    """Where episodes ended, and where they would have; None where the log has no end."""
    states: Int[np.ndarray, "n samples times"] | None = None
    """Drawn trajectories, where they were asked for; after the end of one its last state is repeated."""
    actions: Int[np.ndarray, "n samples t"] | None = None
    returns: Float[np.ndarray, "n samples"] | None = None
    """What each drawn trajectory earned."""

    @property
    def title(self) -> str:
        drawn = "" if self.returns is None else f", {counted(self.returns.shape[1], 'draw')} each"
        return f"{counted(len(self.values), 'episode')} under the other policy{drawn}, by {self.coupling}"

    @property
    def effects(self) -> Float[np.ndarray, " n"]:
        """What the other policy would have added to each episode, on average."""
        return self.values - self.observed

    @property
    def mean(self) -> float:
        """The average over episodes of what they would have earned."""
        return float(self.values.mean())

    @property
    def rows(self) -> tuple[Row, ...]:
        coupling = self.coupling
        found = _of_all(self, {coupling: self.gains}, {coupling: self.losses})
        numbers = zip(self.episodes, self.observed.tolist(), self.values.tolist(), strict=True)
        for place, (name, earned, value) in enumerate(numbers):
            about = f"episode {name}"
            found += [
                Row(self.measure, about, OBSERVED, earned),
                Row(self.measure, about, coupling, value),
                Row.of("effect", about, coupling, self.effects, None, self.interval, place),
            ]
        return tuple(found)

    def tables(self) -> list[Table]:
        """From which end to which, then counts, then values and effects side by side."""
        named = self.context.meaning.drawn
        found = [
            each._replace(quantity=named, coupling="effect" if each.quantity == "effect" else each.coupling)
            for each in self.rows
            if each.about.startswith("episode")
        ]
        return [*_tables_of_all(self, {self.coupling: self.gains}, {self.coupling: self.losses}), *_without_gaps(found)]

    def _summary(self) -> str:
        risen = _risen(self.coupling, self.effects, self.gains, self.losses, self)
        return (
            f"{_told_of_all(self)}\n{risen} "
            "Other couplings may say otherwise: `bounds()` gives the range over all of them."
        )

    def _plot(self) -> "plotting.Figure":
        title = f"{self.title}: what it would have added"
        deviations = np.sqrt(self.variances)
        return plotting.draw_waterfall(
            self.effects, deviations, title=title, label=f"effect on the {self.context.meaning.drawn}"
        )

    def _sentences(self) -> tuple[str, ...]:
        return () if self.fates is None else (_IN_ALL,)

    def __repr__(self) -> str:
        return (
            f"Replay({len(self.values)} episodes by {self.coupling}: observed {self.observed.mean():.4g}, "
            f"counterfactual {self.mean:.4g} on average; variance within an episode {self.variances.mean():.4g})"
        )

    def _details(self) -> Mapping[str, Any]:
        drawn = () if self.returns is None else ("returns",)
        return self._fields("coupling", "episodes", "observed", "values", "variances", "steps", "censored", *drawn)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking(AbstractCohortResult):
    """Effects of a policy on each episode, by coupling and over all of them, the largest claim first."""

    context: Context
    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    effects: Mapping[str, Float[np.ndarray, " n"]]
    """What each coupling says the policy would have added: posterior means, unless the model is taken as given."""
    bounds: Bounds
    """The effects over all adapted couplings, which draw afresh at each step."""
    intervals: Mapping[str, Interval]
    """Model uncertainty of the effects, by coupling; empty where the model is taken as given."""
    any_interval: Interval | None
    """Model uncertainty of the whole range over couplings."""
    persistent: Bounds
    """The effects if chance may persist across steps, model uncertainty included."""
    untried: Bool[np.ndarray, " n"]
    """Which episodes may come to an action that nobody took there."""
    mean_effect: Estimated
    """The mean effect over episodes like these, from the same first states: the same under every coupling."""
    gains: Mapping[str, Estimated]
    """How many episodes would have had a higher expected return, by coupling."""
    losses: Mapping[str, Estimated]
    fates: Fates | None = None
    """Where episodes ended, and where they would have; None where the log has no end."""

    @property
    def title(self) -> str:
        return f"{counted(len(self.episodes), 'episode')}, ranked by what the other policy would have added"

    @property
    def agreed(self) -> Bool[np.ndarray, " n"]:
        """Whether every adapted coupling says that the policy would have helped, with confidence in the model too."""
        return self._claims.agreed

    @property
    def robust(self) -> Bool[np.ndarray, " n"]:
        """The same even if chance may persist across steps. Nothing that rests on no visit is robust."""
        return self._claims.robust

    @property
    def _claims(self) -> Claim:
        first = next(iter(self.effects.values()))
        return Claim(first, self.bounds, None, self.any_interval, self.persistent, self.untried)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The positions of the episodes, the largest claim of the first coupling first."""
        return np.lexsort((-self.bounds.lower, -next(iter(self.effects.values()))))

    @property
    def rows(self) -> tuple[Row, ...]:
        found = _of_all(self, self.gains, self.losses)
        known = self.effects, self.bounds, self.intervals, self.any_interval, self.persistent
        answers = Answer("effect", None, *known)
        for place in self.order.tolist():
            about = f"episode {self.episodes[place]}"
            found += [Row(self.measure, about, OBSERVED, float(self.observed[place])), *answers.at(place).rows(about)]
        return tuple(found)

    def tables(self) -> list[Table]:
        """From which end to which, then counts, then effects beside what was observed."""
        named = f"effect on the {self.context.meaning.drawn}"
        found = [each._replace(quantity=named) for each in self.rows if each.about.startswith("episode")]
        return [*_tables_of_all(self, self.gains, self.losses), *_without_gaps(found)]

    def _summary(self) -> str:
        name, first = next(iter(self.effects.items()))
        known, agreed = widest(self.bounds, self.any_interval), self.agreed
        worse = int(((known.upper < -SMALL) & ~self.untried).sum())
        least = (
            f" (by {self.context.meaning.size(known.lower[agreed].mean())} or more on average)" if agreed.any() else ""
        )
        return (
            f"{_told_of_all(self)}\n{_risen(name, first, self.gains[name], self.losses[name], self)}\n"
            f"Every coupling that draws afresh at each step agrees on a rise for {agreed.sum()}{least} and on a fall "
            f"for {worse}, {trusted(self.any_interval)}; even if chance persists across steps, on a rise for "
            f"{self.robust.sum()} (robust)."
        )

    def _plot(self, most: int = 20) -> "plotting.Figure":
        return draw_first(self, most, self.effects, self.bounds, self.any_interval, "the other policy")

    def _sentences(self) -> tuple[str, ...]:
        return () if self.fates is None else (_IN_ALL,)

    def __repr__(self) -> str:
        return f"Ranking({self._summary()})"

    def _details(self) -> Mapping[str, Any]:
        episodes, robust = [self.episodes[place] for place in self.order], self.robust
        return self._fields() | {
            "num_robust": robust.sum(),
            "episodes": episodes,
            "agreed": self.agreed[self.order],
            "robust": robust[self.order],
        }


def _of_all(result: "Replay | Ranking", gains: Mapping[str, Estimated], losses: Mapping[str, Estimated]) -> list[Row]:
    """The rows about all episodes."""
    count, was = counted(len(result.episodes), "episode"), float(result.observed.mean())
    about, worth = f"mean of {count}", result.mean_effect.plus(was)
    found = [] if result.fates is None else list(result.fates.rows())
    found += [Row(result.measure, about, OBSERVED, was), worth.row(result.measure, about, ANY)]
    found += [result.mean_effect.row("effect", about, ANY)]
    for what, some in zip(NUMBERS, (gains, losses), strict=True):
        found += [each.row(what, f"of {count}", name) for name, each in some.items()]
    return found


def _tables_of_all(
    result: "Replay | Ranking", gains: Mapping[str, Estimated], losses: Mapping[str, Estimated]
) -> list[Table]:
    """The same as tables: from which end to which first, then the rest, where the mean effect would say it twice."""
    fates, named = result.fates, f"mean {result.context.meaning.drawn}"
    rows = [each for each in _of_all(result, gains, losses) if each.quantity != "effect"]
    rows = [each._replace(quantity=named) if each.quantity == result.measure else each for each in rows]
    rest = [each for each in rows if not each.quantity.startswith(_SHOWN)]
    return [*([] if fates is None else [fates.table()]), *_without_gaps(rest)]


def _told_of_all(result: "Replay | Ranking") -> str:
    """What becomes of all episodes, whatever the coupling."""
    was, meaning = float(result.observed.mean()), result.context.meaning
    worth = result.mean_effect.plus(was)
    told = "" if result.fates is None or meaning.rewards is None else result.fates.told()
    return (
        f"{told}{result.context.told_mean(was)}; under the other policy it would be "
        f"{number(worth.number)}{told_interval(worth.interval)}, whatever the coupling."
    )


def _risen(name: str, effects: Floats, gains: Estimated, losses: Estimated, result: "Replay | Ranking") -> str:
    """For how many episodes the expected return rises and falls by a coupling, and by how much."""
    meaning = result.context.meaning
    sizes = [
        f", by {meaning.size(some.mean())} on average" if len(some) else ""
        for some in (effects[effects > SMALL], -effects[effects < -SMALL])
    ]
    return (
        f"With {name} assumed, the expected {meaning.drawn} rises for {gains.told()} of "
        f"{counted(len(effects), 'episode')}{sizes[0]}, and falls for {losses.told()}{sizes[1]}."
    )


def trusted(interval: Interval | None) -> str:
    """How far the model is trusted: `with 95 % confidence in the model`."""
    return "if the model is right" if interval is None else f"with {confidence(interval.level)} confidence in the model"


def told_interval(interval: Interval | None) -> str:
    """` (95 % interval 0.100 to 0.300)`; nothing where there is none."""
    return "" if interval is None else f" ({confidence(interval.level)} interval {span(*interval[:2])})"


def draw_first(
    ranking: Any,
    most: int,
    effects: Mapping[str, Float[np.ndarray, " n"]],
    bounds: Bounds,
    interval: Interval | None,
    what: str,
) -> "plotting.Figure":
    """The effects of `what`, by coupling, on the first episodes of a ranking."""
    first = ranking.order[: as_count("`most`", most)]
    names = [str(ranking.episodes[place]) for place in first]
    values = {name: each[first] for name, each in effects.items()}
    shown = plotting.Effects(names, values, at(bounds, first), at(interval, first))
    title = f"The {len(first)} of {len(ranking.episodes)} episodes that would have gained most"
    return plotting.draw_effects(shown, title=title, label=ranking.context.meaning.added(what))
