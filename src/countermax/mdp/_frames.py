"""The one reader of dataframes, for logs and for policies: every complaint names the row and the column.

States and actions are told by index or by name. A column of numbers holds indices; any other column holds names, which
are compared by what they look like when written down.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import UNKNOWN, Labels, listed, text_of
from countermax.mdp._arrays import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

LOG_COLUMNS = ("episode", "step", "state", "action", "next_state", "reward")
POLICY_COLUMNS = ("state", "action")


class ReadEpisodes(NamedTuple):
    """Episodes padded to the longest, in the order of their first row."""

    states: Ints
    actions: Ints
    rewards: Floats
    lengths: Ints
    episodes: tuple[Hashable, ...]


class ReadDecisions(NamedTuple):
    """What a policy does, one entry for each row."""

    states: Ints
    actions: Ints
    probabilities: Floats


class Space(NamedTuple):
    """The states, or the actions: how many there are, as far as that is known, and their names."""

    size: int | None
    names: Sequence[str] | None


def read_episodes(frame: "pd.DataFrame", states: Space, actions: Space) -> ReadEpisodes:
    """Episodes from rows in any order, after checking that each is whole and continuous."""
    require(frame, LOG_COLUMNS, f"the log must have the columns {', '.join(LOG_COLUMNS)}")
    if frame.empty:
        raise InputError("the log must hold at least one step, got a frame without rows")
    episode, names = _episodes(frame)
    step = _integers(frame, "step")
    # Stable, so that of two rows with one step the later one is the one complained about.
    order = np.lexsort((step, episode))
    frame, episode, step = frame.iloc[order], episode[order], step[order]
    state = _indices(frame, "state", states)
    action = _indices(frame, "action", actions)
    next_state = _indices(frame, "next_state", states)
    reward = _numbers(frame, "reward")
    position = _positions(frame, episode, step)
    jumps = (position > 0) & (state != np.roll(next_state, 1))
    if jumps.any():
        at = int(jumps.argmax())
        _refuse(frame, "state", at, f"must be where the step before it led ({frame['next_state'].iloc[at - 1]})")

    lengths = np.bincount(episode)
    shape = (len(names), int(lengths.max()))
    padded = np.zeros((shape[0], shape[1] + 1), np.int64)
    done, rewards = np.zeros(shape, np.int64), np.zeros(shape)
    padded[episode, position] = state
    padded[np.arange(len(names)), lengths] = next_state[np.cumsum(lengths) - 1]
    done[episode, position], rewards[episode, position] = action, reward
    return ReadEpisodes(padded, done, rewards, lengths, names)


def read_decisions(frame: "pd.DataFrame", states: Space, actions: Space) -> ReadDecisions:
    """Rows of state, action and probability; without a probability the action is taken for certain."""
    require(frame, POLICY_COLUMNS, "the policy must have the columns state, action and, unless certain, probability")
    state, action = _indices(frame, "state", states), _indices(frame, "action", actions)
    chances = _numbers(frame, "probability") if "probability" in frame.columns else np.ones(len(frame))
    again = import_pandas().DataFrame({"state": state, "action": action}).duplicated().to_numpy()
    if again.any():
        at = int(again.argmax())
        _refuse(frame, "action", at, f"must be given once in state {frame['state'].iloc[at]}, but is there twice")
    return ReadDecisions(state, action, chances)


def shared_space(columns: Sequence["pd.Series"]) -> Space:
    """What several columns together speak of: names, where any of them holds names, else indices."""
    pandas = import_pandas()
    if all(_holds_indices(column) for column in columns):
        largest = max(column.max() for column in columns)
        return Space(int(largest) + 1 if np.isfinite(largest) and largest >= 0 else None, None)
    found = {text_of(value) for column in columns for value in pandas.unique(column.dropna())}
    return Space(len(found), tuple(sorted(found)))


def by_name(frame: "pd.DataFrame", columns: Sequence[str]) -> "pd.DataFrame":
    """The frame with these columns as text, so that they hold names whatever they look like."""
    texts = {column: frame[column].astype(object).map(text_of, na_action="ignore") for column in columns}
    return frame.assign(**texts)


def require(frame: "pd.DataFrame", columns: Sequence[str], rule: str) -> None:
    """Refuses a frame that lacks one of the columns."""
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InputError(f"{rule}, but lacks {', '.join(missing)}; it has {', '.join(map(str, frame.columns))}")


def _positions(frame: "pd.DataFrame", episode: Ints, step: Ints) -> Ints:
    """The place of each row within its episode."""
    base = int(step.min())
    if base not in (0, 1):
        _refuse(frame, "step", int(step.argmin()), "must count from 0 or from 1")
    starts = np.searchsorted(episode, episode)
    position = np.arange(len(step)) - starts
    twice = (position > 0) & (step == np.roll(step, 1))
    for bad, rule in (
        (twice, "must be different in each row of an episode"),
        (step != base + position, f"must count {base}, {base + 1}, {base + 2}, ... without a gap"),
    ):
        if bad.any():
            _refuse(frame, "step", int(bad.argmax()), rule)
    return position


def _episodes(frame: "pd.DataFrame") -> tuple[Ints, tuple[Hashable, ...]]:
    codes, names = import_pandas().factorize(frame["episode"])
    if (codes < 0).any():
        _refuse(frame, "episode", int((codes < 0).argmax()), "must name an episode")
    return codes.astype(np.int64), tuple(names.tolist())


def _numbers(frame: "pd.DataFrame", column: str) -> Floats:
    numbers = import_pandas().to_numeric(frame[column], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        _refuse(frame, column, int(bad.argmax()), "must hold finite numbers")
    return numbers


def _integers(frame: "pd.DataFrame", column: str, hint: str = "") -> Ints:
    pandas = import_pandas()
    values = frame[column]
    if pandas.api.types.is_integer_dtype(values.dtype) and not values.isna().any():
        return values.to_numpy(np.int64)
    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers) | (numbers != np.floor(numbers))
    if bad.any():
        _refuse(frame, column, int(bad.argmax()), f"must hold whole numbers{hint}")
    return numbers.astype(np.int64)


def _holds_indices(values: "pd.Series") -> bool:
    return bool(import_pandas().api.types.is_numeric_dtype(values.dtype))


def _indices(frame: "pd.DataFrame", column: str, space: Space) -> Ints:
    """Indices, from indices or from names."""
    values, size, names = frame[column], space.size, space.names
    if names is not None and not _holds_indices(values):
        codes, distinct = import_pandas().factorize(values.astype(object))
        places = np.append(Labels(tuple(names)).places(list(distinct)), UNKNOWN)[codes]
        if (places == UNKNOWN).any():
            _refuse(frame, column, int((places == UNKNOWN).argmax()), f"must be one of {listed(names)}")
        return places
    kind = "action" if column == "action" else "state"
    indices = _integers(frame, column, "" if names is not None else f", or give `{kind}_names`")
    bad = (indices < 0) if size is None else (indices < 0) | (indices >= size)
    if bad.any():
        rule = "must not be negative" if size is None else f"must lie in 0..{size - 1}"
        _refuse(frame, column, int(bad.argmax()), rule)
    return indices


def _refuse(frame: "pd.DataFrame", column: str, at: int, rule: str) -> NoReturn:
    got = frame[column].iloc[at]
    shown = got.item() if isinstance(got, np.generic) else got
    where = f"row {frame.index[at]}"
    if {"episode", "step"} <= set(frame.columns):
        where += f" (episode {frame['episode'].iloc[at]}, step {frame['step'].iloc[at]})"
    raise InputError(f"{where}: `{column}` {rule}, got {shown!r}")
