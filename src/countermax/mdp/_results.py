"""What every answer about a cohort says beside its numbers, and the answers by episode."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from countermax import _plotting as plotting
from countermax._core.quantities import as_count
from countermax._core.results import AbstractResult, Row, Table, tables_of
from countermax._core.words import confidence, number, span
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._arrays import Floats

ANY, PERSISTENT, OBSERVED = "any coupling", "chance may persist", "observed"
NOT_IN_LOG = "WARNING: your policy asks for what is not in the log"
Limits = TypeVar("Limits", bound=Bounds | Interval | None)
NUMBERS = "number of gains", "number of losses"
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
    def only(self) -> int | None:
        """The one end that counts; then a return is its chance."""
        counting = [] if self.rewards is None or self.discount != 1 else np.flatnonzero(self.rewards).tolist()
        return counting[0] if len(counting) == 1 else None

    @property
    def measure(self) -> str:
        """What is added to: `total reward`, `score` where ends alone count, or `chance of survival`."""
        if self.only is None:
            return "total reward" if self.rewards is None else "score"
        return f"chance of {self.ends[self.only]}"

    @property
    def drawn(self) -> str:
        """What pictures of returns show: a chance only where an end counts just 1."""
        return self.measure if self._worth == 1 else "score"

    def gain(self, effect: float) -> str:
        """What a decision would have done: `raised the chance of survival by 12 percentage points`."""
        if self.only is None:
            return f"added {effect:.3g} to the {self.measure}"
        points = 100 * effect / self._worth
        told = f"{abs(points):.0f} percentage point{'' if round(abs(points)) == 1 else 's'}"
        if abs(points) < 0.5:
            told = "less than one percentage point"
        return f"{'raised' if points > 0 else 'lowered'} the {self.measure} by {told}"

    def between(self, lower: float, upper: float, *, gain: bool = False) -> str:
        """A range of returns, or of gains in them."""
        if self.only is None:
            return _joined(f"{lower:z.3g}", f"{upper:z.3g}")
        low, high = sorted(100 * each / self._worth for each in (lower, upper))
        return _joined(f"{low:z.0f}", f"{high:z.0f}") + (" points" if gain else " %")

    @property
    def _worth(self) -> float:
        return 1.0 if self.only is None or self.rewards is None else float(self.rewards[self.only])


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
    meaning: Meaning


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

    def taken_from(self, total: int) -> "Answer":
        """What is left of a total."""
        return self._replace(
            values={name: total - each for name, each in self.values.items()},
            bounds=_left(total, self.bounds),
            intervals={name: _left(total, each) for name, each in self.intervals.items()},
            any_interval=_left(total, self.any_interval),
            persistent=_left(total, self.persistent),
        )


def _left(total: int, limits: Limits) -> Limits:
    found: Any = limits
    return found and found._replace(lower=total - found.upper, upper=total - found.lower)


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


class Count(NamedTuple):
    """How many episodes."""

    number: float
    """The mean over posterior draws, if there are any."""
    interval: Interval | None = None

    def told(self) -> str:
        """`14 (95 % interval 9 to 17)`."""
        return f"{self.number:.0f}{self.within()}"

    def within(self) -> str:
        """` (95 % interval 9 to 17)`, whole numbers as far as the limits reach; nothing where there is no interval."""
        if self.interval is None:
            return ""
        lower, upper, level = self.interval
        return f" ({confidence(level)} interval {np.floor(lower):.0f} to {np.ceil(upper):.0f})"


class Fate(NamedTuple):
    """Of the episodes that came to one end, how many would not have come to it."""

    size: int
    end: str
    spared: Answer

    def rows(self) -> Iterator[Row]:
        """How many would not have ended there, and how many would have."""
        about, others = f"of {self.size} that ended at {self.end}", self.spared.taken_from(self.size)
        yield from self.spared._replace(quantity="number that would not have").rows(about)
        yield from others._replace(quantity="number that would have").rows(about)

    def told(self) -> str:
        """`of 33 that ended at dead, 25 (95 % interval 20 to 29) would not have, by any coupling 3 to 33`."""
        (name, value), (least, most) = next(iter(self.spared.values.items())), self.spared.bounds
        count, limits = Count(value, self.spared.intervals.get(name)), f"{np.floor(least):.0f} to {np.ceil(most):.0f}"
        return f"of {self.size} that ended at {self.end}, {count.told()} would not have, by any coupling {limits}"


def told_of_fates(fates: Sequence[Fate], coupling: str, meaning: Meaning) -> str:
    """What would have become of those who came to the worst end, and to the best one, where ends have a score."""
    some = [] if meaning.rewards is None else [each.told() for each in (*fates[:1], *fates[1:][-1:])]
    return f"By {coupling}, {'; '.join(some)}.\n" if some else ""


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
    mean_interval: Interval | None = None
    """Model uncertainty of the mean effect over these episodes."""
    gains: Count
    """How many would have gained: the posterior mean, if there is one."""
    losses: Count
    fates: tuple[Fate, ...] = ()
    """What would have become of those who came to each end, the worst first where ends have a score."""
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
        mean, coupling = f"mean of {counted(len(self.values), 'episode')}", self.coupling
        found = [
            *(row for each in self.fates for row in each.rows()),
            Row(self.measure, mean, OBSERVED, float(self.observed.mean())),
            Row(self.measure, mean, coupling, self.mean),
            Row.of("effect", mean, coupling, self.effects.mean(), None, self.mean_interval),
            *(
                Row.of(what, f"of {counted(len(self.values), 'episode')}", coupling, each, None, limits)
                for what, (each, limits) in zip(NUMBERS, (self.gains, self.losses), strict=True)
            ),
        ]
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
        """Counts, then values and effects side by side."""
        named = self.context.meaning.drawn
        found = [
            each._replace(quantity=named, coupling="effect" if each.quantity == "effect" else each.coupling)
            if each.quantity in ("effect", self.measure)
            else each
            for each in self.rows
        ]
        return _without_gaps(found)

    def _summary(self) -> str:
        meaning = self.context.meaning
        return (
            f"{told_of_fates(self.fates, self.coupling, meaning)}"
            f"The mean {meaning.drawn} of these episodes was {number(self.observed.mean())}; by {self.coupling} it "
            f"would have been {number(self.mean)} under the other policy. {self.gains.told()} of "
            f"{len(self.values)} would have gained, {self.losses.told()} would have lost. Other couplings may say "
            "otherwise: `bounds()` gives the range over all of them."
        )

    def _plot(self) -> "plotting.Figure":
        title = f"{self.title}: what it would have added"
        deviations = np.sqrt(self.variances)
        return plotting.draw_waterfall(
            self.effects, deviations, title=title, label=f"effect on the {self.context.meaning.drawn}"
        )

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
    mean: Answer
    """The mean effect over all episodes."""
    gains: Answer
    """How many episodes would have gained; the range over couplings is from those that gain under all to under any."""
    losses: Answer
    fates: tuple[Fate, ...] = ()
    """What would have become of those who came to each end, the worst first where ends have a score."""

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
        all_of_them = counted(len(self.episodes), "episode")
        mean = f"mean of {all_of_them}"
        found = [row for each in self.fates for row in each.rows()]
        found += [Row(self.measure, mean, OBSERVED, float(self.observed.mean())), *self.mean.rows(mean)]
        for each in (self.gains, self.losses):
            found += each.rows(f"of {all_of_them}")
        known = self.effects, self.bounds, self.intervals, self.any_interval, self.persistent
        answers = Answer("effect", None, *known)
        for place in self.order.tolist():
            about = f"episode {self.episodes[place]}"
            found += [Row(self.measure, about, OBSERVED, float(self.observed[place])), *answers.at(place).rows(about)]
        return tuple(found)

    def tables(self) -> list[Table]:
        """Counts, then effects beside what was observed."""
        named = self.context.meaning.drawn
        earned = {OBSERVED: f"{named} {OBSERVED}"}
        found = [
            each._replace(quantity=f"effect on the {named}", coupling=earned.get(each.coupling, each.coupling))
            if each.quantity in ("effect", self.measure)
            else each
            for each in self.rows
        ]
        return _without_gaps(found)

    def _summary(self) -> str:
        name, first = next(iter(self.effects.items()))
        gained, lost = (Count(each.values[name], each.intervals.get(name)) for each in (self.gains, self.losses))
        sure = trusted(self.any_interval)
        worse = int(((widest(self.bounds, self.any_interval).upper < -SMALL) & ~self.untried).sum())
        meaning = self.context.meaning
        return (
            f"{told_of_fates(self.fates, name, meaning)}"
            f"Every coupling that draws afresh at each step agrees on the gain of {int(self.agreed.sum())} of "
            f"{counted(len(first), 'episode')} and on the loss of {worse}, {sure}. Robust, because it holds even if "
            f"chance persists across steps, is the gain of {int(self.robust.sum())}.\n"
            f"With {name} assumed: {gained.told()} would have gained and {lost.told()} would have lost"
            f"{_sizes(f'gains in {meaning.drawn}', first[first > SMALL])}{_sizes('losses', -first[first < -SMALL])}.\n"
            f"The mean effect is then {number(self.mean.values[name])}{told_interval(self.mean.intervals.get(name))}."
        )

    def _plot(self, most: int = 20) -> "plotting.Figure":
        return draw_first(self, most, self.effects, self.bounds, self.any_interval, "the other policy")

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


def _sizes(what: str, effects: Float[np.ndarray, " k"]) -> str:
    """`; gains are 0.0002 to 1.2, 0.4 on average`; empty where there are none."""
    if not len(effects):
        return ""
    low, high = f"{effects.min():.2g}", f"{effects.max():.2g}"
    return f"; {what} are {low}" if low == high else f"; {what} are {low} to {high}, {effects.mean():.2g} on average"


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
