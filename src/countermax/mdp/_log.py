"""Logged episodes, as a frame has them and as arrays."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.quantities import as_count, shown
from countermax.mdp import _arrays as arrays
from countermax.mdp._arrays import MOST_REWARD, Floats, Ints, Values
from countermax.mdp._frames import Arranged, arranged, clock, numbers, read_episodes
from countermax.mdp._labels import Names, Space, as_names

if TYPE_CHECKING:
    import pandas as pd


_UNITS = "seconds", "minutes", "hours", "days", "weeks", "months", "years", "shifts", "visits", "steps"


class Steps(NamedTuple):
    """Every step of every episode, one after the other."""

    episode: Ints
    """The episode's position in the log."""
    step: Ints
    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats


class Times(NamedTuple):
    """When steps were taken."""

    unit: str
    """For instance `day`."""
    values: Floats
    spacing: float | None = None
    """Time from one step to the next, where it is always the same."""


class Clock(NamedTuple):
    """What steps are called, and when they were taken."""

    step: str = "step"
    """What a step is called, for instance a day: the name of its column."""
    times: Times | None = None
    """When steps were taken, [episode, step], where a column `time` says so."""

    def of(self, episode: int | Ints, length: int) -> "Clock":
        """The same for the first steps of one or several episodes."""
        return self._replace(times=self.times and self.times._replace(values=self.times.values[episode, :length]))


def _clock_of(frame: "pd.DataFrame", called: Mapping[str, str], times: Floats | None) -> Clock:
    """What steps and times are called; steps that count from 1 only give times, for positions count from 0."""
    told, from_one = clock(frame), numbers(frame, "step").min() == 1
    words = {"time": called.get("time", "time"), "step": called.get("step", "numbered")}
    name = "step" if from_one else _singular(called.get("step", "step"))
    if times is None:
        return Clock(name)
    unit, first, spacing = _singular(words[told]), *_evenly(frame["episode"], numbers(frame, told))
    if (first, spacing, name) == (0, 1, "step"):  # such times are numbers of steps
        return Clock(unit)
    return Clock(name, Times(unit, times, spacing))


def _evenly(episodes: "pd.Series", times: Floats) -> tuple[float | None, float | None]:
    """When all episodes begin, and the time from one step to the next; None for what differs."""
    by = import_pandas().Series(times, index=episodes.index).groupby(episodes, sort=False)
    steps = by.apply(lambda some: np.diff(np.sort(some))).to_list()
    firsts, gaps = np.unique(by.min()), np.unique(np.round(np.concatenate(steps), 9))
    return (*(float(each[0]) if len(each) == 1 else None for each in (firsts, gaps)),)  # type: ignore[return-value]


def _singular(unit: str) -> str:
    return unit[:-1] if unit.lower() in _UNITS else unit


