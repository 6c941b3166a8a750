"""One patient's story: factual and counterfactual side by side, in sentences, as pictures, as rows, as a page."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from countermax import _plotting as plotting
from countermax._core import page
from countermax._core.errors import InputError
from countermax._core.labels import identity, listed, reader
from countermax._core.quantities import shown
from countermax._core.results import Row, Table, tables_of
from countermax._core.words import brief, confidence, percent, percents, span
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.mdp._arrays import MOST_REWARD, Floats, Ints, Values, as_floats, one_hot
from countermax.mdp._decisions import Decision, Decisions, decision_rows, decisions_of, drawn_effects
from countermax.mdp._labels import spoken
from countermax.mdp._log import Clock, EpisodeLog, Times, moment
from countermax.mdp._posterior import PosteriorDraws
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting
from countermax.mdp._replays._trajectories import ReplayedValues, Trajectories
from countermax.mdp._results import (
    COUPLING,
    MODEL,
    PERSISTENCE,
    SMALL,
    UNTRIED,
    AbstractCohortResult,
    Answer,
    Claim,
    Context,
    Meaning,
    answer_of,
    counted,
)

FEW_VISITS = plotting.FEW_VISITS

_NARROW = 0.005  # chances and widths below this are not worth a sentence
_OPEN = 0.01  # of a chance: what is known of it is not worth a sentence
_MOST_STEPS = 24  # in a picture: those that would have gained most
_MOST_TOLD = 14  # states of a path in a sentence; the record has all of them
_MOST_DECISIONS = 8  # on the page; the JSON has all of them
_OVER_TIME = (
    "From the top: the states of the record; black dots are treatments that were given, blue rings what the other "
    "policy would give, fainter "
    "where it is less likely, with a number where a treatment comes in levels; dashed where this rests on fewer than "
    f"{FEW_VISITS} visits. Then, over time: black, what happened; coloured, what would have happened; grey, the range "
    "over all couplings. Bars: the effect of the coupling assumption at each step, with the number of records behind "
    f"it; hatched where they are fewer than {FEW_VISITS}."
)
_GAINS = (
    "At each step the best of all other decisions. Marks: what it would have added, one for each coupling; hollow "
    f"where it rests on fewer than {FEW_VISITS} visits. Thick line: any coupling. Dashed line: its interval. "
    "Right of the black line the decision would have helped; if all of the lines lie there, that is robust."
)


class Told(NamedTuple):
    """A story in sentences."""

    happened: tuple[str, ...]
    instead: tuple[str, ...]
    """What would have happened."""
    sure: tuple[str, ...]
    """How sure that is."""
    changes: tuple[str, ...]
    """What would change the answer."""


class Record(NamedTuple):
    """What was logged of the episode, in words, and what the other policy's steps rest on."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    action_names: tuple[str, ...]
    """All actions that there are."""
    ended: bool
    """Whether the record goes on to an end of the process, within the steps that are compared."""
    goes_on: bool
    """Whether it goes on beyond the horizon; if it neither ended nor goes on, the episode is censored."""
    differing: tuple[int, ...]
    """Steps at which the other policy would rather have done something else in the logged state."""
    visits: Float[np.ndarray, " t"]
    """How often the log saw what the other policy does at each step, at least; NaN where nothing rests on that."""
    untried: bool
    """Whether the other policy may come to an action that nobody took there."""
    clock: Clock = Clock()
    """What steps are called, and when each action was taken, where that is known."""

    @property
    def times(self) -> Times | None:
        """When each action was taken, where that is known."""
        return self.clock.times

    def when(self, step: int) -> str:
        """`step 1`, or its time where that is known."""
        return moment(step, *self.clock)

    def when_all(self, steps: Sequence[int]) -> str:
        """`steps 0 to 2, 5`, or their times where these follow a rule: `hours 0, 4, 20`."""
        times = None if self.clock.step != "step" else self.times
        if times is None or times.spacing is None:
            return steps_in_words(steps, self.clock.step)
        known = [times.values[0] + step * times.spacing for step in steps]
        if times.spacing == 1 and all(each == int(each) for each in known):
            return steps_in_words([int(each) for each in known], times.unit)
        return f"{times.unit}{'' if len(known) == 1 else 's'} {', '.join(f'{each:g}' for each in known)}"

    @property
    def dated(self) -> tuple[str, ...]:
        """The states, each with its time where that is known: `worse, day 1.5`."""
        times = () if self.times is None else self.times.values.tolist()
        unit = "" if self.times is None else self.times.unit
        dated = [f"{state}, {unit} {time:g}" for state, time in zip(self.states, times, strict=False)]
        return (*dated, *self.states[len(dated) :])


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Story(AbstractCohortResult):
    """What would have become of one episode under another policy, and what the answer rests on."""

    context: Context
    episode: Hashable
    returns: Answer
    """What the episode earned, and would have earned on average."""
    standard_deviations: Mapping[str, float]
    """Of the return, by coupling."""
    ends: tuple[Answer, ...]
    """The chance of each end that episodes of the log come to."""
    end_rewards: Float[np.ndarray, " e"] | None
    """What each of them earns, where nothing else earns anything."""
    unfinished: Answer
    """The chance of no end within the steps that are compared."""
    features: plotting.Features
    care: plotting.Care
    record: Record
    step_bounds: Bounds
    """The value if one step's coupling is any other, for each step; the first coupling is that of the others."""
    decisions_by_coupling: Mapping[str, Decisions]
    """Single actions changed, the largest effect first."""

    @property
    def title(self) -> str:
        return f"Episode {self.episode}: what would have become of it under the other policy?"

    @property
    def rows(self) -> tuple[Row, ...]:
        about = f"episode {self.episode}"
        found = [row for each in (self.returns, *self.ends, self.unfinished) for row in each.rows(about)]
        found += decision_rows(self.decisions_by_coupling) if self.decisions else ()
        names, observed, answers, bounds, *_ = self.features
        followed = Answer("", None, answers, Bounds(*bounds))
        for time in range(self.num_steps + 1):
            for place, feature in enumerate(names):
                was = float(observed[time, place]) if time < len(observed) else None
                answer = followed.at((time, place))._replace(quantity=f"{feature} at time {time}", observed=was)
                found += answer.rows(about)
        return tuple(found)

    def _summary(self) -> str:
        name, value = next(iter(self.returns.values.items()))
        answer = _chances(self, name) if self.ends else f"earning {brief(value)}"
        told = [" ".join(self.told.happened[:2]), _ranges(self), f"With {name} assumed: {answer}.", _verdict(self)]
        return "\n".join(told)

    def tables(self) -> list[Table]:
        """Where it ends, then single decisions, once each and if they matter; the picture shows what is followed."""
        earned = self.returns._replace(quantity=self.meaning.drawn)
        found = [row for each in (earned, *self.ends, self.unfinished) for row in each.rows(f"episode {self.episode}")]
        if f"P({self.meaning.drawn.removeprefix('chance of ')})" in [each.quantity for each in found]:
            found = [each for each in found if each.quantity != self.meaning.drawn]
        single = decision_rows(self.decisions_by_coupling) if self.decisions else ()
        sizes = {each: max(abs(known or 0) for known in each[3:]) for each in single}
        least = _NEXT_TO_NOTHING * max(sizes.values(), default=0) / 10
        mattering = {each.quantity for each, size in sizes.items() if size > least}
        return tables_of(found) + tables_of([each for each in single if each.quantity in mattering])

    @property
    def told(self) -> Told:
        """The sentences by what they are about: what happened, what instead, how sure, what would change it."""
        return Told(*(tuple(sentences(self)) for sentences in (_happened, _instead, _sure, _changes)))

    @property
    def decisions(self) -> Decisions:
        """Single actions changed, the largest effect first, by the first coupling."""
        return next(iter(self.decisions_by_coupling.values()))

    @property
    def best(self) -> Decision | None:
        """The single decision that would have helped most; None where none would have helped."""
        return self.decisions[0] if self.decisions and self.decisions[0].effect > SMALL else None

    @property
    def observed_return(self) -> float:
        """What the episode earned."""
        assert self.returns.observed is not None
        return self.returns.observed

    @property
    def end_names(self) -> tuple[str, ...]:
        """The ends that episodes of the log come to, in words."""
        return tuple(each.quantity.removeprefix("P(").removesuffix(")") for each in self.ends)

    @property
    def claim(self) -> Claim:
        """What the first coupling says the other policy would have added."""
        name, value = next(iter(self.returns.values.items()))
        earned, (_, _, _, bounds, intervals, whole, persistent) = self.observed_return, self.returns
        own, any_interval = (
            None if each is None else Interval(each.lower - earned, each.upper - earned, each.level)
            for each in (intervals.get(name), whole)
        )
        assert persistent is not None
        wide = persistent.shifted(-earned)
        return Claim(value - earned, bounds.shifted(-earned), own, any_interval, wide, self.record.untried)

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What could turn the answer around, in words; nothing if it is robust."""
        return self.claim.depends_on

    @property
    def num_steps(self) -> int:
        """How many steps are compared, in both worlds."""
        return len(self.features.bounds[0]) - 1

    @property
    def meaning(self) -> Meaning:
        """What the return stands for."""
        return Meaning(self.end_names, self.end_rewards, self.discount)

    def _plot(self) -> "plotting.Figure":
        return plotting.draw_trajectory(
            self.features,
            self.care,
            step_bounds=self.step_bounds,
            visits=self.record.visits,
            measure=self.meaning.drawn,
            decision=None if self.best is None else self.best.step,
            path=self.record.dated,
            title=f"Episode {self.episode}: what happened, and what would have happened under the other policy",
        )

    def plot_decisions(self) -> "plotting.Figure":
        """The best alternative at each step: what it would have added by every coupling, with bounds and intervals."""
        best: dict[int, Decision] = {}
        for each in self.decisions:
            best.setdefault(each.step, each)
        chosen = sorted(list(best.values())[:_MOST_STEPS], key=lambda each: each.step)
        left = "" if len(chosen) == len(best) else f" ({len(chosen)} of {len(best)} steps)"
        was = [f"(was: {self.record.action_names[each.action]})" for each in chosen]
        shown = drawn_effects(self.decisions_by_coupling, chosen)
        return plotting.draw_effects(
            shown._replace(below=was, visits=[each.visits for each in chosen]),
            title=f"Episode {self.episode}: the best other decision at each step, the rest as it was{left}",
            label=self.meaning.added("it"),
            kind=f"{self.record.clock.step}: best other decision",
        )

    def __repr__(self) -> str:
        return f"Story(episode {self.episode!r}: {self._summary()})"

    def _sentences(self) -> tuple[str, ...]:
        """What the summary does not say yet."""
        told = self.told
        happened = (each for each in told.happened[2:] if each not in self.context.notes)
        return (*happened, *told.instead, told.sure[0], *told.sure[3:])

    def _details(self) -> Mapping[str, Any]:
        return {
            **self._fields("episode", "depends_on", "told", "standard_deviations", "step_bounds", "care", "record"),
            "horizon": self.num_steps,
            "features": self.features.names,
            "decisions": [
                {
                    **each._asdict(),
                    "effects": self._effects_of(each),
                    "robust": each.robust,
                    "depends_on": each.claim.depends_on,
                }
                for each in self.decisions
            ],
        }

    def _more_elements(self) -> Sequence[page.Element]:
        told, said = self.told, self.summary()
        elements: list[page.Element] = [page.paragraph(_OVER_TIME, note=True)]
        headings = "What happened", "What would have happened", "How sure that is"
        for heading, sentences in zip(headings, told[:3], strict=True):
            elements += [page.heading(heading), *(page.paragraph(each) for each in sentences if each not in said)]
        if self.decisions:
            picture = plotting.picture(self.plot_decisions())
            elements.append(page.picture(picture, "what single decisions would have added"))
            elements.append(page.paragraph(_GAINS, note=True))
        elements.append(page.box("What would change this answer", told.changes))
        effects = [f"effect, {name}" for name in self.decisions_by_coupling]
        headers = ("when", "done", "instead", *effects, "lower", "upper", "interval", "visits", "how sure")
        elements += [
            page.heading("One decision changed, the rest as it was"),
            page.grid(headers, [self._decision_line(each) for each in self.decisions.decisions[:_MOST_DECISIONS]]),
        ]
        return elements

    def _effects_of(self, each: Decision) -> dict[str, float]:
        """What one decision would have added, by coupling."""
        place = each.step, each.other_action
        return {name: found.effects[place] for name, found in self.decisions_by_coupling.items()}

    def _decision_line(self, each: Decision) -> tuple[float | str | None, ...]:
        limits = each.any_interval
        few = each.visits is not None and each.visits < FEW_VISITS
        return (
            self.record.when(each.step),
            self.record.actions[each.step],
            self.record.action_names[each.other_action],
            *self._effects_of(each).values(),
            *each.effect_bounds,
            "" if limits is None else span(*limits[:2]),
            "" if each.visits is None else f"{each.visits}{', few' if few else ''}",
            each.claim.sure,
        )


def behind(visits: int | float | None, what: str = "") -> str:
    """How many visits are behind a sentence, or a part of it, to be put after it; nothing for None or NaN."""
    if visits is None or np.isnan(visits):
        return ""
    only = " only" if visits < FEW_VISITS else ""
    return f" ({what}rests on {visits:.0f} visit{'' if visits == 1 else 's'}{only})"


def by_coupling(answers: Mapping[str, str]) -> str:
    """The first answer, the others in brackets."""
    (name, first), *others = answers.items()
    rest = "; ".join(f"{other}: {each}" for other, each in others)
    return f"{first} by {name}" + (f" ({rest})" if rest else "")


def steps_in_words(steps: Sequence[int], name: str = "step") -> str:
    """`step 3`, `days 0 to 4, 7`."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][-1] == step - 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    return f"{name}{'' if len(steps) == 1 else 's'} {', '.join(parts)}"


