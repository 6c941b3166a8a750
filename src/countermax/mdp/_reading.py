"""Reading a dataframe of steps: every complaint names the row and the column."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax.mdp._arrays import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("episode", "step", "state", "action", "next_state", "reward")


class ReadEpisodes(NamedTuple):
    """Episodes padded to the longest, in the order of their first row."""

    states: Ints
    actions: Ints
    rewards: Floats
    lengths: Ints
    episodes: tuple[Hashable, ...]


def read_episodes(
    frame: "pd.DataFrame",
    *,
    num_states: int | None,
    num_actions: int | None,
    state_names: Sequence[str] | None,
    action_names: Sequence[str] | None,
) -> ReadEpisodes:
    """Episodes from rows in any order, after checking that each is whole and hangs together."""
    missing = [column for column in COLUMNS if column not in frame.columns]
    if missing:
        raise InputError(
            f"the log must have the columns {', '.join(COLUMNS)}, but lacks {', '.join(missing)}; "
            f"it has {', '.join(map(str, frame.columns))}"
        )
    if frame.empty:
        raise InputError("the log must hold at least one step, got a table without rows")
    episode, names = _labels(frame, "episode")
    step = _integers(frame, "step")
    # Stable, so that of two rows with one step the later one is the one complained about.
    order = np.lexsort((step, episode))
    frame, episode, step = frame.iloc[order], episode[order], step[order]
    state = _indices(frame, "state", num_states, state_names)
    action = _indices(frame, "action", num_actions, action_names)
    next_state = _indices(frame, "next_state", num_states, state_names)
    reward = _numbers(frame, "reward")
    position = _positions(frame, episode, step)
    jumps = (position > 0) & (state != np.roll(next_state, 1))
    if jumps.any():
        at = int(jumps.argmax())
        before, here = frame["next_state"].iloc[at - 1], frame["state"].iloc[at]
        _refuse(frame, "state", at, f"must be where the step before it led ({before})", here)

    lengths = np.bincount(episode)
    shape = (len(names), int(lengths.max()))
    states = np.zeros((shape[0], shape[1] + 1), np.int64)
    actions, rewards = np.zeros(shape, np.int64), np.zeros(shape)
    states[episode, position] = state
    states[np.arange(len(names)), lengths] = next_state[np.cumsum(lengths) - 1]
    actions[episode, position], rewards[episode, position] = action, reward
    return ReadEpisodes(states, actions, rewards, lengths, names)


def _positions(frame: "pd.DataFrame", episode: Ints, step: Ints) -> Ints:
    """The place of each row within its episode."""
    base = int(step.min())
    if base not in (0, 1):
        _refuse(frame, "step", int(step.argmin()), "must count from 0 or from 1", base)
    starts = np.searchsorted(episode, episode)
    position = np.arange(len(step)) - starts
    twice = (position > 0) & (step == np.roll(step, 1))
    for bad, rule in (
        (twice, "must be different in each row of an episode"),
        (step != base + position, f"must count {base}, {base + 1}, {base + 2}, ... without a gap"),
    ):
        if bad.any():
            _refuse(frame, "step", int(bad.argmax()), rule, step[bad.argmax()])
    return position


def _labels(frame: "pd.DataFrame", column: str) -> tuple[Ints, tuple[Hashable, ...]]:
    codes, names = import_pandas().factorize(frame[column])
    if (codes < 0).any():
        _refuse(frame, column, int((codes < 0).argmax()), "must name an episode", frame[column].iloc[codes.argmin()])
    return codes.astype(np.int64), tuple(names.tolist())


def _numbers(frame: "pd.DataFrame", column: str) -> Floats:
    values = frame[column]
    numbers = import_pandas().to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        _refuse(frame, column, int(bad.argmax()), "must hold finite numbers", values.iloc[bad.argmax()])
    return numbers


def _integers(frame: "pd.DataFrame", column: str, hint: str = "") -> Ints:
    pandas = import_pandas()
    values = frame[column]
    if pandas.api.types.is_integer_dtype(values.dtype) and not values.isna().any():
        return values.to_numpy(np.int64)
    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers) | (numbers != np.floor(numbers))
    if bad.any():
        _refuse(frame, column, int(bad.argmax()), f"must hold whole numbers{hint}", values.iloc[bad.argmax()])
    return numbers.astype(np.int64)


def _indices(frame: "pd.DataFrame", column: str, size: int | None, names: Sequence[str] | None) -> Ints:
    """Indices, from indices or from names."""
    pandas = import_pandas()
    values = frame[column]
    if names is not None and not pandas.api.types.is_numeric_dtype(values.dtype):
        found = pandas.Index(list(names)).get_indexer(values)
        if (found < 0).any():
            at = int((found < 0).argmax())
            _refuse(frame, column, at, f"must be one of {_some(names)}", values.iloc[at])
        return np.asarray(found, np.int64)
    kind = "action" if column == "action" else "state"
    indices = _integers(frame, column, "" if names is not None else f", or give `{kind}_names`")
    bad = (indices < 0) if size is None else (indices < 0) | (indices >= size)
    if bad.any():
        rule = "must not be negative" if size is None else f"must lie in 0..{size - 1}"
        _refuse(frame, column, int(bad.argmax()), rule, indices[bad.argmax()])
    return indices


def _refuse(frame: "pd.DataFrame", column: str, at: int, rule: str, got: object) -> NoReturn:
    row = frame.index[at]
    episode, step = frame["episode"].iloc[at], frame["step"].iloc[at]
    shown = got.item() if isinstance(got, np.generic) else got
    raise InputError(f"row {row} (episode {episode}, step {step}): `{column}` {rule}, got {shown!r}")


def _some(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def mask_of(lengths: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """[episode, step]: which steps there are."""
    return np.arange(width)[None, :] < lengths[:, None]