def moment(step: int, name: str, times: Times | None) -> str:
    """A step of one episode in words: `step 3`, or `hour 12`, or `step 3 (hour 10.5)` where times have no rule."""
    if times is None or (step >= len(times.values) and times.spacing is None):
        return f"{name} {step}"
    if times.spacing is None or name != "step":
        return f"{name} {step}" + (f" ({times.unit} {times.values[step]:g})" if step < len(times.values) else "")
    return f"{times.unit} {times.values[0] + step * times.spacing:g}"


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class EpisodeLog:
    """Episodes of one process, padded to the longest: make one with `from_frame` or with `simulate`.

    After an episode's end its last state is repeated, with action 0 and reward 0, so that indexing is always safe;
    `lengths` and `mask` say what is real.
    """

    states: Int[np.ndarray, "n times"]
    """The states at times 0, 1, ...: one more than there are actions."""
    actions: Int[np.ndarray, "n t"]
    rewards: Float[np.ndarray, "n t"]
    lengths: Int[np.ndarray, " n"]
    """How many steps each episode has; at least one."""
    num_states: int
    num_actions: int
    episodes: tuple[Hashable, ...] | None = None
    """What the episodes are called; None for their positions."""
    state_names: Names | None = None
    action_names: Names | None = None
    clock: Clock = Clock()
    """What steps are called, and when they were taken."""
    notes: tuple[str, ...] = ()
    """What was done about the rows that it was read from."""
    propensities: Float[np.ndarray, "n t"] | None = None
    """How likely what was done was at each step, where more than the state says so; None for what the states say."""

    def __post_init__(self) -> None:
        for name in ("states", "actions", "rewards", "lengths"):
            check = arrays.as_floats if name == "rewards" else arrays.as_integers
            object.__setattr__(self, name, check(name, getattr(self, name)))
        real, reached = checked_steps(self)
        last = np.take_along_axis(self.states, self.lengths[:, None], axis=1)
        for name, value in (
            ("states", np.where(reached, self.states, last)),
            ("actions", np.where(real, self.actions, 0)),
            ("rewards", np.where(real, self.rewards, 0)),
            ("lengths", self.lengths),
        ):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def when(self, episode: int, step: int) -> str:
        """A step of the episode at a position, in words: its number and, where that is known, its time."""
        return moment(step, *self.clock.of(episode, self.lengths[episode]))

    @classmethod
    def from_frame(
        cls,
        frame: "pd.DataFrame",
        *,
        num_states: int | None = None,
        num_actions: int | None = None,
        state_names: Sequence[Hashable] | None = None,
        action_names: Sequence[Hashable] | None = None,
        columns: Mapping[str, str] | None = None,
        score: Mapping[Hashable, int | float] | None = None,
    ) -> "EpisodeLog":
        """Reads a dataframe with the columns episode, step, state, action, next_state and reward.

        `columns` says what they are called, as in {"episode": "patient", "step": "day"}; stories then speak of days.
        Without step, a column time has the order of an episode's rows, and stories tell it. Without next_state, each
        row leads to the state of the next one, and the last row to the final outcome in a column outcome. Without
        reward, the `score` of each final outcome is what an episode earns, at its end.

        Rows may come in any order. The steps of an episode count from 0 (or all of them from 1) without a gap, and each
        starts where the one before led. What is wrong is named by row and column; other columns are ignored.

        With names, numbers or text in the order in which states or actions are to be counted, the columns hold names,
        compared by value: 2 is 2.0, but the text "2" is another name. Without, they hold indices. By default there are
        as many as there are names, or one more than the largest index.
        """
        states = _space("state", num_states, state_names)
        actions = _space("action", num_actions, action_names)
        return log_of_rows(arranged(frame, columns, score), states, actions)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def longest(self) -> int:
        """How many steps there is room for."""
        return self.actions.shape[1]

    @property
    def mask(self) -> Bool[np.ndarray, "n t"]:
        """Which steps there are."""
        return step_mask(self.lengths, self.longest)

    @property
    def num_steps(self) -> int:
        """How many steps there are in all."""
        return int(self.lengths.sum())

    @property
    def last_states(self) -> Int[np.ndarray, " n"]:
        """Where each episode ended."""
        return self.states[:, -1]

    def steps(self) -> Steps:
        """All steps one after the other, without padding."""
        episode, step = np.nonzero(self.mask)
        state, next_state = self.states[episode, step], self.states[episode, step + 1]
        return Steps(episode, step, state, self.actions[episode, step], next_state, self.rewards[episode, step])

    def returns(self, discount: float = 1.0, *, horizon: int | None = None) -> Float[np.ndarray, " n"]:
        """The discounted sum of each episode's rewards, over all steps or the first ones.

        A log has no process behind it, so the default is the plain return; hand in `mdp.discount` to compare with
        values of a process.
        """
        counted = self.rewards[:, : steps_of(self, horizon)]
        return counted @ arrays.checked_discount(discount) ** np.arange(counted.shape[1])

    def select(self, episodes: Values) -> "EpisodeLog":
        """Some of the episodes, by position; with repeats they are a bootstrap sample.

        There is room for as many steps as the longest of them has.
        """
        chosen = arrays.as_indices("episodes", episodes, len(self))
        if chosen.ndim != 1 or chosen.size == 0:
            raise InputError(f"`episodes` must be a vector of at least one position, got shape {chosen.shape}")
        names, longest = self.names, int(self.lengths[chosen].max())
        return replace(
            self,
            states=self.states[chosen, : longest + 1],
            actions=self.actions[chosen, :longest],
            rewards=self.rewards[chosen, :longest],
            lengths=self.lengths[chosen],
            clock=self.clock.of(chosen, longest),
            propensities=None if self.propensities is None else self.propensities[chosen, :longest],
            episodes=tuple(names[each] for each in chosen),
        )

    def with_states(
        self, new_index: Values, num_states: int, *, state_names: Sequence[Hashable] | None = None
    ) -> "EpisodeLog":
        """The same episodes seen through a coarser description of the states: each old one has a new index."""
        new = arrays.as_indices("new_index", new_index, as_count("`num_states`", num_states))
        if new.shape != (self.num_states,):
            raise InputError(f"`new_index` must have one entry for each of {self.num_states} states, got {new.shape}")
        names = as_names("state_names", state_names, num_states)
        return replace(self, states=new[self.states], num_states=num_states, state_names=names)

    def to_frame(self) -> "pd.DataFrame":
        """One row for each step, as `from_frame` reads them: by name where there are names, which it then needs too."""
        states, actions = self.state_names, self.action_names
        columns: dict[str, Any] = self.steps()._asdict()
        named = {"episode": self.names, "state": states, "action": actions, "next_state": states}
        for column, names in named.items():
            if names is not None:
                columns[column] = [names[index] for index in columns[column].tolist()]
        return import_pandas().DataFrame(columns)

    def __repr__(self) -> str:
        return (
            f"EpisodeLog({len(self)} episodes, {self.num_steps} steps, at most {self.longest} in one; "
            f"{self.num_states} states, {self.num_actions} actions)"
        )

    @property
    def names(self) -> tuple[Hashable, ...]:
        """What all episodes are called."""
        return tuple(range(len(self))) if self.episodes is None else self.episodes

    def name_of(self, episode: int) -> Hashable:
        """What the episode at this position is called."""
        return self.names[episode]