def _happened(story: Story) -> Iterator[str]:
    steps, name = len(story.record.actions), story.record.clock.step
    spent = f"{steps} {name}s" if steps > 1 else f"one {name}"
    if story.record.ended:
        yield f"In {spent} the episode came to its end: {story.record.states[-1]}."
    else:
        stops = "horizon is reached" if story.record.goes_on else "record stops"
        yield f"After {spent} the {stops} without an end, at: {story.record.states[-1]}."
    yield f"Its path: {_path(story.record)}."
    if story.end_rewards is None:
        yield f"It earned {brief(story.observed_return)} in all."
    else:
        yield story.meaning.told()
    differing = story.record.differing
    what = "have done something else" if differing else "have done the same"
    some = 0 < len(differing) < steps or steps == len(differing) == 1
    where = story.record.when_all(differing) if some else f"every {name}"
    yield f"In the recorded states the other policy would {what} at {where}."


def _path(record: Record) -> str:
    """`day 0 ward (wait), 1 worse (iv antibiotics), 2 dead`; the middle of a long one is left out."""
    times = range(len(record.actions)) if record.times is None else record.times.values
    told = [
        f"{when:g} {state} ({done})" for when, state, done in zip(times, record.states, record.actions, strict=False)
    ]
    told.append(f"{len(record.actions) if record.times is None else 'then'} {record.states[-1]}")
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD // 2 : -_MOST_TOLD // 2] = ["..."]
    return f"{record.clock.step if record.times is None else record.times.unit} {', '.join(told)}"


