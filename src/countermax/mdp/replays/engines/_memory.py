"""What compiled walks read and write: rows of the process, what was seen, episodes in order, room for one row.

Compiled code that is kept between runs knows these classes by name: who renames one removes `*.nbi` and `*.nbc` files.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int
from numba import njit


class FlatRows(NamedTuple):
    """The process, its rows one after the other, without padding; labels ascend along a row."""

    start: Int[np.ndarray, " rows_and_one"]
    """Where the row `state * num_actions + action` starts; one more, where the last one ends."""
    label: Int[np.ndarray, " slots"]
    successor: Int[np.ndarray, " slots"]
    chance: Float[np.ndarray, " slots"]
    gain: Float[np.ndarray, " slots"]
    variance: Float[np.ndarray, " slots"]
    """Empty where gains do not vary."""
    ends: Bool[np.ndarray, " s"]
    num_actions: int
    width: int
    num_labels: int
    common_gain: Float[np.ndarray, " s"]
    """The part of a gain that the successor alone decides, if that is all that differs along any row; else empty."""


class Seen(NamedTuple):
    """What the log says, by the number of a transition."""

    state: Int[np.ndarray, " f"]
    action: Int[np.ndarray, " f"]
    slot: Int[np.ndarray, " f"]
    """Among the slots of all rows."""
    table: Int[np.ndarray, " f"]
    """Which table of choices holds then."""
    doing: Float[np.ndarray, " f"]
    """How likely what was done was; empty where the tables are all that there is to know."""
    steady: Bool[np.ndarray, " f"]
    """Where the same is done as was; beside `doing`."""


class Walk(NamedTuple):
    """Episodes in an order in which neighbours have much in common."""

    order: Int[np.ndarray, " n"]
    shared: Int[np.ndarray, " n"]
    """How many steps each has in common with the one before it in the order."""
    first: Int[np.ndarray, " n"]
    length: Int[np.ndarray, " n"]
    """How many steps are walked."""
    fact: Int[np.ndarray, "n t"]
    earned: Float[np.ndarray, "n t"]


class Room(NamedTuple):
    """Memory for one row at a time, so that none is asked for on the way."""

    p_of: Float[np.ndarray, " l"]
    """The factual row by label; zero but while a step is taken."""
    worth: Float[np.ndarray, " w"]
    ints: Int[np.ndarray, "3 w"]
    floats: Float[np.ndarray, "3 w"]
    rank: Int[np.ndarray, " s"]
    state_at: Int[np.ndarray, " s"]
    state_key: Float[np.ndarray, " s"]
    slot_at: Int[np.ndarray, " s"]
    share: Float[np.ndarray, " a"]
    by_action: Float[np.ndarray, " a"]
    action_at: Int[np.ndarray, " a"]
    action_key: Float[np.ndarray, " a"]


@njit(cache=True, nogil=True)
@no_type_check
def scratch(rows):
    """Memory for the rows of a process."""
    num_states, num_actions, width = len(rows.ends), rows.num_actions, rows.width + 2
    return Room(
        np.zeros(rows.num_labels),
        np.zeros(width),
        np.zeros((3, width), np.int64),
        np.zeros((3, width)),
        np.zeros(num_states, np.int64),
        np.zeros(num_states, np.int64),
        np.zeros(num_states),
        np.full(num_states, -1),
        np.zeros(num_actions),
        np.zeros(num_actions),
        np.zeros(num_actions, np.int64),
        np.zeros(num_actions),
    )


@njit(cache=True, nogil=True)
@no_type_check
def fill_p(rows, s, a, p_of, times):
    """Writes the factual row, or removes it."""
    row = s * rows.num_actions + a
    for slot in range(rows.start[row], rows.start[row + 1]):
        p_of[rows.label[slot]] = times * rows.chance[slot]
