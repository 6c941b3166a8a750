"""Logs and policies from files: CSV or Parquet, with states and actions by name."""

import csv
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas, import_pyarrow
from countermax._core.labels import listed, look_alikes
from countermax._core.memory import check_memory
from countermax.mdp._arrays import Floats, check_sizes
from countermax.mdp._estimation import policy_rows
from countermax.mdp._frames import (
    LOG_COLUMNS,
    LOG_RULE,
    POLICY_COLUMNS,
    POLICY_RULE,
    PROBABILITY,
    read_decisions,
    require_columns,
)
from countermax.mdp._labels import Names, Space, as_names, named, shared_names
from countermax.mdp._log import EpisodeLog

if TYPE_CHECKING:
    import pandas as pd


Check: TypeAlias = Callable[[list[str]], None]

_SUFFIXES = (".csv", ".parquet")
_LONGEST_CELL = 2**31 - 1  # the largest limit that every system takes
_limit_is_ours = threading.Lock()
_BYTES_PER_BYTE, _BYTES_PER_CELL = 8, 80  # in memory, for a byte of a CSV file and for a cell of a Parquet file


def read_table(path: str | Path, wanted: Sequence[str], check: Check) -> "pd.DataFrame":
    """Some columns of a CSV or Parquet file, or an error that says why. Only an empty cell is missing.

    Args:
        path: The file.
        wanted: Columns that are read, as far as they are there.
        check: Function that may refuse the file by the names of its columns, before anything else in it is read.
    """
    source = Path(path)
    if source.suffix.lower() not in _SUFFIXES:
        raise InputError(f"cannot tell the format of {source.name!r}; end it in {' or '.join(_SUFFIXES)}")
    read = _read_parquet if source.suffix.lower() == ".parquet" else _read_csv
    try:
        return read(source, wanted, check)
    except InputError as error:
        raise InputError(f"cannot read {source}: {error}") from error
    except FileNotFoundError as error:
        raise InputError(f"cannot read {source}: no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"cannot read {source}: it must be UTF-8 text, but byte {error.start} is {error.object[error.start]:#04x}; "
            "save it as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {source}: {_told(error.strerror or error)}") from error


def _read_csv(source: Path, wanted: Sequence[str], check: Check) -> "pd.DataFrame":
    check_memory(f"reading {source}", _BYTES_PER_BYTE * source.stat().st_size, "split the file")
    try:
        with source.open(encoding="utf-8-sig", newline="") as file, _cells_of_any_length():
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            if not header:
                raise InputError("the file must begin with the names of columns, but is empty")
            check(header)
            kept = [(name, header.index(name)) for name in wanted if name in header]
            columns: dict[str, list[str | None]] = {name: [] for name, _ in kept}
            once: dict[str, str | None] = {"": None}  # a text that stands in many cells is kept once
            rows = 0
            for cells in lines:
                if len(cells) != len(header):
                    if not cells:  # an empty line
                        continue
                    raise InputError(f"row {rows} must have {len(header)} cells like the header, got {len(cells)}")
                for name, place in kept:
                    columns[name].append(once.setdefault(cells[place], cells[place]))
                rows += 1
    except csv.Error as error:
        raise InputError(f"the file must be CSV, but line {lines.line_num} is not: {error}") from error
    pandas = import_pandas()
    return pandas.DataFrame({name: pandas.Series(cells, dtype=object) for name, cells in columns.items()})


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lifts the limit that Python's reader has for all threads at once; whoever set it finds it as it was."""
    with _limit_is_ours:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _read_parquet(source: Path, wanted: Sequence[str], check: Check) -> "pd.DataFrame":
    try:
        pyarrow = import_pyarrow()
    except ImportError as error:
        raise InputError(f"Parquet needs pyarrow: {error}; or write CSV") from error
    import_pandas()
    try:
        with source.open("rb") as opened, pyarrow.parquet.ParquetFile(opened, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            check(names)
            kept = [name for name in wanted if name in names]
            cells = file.metadata.num_rows * len(kept)
            check_memory(
                f"{file.metadata.num_rows} rows of {len(kept)} columns", _BYTES_PER_CELL * cells, "split the file"
            )
            table = file.read(columns=kept)
            table.validate(full=True)  # Arrow takes it on trust that texts are UTF-8
            return table.to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the file must be Parquet that can be read, but: {_told(error)}") from error


def _told(error: object) -> str:
    return " ".join(str(error).split())[:200]


class LoggedPolicy(NamedTuple):
    """A log and a policy that speak of the same states and actions."""

    log: EpisodeLog
    policy: Floats


def read_log_and_policy(
    log: str | Path,
    policy: str | Path,
    *,
    state_names: Sequence[Hashable] | None = None,
    action_names: Sequence[Hashable] | None = None,
) -> LoggedPolicy:
    """Reads a file of steps and a file of decisions.

    The log has the columns episode, step, state, action, next_state and reward. The policy has state and action, and
    probability unless it takes one action in each state.

    States, actions and episodes are names. In CSV a name is the exact text of its cell, so that 01 and 1 are two
    states; in Parquet it is a value of the column's type. By default they are counted as they occur in either file,
    numbers by size, then words by the alphabet. Couplings that go by the order of outcomes, and mechanisms trained on
    a process, follow that order; `log.state_names` has it.

    Args:
        log: A CSV or Parquet file.
        policy: A CSV or Parquet file; it must say what to do in every state that the log leaves.
        state_names: The states in another order, or more of them than occur; text for CSV.
        action_names: The same for actions.
    """
    steps = read_table(log, LOG_COLUMNS, _check_log)
    decisions = read_table(policy, (*POLICY_COLUMNS, PROBABILITY), _check_policy)
    if steps.empty:
        raise InputError(f"{log}: the log must hold at least one step, got no rows")
    of_log, of_policy = f"the log {log}", f"the policy {policy}"
    states = _names(
        "state_names",
        state_names,
        [(of_log, steps["state"]), (of_log, steps["next_state"]), (of_policy, decisions["state"])],
    )
    actions = _names("action_names", action_names, [(of_log, steps["action"]), (of_policy, decisions["action"])])
    with _blaming(log):
        episodes = EpisodeLog.from_frame(steps, state_names=states, action_names=actions)
    with _blaming(policy):
        return LoggedPolicy(episodes, policy_from_frame(decisions, episodes))


def policy_from_frame(frame: "pd.DataFrame", log: EpisodeLog) -> Floats:
    """[state, action] from rows of state, action and probability; what is wrong is named by row and state.

    Args:
        frame: One row for each state and action; without a probability the action is taken for certain.
        log: Log that says which states and actions there are, and which states need a decision.
    """
    read = read_decisions(frame, Space(log.num_states, log.state_names), Space(log.num_actions, log.action_names))
    check_sizes(log.num_states, log.num_actions)
    policy = np.zeros((log.num_states, log.num_actions))
    policy[read.states, read.actions] = read.probabilities
    times = np.bincount(read.states, minlength=log.num_states)
    if PROBABILITY not in frame.columns and (times > 1).any():
        several = named("state", int((times > 1).argmax()), log.state_names)
        raise InputError(
            f"the policy must have a column {PROBABILITY} if a state has several actions, as {several} has"
        )
    silent = times == 0
    needed = np.zeros(log.num_states, bool)
    needed[log.steps().state] = True
    if (silent & needed).any():
        state = int((silent & needed).argmax())
        raise InputError(
            f"the policy must say what to do in {named('state', state, log.state_names)}, which the log leaves; "
            f"{int((silent & needed).sum())} such state(s) in all{_resemblance(state, log.state_names)}"
        )
    policy[silent] = 1 / log.num_actions  # never left in the log: nothing is decided there
    return policy_rows(log, policy)


def _resemblance(state: int, names: Names | None) -> str:
    """For a state that a policy lacks: which other one looks like it."""
    for group in look_alikes(names or ()):
        if names is not None and names[state] in group:
            return f"; {listed(group)} differ in how they are written"
    return ""


def _check_log(names: list[str]) -> None:
    swapped = PROBABILITY in names and set(POLICY_COLUMNS) <= set(names)
    require_columns(names, LOG_COLUMNS, (), LOG_RULE, hint="; are the two files swapped?" if swapped else "")


def _check_policy(names: list[str]) -> None:
    require_columns(names, POLICY_COLUMNS, (PROBABILITY,), POLICY_RULE)
    if set(LOG_COLUMNS) <= set(names) and PROBABILITY not in names:
        raise InputError(f"{POLICY_RULE}, but has those of a log; are the two files swapped?")


def _names(argument: str, given: Sequence[Hashable] | None, columns: list[tuple[str, "pd.Series"]]) -> Names | None:
    return shared_names(columns) if given is None else as_names(argument, given, None)


@contextmanager
def _blaming(path: str | Path) -> Iterator[None]:
    """Puts the file's name before whatever is wrong with what it holds."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
