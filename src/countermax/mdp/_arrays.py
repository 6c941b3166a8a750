"""A list of transitions, checked entry by entry and packed into rows of supports."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Values: TypeAlias = ArrayLike | Sequence[Any]
"""An array as people write it down: an array, a number, a list, a list of lists."""

SUM_TOLERANCE = 1e-6


class Transitions(NamedTuple):
    """One entry for each (state, action, successor): its probability, its reward, how often it was seen."""

    state: Ints
    action: Ints
    successor: Ints
    probs: Floats
    rewards: Floats
    counts: Ints | None

    def take(self, entries: NDArray[np.bool_] | Ints) -> "Transitions":
        """Some of the entries, or all of them in another order."""
        return Transitions(
            self.state[entries],
            self.action[entries],
            self.successor[entries],
            self.probs[entries],
            self.rewards[entries],
            None if self.counts is None else self.counts[entries],
        )


def transitions_from(
    state: Values,
    action: Values,
    successor: Values,
    probs: Values,
    rewards: Values,
    counts: Values | None,
    *,
    num_states: int,
    num_actions: int,
) -> Transitions:
    """The entries in the order of (state, action, successor); what is wrong with one is named by these three."""
    entries = Transitions(
        as_indices("state", state, num_states),
        as_indices("action", action, num_actions),
        as_indices("successor", successor, num_states),
        as_floats("probs", probs),
        as_floats("rewards", rewards),
        None if counts is None else as_counts(counts),
    )
    shapes = {each.shape for each in entries if each is not None}
    if len(shapes) > 1 or entries.state.ndim != 1:
        raise InputError(f"transitions must be vectors of one length, got shapes {sorted(shapes)}")
    entries = entries.take(np.lexsort((entries.successor, entries.action, entries.state)))

    def refuse(bad: NDArray[np.bool_], rule: str, values: NDArray | None = None) -> None:
        if bad.any():
            at = int(bad.argmax())
            got = "" if values is None else f", got {values[at]:g}"
            where = f"state {entries.state[at]}, action {entries.action[at]}, next state {entries.successor[at]}"
            raise InputError(f"{where}: {rule}{got}")

    refuse(~((entries.probs >= 0) & (entries.probs < np.inf)), "`probs` must be finite and not negative", entries.probs)
    refuse(~np.isfinite(entries.rewards), "`rewards` must be finite", entries.rewards)
    again = [each[1:] == each[:-1] for each in (entries.state, entries.action, entries.successor)]
    refuse(np.append(np.all(again, axis=0), False), "each transition must be given once, got two")
    return entries


class Rows(NamedTuple):
    """Supports padded to the widest row; the padding has probability, reward and count zero."""

    successors: Ints
    probs: Floats
    rewards: Floats
    counts: Ints | None


def pack(transitions: Transitions, *, num_states: int, num_actions: int, absorbing: NDArray[np.bool_]) -> Rows:
    """Rows that sum to one; absorbing states keep to themselves and earn nothing."""
    entries = transitions.take(~absorbing[transitions.state])
    row = entries.state * num_actions + entries.action
    sums = np.bincount(row, entries.probs, minlength=num_states * num_actions)
    given = np.bincount(row, minlength=num_states * num_actions) > 0
    bad = given & ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if bad.any():
        state, action = divmod(int(bad.argmax()), num_actions)
        raise InputError(
            f"probabilities must sum to one over next states, but state {state}, action {action} sums to "
            f"{sums[bad.argmax()]:.6g}; {int(bad.sum())} row(s) are wrong in all"
        )
    kept = entries.probs > 0
    row = row[kept]
    slot = np.arange(len(row)) - np.searchsorted(row, row)
    width = max(1, int(slot.max(initial=0)) + 1)

    def padded(values: NDArray, at_home: NDArray | int) -> NDArray:
        table = np.zeros((num_states * num_actions, width), values.dtype)
        table[row, slot] = values[kept]
        rows = table.reshape(num_states, num_actions, width)
        rows[absorbing, :, 0] = at_home
        return rows

    return Rows(
        padded(entries.successor, np.flatnonzero(absorbing)[:, None]),
        padded(entries.probs / sums[entries.state * num_actions + entries.action], 1),
        padded(entries.rewards, 0),
        None if entries.counts is None else padded(entries.counts, 0),
    )


def as_floats(name: str, values: Values) -> Floats:
    """Numbers in double precision."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers, got {str(values)[:60]!r}") from error


def as_indices(name: str, values: Values, size: int) -> Ints:
    """Integers in 0..size-1; the first other one is named with its place."""
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"`{name}` must hold integers, got {array.dtype}")
    bad = (array < 0) | (array >= size)
    if bad.any():
        place = int(bad.argmax())
        raise InputError(f"`{name}` must lie in 0..{size - 1}, got {array.ravel()[place]} at entry {place}")
    return array.astype(np.int64)


def as_counts(counts: Values) -> Ints:
    """Whole numbers that are not negative."""
    array = as_floats("counts", counts)
    bad = ~(array >= 0) | (array != np.floor(array))
    if bad.any():
        raise InputError(f"`counts` must hold whole numbers, got {array.ravel()[bad.argmax()]:g}")
    return array.astype(np.int64)


def as_mask(name: str, states: Values | None, size: int) -> NDArray[np.bool_]:
    """A mask over states, from a mask or from indices."""
    if states is None:
        return np.zeros(size, bool)
    array = np.asarray(states)
    if array.dtype == bool:
        if array.shape != (size,):
            raise InputError(f"`{name}` must mark each of {size} states, got shape {array.shape}")
        return array.copy()
    mask = np.zeros(size, bool)
    mask[as_indices(name, np.atleast_1d(array), size)] = True
    return mask


def as_start(start: Values, num_states: int) -> Floats:
    """A distribution of first states, from one or from a single state's index."""
    array = np.asarray(start)
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer):
        return np.eye(num_states)[as_indices("start", array, num_states)]
    probs = as_floats("start", start)
    if probs.shape != (num_states,):
        raise InputError(f"`start` must have one probability for each of {num_states} states, got shape {probs.shape}")
    bad = ~((probs >= 0) & (probs < np.inf))
    if bad.any():
        state = int(bad.argmax())
        raise InputError(f"`start` must be finite and not negative, got {probs[state]:g} for state {state}")
    if not abs(probs.sum() - 1) <= SUM_TOLERANCE:
        raise InputError(f"`start` must sum to one, got {probs.sum():.6g}")
    return probs / probs.sum()
