"""Logged episodes and a policy, read row by row."""

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fuzz.second.reading import MustRefuseError, Sheet, Token, UnsureError, number

State = Hashable
Action = Hashable
Policy = dict[State, dict[Action, Fraction]]

_COLUMNS = ("episode", "step", "state", "action", "next_state", "reward")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Step:
    """One step of an episode."""

    state: State
    action: Action
    successor: State
    reward: Fraction


@dataclass(frozen=True)
class Log:
    """Episodes by name, in the order of their first row."""

    episodes: dict[Hashable, list[Step]]
    states: list[State]
    """In the order that couplings which go by order take."""
    actions: list[Action]

    @property
    def longest(self) -> int:
        """How many steps the longest episode has."""
        return max(len(steps) for steps in self.episodes.values())


def read_log(sheet: Sheet, decisions: Sheet) -> tuple[Log, Policy]:
    """Episodes, and what the policy does wherever the log leaves a state."""
    cells = {name: sheet.column(name) for name in _COLUMNS}
    wanted = [decisions.column("state"), decisions.column("action")]
    kinds = [
        _kind([*cells["state"], *cells["next_state"], *wanted[0]], [sheet, sheet, decisions]),
        _kind([*cells["action"], *wanted[1]], [sheet, decisions]),
    ]
    if not sheet.rows:
        raise MustRefuseError("no steps")
    rows = defaultdict(dict)
    order: list[Hashable] = []
    for episode, step, state, action, successor, reward in zip(*cells.values(), strict=True):
        name, at = _label(episode), _whole(step)
        if at in rows[name]:
            raise MustRefuseError("a step twice")
        order += [name] if name not in order else []
        earned = _finite(reward)
        rows[name][at] = Step(_label(state), _label(action), _label(successor), Fraction(earned))
    base = min(min(steps) for steps in rows.values())
    if base not in (0, 1):
        raise MustRefuseError("steps that do not count from 0 or 1")
    episodes = {}
    for name in order:
        if sorted(rows[name]) != list(range(base, base + len(rows[name]))):
            raise MustRefuseError("steps with a gap")
        steps = [rows[name][at] for at in sorted(rows[name])]
        if any(before.successor != after.state for before, after in zip(steps, steps[1:], strict=False)):
            raise MustRefuseError("an episode that jumps")
        episodes[name] = steps
    everything = [step for steps in episodes.values() for step in steps]
    states = _ordered({each for step in everything for each in (step.state, step.successor)} | _labels(wanted[0]))
    actions = _ordered({step.action for step in everything} | _labels(wanted[1]))
    del kinds
    policy = _read_policy(decisions, wanted)
    silent = [step.state for step in everything if step.state not in policy]
    if silent:
        raise MustRefuseError(f"the policy does not say what to do in {silent[0]!r}")
    return Log(episodes, states, actions), policy


def _read_policy(sheet: Sheet, wanted: list[list[Any]]) -> Policy:
    chances = sheet.column("probability") if "probability" in sheet.columns else [1] * len(sheet.rows)
    policy: Policy = defaultdict(dict)
    for state, action, chance in zip(*wanted, chances, strict=True):
        value = _finite(chance if not isinstance(chance, int) else float(chance))
        if value < 0:
            raise MustRefuseError("a negative probability")
        if _label(action) in policy[_label(state)]:
            raise MustRefuseError("an action twice in a state")
        policy[_label(state)][_label(action)] = Fraction(value)
    for state, row in policy.items():
        total = sum(row.values())
        if abs(abs(float(total) - 1) - 1e-6) < 1e-9:
            raise UnsureError("at the limit of what sums to one")
        if abs(float(total) - 1) > 1e-6:
            raise MustRefuseError(f"probabilities of {state!r} sum to {float(total)}")
        policy[state] = {action: each / total for action, each in row.items()}
    return dict(policy)


def _label(cell: Any) -> Hashable:
    if cell is None or cell != cell:
        raise MustRefuseError("a missing label")
    if isinstance(cell, Token):
        return cell.text
    if isinstance(cell, list | dict):
        raise MustRefuseError("a nested label")
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else cell


def _labels(cells: Sequence[Any]) -> set[Hashable]:
    return {_label(cell) for cell in cells}


def _kind(cells: Sequence[Any], sheets: Sequence[Sheet]) -> str:
    """What labels are; texts and numbers side by side are a matter of taste."""
    kinds = {type(_label(cell)) for cell in cells}
    if len(kinds) > 1 or len({sheet.kind == "parquet" for sheet in sheets}) > 1 and kinds != {str}:
        raise UnsureError("labels of several types")
    return "text" if kinds == {str} else "number"


def _ordered(labels: set[Any]) -> list[Hashable]:
    """Numbers by size, in words or not, then words by the alphabet; "01" comes before "1"."""

    def key(label: Any) -> tuple[bool, Fraction, str]:
        text = _NUMBER.fullmatch(label) if isinstance(label, str) else None
        counts = text is not None or isinstance(label, float)
        return not counts, Fraction(label) if counts else Fraction(0), str(label)

    return sorted(labels, key=key)


def _whole(cell: Any) -> int:
    value = number(cell)
    if value is None or not float(value).is_integer():
        raise MustRefuseError("a step that is no whole number")
    if isinstance(cell, str | Token) and not str(getattr(cell, "text", cell)).lstrip("-").isdigit():
        raise UnsureError("a step written as a fraction")
    if abs(value) > 1e15:
        raise UnsureError("a huge step")
    return int(value)


def _finite(cell: Any) -> float:
    value = number(cell)
    if value is None or abs(value) == float("inf"):
        raise MustRefuseError("a number that is missing or infinite")
    return value
