"""Logs and policies as files have them: CSV or Parquet tables with indices or with names."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax.mdp._arrays import SUM_TOLERANCE, Floats
from countermax.mdp._log import EpisodeLog
from countermax.mdp._reading import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

_POLICY_COLUMNS = ("state", "action", "probability")
_SUFFIXES = (".csv", ".parquet")


class LoggedPolicy(NamedTuple):
    """A log and a policy that speak of the same states and actions."""

    log: EpisodeLog
    policy: Floats


def read_log_and_policy(log: str | Path, policy: str | Path) -> LoggedPolicy:
    """Reads a table of steps and a table of decisions.

    The log has the columns episode, step, state, action, next_state and reward. The policy has state and action, and
    probability unless it takes one action in each state. States and actions are indices or names, alike in both.

    Args:
        log: A CSV or Parquet file.
        policy: A CSV or Parquet file; it must say what to do in every state that the log leaves.
    """
    steps, decisions = read_table(log), read_table(policy)
    missing = [column for column in COLUMNS if column not in steps.columns]
    if missing:
        raise InputError(
            f"{log}: the log must have the columns {', '.join(COLUMNS)}, but lacks {', '.join(missing)}; it has "
            f"{', '.join(map(str, steps.columns))}"
        )
    missing = [column for column in _POLICY_COLUMNS[:2] if column not in decisions.columns]
    if missing:
        raise InputError(
            f"{policy}: the policy must have the columns state, action and, unless it is deterministic, probability, "
            f"but lacks {', '.join(missing)}; it has {', '.join(map(str, decisions.columns))}"
        )
    states = _names([steps["state"], steps["next_state"], decisions["state"]])
    actions = _names([steps["action"], decisions["action"]])
    sizes = {
        "num_states": None if states else _size([steps["state"], steps["next_state"], decisions["state"]]),
        "num_actions": None if actions else _size([steps["action"], decisions["action"]]),
    }
    try:
        episodes = EpisodeLog.from_frame(steps, state_names=states, action_names=actions, **sizes)
    except InputError as error:
        raise InputError(f"{log}: {error}") from error
    try:
        return LoggedPolicy(episodes, policy_from_frame(decisions, episodes))
    except InputError as error:
        raise InputError(f"{policy}: {error}") from error


def read_table(path: str | Path) -> "pd.DataFrame":
    """A CSV or Parquet file as a dataframe, or an error in words."""
    pandas = import_pandas()
    source = Path(path)
    if source.suffix.lower() not in _SUFFIXES:
        raise InputError(f"cannot tell the format of {source.name!r}; end it in {' or '.join(_SUFFIXES)}")
    try:
        return pandas.read_csv(source) if source.suffix.lower() == ".csv" else pandas.read_parquet(source)
    except FileNotFoundError as error:
        raise InputError(f"cannot read {source}: no such file") from error
    except ImportError as error:
        raise InputError(f"cannot read {source}: Parquet needs pyarrow; pip install pyarrow, or write CSV") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {source}: {' '.join(str(error).split())[:200]}") from error


def policy_from_frame(frame: "pd.DataFrame", log: EpisodeLog) -> Floats:
    """[state, action] from rows of state, action and probability; what is wrong is named by row and state.

    Args:
        frame: One row for each state and action; without a probability the action is taken for certain.
        log: Which states and actions there are, and which states need a decision.
    """
    states = _indices(frame, "state", log.num_states, log.state_names)
    actions = _indices(frame, "action", log.num_actions, log.action_names)
    if "probability" in frame.columns:
        chances = import_pandas().to_numeric(frame["probability"], errors="coerce").to_numpy(np.float64)
        bad = ~((chances >= 0) & (chances <= 1 + SUM_TOLERANCE))
        if bad.any():
            at = int(bad.argmax())
            raise InputError(
                f"row {frame.index[at]}: `probability` must lie in [0, 1], got {frame['probability'].iloc[at]!r}"
            )
    else:
        chances = np.ones(len(frame))
    pairs = states * log.num_actions + actions
    _, first, times = np.unique(pairs, return_index=True, return_counts=True)
    if (times > 1).any():
        at = int(first[times > 1].min())
        raise InputError(f"each action of a state must be given once, but {_said(frame, at)} is there twice")
    policy = np.zeros((log.num_states, log.num_actions))
    np.add.at(policy, (states, actions), chances)
    sums = policy.sum(axis=1)
    given = np.zeros(log.num_states, bool)
    given[states] = True
    off = given & ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if off.any():
        state = int(off.argmax())
        raise InputError(
            f"the probabilities must sum to one in each state, got {sums[state]:.6g} in {_state(log, state)}; "
            f"{int(off.sum())} state(s) in all"
        )
    needed = np.zeros(log.num_states, bool)
    needed[log.steps().state] = True
    silent = needed & ~given
    if silent.any():
        state = int(silent.argmax())
        raise InputError(
            f"the policy must say what to do in {_state(log, state)}, which the log leaves; "
            f"{int(silent.sum())} such state(s) in all"
        )
    policy[~given] = 1 / log.num_actions  # never left in the log: nothing is decided there
    return policy / policy.sum(axis=1, keepdims=True)


def _indices(frame: "pd.DataFrame", column: str, size: int, names: tuple[str, ...] | None) -> np.ndarray:
    pandas = import_pandas()
    values = frame[column]
    if names is not None:
        found = np.asarray(pandas.Index(list(names)).get_indexer(values.astype(str)), np.int64)
    else:
        numbers = pandas.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < size)
        found = np.where(whole, np.where(whole, numbers, 0), -1).astype(np.int64)
    if (found < 0).any():
        at = int((found < 0).argmax())
        raise InputError(f"row {frame.index[at]}: `{column}` must be one that the log knows, got {values.iloc[at]!r}")
    return found


def _names(columns: list["pd.Series"]) -> tuple[str, ...] | None:
    """All names in the order of the alphabet, where any column has names; None for indices."""
    pandas = import_pandas()
    if all(pandas.api.types.is_numeric_dtype(column.dtype) for column in columns):
        return None
    values = pandas.concat([column.dropna().astype(str) for column in columns]).unique()
    return tuple(sorted(values))


def _size(columns: list["pd.Series"]) -> int | None:
    largest = max(column.max() for column in columns)
    return int(largest) + 1 if np.isfinite(largest) and largest >= 0 else None


def _state(log: EpisodeLog, state: int) -> str:
    return f"state {state}" if log.state_names is None else f"state {log.state_names[state]!r}"


def _said(frame: "pd.DataFrame", at: int) -> str:
    return f"state {frame['state'].iloc[at]}, action {frame['action'].iloc[at]}"
