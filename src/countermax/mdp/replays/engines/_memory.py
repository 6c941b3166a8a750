"""What compiled walks read and write: rows of the process, what was seen, episodes in order, room for one row."""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int

from countermax.mdp.replays.engines._compiling import compiled


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


class Chosen(NamedTuple):
    """The rows that a policy chooses, where it is one policy at all steps; else empty."""

    first: Int[np.ndarray, " s_and_one"]
    """The number of the first such row of each state; one more, how many there are."""
    state: Int[np.ndarray, " r"]
    action: Int[np.ndarray, " r"]
    share: Float[np.ndarray, " r"]
    """How often the policy chooses it."""
    offset: Int[np.ndarray, " r_and_one"]
    """Where its slots start among those of all rows that are chosen."""
    answers: Float[np.ndarray, "f slots"]
    """What a coupling answers, for whatever was seen; without rows where episodes have too little in common."""
    reached: Int[np.ndarray, " k"]
    """The states that these rows lead to."""
    arrival: Int[np.ndarray, " s_and_one"]
    """Where the slots that lead to each state start, in an order of their own."""
    row: Int[np.ndarray, " slots"]
    """Which row each of these belongs to."""
    chance: Float[np.ndarray, " slots"]
    gain: Float[np.ndarray, " slots"]


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
    reached_at: Int[np.ndarray, "2 k"]
    """The states that a policy reaches, by what they were worth last time, from below and from above."""
    left: Float[np.ndarray, " r"]
    total: Float[np.ndarray, " r"]


def scratch(rows: FlatRows, chosen: Chosen) -> Room:
    """Memory for the rows of a process, and for those that are chosen; compiled code asks for none itself."""
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
        np.stack([chosen.reached, chosen.reached]),
        np.zeros(len(chosen.state)),
        np.zeros(len(chosen.state)),
    )


@compiled
@no_type_check
def fill_p(rows, s, a, p_of, times):
    """Writes the factual row, or removes it."""
    row = s * rows.num_actions + a
    for slot in range(rows.start[row], rows.start[row + 1]):
        p_of[rows.label[slot]] = times * rows.chance[slot]
