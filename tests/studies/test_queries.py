"""Queries: two rows of a state over their common support."""

import numpy as np
import pytest
from processes import random_mdp

from countermax import InputError
from studies.queries import query


def test_a_query_holds_both_rows_over_their_common_support():
    mdp = random_mdp(5, num_states=8, num_actions=2)
    asked = query(mdp, 2, 0, 1)
    for action, logits in ((0, asked.p), (1, asked.q)):
        row = np.zeros(8)
        row[asked.successors] = np.exp(logits)
        np.testing.assert_allclose(row, mdp.row(2, action))
    assert (np.exp(asked.p) + np.exp(asked.q) > 0).all()
    assert asked.outcome_of(int(asked.successors[1])) == 1
    missing = next(state for state in range(9) if state not in asked.successors)
    with pytest.raises(InputError, match=f"must be reachable from state 2, got {missing}"):
        asked.outcome_of(missing)