def _instead(story: Story) -> Iterator[str]:
    if story.ends:
        answers = {name: _chances(story, name) for name in story.returns.values}
        yield f"Under the other policy, by {story.record.when(story.num_steps)}: {by_coupling(answers)}."
    if story.end_rewards is None:
        answers = {name: brief(each) for name, each in story.returns.values.items()}
        yield f"Under the other policy it would have earned on average {by_coupling(answers)}."
    if story.best is None:
        if story.decisions:
            yield "No other single decision would have helped."
        return
    best, name = story.best, next(iter(story.returns.values))
    claim = best.claim
    within = f"over all couplings {story.meaning.between(*best.effect_bounds, gain=True)}"
    if best.any_interval is not None:
        other = story.meaning.between(*best.any_interval[:2], gain=True)
        within = f"{within}; with {confidence(best.any_interval.level)} confidence at each end {other}"
    yield (
        f"The single decision that would have mattered most: at {story.record.when(best.step)}, "
        f"{story.record.action_names[best.other_action]} instead of {story.record.action_names[best.action]} would "
        f"have {story.meaning.gain(best.effect)} by {name}{behind(best.visits)}; that this would have helped "
        f"{claim.sure} ({within})."
    )
    for other, decisions in list(story.decisions_by_coupling.items())[1:]:
        most = decisions[0]
        if most.effect > SMALL and most[:4] != best[:4]:
            yield (
                f"The couplings disagree on which: by {other} it is {story.record.action_names[most.other_action]} at "
                f"{story.record.when(most.step)}, which would have {story.meaning.gain(most.effect)}."
            )