def log_of_rows(steps: Arranged, states: Space, actions: Space) -> EpisodeLog:
    """Episodes from rows with all columns of a log; steps and times are called what their columns were called."""
    read = read_episodes(steps.rows, states, actions)
    times = read.pop("times")
    return EpisodeLog(
        **read,
        clock=_clock_of(steps.rows, steps.called, times),
        notes=steps.notes,
        num_states=int(read["states"].max()) + 1 if states.size is None else states.size,
        num_actions=int(read["actions"].max()) + 1 if actions.size is None else actions.size,
        state_names=states.names,
        action_names=actions.names,
    )


def steps_of(log: EpisodeLog, horizon: int | None) -> int:
    """The number of steps asked for, or as many as the longest episode has."""
    return log.longest if horizon is None else arrays.as_horizon(horizon, least=1)


def steps_compared(log: EpisodeLog, absorbing: Bool[np.ndarray, " s"], horizon: int) -> Ints:
    """How many steps of each episode are compared, in every world: as far as it is known what happened.

    An episode that came to its end, in an absorbing state, earns nothing later, so all steps of the horizon are known.
    One that merely stops was censored: nobody knows how it went on.
    """
    known = absorbing[log.last_states] | (log.lengths >= horizon)
    return np.where(known, horizon, log.lengths)


