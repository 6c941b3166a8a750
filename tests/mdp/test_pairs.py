"""The pairs that a log asks about, to train couplings on."""

import numpy as np
import pytest
from processes import LOG, MDP, NUM_ACTIONS, NUM_STATES

from countermax import InputError
from countermax.mdp import EpisodeLog, logged_pairs
from countermax.mdp._estimation import deterministic


def test_the_pairs_of_a_log_are_its_rows_weighted_by_frequency():
    target = deterministic([1, 0, 1, 0], NUM_ACTIONS)
    table = logged_pairs(MDP, LOG, target)
    steps = LOG.steps()
    differs = steps.action != np.array([1, 0, 1, 0])[steps.state]
    cells, counts = np.unique(np.stack([steps.state, steps.action])[:, differs], axis=1, return_counts=True)
    assert len(table.p) == cells.shape[1]
    np.testing.assert_allclose(np.exp(table.log_weights), counts / counts.sum(), rtol=1e-5)
    for row, (state, action) in enumerate(cells.T.tolist()):
        np.testing.assert_allclose(np.exp(table.p[row]), MDP.row(state, action), atol=1e-6)
        np.testing.assert_allclose(np.exp(table.q[row]), MDP.row(state, 1 - action), atol=1e-6)
    always = EpisodeLog(
        states=np.array([[0, 2]]), actions=np.array([[0]]), rewards=np.zeros((1, 1)), lengths=np.array([1]),
        num_states=NUM_STATES, num_actions=NUM_ACTIONS,
    )  # fmt: skip
    with pytest.raises(InputError, match="must differ from what was done"):
        logged_pairs(MDP, always, deterministic([0] * NUM_STATES, NUM_ACTIONS))