def _sure(story: Story) -> Iterator[str]:
    names = list(story.returns.values)
    many = "are assumptions about that (couplings)", "is one assumption about that (a coupling)"
    yield (
        "No record shows how the chance events of this episode would have carried over to other treatment; "
        f"{' and '.join(names)} {many[len(names) == 1]}."
    )
    yield _ranges(story)
    yield _verdict(story)
    width = story.step_bounds.width
    if len(width) and width.max() > _NARROW:
        step = int(width.argmax())
        within = story.meaning.between(float(story.step_bounds.lower[step]), float(story.step_bounds.upper[step]))
        yield (
            f"The coupling matters most at {story.record.when(step)}: another one there alone could move the "
            f"{story.meaning.measure} anywhere from {within}{behind(float(story.record.visits[step]))}."
        )
    rare = np.flatnonzero(story.record.visits < FEW_VISITS).tolist()
    if rare:
        yield (
            f"What the other policy would have done at {story.record.when_all(rare)} was seen fewer "
            f"than {FEW_VISITS} times: read that as a guess."
        )


def _verdict(story: Story) -> str:
    """Whether the choice of coupling, or the model, could turn the answer around."""
    claim, measure = story.claim, story.meaning.measure
    if claim.same:
        other = "; another model might" if MODEL in claim.depends_on else ""
        return f"The other policy would not have changed the {measure}, whatever the coupling{other}{_least(story)}."
    level = "95 %" if claim.any_interval is None else confidence(claim.any_interval.level)
    if UNTRIED in claim.depends_on:
        return f"The answer rests on actions that nobody took there: read it as a guess{_least(story)}."
    if COUPLING in claim.depends_on:
        too = ", and so does the model's uncertainty" if MODEL in claim.depends_on else ""
        return (
            f"Whether it would have been {'better' if claim.effect > 0 else 'worse'} depends on the coupling: some say "
            f"so, others do not{too}{_least(story)}."
        )
    worst = claim.effect > 0 and story.meaning.least(story.observed_return)
    told = "Nothing counts less than how it ended, so no policy could do worse. " if worst else ""
    if MODEL in claim.depends_on:
        return (
            f"{told}On average over the models, every coupling {_surely(story)}; "
            f"{counted(story.context.num_episodes, 'episode')} are too few to be {level} confident in that"
            f"{_least(story)}."
        )
    trust = "if the model is right" if claim.any_interval is None else f"with {level} confidence in the model too"
    if PERSISTENCE in claim.depends_on:
        return (
            f"{told}Every coupling that draws afresh at each step {_surely(story)}, {trust}; that holds unless an "
            f"unrecorded trait of the patient acts at several steps{_least(story)}."
        )
    robust = f"very coupling {_surely(story)}, even if chance persists across steps, {trust}{_least(story)}."
    return f"{told}E{robust}" if claim.any_interval is None else f"Robust: {told}{'E' if told else 'e'}{robust}"


