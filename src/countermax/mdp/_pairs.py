"""The questions that a log asks of a coupling, as pairs to train one on."""

from typing import TYPE_CHECKING

import numpy as np

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.couplings import Independent
from countermax.mdp._arrays import Values
from countermax.mdp._process import FiniteMDP
from countermax.mdp.estimation import visits
from countermax.mdp.log import EpisodeLog
from countermax.mdp.policies import as_policy
from countermax.mdp.replays import TransitionCoupling

if TYPE_CHECKING:
    from countermax.learning import ObservedPairs


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
