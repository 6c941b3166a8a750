"""Logs and policies from files: CSV or Parquet, with states and actions by name."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas, import_pyarrow
from countermax._core.labels import identity, listed, look_alikes
from countermax._core.memory import check_memory
from countermax._tables.files import open_table
from countermax.mdp import _frames as frames
from countermax.mdp._arrays import Floats, check_sizes
from countermax.mdp._estimation import policy_rows
from countermax.mdp._labels import Space, named, shared_names
from countermax.mdp._log import EpisodeLog, log_of_rows

if TYPE_CHECKING:
    import pandas as pd


Check: TypeAlias = Callable[[list[str]], None]

_BYTES_PER_BYTE, _BYTES_PER_CELL = 8, 80  # in memory, for a byte of a text file and for a cell of a Parquet file


def _read_columns(path: Any, wanted: Sequence[str] | None, check: Check) -> "pd.DataFrame":
    """Some columns of a file or dataframe, as far as they are there, or all; `check` may refuse it by their names."""
    import_pandas()
    if not isinstance(path, str | Path):
        frame = frames.as_pandas(path)
        check(list(map(str, frame.columns)))
        return frame if wanted is None else frame[[each for each in frame.columns if each in wanted]]
    file = open_table(path)
    wanted = list(file.names) if wanted is None else wanted
    try:
        check(list(file.names))
        kept, rows = [name for name in wanted if name in file.names], file.num_rows
        size = _BYTES_PER_BYTE * file.path.stat().st_size if rows is None else _BYTES_PER_CELL * rows * len(kept)
        what = f"reading {path}" if rows is None else f"{rows} rows of {len(kept)} columns"
        check_memory(what, size, "split the file")
    except InputError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    file.ask(None, (), flags=kept)
    parts = [part.table for part in file.chunks(2**16)]
    return import_pyarrow().concat_tables(parts).to_pandas(ignore_metadata=True)


def read_every_column(steps: Any) -> "pd.DataFrame":
    """A whole file or dataframe; what is in the cells of a CSV file is text."""
    return _read_columns(steps, None, lambda _: None)


def read_policy(policy: Any, log: EpisodeLog) -> Floats:
    """[state, action] from a file or dataframe of state, action and, unless certain, probability."""
    decisions = _read_decisions(policy, {})
    with _blaming(policy):
        return policy_from_frame(decisions, log)


def is_table(given: Any) -> TypeGuard["str | Path | pd.DataFrame"]:
    """Whether it is a file, by its path, or a dataframe."""
    return isinstance(given, str | Path) or hasattr(given, "columns")


def decisions_frame(policy: "Mapping[Hashable, Hashable | Mapping[Hashable, float]]") -> "pd.DataFrame":
    """An action for each state, or a probability for each of several, as rows of state, action and probability."""
    found = [
        (state, action, chance)
        for state, done in policy.items()
        for action, chance in (done.items() if isinstance(done, Mapping) else [(done, 1.0)])
    ]
    return import_pandas().DataFrame(found, columns=[*frames.POLICY_COLUMNS, frames.PROBABILITY])


def _read_decisions(policy: Any, called: Mapping[str, str]) -> "pd.DataFrame":
    """The rows of a policy, whose columns may be called as those of the log are."""
    wanted, ours = (*frames.POLICY_COLUMNS, frames.PROBABILITY), {called[name]: name for name in called}

    def check(names: list[str]) -> None:
        names = [ours.get(each, each) for each in names if each not in ours or ours[each] not in names]
        frames.require_columns(names, frames.POLICY_COLUMNS, (frames.PROBABILITY,), frames.POLICY_RULE)
        if set(frames.LOG_COLUMNS) <= set(names) and frames.PROBABILITY not in names:
            raise InputError(f"{frames.POLICY_RULE}, but has those of a log; are the two files swapped?")

    read = _read_columns(policy, (*wanted, *ours), check)
    return read.rename(columns={theirs: name for theirs, name in ours.items() if name not in read.columns})


@final
@dataclass(frozen=True)
class StepsFile:
    """Steps, in a CSV or Parquet file or a dataframe, whose columns have other names, or lack what follows from others.

    Args:
        path: File of steps, or a dataframe.
        columns: Columns of a file of steps, by what they stand for: episode=patient,step=day. Without step, time has
            the order; without next_state, the last row leads to outcome.
        score: Score of each final outcome, where a file of steps has no reward: home=1,dead=0.
    """

    path: "str | Path | pd.DataFrame"
    columns: Mapping[str, str] | None = None
    score: Mapping[Hashable, int | float] | None = None


class LoggedPolicy(NamedTuple):
    """A log and a policy that speak of the same states and actions."""

    log: EpisodeLog
    policy: Floats


def read_log_and_policy(
    log: "StepsFile | str | Path | pd.DataFrame",
    policy: "str | Path | pd.DataFrame",
) -> LoggedPolicy:
    """Reads steps and decisions, each from a file or a dataframe.

    The log has the columns episode, step, state, action, next_state and reward, unless a `StepsFile` says otherwise.
    The policy has state and action, and probability unless it takes one action in each state.

    States, actions and episodes are names. In CSV a name is the exact text of its cell, so that 01 and 1 are two
    states; in Parquet it is a value of the column's type. They are counted as they occur in either file, numbers by
    size, then words by the alphabet. Couplings that go by the order of outcomes, and mechanisms trained on a process,
    follow that order; `log.state_names` has it, and `EpisodeLog.from_frame` takes another one. The policy must say what
    to do in every state that the log leaves.
    """
    file, steps = _read_steps(log)
    decisions = _read_decisions(policy, frames.checked_columns(file.columns))
    of_log, of_policy = _called("the log", file.path), _called("the policy", policy)
    visited = [(of_log, steps.rows["state"]), (of_log, steps.rows["next_state"]), (of_policy, decisions["state"])]
    taken = [(of_log, steps.rows["action"]), (of_policy, decisions["action"])]
    states, actions = shared_names(visited), shared_names(taken)
    with _blaming(file.path):
        episodes = log_of_rows(steps, Space(len(states), states), Space(len(actions), actions))
    seen = set(map(identity, shared_names(visited[:2])))
    spare = [each for each in states if identity(each) not in seen]
    if spare:
        told = f"The policy also speaks of {listed(spare)}, where nobody was."
        episodes = replace(episodes, notes=(*episodes.notes, told))
    with _blaming(policy):
        return LoggedPolicy(episodes, policy_from_frame(decisions, episodes))


def read_log(log: "StepsFile | str | Path | pd.DataFrame") -> EpisodeLog:
    """Reads steps, as `read_log_and_policy` does."""
    file, steps = _read_steps(log)
    of_log = _called("the log", file.path)
    states = shared_names([(of_log, steps.rows["state"]), (of_log, steps.rows["next_state"])])
    actions = shared_names([(of_log, steps.rows["action"])])
    with _blaming(file.path):
        return log_of_rows(steps, Space(len(states), states), Space(len(actions), actions))


def _called(what: str, source: Any) -> str:
    return f"{what} {source}" if isinstance(source, str | Path) else what


def _read_steps(log: "StepsFile | str | Path | pd.DataFrame") -> tuple[StepsFile, frames.Arranged]:
    """Steps, and their rows by our names of columns."""
    file = log if isinstance(log, StepsFile) else StepsFile(log)
    called = frames.checked_columns(file.columns)
    ours = {theirs: name for name, theirs in called.items()}
    wanted = [called.get(name, name) for name in (*frames.LOG_COLUMNS, "time", "outcome")]

    def check(names: list[str]) -> None:
        for name, theirs in called.items():
            if theirs not in names:
                raise InputError(f"`columns` calls {name} {theirs!r}, but the columns are {listed(names)}")
        names = [ours.get(name, name) for name in names]
        swapped = {frames.PROBABILITY, *frames.POLICY_COLUMNS} <= set(names)
        hint = "; are the two files swapped?" if swapped else ""
        needed = frames.needed_columns(names, file.score is not None)
        frames.require_columns(names, needed, (), frames.LOG_RULE, hint=hint)

    steps = _read_columns(file.path, wanted, check)
    if steps.empty:
        raise InputError(
            f"{_called('', file.path).strip() or 'frame'}: the log must hold at least one step, got no rows"
        )
    with _blaming(file.path):
        return file, frames.arranged(steps, file.columns, file.score)


def policy_from_frame(frame: "pd.DataFrame", log: EpisodeLog) -> Floats:
    """[state, action] from rows of state, action and probability; what is wrong is named by row and state."""
    spaces = Space(log.num_states, log.state_names), Space(log.num_actions, log.action_names)
    states, actions, probabilities = frames.read_decisions(frame, *spaces)
    check_sizes(log.num_states, log.num_actions)
    policy = np.zeros((log.num_states, log.num_actions))
    policy[states, actions] = probabilities
    times = np.bincount(states, minlength=log.num_states)
    if frames.PROBABILITY not in frame.columns and (times > 1).any():
        several = named("state", int((times > 1).argmax()), log.state_names)
        raise InputError(f"the policy must have a column probability if a state has several actions, as {several} has")
    silent = times == 0
    needed = np.zeros(log.num_states, bool)
    needed[log.steps().state] = True
    if (silent & needed).any():
        state = int((silent & needed).argmax())
        visited = np.zeros(log.num_states, bool)
        visited[np.concatenate([log.steps().state, log.last_states])] = True
        names = log.state_names or ()
        unknown = [names[each] for each in np.flatnonzero(~silent & ~visited)] if names else []
        alike = next((some for some in look_alikes(names) if names[state] in some), ())
        hint = f"; the log has no {listed(unknown)}" if unknown else ""
        hint = f"; {listed(alike)} differ in how they are written" if alike else hint
        more = int((silent & needed).sum()) - 1
        raise InputError(
            "the policy must have a row for each state in which the log acts, but has none for "
            f"{listed(log.state_names[state : state + 1]) if log.state_names else f'state {state}'}"
            f"{f' (and {more} more)' if more else ''}{hint}"
        )
    policy[silent] = 1 / log.num_actions  # never left in the log: nothing is decided there
    return policy_rows(log, policy)


@contextmanager
def _blaming(path: Any) -> Iterator[None]:
    """Puts the file's name, where it is one, before whatever is wrong with what it holds."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}" if isinstance(path, str | Path) else str(error)) from error