def _surely(story: Story) -> str:
    """What every coupling says, and the least of it: `raises the score by 0.1 or more (limit 0.02)`."""
    claim, meaning = story.claim, story.meaning
    sign = 1 if claim.effect > 0 else -1
    least = [sign * (each.lower if sign > 0 else each.upper) for each in (claim.bounds, claim.any_interval) if each]
    told = f"{'raises' if sign > 0 else 'lowers'} the {meaning.measure}"
    if least[0] < _NEXT_TO_NOTHING * abs(claim.effect):
        return f"{told}, some by next to nothing"
    limit = "" if len(least) == 1 else f" (limit {meaning.size(max(least[1], 0.0))})"
    return f"{told} by {meaning.size(least[0])} or more{limit}"


def _ranges(story: Story) -> str:
    """What data alone say: the range over all couplings, with its interval."""
    named = list(zip(story.end_names, story.ends, strict=True))
    if story.ends and story.unfinished.bounds.upper >= _NARROW:
        named.append((f"no end within {_steps(story)}", story.unfinished))
    open_ = [max(_width(each.bounds), _width(each.any_interval)) > 1 - _OPEN for _, each in named]
    said_all = len(named) <= _MOST_ENDS or all(open_)
    some = named if said_all else [each for each, left in zip(named, open_, strict=True) if not left]
    said = [f"{end} {percents(*each.bounds)}{_interval(each)}" for end, each in some]
    rest = "; how the rest divides, they do not say" if len(some) < len(named) - 1 else ""
    if story.end_rewards is None:
        least, most = story.returns.bounds
        limits = story.returns.any_interval
        other = "" if limits is None else f" ({brief(limits.lower)} to {brief(limits.upper)})"
        said.append(f"earning {brief(least)} to {brief(most)}{other}")
    told = f"Over all couplings that draw afresh at each step: {', '.join(said)}{rest}"
    if story.returns.any_interval is None:
        return f"{told}."
    level = confidence(story.returns.any_interval.level)
    return f"{told}; in parentheses, each range with {level} confidence at each end."


def _width(limits: Bounds | Interval | None) -> float:
    return 0.0 if limits is None else float(limits.upper - limits.lower)


def _interval(answer: Answer) -> str:
    return "" if answer.any_interval is None else f" ({percents(*answer.any_interval[:2])})"


def _changes(story: Story) -> Iterator[str]:
    claim, (least, most), meaning = story.claim, story.returns.bounds, story.meaning
    earned, limits = story.observed_return, story.returns.any_interval
    was = f"it was {meaning.between(earned, earned)}"
    if COUPLING in claim.depends_on:
        yield (
            f"Another coupling: over all of them the {meaning.measure} would be {meaning.between(least, most)}; {was}."
        )
    elif claim.same:
        yield f"No coupling changes the answer: {was}, and would be that under all of them."
    else:
        word = "better" if claim.effect > 0 else "worse"
        yield (f"Under every coupling it does {word} than it did, but how much {word} is open: {_open(story)}; {was}.")
    if limits is None:
        yield "Another model: the process is taken as given here, so its uncertainty is not included."
    else:
        turned = "; that could turn the answer around" if MODEL in claim.depends_on else ""
        yield (
            f"Another model that fits the log: under any coupling the {meaning.measure} would be "
            f"{meaning.between(*limits[:2])}, with {confidence(limits.level)} confidence at each end, and "
            f"{meaning.between(least, most)} on average over the models{turned}."
        )
    yield (
        "Hidden confounding: something that the records do not hold and that moved both what was done and what came of "
        "it would make all of this wrong, and no resampling can show it."
    )
    are = "is" if story.num_steps == 1 else "are"
    yield f"Another horizon: {_steps(story)} {are} compared in both worlds. {_horizon(story)}"


