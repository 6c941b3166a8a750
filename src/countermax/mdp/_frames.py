"""The one reader of dataframes, for logs and for policies: every complaint names the row and the column.

States and actions are told by name where there are names, and else by index; never by both.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import UNKNOWN, is_missing, listed
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, shown
from countermax._tables.frames import as_frame
from countermax.mdp._arrays import MOST_REWARD, Floats, Ints, plainly
from countermax.mdp._labels import Space, coded, hint_about

if TYPE_CHECKING:
    import pandas as pd

LOG_COLUMNS = ("episode", "step", "state", "action", "next_state", "reward")
POLICY_COLUMNS = ("state", "action")
PROBABILITY = "probability"
_MADE_FROM = ("time", "outcome")
LOG_RULE = (
    f"the log must have the columns {', '.join(LOG_COLUMNS)} (or `columns`, in Python of a `StepsFile`, must say what "
    "they are called; time may stand for step, outcome for next_state, and `score` for reward)"
)
NO_REWARD = (
    "no column `reward`: give `score`, e.g. score={'alive': 1, 'dead': 0} (on the command line `--score "
    "alive=1,dead=0`)"
)
POLICY_RULE = "the policy must have the columns state, action and, unless it is certain, probability"

_NUMBERED = re.compile(r"(?i)(state|action)s?[_ .-]?\d+")
_MOST_EXACT = 2**53  # whole numbers beyond this are not all different in double precision


class Arranged(NamedTuple):
    """A log by our names of columns, what the columns are called by theirs, and what was done about its rows."""

    rows: "pd.DataFrame"
    called: Mapping[str, str]
    notes: tuple[str, ...] = ()


def arranged(frame: "pd.DataFrame", columns: Mapping[str, str] | None, score: Mapping | None) -> Arranged:
    """A log with its columns by their usual names, and with those that follow from others.

    Steps follow from times, next states from the rows that come next and the final outcome, and rewards from the score
    of each outcome, which counts at the end. Dates become hours since an episode began.
    """
    called = checked_columns(columns)
    frame = renamed(frame, called)
    names = set(frame.columns)
    require_columns(list(frame.columns), needed_columns(names, score is not None), (), LOG_RULE)
    if set(LOG_COLUMNS) <= names:
        return Arranged(frame, called)
    by, notes = "step" if "step" in names else "time", []
    if by == "time":
        frame, dated = in_hours(frame)
        called |= {"time": "hours"} if dated else {}
    frame = frame.assign(**{by: numbers(frame, by)}).sort_values(["episode", by], kind="stable")
    refuse_repeated(frame, by)
    if "step" not in names:
        frame["step"] = frame.groupby("episode", sort=False).cumcount()
    last = ~frame["episode"].duplicated(keep="last")
    ended = last
    if "next_state" not in names:
        states, ends = frame["state"].astype(object), _final_outcomes(frame)
        frame["next_state"] = states.groupby(frame["episode"], sort=False).shift(-1).where(~last, ends)
        censored = last & frame["next_state"].isna()
        alone = censored & ~frame["episode"].duplicated()
        if alone.all():
            raise InputError(
                "`outcome` must be known of some episode, or rows must follow each other: no step is known"
            )
        notes += _told_of_open(int(censored.sum() - alone.sum()), frame["episode"][alone].tolist())
        frame, ended = frame[~censored], (last & ~censored)[~censored]
    if "reward" not in names:
        ends = frame["next_state"][ended]
        known = scored(ends.unique(), score)
        frame = frame.assign(reward=0.0)
        frame.loc[ended, "reward"] = [known[str(label)] for label in ends]
    return Arranged(frame, called, tuple(notes))


def _told_of_open(count: int, alone: list[Hashable]) -> list[str]:
    """What becomes of the last rows of episodes without an outcome."""
    many = "1 episode" if len(alone) == 1 else f"{len(alone)} episodes"
    named = f"{listed(alone[:3])}{' ...' * (len(alone) > 3)}"
    left = f"Left out: {many} ({named}) of one row and without an outcome, so that no step is known."
    those = (
        "1 episode has no outcome: its last row says"
        if count == 1
        else f"{count} episodes have no outcome: their last rows say"
    )
    told = f"{those} where the patient was seen last, and what was done there is not counted."
    return [*([told] if count else []), *([left] if alone else [])]


def renamed(frame: "pd.DataFrame", called: Mapping[str, str]) -> "pd.DataFrame":
    """A dataframe with our names of columns."""
    return as_pandas(frame).rename(columns={theirs: ours for ours, theirs in called.items()})


def in_hours(frame: "pd.DataFrame") -> tuple["pd.DataFrame", bool]:
    """The same with hours since each episode began where times are dates, and whether they are."""
    pandas, times = import_pandas(), frame["time"]
    if times.dtype.kind != "M":
        try:
            if pandas.to_numeric(times, errors="coerce").notna().any():
                return frame, False
            times = pandas.to_datetime(times, format="ISO8601", utc=True)
        except (TypeError, ValueError, OverflowError):
            return frame, False
    since = times - times.groupby(frame["episode"], sort=False).transform("min")
    return frame.assign(time=since.dt.total_seconds() / 3600), True


def refuse_repeated(frame: "pd.DataFrame", by: str) -> None:
    """Refuses two rows of one episode and one time."""
    again = frame.duplicated(["episode", by]).to_numpy()
    if again.any():
        at = int(again.argmax())
        same = (frame[["episode", by]] == frame[["episode", by]].iloc[at]).all(axis=1).to_numpy()
        count, alike = int(again.sum()), int(frame.duplicated().sum())
        raise InputError(
            f"row {frame.index[at]}: `{by}` must be different in each row of an episode, but is "
            f"{_shown(frame[by], at)} as in row {frame.index[int(same.argmax())]} (episode "
            f"{plainly(frame['episode'].iloc[at])}); {count} such row{'' if count == 1 else 's'}"
            + (", all repeated in full: drop_duplicates() removes them" if alike == count else "")
        )


def scored(ends: Iterable[Hashable], score: Mapping | None) -> dict[str, float]:
    """The score of each final outcome, by its text."""
    known = {str(label): as_amount(f"`score[{label!r}]`", number) for label, number in (score or {}).items()}
    for label in ends:
        if str(label) not in known:
            raise InputError(
                f"`score` must have a number for each final outcome, but has none for {plainly(label)}; where an "
                "outcome is not known, leave its cell empty: that episode is censored"
            )
    return known


def _final_outcomes(frame: "pd.DataFrame") -> "pd.Series":
    """The outcome of each row's episode, from whichever of its rows have it; missing where none has."""
    found = frame["outcome"].astype(object)  # whole numbers stay whole
    found = found.where(found.notna() & (found.astype(str) != ""), None)
    first = found.groupby(frame["episode"], sort=False).transform("first")
    other = (found.notna() & (found.astype(str) != first.astype(str))).to_numpy()
    refuse(frame, "outcome", other, "must be the same in all rows of an episode, or empty")
    return first