def follow_up(seen: Ints, cut: Bool[np.ndarray, " n"], horizon: int) -> Float[np.ndarray, " c"]:
    """How likely somebody is followed for no step, for one, ..., and for all of the horizon.

    Who came to an end would have been followed for that long or longer, nobody knows how long: this is Kaplan and
    Meier's estimate, with follow-up independent of what happens. All of the horizon where nobody is cut off before it.

    Args:
        seen: Number of steps that each episode was seen for, within the horizon.
        cut: Flags of the episodes that were cut off there, before the horizon and without an end.
        horizon: Largest number of steps.
    """
    stopped, ended = (np.bincount(seen[each], minlength=horizon + 1) for each in (cut, ~cut))
    at_risk = (stopped + ended)[::-1].cumsum()[::-1] - ended  # ends come before whoever is cut off at the same step
    longer = np.cumprod(1 - stopped / np.maximum(at_risk, 1))
    longer[-1] = 0
    return -np.diff(longer, prepend=1.0)


def _space(kind: str, size: int | None, names: Sequence[Hashable] | None) -> Space:
    """How many states or actions there are, as far as that is known before any is read, and their names."""
    if size is not None:
        as_count(f"`num_{kind}s`", size)
    found = as_names(f"{kind}_names", names, size)
    return Space(size if found is None else len(found), found)


def step_mask(lengths: Ints, width: int) -> NDArray[np.bool_]:
    """[episode, step]: which steps there are."""
    return np.arange(width)[None, :] < lengths[:, None]


def checked_steps(log: EpisodeLog) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which steps there are and which states were reached, once all that computations take for granted is checked."""
    as_count("`num_states`", log.num_states)
    as_count("`num_actions`", log.num_actions)
    if log.actions.ndim != 2 or log.actions.size == 0:
        raise InputError(f"`actions` must be [episode, step] and not empty, got shape {log.actions.shape}")
    count, longest = log.actions.shape
    for name, array, shape in (
        ("states", log.states, (count, longest + 1)),
        ("rewards", log.rewards, (count, longest)),
        ("lengths", log.lengths, (count,)),
    ):
        if array.shape != shape:
            raise InputError(f"`{name}` must have shape {shape}, got {array.shape}")
    if log.episodes is not None and (not isinstance(log.episodes, tuple) or len(log.episodes) != count):
        raise InputError(f"`episodes` must be a tuple that names each of {count}, got {shown(log.episodes)}")

    def refuse(name: str, array: np.ndarray, bad: np.ndarray, rule: str) -> None:
        if bad.any():
            place = np.unravel_index(int(bad.argmax()), bad.shape)
            episode = log.names[int(place[0])]
            step = f", step {place[1]}" if len(place) > 1 else ""
            raise InputError(f"`{name}` {rule}, got {array[place]} in episode {arrays.plainly(episode)}{step}")

    lengths = log.lengths
    refuse("lengths", lengths, (lengths < 1) | (lengths > longest), f"must lie in 1..{longest}: no episode is empty")
    real, reached = step_mask(lengths, longest), step_mask(lengths + 1, longest + 1)
    outside = (log.states < 0) | (log.states >= log.num_states)
    refuse("states", log.states, reached & outside, f"must lie in 0..{log.num_states - 1}")
    unknown = (log.actions < 0) | (log.actions >= log.num_actions)
    refuse("actions", log.actions, real & unknown, f"must lie in 0..{log.num_actions - 1}")
    large = real & ~(np.abs(log.rewards) <= MOST_REWARD)
    refuse("rewards", log.rewards, large, f"must be finite, and lie within {MOST_REWARD:g}")
    if log.propensities is not None:
        if log.propensities.shape != (count, longest):
            raise InputError(f"`propensities` must have shape {(count, longest)}, got {log.propensities.shape}")
        never = real & ~((log.propensities > 0) & (log.propensities <= 1))
        refuse("propensities", log.propensities, never, "must lie above 0 and at most at 1")
    as_names("state_names", log.state_names, log.num_states)
    as_names("action_names", log.action_names, log.num_actions)
    return real, reached
