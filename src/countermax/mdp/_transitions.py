"""A list of transitions, checked entry by entry and packed into rows of supports."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.mdp._arrays import (
    MOST_REWARD,
    SUM_TOLERANCE,
    Floats,
    Ints,
    Values,
    as_booleans,
    as_counts,
    as_floats,
    as_indices,
    as_mask,
    as_whole,
    check_sizes,
)


class TransitionList(NamedTuple):
    """One entry for each (state, action, successor): its probability, its reward, how often it was seen."""

    state: Ints
    action: Ints
    successor: Ints
    probs: Floats
    rewards: Floats
    counts: Ints | None
    reward_variances: Floats | None

    def take(self, entries: NDArray[np.bool_] | Ints) -> "TransitionList":
        """Some of the entries, or all of them in another order."""
        return TransitionList(
            self.state[entries],
            self.action[entries],
            self.successor[entries],
            self.probs[entries],
            self.rewards[entries],
            None if self.counts is None else self.counts[entries],
            None if self.reward_variances is None else self.reward_variances[entries],
        )


def transitions_from(columns: Mapping[str, Values | None], *, num_states: int, num_actions: int) -> TransitionList:
    """The entries in the order of (state, action, successor); what is wrong with one is named by these three."""
    wanted = {name: columns[name] for name in TransitionList._fields if name in columns}
    given = {name: values for name, values in wanted.items() if values is not None}
    missing = [name for name in TransitionList._fields[:5] if name not in given]
    if missing:
        raise InputError(f"`transitions` must have {', '.join(TransitionList._fields[:5])}, but lacks {missing}")
    entries = TransitionList(
        as_indices("state", given["state"], num_states),
        as_indices("action", given["action"], num_actions),
        as_indices("successor", given["successor"], num_states),
        as_floats("probs", given["probs"]),
        as_floats("rewards", given["rewards"]),
        as_counts(given["counts"]) if "counts" in given else None,
        as_floats("reward_variances", given["reward_variances"]) if "reward_variances" in given else None,
    )
    shapes = {each.shape for each in entries if each is not None}
    if len(shapes) > 1 or entries.state.ndim != 1:
        raise InputError(f"transitions must be vectors of one length, got shapes {sorted(shapes)}")
    cells = (entries.state * num_actions + entries.action) * num_states + entries.successor
    if not (cells[1:] > cells[:-1]).all():
        entries = entries.take(np.argsort(cells, kind="stable"))

    def refuse(bad: NDArray[np.bool_], rule: str, values: NDArray | None = None) -> None:
        if bad.any():
            at = int(bad.argmax())
            got = "" if values is None else f", got {values[at]:g}"
            where = f"state {entries.state[at]}, action {entries.action[at]}, next state {entries.successor[at]}"
            raise InputError(f"{where}: {rule}{got}")

    refuse(~((entries.probs >= 0) & (entries.probs < np.inf)), "`probs` must be finite and not negative", entries.probs)
    far = ~(np.abs(entries.rewards) <= MOST_REWARD)
    refuse(far, f"`rewards` must be finite, and lie within {MOST_REWARD:g}", entries.rewards)
    if entries.reward_variances is not None:
        spread = ~((entries.reward_variances >= 0) & (entries.reward_variances <= MOST_REWARD**2))
        refuse(spread, "`reward_variances` must be finite and not negative", entries.reward_variances)
    again = [each[1:] == each[:-1] for each in (entries.state, entries.action, entries.successor)]
    refuse(np.append(np.all(again, axis=0), False), "each transition must be given once, got two")
    return entries


def entries_of_dense(
    transitions: Values,
    rewards: Values,
    counts: Values | None,
    reward_variances: Values | None,
    *,
    absorbing: Values | None,
    allowed: NDArray[np.bool_] | None,
    action_axis: int,
) -> tuple[TransitionList, tuple[int, int]]:
    """The entries of full arrays that are not zero, still unchecked, and the numbers of states and actions."""
    as_whole("action_axis", action_axis, least=0, most=1)
    array = as_floats("transitions", transitions)
    if array.ndim != 3 or array.shape[2] != array.shape[1 - action_axis] or array.size == 0:
        layout = "[action, state, next state]" if action_axis == 0 else "[state, action, next state]"
        other = array.ndim == 3 and array.shape[2] == array.shape[action_axis]
        hint = f"; set `action_axis` to {1 - action_axis}" if other else ""
        raise InputError(f"`transitions` must be {layout}, got shape {array.shape}{hint}")
    array = np.moveaxis(array, action_axis, 1)
    gains = as_floats("rewards", rewards)
    wanted = {3: array.shape, 2: array.shape[:2], 1: array.shape[2:]}
    if gains.ndim in (2, 3):
        gains = np.moveaxis(gains, action_axis, 1)
    if gains.shape != wanted.get(gains.ndim):
        raise InputError(
            "`rewards` must be given for each transition, for each state and action, or for each next state, "
            f"got shape {np.asarray(rewards).shape} beside transitions of shape {np.asarray(transitions).shape}"
        )
    seen = None if counts is None else as_floats("counts", counts)
    if seen is not None and seen.shape != np.shape(transitions):
        raise InputError(f"`counts` must have the shape of `transitions`, got {seen.shape}")
    seen = None if seen is None else np.moveaxis(seen, action_axis, 1)
    there = np.ones(array.shape[:2], bool) if allowed is None else as_booleans("allowed", allowed)
    if there.shape != array.shape[:2]:
        raise InputError(f"`allowed` must be [state, action] of shape {array.shape[:2]}, got {there.shape}")
    empty = there & ~as_mask("absorbing", absorbing, len(array))[:, None] & ~array.any(axis=2)
    if empty.any():
        s, a = divmod(int(empty.argmax()), array.shape[1])
        raise InputError(
            f"probabilities must sum to one over next states, but state {s}, action {a} sums to 0; "
            "if the action cannot be taken there, say so with `allowed`"
        )
    state, action, successor = np.nonzero(array * there[:, :, None])
    where = {3: (state, action, successor), 2: (state, action), 1: (successor,)}[gains.ndim]
    entry = state, action, successor
    times = None if seen is None else as_counts(seen[entry])
    spread = None if reward_variances is None else as_floats("reward_variances", reward_variances)
    if spread is not None and spread.shape != np.shape(transitions):
        raise InputError(f"`reward_variances` must have the shape of `transitions`, got {spread.shape}")
    spread = None if spread is None else np.moveaxis(spread, action_axis, 1)[entry]
    return TransitionList(*entry, array[entry], gains[where], times, spread), array.shape[:2]


class PaddedRows(NamedTuple):
    """Supports padded to the widest row; the padding has probability, reward, variance and count zero."""

    successors: Ints
    probs: Floats
    rewards: Floats
    counts: Ints | None
    reward_variances: Floats | None


def pack(transitions: TransitionList, *, num_states: int, num_actions: int, absorbing: NDArray[np.bool_]) -> PaddedRows:
    """Rows that sum to one; absorbing states keep to themselves and earn nothing."""
    leaving = absorbing[transitions.state]
    entries = transitions.take(~leaving) if leaving.any() else transitions
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
    sizes = np.bincount(row[kept], minlength=num_states * num_actions)
    width = max(1, int(sizes.max(initial=0)))
    check_sizes(num_states, num_actions, width)
    filled = np.arange(width) < sizes[:, None]

    def padded(values: NDArray, at_home: NDArray | int) -> NDArray:
        flat = np.zeros((num_states * num_actions, width), values.dtype)
        flat[filled] = values if kept.all() else values[kept]
        flat.reshape(num_states, num_actions, width)[absorbing, :, 0] = at_home
        flat.shape = (num_states, num_actions, width)  # in place, so that the array owns its memory
        flat.setflags(write=False)
        return flat

    return PaddedRows(
        padded(entries.successor, np.flatnonzero(absorbing)[:, None]),
        padded(entries.probs / sums[row], 1),
        padded(entries.rewards, 0),
        None if entries.counts is None else padded(entries.counts, 0),
        None if entries.reward_variances is None else padded(entries.reward_variances, 0),
    )


def check_rows(
    rows: PaddedRows, absorbing: NDArray[np.bool_], allowed: NDArray[np.bool_], where: Callable[[int, int], str]
) -> None:
    """What every later computation takes for granted about rows; `where` names a state and an action."""
    successors, probs, rewards, _, variances = rows

    def refuse(bad: NDArray[np.bool_], problem: str) -> None:
        if bad.any():
            raise InputError(f"{where(*divmod(int(bad.argmax()), probs.shape[1]))}: {problem}")

    reachable = probs > 0
    at_home = np.where(absorbing[:, None], np.arange(len(probs))[:, None], successors[:, :, 0])
    unusable = ~(probs >= 0) | ~((rewards >= -MOST_REWARD) & (rewards <= MOST_REWARD))
    refuse(unusable.sum(axis=2) > 0, f"needs probabilities, and finite rewards within {MOST_REWARD:g}")
    if variances is not None:
        strange = ~((variances >= 0) & (variances <= MOST_REWARD**2))
        refuse(strange.sum(axis=2) > 0, "needs variances of rewards that are finite and not negative")
        refuse(absorbing[:, None] & (variances[:, :, 0] != 0), "an absorbing state must earn nothing")
    refuse(
        ~(np.abs(probs.sum(axis=2) - allowed) <= SUM_TOLERANCE),
        "probabilities must sum to one, or to zero where the action is not allowed",
    )
    disorder = reachable[:, :, 1:] & ~(reachable[:, :, :-1] & (successors[:, :, 1:] > successors[:, :, :-1]))
    refuse(disorder.sum(axis=2) > 0, "reachable successors must come first, in ascending order")
    refuse(
        absorbing[:, None] & ((probs[:, :, 0] < 1) | (at_home != successors[:, :, 0])),
        "an absorbing state must lead to itself",
    )
    refuse(absorbing[:, None] & (rewards[:, :, 0] != 0), "an absorbing state must earn nothing")