def checked_columns(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Which column of a table stands for which of a log."""
    found = {} if columns is None else {str(ours): theirs for ours, theirs in columns.items()}
    ours = (*LOG_COLUMNS, *_MADE_FROM)
    for name, theirs in found.items():
        if name not in ours:
            hint = f": {theirs}={name}, the other way round" if theirs in ours else ""
            raise InputError(
                f"`columns` must map columns of a log ({', '.join(ours)}) to those of the table, got {name!r}{hint}"
            )
    return found


def needed_columns(names: Collection[Hashable], scored: bool) -> tuple[str, ...]:
    """The columns that a log needs, given those that it has."""
    made = {"step": "time" in names, "next_state": "outcome" in names, "reward": scored}
    return tuple(each for each in LOG_COLUMNS if each in names or not made.get(each))


def read_episodes(frame: "pd.DataFrame", states: Space, actions: Space) -> dict[str, Any]:
    """Episodes from rows in any order, after checking that each is whole and continuous.

    Padded to the longest, in the order of their first row, by the names of an `EpisodeLog`'s fields.
    """
    require_columns(list(frame.columns), LOG_COLUMNS, (), LOG_RULE)
    if frame.empty:
        raise InputError("the log must hold at least one step, got a frame without rows")
    episode, names = coded(frame["episode"])
    refuse(frame, "episode", episode < 0, "must name an episode")
    step = _integers(frame, "step")
    # Stable, so that of two rows with one step the later one is the one complained about.
    order = np.lexsort((step, episode))
    frame, episode, step = frame.iloc[order], episode[order], step[order]
    state = _indices(frame, "state", states)
    action = _indices(frame, "action", actions)
    next_state = _indices(frame, "next_state", states)
    reward = numbers(frame, "reward")
    refuse(frame, "reward", ~(np.abs(reward) <= MOST_REWARD), f"must lie within {MOST_REWARD:g}")
    position = _positions(frame, episode, step)
    jumps = (position > 0) & (state != np.roll(next_state, 1))
    led = plainly(frame["next_state"].iloc[int(jumps.argmax()) - 1])
    refuse(frame, "state", jumps, f"must be where the step before it led ({led})")
    lengths = np.bincount(episode)
    shape = (len(names), int(lengths.max()))
    what = f"{shape[0]} episodes of up to {shape[1]} steps"
    check_memory(what, 64 * shape[0] * (shape[1] + 1), "split the longest episodes")
    padded = np.zeros((shape[0], shape[1] + 1), np.int64)
    done, rewards = np.zeros(shape, np.int64), np.zeros(shape)
    padded[episode, position] = state
    padded[np.arange(len(names)), lengths] = next_state[np.cumsum(lengths) - 1]
    done[episode, position], rewards[episode, position] = action, reward
    times, told = None, clock(frame)
    if told:
        times = np.zeros(shape)
        times[episode, position] = numbers(frame, told)
    return {
        "times": times,
        "states": padded,
        "actions": done,
        "rewards": rewards,
        "lengths": lengths,
        "episodes": names,
    }


def clock(frame: "pd.DataFrame") -> str:
    """The column that says when steps were taken: time if it holds numbers, or step if it counts from 1; or none.

    Steps are told by position, from 0, so that numbers of their own would be taken for positions.
    """
    if "time" in frame.columns:
        known = import_pandas().to_numeric(frame["time"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        if np.isfinite(known).all():  # dates and clocks in words are left out
            return "time"
    return "step" if numbers(frame, "step").min() == 1 else ""


def read_decisions(frame: "pd.DataFrame", states: Space, actions: Space) -> tuple[Ints, Ints, Floats]:
    """State, action and probability of each row; without a probability the action is taken for certain."""
    require_columns(list(frame.columns), POLICY_COLUMNS, (PROBABILITY,), POLICY_RULE)
    state, action = _indices(frame, "state", states), _indices(frame, "action", actions)
    chances = numbers(frame, PROBABILITY) if PROBABILITY in frame.columns else np.ones(len(frame))
    again = import_pandas().DataFrame({"state": state, "action": action}).duplicated().to_numpy()
    if again.any():
        where = plainly(frame["state"].iloc[int(again.argmax())])
        refuse(frame, "action", again, f"must be given once in state {where}, but is there twice")
    return state, action, chances


def require_columns(
    names: Sequence[Hashable], needed: Sequence[str], optional: Sequence[str], rule: str, *, hint: str = ""
) -> None:
    """Refuses a table that lacks one of the columns, or has one twice."""
    missing = [column for column in needed if column not in names]
    if missing == ["reward"]:
        raise InputError(f"{NO_REWARD}; the columns are {listed(names)}{hint}")
    if sum(_NUMBERED.fullmatch(str(each)) is not None for each in names) > 1:
        hint += "; a row for each step is needed: pandas.wide_to_long makes rows of such columns"
    if missing:
        raise InputError(f"{rule}, but lacks {', '.join(missing)}; it has {listed(names) or 'no columns'}{hint}")
    for column in (*needed, *optional):
        if (times := list(names).count(column)) > 1:
            raise InputError(f"{rule}, each of them once, but has {column} {times} times")


def as_pandas(frame: Any) -> "pd.DataFrame":
    """A dataframe of any library as one of pandas."""
    if isinstance(frame, import_pandas().DataFrame):
        return frame
    return as_frame(frame).to_arrow().to_pandas()


def _positions(frame: "pd.DataFrame", episode: Ints, step: Ints) -> Ints:
    """The place of each row within its episode."""
    base = int(step.min())
    refuse(frame, "step", (step == base) & (base not in (0, 1)), "must count from 0 or from 1")
    position = np.arange(len(step)) - np.searchsorted(episode, episode)
    twice = (position > 0) & (step == np.roll(step, 1))
    refuse(frame, "step", twice, "must be different in each row of an episode")
    gap = step != base + position
    refuse(frame, "step", gap, f"must count {base}, {base + 1}, {base + 2}, ... without a gap")
    return position


def numbers(frame: "pd.DataFrame", column: str) -> Floats:
    """Finite numbers; text is read as a number, as files have it."""
    values = frame[column]
    try:
        found = import_pandas().to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError):  # lists, say, or complex numbers
        raise InputError(f"`{column}` must hold finite numbers, got {values.dtype} like {_shown(values, 0)}") from None
    hint = "; dates are read as 2026-01-31 08:00" if column == "time" else ""
    refuse(frame, column, ~np.isfinite(found), "must hold finite numbers", hint)
    return found


def _integers(frame: "pd.DataFrame", column: str, rule: str = "must hold whole numbers") -> Ints:
    found = numbers(frame, column)
    refuse(frame, column, (found != np.floor(found)) | (np.abs(found) > _MOST_EXACT), rule)
    return found.astype(np.int64)


def _indices(frame: "pd.DataFrame", column: str, space: Space) -> Ints:
    """Indices, from names or, where there are none, from indices."""
    values, (size, names) = frame[column], space
    read = coded(values)
    refuse(frame, column, read.codes < 0, "must not be missing")
    if names is not None:
        places = read.places(names)
        if (places == UNKNOWN).any():
            hint = hint_about(column, names, values.iloc[int((places == UNKNOWN).argmax())])
            refuse(frame, column, places == UNKNOWN, f"must be one of {listed(names)}", hint)
        return places
    rule = f"must hold whole numbers, or give `{'action' if column == 'action' else 'state'}_names`"
    for number, value in enumerate(read.distinct):
        if isinstance(value, str | bool):  # "01" would become 1
            refuse(frame, column, read.codes == number, rule)
    indices = _integers(frame, column, rule)
    if size is None:
        refuse(frame, column, indices < 0, "must not be negative")
    else:
        refuse(frame, column, (indices < 0) | (indices >= size), f"must lie in 0..{size - 1}")
    return indices


def _shown(values: "pd.Series", at: int) -> str:
    got = values.iloc[at]
    return "nothing" if is_missing(got) else shown(got.item() if isinstance(got, np.generic) else got)


def refuse(frame: "pd.DataFrame", column: str, bad: NDArray[np.bool_], rule: str, hint: str = "") -> None:
    """Names the first row that breaks a rule, if any does."""
    if not bad.any():
        return
    at = int(bad.argmax())
    where = f"row {frame.index[at]}"
    if {"episode", "step"} <= set(frame.columns):
        where += f" (episode {plainly(frame['episode'].iloc[at])}, step {plainly(frame['step'].iloc[at])})"
    count, got = int(bad.sum()), f"got {_shown(frame[column], at)}"
    more = f"; {count} such rows" if count > 1 else ""
    if count > 1 and "episode" in frame.columns:
        more += f", in {frame['episode'][bad].nunique()} episodes"
    raise InputError(f"{where}: `{column}` {rule}, {got}{hint}{more}")
