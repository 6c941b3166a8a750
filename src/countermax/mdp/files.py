"""Logs and policies as files have them: CSV or Parquet, with indices or with names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax.mdp._arrays import Floats, named
from countermax.mdp._frames import LOG_COLUMNS, POLICY_COLUMNS, Space, by_name, read_decisions, require, shared_space
from countermax.mdp.log import EpisodeLog
from countermax.mdp.policies import policy_rows

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".parquet")


class LoggedPolicy(NamedTuple):
    """A log and a policy that speak of the same states and actions."""

    log: EpisodeLog
    policy: Floats


def read_log_and_policy(log: str | Path, policy: str | Path) -> LoggedPolicy:
    """Reads a file of steps and a file of decisions.

    The log has the columns episode, step, state, action, next_state and reward. The policy has state and action, and
    probability unless it takes one action in each state. States and actions are indices or names, alike in both.

    Args:
        log: A CSV or Parquet file.
        policy: A CSV or Parquet file; it must say what to do in every state that the log leaves.
    """
    steps, decisions = _read(log), _read(policy)
    with _blaming(log):
        require(steps, LOG_COLUMNS, f"the log must have the columns {', '.join(LOG_COLUMNS)}")
    with _blaming(policy):
        require(decisions, POLICY_COLUMNS, "the policy must have the columns state and action")
    states = shared_space([steps["state"], steps["next_state"], decisions["state"]])
    actions = shared_space([steps["action"], decisions["action"]])
    if states.names is not None:
        steps, decisions = by_name(steps, ["state", "next_state"]), by_name(decisions, ["state"])
    if actions.names is not None:
        steps, decisions = by_name(steps, ["action"]), by_name(decisions, ["action"])
    with _blaming(log):
        episodes = EpisodeLog.from_frame(
            steps,
            num_states=states.size,
            num_actions=actions.size,
            state_names=states.names,
            action_names=actions.names,
        )
    with _blaming(policy):
        return LoggedPolicy(episodes, policy_from_frame(decisions, episodes))


def policy_from_frame(frame: "pd.DataFrame", log: EpisodeLog) -> Floats:
    """[state, action] from rows of state, action and probability; what is wrong is named by row and state.

    Args:
        frame: One row for each state and action; without a probability the action is taken for certain.
        log: Which states and actions there are, and which states need a decision.
    """
    read = read_decisions(frame, Space(log.num_states, log.state_names), Space(log.num_actions, log.action_names))
    policy = np.zeros((log.num_states, log.num_actions))
    policy[read.states, read.actions] = read.probabilities
    silent = np.ones(log.num_states, bool)
    silent[read.states] = False
    needed = np.zeros(log.num_states, bool)
    needed[log.steps().state] = True
    if (silent & needed).any():
        state = int((silent & needed).argmax())
        raise InputError(
            f"the policy must say what to do in {named('state', state, log.state_names)}, which the log leaves; "
            f"{int((silent & needed).sum())} such state(s) in all"
        )
    policy[silent] = 1 / log.num_actions  # never left in the log: nothing is decided there
    return policy_rows(log, policy)


def _read(path: str | Path) -> "pd.DataFrame":
    """A CSV or Parquet file as a frame, or an error in words."""
    pandas = import_pandas()
    source = Path(path)
    if source.suffix.lower() not in _SUFFIXES:
        raise InputError(f"cannot tell the format of {source.name!r}; end it in {' or '.join(_SUFFIXES)}")
    try:
        if source.suffix.lower() == ".parquet":
            return pandas.read_parquet(source)
        return pandas.read_csv(source, keep_default_na=False, na_values=[""])  # "None" and "NA" are names
    except FileNotFoundError as error:
        raise InputError(f"cannot read {source}: no such file") from error
    except ImportError as error:
        raise InputError(f"cannot read {source}: Parquet needs pyarrow; pip install pyarrow, or write CSV") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {source}: {' '.join(str(error).split())[:200]}") from error


@contextmanager
def _blaming(path: str | Path) -> Iterator[None]:
    """Puts the file's name before whatever is wrong with what it holds."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
