"""Single queries to a process: two rows of one state, over the outcomes that either of them can reach."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from countermax import InputError
from countermax._core.quantities import shown
from countermax.mdp import FiniteMDP


class Query(NamedTuple):
    """Two rows of one state, over the outcomes that either of them can reach.

    The rest of the state space has probability zero in both worlds, so leaving it out changes no coupling; with
    hundreds of states and a dozen successors it is what makes learning affordable.
    """

    state: int
    action: int
    """What was done: the factual world."""
    other_action: int
    """What might have been done."""
    successors: Int[np.ndarray, " k"]
    """Which state each outcome is, in ascending order."""
    p: Float[np.ndarray, " k"]
    """Log-probabilities of the outcomes under `action`; `-inf` where only the other world can reach."""
    q: Float[np.ndarray, " k"]
    """The same under `other_action`."""

    def outcome_of(self, next_state: int) -> int:
        """The position of a state among the outcomes."""
        found = np.flatnonzero(self.successors == next_state) if isinstance(next_state, int | np.integer) else ()
        if len(found) != 1:
            raise InputError(f"`next_state` must be reachable from state {self.state}, got {shown(next_state)}")
        return int(found[0])


def query(mdp: FiniteMDP, state: int, action: int, other_action: int) -> Query:
    """The two rows of a state, restricted to the outcomes that either can reach."""
    first, second = mdp.support(state, action), mdp.support(state, other_action)
    successors = np.union1d(first[0], second[0])
    logits = np.full((2, len(successors)), -np.inf)
    for row, (reached, probs) in zip(logits, (first, second), strict=True):
        row[np.searchsorted(successors, reached)] = np.log(probs)
    return Query(state, action, other_action, successors, *logits)