def _open(story: Story) -> str:
    """How far the result is open over all couplings: by ends where they alone count."""
    least, most = story.returns.bounds
    meaning = story.meaning
    if meaning.rewards is None or meaning.counting or len(story.ends) < 2:
        return f"the {meaning.measure} would be {meaning.between(least, most)}"
    ends = int(meaning.rewards.argmin()), int(meaning.rewards.argmax())
    worst, best = (f"{story.end_names[end]} {percent(story.ends[end].bounds.upper)}" for end in ends)
    return f"anything from {worst} to {best} (score {meaning.between(least, most)})"


def _horizon(story: Story) -> str:
    """What the horizon leaves out."""
    recorded = len(story.record.actions)
    if story.record.goes_on and not story.record.ended:
        return "The record goes on beyond the horizon: what came later in either world is not counted."
    if not story.record.ended and story.num_steps > recorded:
        return f"The episode is censored after {recorded}; from there the model carries both worlds on."
    if not story.record.ended:
        return "The episode is censored: what came later in either world is not counted."
    most = max(*story.unfinished.values.values(), float(story.unfinished.bounds.upper))
    if most < _NARROW:
        return "The episode came to its end within them, and so would the other world: nothing is left out."
    answers = {name: percent(each) for name, each in story.unfinished.values.items()}
    return (
        "The episode came to its end, so nothing of it is left out; but the other world would not have ended by then "
        f"with a chance of {by_coupling(answers)}, and what came later there is not counted."
    )


def _chances(story: Story, name: str) -> str:
    """The chance of each end and, where there is any, that of another end or of none."""
    chances, unfinished = [each.values[name] for each in story.ends], story.unfinished.values[name]
    told = [f"{end} {percent(each)}" for end, each in zip(story.end_names, chances, strict=True)]
    other = 1 - sum(chances) - unfinished
    told += [f"another end {percent(other)}"] * (other >= _NARROW)
    return ", ".join(told + [f"no end within {_steps(story)} {percent(unfinished)}"] * (unfinished >= _NARROW))


def _steps(story: Story) -> str:
    return counted(story.num_steps, story.record.clock.step)


def _least(story: Story) -> str:
    """The visits behind the least known step, as words in brackets."""
    known = story.record.visits[~np.isnan(story.record.visits)]
    return behind(float(known.min()), "its least known step ") if len(known) else ""


_MOST_ENDS = 4
_LIKELY = 0.05
_NEXT_TO_NOTHING = 0.01  # as a share of the effect
_BETWEEN = re.compile(r" \+ |, ")
_LEVEL = re.compile(r"(.*\S)\s+(\d{1,6}(?:\.\d{1,6})?)")
_NOTHING = ("", "none", "nothing")


def story_of(
    mdp: FiniteMDP,
    log: EpisodeLog,
    setting: Setting,
    couplings: Mapping[str, AbstractCoupling],
    features: Mapping[str, Values] | None,
    draws: PosteriorDraws,
    context: Context,
) -> Story:
    """The story of one episode, over the steps that are compared.

    Steps are judged by the first coupling, decisions by all.
    """
    one, policy, steps = setting.log, setting.policy, setting.horizon
    names, scores = _as_features(mdp, log, features)
    ends, model = ends_of(mdp, log), Trajectories(mdp, setting, quiet=True)
    marks = np.stack([*(one_hot(int(end), mdp.num_states) for end in ends), (~mdp.ends).astype(np.float64)])
    kinds, observed, earned = list(couplings.values()), float(model.observed[0]), earned_at(mdp, one, ends)
    possible = (-np.inf, np.inf) if earned is None else (min(0.0, earned.min()), max(0.0, earned.max()))
    asked = partial(_parts, couplings=kinds, marks=marks, scores=scores, possible=possible)
    replays = [model.replayed(each, path=True) for each in kinds]
    given = asked(model, replays=replays)
    answers = zip(given, draws.ask_parts(setting, asked, given, spread=False), (2, 2, 1), strict=True)
    found = [draws.posterior.summarise(*each) for each in answers]

    def answer(place: int, quantity: str, was: float | None = None) -> Answer:
        """One column of the numbers."""
        return answer_of(found[0], couplings, quantity, place)._replace(observed=was)

    paths = [each.path[0] for each in replays if each.path is not None]
    length = min(int(one.lengths[0]), steps)
    states, actions = one.states[0, : length + 1], one.actions[0, :length]
    open_ended = not mdp.ends[states[-1]]
    carried_on = open_ended and steps > length
    first, followed = paths[0], dict(zip(couplings, found[2][0], strict=False))
    kinds_by_name = {name: name_of(each) for name, each in couplings.items()}
    return Story(
        context=context,
        episode=one.name_of(0),
        returns=answer(0, "return" if earned is None else "score", observed),
        standard_deviations={
            name: float(np.sqrt(each.variances[0])) for name, each in zip(couplings, replays, strict=True)
        },
        ends=tuple(
            answer(
                place,
                f"P({spoken('state', int(end), mdp.state_names)})",
                None if carried_on else float(states[-1] == end),
            )
            for place, end in enumerate(ends, 1)
        ),
        end_rewards=earned,
        unfinished=answer(len(ends) + 1, "P(no end)", None if carried_on else float(open_ended)),
        features=plotting.Features(names, scores[states], followed, Bounds(*found[2][0][-2:]), *_axis(one)),
        care=_care(mdp, first, policy, actions),
        record=Record(
            tuple(spoken("state", state, mdp.state_names) for state in states.tolist()),
            tuple(spoken("action", action, mdp.action_names) for action in actions.tolist()),
            tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
            not open_ended,
            int(one.lengths[0]) > steps,
            tuple(np.flatnonzero(policy[states[:-1], actions] < 0.5).tolist()),
            _visits_behind(mdp, first, policy, one),
            bool(model.untried[0]),
            one.clock.of(0, length),
        ),
        step_bounds=model.step_bounds(kinds[0]),
        decisions_by_coupling=decisions_of(
            mdp, setting, context, kinds_by_name, found[1], model.untried_actions(), observed
        ),
    )


