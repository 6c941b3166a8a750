"""Questions that a process and a log ask of a coupling: single queries, and pairs to train one on."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.couplings import Independent
from countermax.mdp._arrays import Values, shortened
from countermax.mdp._estimation import as_policy, visits
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._questions import TransitionCoupling

if TYPE_CHECKING:
    from countermax.learning import ObservedPairs


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
            raise InputError(f"`next_state` must be reachable from state {self.state}, got {shortened(next_state)}")
        return int(found[0])


def query(mdp: FiniteMDP, state: int, action: int, other_action: int) -> Query:
    """The two rows of a state, restricted to the outcomes that either can reach."""
    first, second = mdp.support(state, action), mdp.support(state, other_action)
    successors = np.union1d(first[0], second[0])
    logits = np.full((2, len(successors)), -np.inf)
    for row, (reached, probs) in zip(logits, (first, second), strict=True):
        row[np.searchsorted(successors, reached)] = np.log(probs)
    return Query(state, action, other_action, successors, *logits)


def logged_pairs(mdp: FiniteMDP, log: EpisodeLog, policy: Values, *, outcomes: Values | None = None) -> "ObservedPairs":
    """Rows of what was done beside rows of what the policy would have done there, weighted by how often it came up.

    Train a gadget with `fit(gadget, logged_pairs(...), loss, key=...)` and replay with the same `outcomes`. Steps at
    which the policy agrees with the log are left out: there is nothing to learn from them.

    Args:
        mdp: The process; must know the logged actions.
        log: Logged episodes.
        policy: [state, action]: what would have been done.
        outcomes: Label of each state as an outcome; see `replay`. The gadget needs as many outcomes as labels.
    """
    from countermax.learning import ObservedPairs  # a second, which questions about episodes do not take

    probs = as_policy(mdp, policy)
    labelled = TransitionCoupling.of(mdp, Independent(), outcomes)  # any will do: only its labels are asked for
    check_memory(
        f"{mdp.num_states} states with {mdp.num_actions} actions for each of {mdp.num_actions}",
        16 * mdp.num_states * mdp.num_actions**2,
        "describe states and actions more coarsely",
    )
    seen = visits(log) * mdp.allowed * ~mdp.absorbing[:, None]
    weights = seen[:, :, None] * probs[:, None, :] * ~np.eye(mdp.num_actions, dtype=bool)
    state, action, other = np.nonzero(weights)
    if len(state) == 0:
        raise InputError("`policy` must differ from what was done somewhere in the log; it never does")
    check_memory(
        f"{len(state)} pairs of {labelled.num_labels} outcomes",
        32 * len(state) * labelled.num_labels,
        "give states that are one outcome one label in `outcomes`",
    )
    logits = np.full((2, len(state), labelled.num_labels), -np.inf)
    for rows, chosen in zip(logits, (action, other), strict=True):
        row, slot = np.nonzero(mdp.probs[state, chosen])
        successor = mdp.successors[state[row], chosen[row], slot]
        rows[row, labelled.labels[successor]] = np.log(mdp.probs[state[row], chosen[row], slot])
    return ObservedPairs(logits[0].astype(np.float32), logits[1].astype(np.float32), weights[state, action, other])
