"""One patient's story: factual and counterfactual side by side, in sentences, as pictures, as rows, as a page."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from countermax import _plotting as plotting
from countermax._core import page
from countermax._core.results import Row, Table, tables_of
from countermax._core.words import confidence, percent, percents, span
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._decisions import Decision, Decisions, decision_rows, drawn_effects
from countermax.mdp._log import Times, moment
from countermax.mdp._results import SMALL, AbstractCohortResult, Answer, Context, Meaning, counted

FEW_VISITS = plotting.FEW_VISITS
COUPLING, MODEL = "the coupling", "the estimated model"
PERSISTENCE, UNTRIED = "chance not persisting across steps", "actions that nobody took"

_NARROW = 0.005  # chances and widths below this are not worth a sentence
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


class Claim(NamedTuple):
    """One effect, with all that could make it another."""

    effect: float
    bounds: Bounds
    interval: Interval | None
    """Model uncertainty by the same coupling."""
    any_interval: Interval | None
    """Model uncertainty over all couplings."""
    persistent: Bounds
    """The effect if chance may persist across steps, model uncertainty included."""
    untried: bool = False
    """Whether it rests on an action that nobody took."""

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


def claim_of(decision: Decision) -> Claim:
    """What is said of one decision."""
    _, _, _, _, _, effect, bounds, _, interval, any_interval, persistent, untried = decision
    return Claim(effect, bounds, interval, any_interval, persistent, untried)


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
    """Whether the record goes on to an end of the process; else the episode is censored."""
    differing: tuple[int, ...]
    """Steps at which the other policy would rather have done something else in the logged state."""
    visits: Float[np.ndarray, " t"]
    """How often the log saw what the other policy does at each step, at least; NaN where nothing rests on that."""
    untried: bool
    """Whether the other policy may come to an action that nobody took there."""
    step_name: str = "step"
    """What a step is called, for instance a day."""
    times: Times | None = None
    """When each action was taken, where that is known."""

    def when(self, step: int) -> str:
        """`step 1`, or its time where that is known."""
        return moment(step, self.step_name, self.times)

    def when_all(self, steps: Sequence[int]) -> str:
        """`steps 0 to 2, 5`, or their times where these follow a rule: `hours 0, 4, 20`."""
        times = None if self.step_name != "step" else self.times
        if times is None or times.spacing is None:
            return steps_in_words(steps, self.step_name)
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
        names, observed, answers, bounds, _ = self.features
        followed = Answer("", None, answers, Bounds(*bounds))
        for time in range(self.num_steps + 1):
            for place, feature in enumerate(names):
                was = float(observed[time, place]) if time < len(observed) else None
                answer = followed.at((time, place))._replace(quantity=f"{feature} at time {time}", observed=was)
                found += answer.rows(about)
        return tuple(found)

    def summary(self) -> str:
        name, value = next(iter(self.returns.values.items()))
        answer = _chances(self, name) if self.ends else f"earning {value:.3g}"
        told = [" ".join(self.told.happened[:2]), _ranges(self), f"With {name} assumed: {answer}.", _verdict(self)]
        return self._warned() + "\n".join(told)

    def tables(self) -> list[Table]:
        """Where it ends, then single decisions; without what is followed over time, which the picture shows."""
        earned = self.returns._replace(quantity=self.meaning.drawn)
        found = [row for each in (earned, *self.ends, self.unfinished) for row in each.rows(f"episode {self.episode}")]
        return tables_of(found) + tables_of(decision_rows(self.decisions_by_coupling) if self.decisions else ())

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

    def plot(self) -> "plotting.Figure":
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
            kind=f"{self.record.step_name}: best other decision",
        )

    def __repr__(self) -> str:
        return f"Story(episode {self.episode!r}: {self.summary()})"

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
                    "depends_on": claim_of(each).depends_on,
                }
                for each in self.decisions
            ],
        }

    def _more_elements(self) -> Sequence[page.Element]:
        told = self.told
        elements: list[page.Element] = [page.paragraph(_OVER_TIME, note=True)]
        headings = "What happened", "What would have happened", "How sure that is"
        for heading, sentences in zip(headings, told[:3], strict=True):
            elements += [page.heading(heading), *map(page.paragraph, sentences)]
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
            claim_of(each).sure,
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
    steps, name = len(story.record.actions), story.record.step_name
    spent = f"{steps} {name}s" if steps > 1 else f"one {name}"
    if story.record.ended:
        yield f"In {spent} the episode came to its end: {story.record.states[-1]}."
    else:
        yield f"After {spent} the record stops without an end, at: {story.record.states[-1]}."
    yield f"Its path: {_path(story.record)}."
    if story.end_rewards is None:
        yield f"It earned {story.observed_return:.3g} in all."
    else:
        yield story.meaning.told()
    differing = story.record.differing
    what = "rather have done something else" if differing else "have done the same"
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
    return f"{record.step_name if record.times is None else record.times.unit} {', '.join(told)}"


def _instead(story: Story) -> Iterator[str]:
    if story.ends:
        answers = {name: _chances(story, name) for name in story.returns.values}
        yield f"Under the other policy, by {story.record.when(story.num_steps)}: {by_coupling(answers)}."
    if story.end_rewards is None:
        answers = {name: f"{each:.3g}" for name, each in story.returns.values.items()}
        yield f"Under the other policy it would have earned on average {by_coupling(answers)}."
    if story.best is None:
        if story.decisions:
            yield "No other single decision would have helped."
        return
    best, name = story.best, next(iter(story.returns.values))
    claim = claim_of(best)
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
    better = claim.effect > 0
    favours = "favours the other policy" if better else "speaks against the other policy"
    level = "95 %" if claim.any_interval is None else confidence(claim.any_interval.level)
    trust = "if the model is right" if claim.any_interval is None else f"with {level} confidence in the model too"
    if UNTRIED in claim.depends_on:
        return f"The answer rests on actions that nobody took there: read it as a guess{_least(story)}."
    if claim.depends_on == (MODEL,):
        return (
            f"On average over the models, every coupling {favours}; {counted(story.context.num_episodes, 'episode')} "
            f"are too few to be {level} confident in that model{_least(story)}."
        )
    if claim.depends_on == (PERSISTENCE,):
        return (
            f"Every coupling that draws afresh at each step {favours}, {trust}; that holds unless chance that is not "
            f"recorded persists across steps, as a trait of the patient would{_least(story)}."
        )
    if claim.depends_on:
        too = ", and so does the model's uncertainty" if MODEL in claim.depends_on else ""
        return (
            f"Whether it would have been {'better' if better else 'worse'} depends on the coupling: some say so, "
            f"others do not{too}{_least(story)}."
        )
    told = f"very coupling {favours}, even if chance persists across steps, {trust}{_least(story)}."
    return f"E{told}" if claim.any_interval is None else f"Robust: e{told}"


def _ranges(story: Story) -> str:
    """What data alone say: the range over all couplings, with its interval."""
    named = list(zip(story.end_names, story.ends, strict=True))
    if story.ends and story.unfinished.bounds.upper >= _NARROW:
        named.append((f"no end within {_steps(story)}", story.unfinished))
    said = [f"{end} {percents(*each.bounds)}{_interval(each)}" for end, each in named]
    if story.end_rewards is None:
        least, most = story.returns.bounds
        limits = story.returns.any_interval
        other = "" if limits is None else f" ({limits.lower:.3g} to {limits.upper:.3g})"
        said.append(f"earning {least:.3g} to {most:.3g}{other}")
    told = f"Over all couplings that draw afresh at each step: {', '.join(said)}"
    if story.returns.any_interval is None:
        return f"{told}."
    level = confidence(story.returns.any_interval.level)
    return f"{told}; in parentheses, each range with {level} confidence at each end."


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
        turned = "could change the answer" if MODEL in claim.depends_on else "would hardly change the answer"
        yield (
            f"Another model that fits the log {turned}: with {confidence(limits.level)} confidence, and under any "
            f"coupling, the {meaning.measure} would be {meaning.between(*limits[:2])}."
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
    if meaning.rewards is None or meaning.only is not None or len(story.ends) < 2:
        return f"the {meaning.measure} would be {meaning.between(least, most)}"
    ends = int(meaning.rewards.argmin()), int(meaning.rewards.argmax())
    worst, best = (f"{story.end_names[end]} {percent(story.ends[end].bounds.upper)}" for end in ends)
    return f"anything from {worst} to {best} (score {meaning.between(least, most)})"


def _horizon(story: Story) -> str:
    """What the horizon leaves out."""
    recorded = len(story.record.actions)
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
    return counted(story.num_steps, story.record.step_name)


def _least(story: Story) -> str:
    """The visits behind the least known step, as words in brackets."""
    known = story.record.visits[~np.isnan(story.record.visits)]
    return behind(float(known.min()), "its least known step ") if len(known) else ""


def _beyond(limits: Bounds | Interval, sign: int) -> bool:
    """Whether all of a range lies on one side of zero."""
    return bool(limits.lower > SMALL if sign > 0 else limits.upper < -SMALL)