def _axis(one: EpisodeLog) -> tuple[str, tuple[float, float]]:
    """What steps are called, when the first one is, and how long each takes."""
    name, times = one.clock
    if times is None or times.spacing is None or name != "step":
        return name, (0.0, 1.0)
    return times.unit, (float(times.values[0, 0]), times.spacing)


def find_episode(log: EpisodeLog, episode: Hashable) -> int:
    """The position of an episode, by the rule for labels: 2 and 2.0 are one name, the text "2" is another."""
    names = log.names
    try:
        wanted = identity(reader(names)(episode))
    except TypeError:
        wanted = None
    for position, name in enumerate(names):
        if identity(name) == wanted:
            return position
    alike = [name for name in names if str(name) == str(episode)]
    hint = f"; {listed(alike[:1])} is there, but a text never equals a number" if alike else ""
    near = get_close_matches(str(episode), map(str, names), n=1)
    hint = hint or (f"; did you mean {near[0]}?" if near else "")
    raise InputError(f"`episode` must be in the log ({listed(names)}), got {shown(episode)}{hint}")


def ends_of(mdp: FiniteMDP, log: EpisodeLog) -> Ints:
    """The ends that episodes come to, the most frequent ones first."""
    return _most_frequent(log.last_states[mdp.ends[log.last_states]], mdp.num_states)


def _most_frequent(states: Ints, num_states: int) -> Ints:
    often = np.bincount(states, minlength=num_states)
    chosen = np.argsort(-often, kind="stable")[:_MOST_ENDS]
    return chosen[often[chosen] > 0]


def _parts(
    model: Trajectories,
    couplings: list[AbstractCoupling],
    marks: Floats,
    scores: Floats,
    possible: tuple[float, float],
    replays: Sequence[ReplayedValues] = (),
) -> tuple[Floats, ...]:
    """All that is asked of one process: values and chances, effects of decisions, and features over time.

    Each by coupling and then by range: over adapted couplings and, but for features, if chance may persist. Values
    stay within what is possible. Replays by the couplings may be there already.
    """
    replays = replays or [model.replayed(each, path=True) for each in couplings]
    answers = [np.append(each.values, each.last.toarray()[0] @ marks.T) for each in replays]
    ranges = np.array([*model.bounds(), *model.persistent_bounds()])
    values = np.concatenate([answers, np.concatenate([ranges, model.final_bounds(marks)[:, 0]], axis=1)])
    least, most = possible
    values[:, 0] = values[:, 0].clip(least, most)
    effects, earned = model.effects_of_actions(couplings), float(model.observed[0])
    return (
        values,
        effects.clip(least - earned, most - earned),
        np.stack(
            [*(each.path[0] @ scores for each in replays if each.path is not None), *model.feature_bounds(scores)]
        ),
    )


def earned_at(mdp: FiniteMDP, log: EpisodeLog, ends: Ints) -> Float[np.ndarray, " e"] | None:
    """What each end earns, where nothing but ends earns anything, in the log too; else None."""
    if mdp.reward_variances is not None and mdp.reward_variances[mdp.probs > 0].any():
        return None
    into, start = mdp.matrix.indices, mdp.matrix.indptr
    at_end = np.isin(np.arange(mdp.num_states), ends)[into]
    if not len(ends) or mdp.slot_rewards[~at_end].any():
        return None
    at_end &= np.repeat(~mdp.absorbing, np.diff(start[:: mdp.num_actions]))  # else they lead to themselves, and earn 0
    successor, reward = into[at_end], mdp.slot_rewards[at_end]
    found = np.array([reward[successor == end].mean() if (successor == end).any() else 0.0 for end in ends])
    alike = all(np.ptp(reward[successor == end]) < 1e-9 for end in ends if (successor == end).any())
    same = bool((np.abs(log.returns(1.0) - (log.last_states[:, None] == ends) @ found) < 1e-9).all())
    return found if alike and same and found.any() else None


