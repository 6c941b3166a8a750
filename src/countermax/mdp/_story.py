"""One patient's story: factual and counterfactual side by side, in sentences, as pictures, as rows, as a page."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from countermax import _plotting as plotting
from countermax._core import page
from countermax._core.results import Row
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._decisions import FEW_VISITS, Decision, Decisions, decision_rows
from countermax.mdp._results import SMALL, AbstractCohortResult, Answer, Context
from countermax.mdp._telling import Claim, Meaning, Told, claim_of, few, summary_of, tell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DECISIONS = 8  # on the page; the JSON has all of them
_OVER_TIME = (
    "From the top: black dots are treatments that were given, blue rings what the other policy would give, fainter "
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


class Features(NamedTuple):
    """What is followed over time."""

    names: tuple[str, ...]
    observed: Float[np.ndarray, "times f"]
    """As logged, up to the end of the episode or of what was asked for."""
    counterfactual: Mapping[str, Float[np.ndarray, "all_times f"]]
    """By coupling: probabilities, or means, under the other policy."""
    bounds: Bounds
    """The same over all couplings: [time, feature]."""


class Care(NamedTuple):
    """What actions are made of, and how much of it there was."""

    names: tuple[str, ...]
    graded: tuple[bool, ...]
    """Which of these come in levels."""
    given: Float[np.ndarray, "steps p"]
    """How much of each was given at each step: its level, or 1."""
    wanted: Float[np.ndarray, "t p"]
    """How likely the other policy is to give any of each, by the first coupling."""
    wanted_levels: Float[np.ndarray, "t p"]
    """How much of each it gives on average while the episode lasts."""


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
    features: Features
    care: Care
    record: Record
    step_bounds: Bounds
    """The value if one step's coupling is any other, for each step; the first coupling is that of the others."""
    decisions_by_coupling: Mapping[str, Decisions]
    """Single actions changed, the largest effect first."""

    @property
    def title(self) -> str:
        """The question."""
        return f"Episode {self.episode}: what would have become of it under the other policy?"

    @property
    def rows(self) -> tuple[Row, ...]:
        """Returns, chances of ends, single decisions, then features at each time."""
        about = f"episode {self.episode}"
        found = [row for each in (self.returns, *self.ends, self.unfinished) for row in each.rows(about)]
        found += decision_rows(self.decisions_by_coupling) if self.decisions else ()
        names, observed, answers, bounds = self.features
        for time in range(len(bounds.lower)):
            for place, feature in enumerate(names):
                answer = Answer(
                    f"{feature} at time {time}",
                    float(observed[time, place]) if time < len(observed) else None,
                    {name: float(each[time, place]) for name, each in answers.items()},
                    Bounds(float(bounds.lower[time, place]), float(bounds.upper[time, place])),
                    {},
                    None,
                )
                found += answer.rows(about)
        return tuple(found)

    def summary(self) -> str:
        """What happened, the range over all couplings, what the first coupling says, and how sure that is."""
        return summary_of(self)

    @property
    def told(self) -> Told:
        """The sentences by what they are about: what happened, what instead, how sure, what would change it."""
        return tell(self)

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
        earned, (_, _, _, bounds, intervals, limits) = self.observed_return, self.returns
        return Claim(
            value - earned, bounds.shifted(-earned), _shifted(intervals.get(name), earned), _shifted(limits, earned)
        )

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What could turn the answer around, in words; nothing if it is robust."""
        return self.claim.depends_on

    @property
    def num_steps(self) -> int:
        """How many steps are compared, in both worlds."""
        return len(self.features.bounds.lower) - 1

    @property
    def meaning(self) -> Meaning:
        """What the return stands for."""
        return Meaning(self.end_names, self.end_rewards, self.discount)

    def plot(self) -> "Figure":
        """Treatments, features and the coupling's part, over time."""
        best = self.best
        return plotting.draw_trajectory(
            features=self.features.names,
            observed=self.features.observed,
            answers=self.features.counterfactual,
            bounds=self.features.bounds,
            treatments=self.care.names,
            graded=self.care.graded,
            given=self.care.given,
            wanted=self.care.wanted,
            levels=self.care.wanted_levels,
            step_bounds=self.step_bounds,
            visits=self.record.visits,
            few=FEW_VISITS,
            measure=self.meaning.drawn,
            decision=None if best is None else best.step,
            title=f"Episode {self.episode}: what happened, and what would have happened under the other policy",
        )

    def plot_decisions(self) -> "Figure":
        """The best alternative at each step: what it would have added by every coupling, with bounds and intervals."""
        best: dict[int, Decision] = {}
        for each in self.decisions:
            best.setdefault(each.step, each)
        chosen = [best[step] for step in sorted(best)]
        scale = self.meaning.scale()
        return plotting.draw_gains(
            steps=[each.step for each in chosen],
            done=[self.record.action_names[each.action] for each in chosen],
            instead=[self.record.action_names[each.other_action] for each in chosen],
            gains={
                name: np.array([found.effects[each.step, each.other_action] for each in chosen])
                for name, found in self.decisions_by_coupling.items()
            },
            bounds=[each.effect_bounds for each in chosen],
            limits=[each.any_interval for each in chosen],
            visits=[each.visits for each in chosen],
            few=FEW_VISITS,
            label=f"what it would have added to the {self.meaning.drawn}" + (f" ({scale})" if scale else ""),
            title=f"Episode {self.episode}: the best other decision at each step, the rest as it was",
        )

    def __repr__(self) -> str:
        return f"Story(episode {self.episode!r}: {self.summary()})"

    def _sentences(self) -> tuple[str, ...]:
        told = self.told
        return (*told.happened, *told.instead, *told.sure)

    def _details(self) -> Mapping[str, Any]:
        return {
            "episode": self.episode,
            "horizon": self.num_steps,
            "discount": self.discount,
            "depends_on": self.depends_on,
            "features": self.features.names,
            "told": self.told,
            "standard_deviations": self.standard_deviations,
            "step_bounds": self.step_bounds,
            "care": self.care,
            "record": self.record,
            "decisions": [
                {
                    **each._asdict(),
                    "effects": {
                        name: found.effects[each.step, each.other_action]
                        for name, found in self.decisions_by_coupling.items()
                    },
                    "robust": each.robust,
                    "depends_on": claim_of(each).depends_on,
                }
                for each in self.decisions
            ],
        }

    def _more_blocks(self) -> Sequence[page.Block]:
        """What happened, what would have happened, how sure that is, what would change it, and single decisions."""
        told = self.told
        blocks: list[page.Block] = [page.Paragraph(_OVER_TIME, note=True)]
        for heading, sentences in (
            ("What happened", told.happened),
            ("What would have happened", told.instead),
            ("How sure that is", told.sure),
        ):
            blocks += [page.Heading(heading), *map(page.Paragraph, sentences)]
        if self.decisions:
            blocks.append(
                page.Picture(plotting.picture(self.plot_decisions()), "what single decisions would have added")
            )
            blocks.append(page.Paragraph(_GAINS, note=True))
        blocks.append(page.Box("What would change this answer", told.changes))
        effects = [f"effect, {name}" for name in self.decisions_by_coupling]
        headers = ("when", "done", "instead", *effects, "lower", "upper", "interval", "visits", "how sure")
        blocks += [
            page.Heading("One decision changed, the rest as it was"),
            page.Grid(headers, [self._decision_line(each) for each in self.decisions.decisions[:_MOST_DECISIONS]]),
        ]
        return blocks

    def _decision_line(self, each: Decision) -> tuple[float | str | None, ...]:
        limits = each.any_interval
        return (
            f"step {each.step}",
            self.record.actions[each.step],
            self.record.action_names[each.other_action],
            *(found.effects[each.step, each.other_action] for found in self.decisions_by_coupling.values()),
            *each.effect_bounds,
            "" if limits is None else f"{limits.lower:z.4f} to {limits.upper:z.4f}",
            "" if each.visits is None else f"{each.visits}{', few' if few(each.visits) else ''}",
            claim_of(each).sure,
        )


def _shifted(interval: Interval | None, by: float) -> Interval | None:
    return None if interval is None else Interval(interval.lower - by, interval.upper - by, interval.level)