def _visits_behind(mdp: FiniteMDP, path: Floats, policy: Floats, one: EpisodeLog) -> Float[np.ndarray, " t"]:
    """How often the log saw what the other world does at each step; NaN where nothing rests on that.

    The least visited of all that it does with a chance of at least one in twenty, unless it does what was done in the
    logged state, or the episode is over.
    """
    found = np.full(len(path) - 1, np.nan)
    if (visits := mdp.visits) is None:
        return found
    for step in range(len(found)):
        taken = path[step][:, None] * policy * ~mdp.absorbing[:, None]
        if step < one.lengths[0]:
            taken[one.states[0, step], one.actions[0, step]] = 0
        if (taken >= _LIKELY).any():
            found[step] = visits[taken >= _LIKELY].min()
        elif taken.sum() >= _LIKELY:
            found[step] = visits[taken > 0].min()
    return found


def _care(mdp: FiniteMDP, path: Floats, policy: Floats, actions: Ints) -> plotting.Care:
    parts = treatments_of(mdp)
    going = path[:-1] * ~mdp.absorbing
    alive = going.sum(axis=1, keepdims=True)
    return plotting.Care(
        parts.names,
        parts.graded,
        parts.levels[actions],
        going @ (policy @ (parts.levels > 0)),
        going @ (policy @ parts.levels) / np.where(alive > 0, alive, 1),
    )


def _as_features(
    mdp: FiniteMDP, log: EpisodeLog, features: Mapping[str, Values] | None
) -> tuple[tuple[str, ...], Floats]:
    if features is None:
        ends = ends_of(mdp, log)
        chosen = ends if len(ends) else _most_frequent(log.last_states, mdp.num_states)
        found = {spoken("state", int(end), mdp.state_names): one_hot(int(end), mdp.num_states) for end in chosen}
    elif not isinstance(features, Mapping):
        raise InputError(f"`features` must have a number for each state, by name, got {shown(features)}")
    else:
        found = {str(name): as_floats(f"features[{name!r}]", values) for name, values in features.items()}
    for name, values in found.items():
        if values.shape != (mdp.num_states,) or not (np.abs(values) <= MOST_REWARD).all():
            raise InputError(
                f"`features[{name!r}]` must have one finite number for each of {mdp.num_states} states, "
                f"got {shown(values)}"
            )
    if not found:
        raise InputError("`features` must name at least one")
    return tuple(found), np.stack(list(found.values()), axis=1)


class Treatments(NamedTuple):
    """The parts of all actions."""

    names: tuple[str, ...]
    graded: tuple[bool, ...]
    """Which of them come in levels, as in `fluid 2`; level 0 is none of it."""
    levels: Float[np.ndarray, "a p"]
    """How much of each part is in each action; 1 for parts without levels."""


def treatments_of(mdp: FiniteMDP) -> Treatments:
    """What actions are made of, read from their names: `antibiotic + ventilation`, `fluid 2, vasopressor 0`.

    An action without a name is a part of its own.
    """
    read: list[list[tuple[str, str, float | None]]] = []
    for action in range(mdp.num_actions):
        whole = spoken("action", action, mdp.action_names)
        unnamed = mdp.action_names is None or whole != str(mdp.action_names[action])
        split = [part for part in _BETWEEN.split(whole) if part not in _NOTHING]
        read.append([(whole, whole, None)] if unnamed else [(part, *_as_level(part)) for part in split])
    twice = {name for parts in read for name, times in Counter(name for _, name, _ in parts).items() if times > 1}
    found: dict[str, dict[int, float]] = {}
    graded: dict[str, bool] = {}
    for action, parts in enumerate(read):
        for text, name, level in parts:
            own = level is None or name in twice  # two levels of one thing at a time are two things
            called = text if own else name
            found.setdefault(called, {})[action] = 1.0 if own or level is None else level
            graded[called] = graded.get(called, False) or not own
    levels = np.zeros((mdp.num_actions, len(found)))
    for place, amounts in enumerate(found.values()):
        levels[list(amounts), place] = list(amounts.values())
    return Treatments(tuple(found), tuple(graded[name] for name in found), levels)


def _as_level(part: str) -> tuple[str, float | None]:
    read = _LEVEL.fullmatch(part)
    return (part, None) if read is None else (read[1], float(read[2]))
