"""Policies: one check for processes and logs, and what they are made from."""

import dataclasses

import numpy as np
import pytest
from processes import LOG, NUM_ACTIONS, NUM_STATES, counted, random_mdp

from countermax import InputError
from countermax.mdp import FiniteMDP, estimate
from countermax.mdp._estimation import deterministic, policy_rows, restricted, softened, usual_policy
from countermax.mdp._planning import policy_values


def test_softened_policies_keep_the_rest_for_the_others():
    policy = deterministic([2, 0], 4)
    soft = softened(policy, 0.95)
    np.testing.assert_allclose(soft[0], [0.05 / 3, 0.05 / 3, 0.95, 0.05 / 3])
    allowed = np.array([[True, False, True, False], [True, False, False, False]])
    np.testing.assert_allclose(softened(policy, 0.95, allowed=allowed), [[0.05, 0, 0.95, 0], [1, 0, 0, 0]])


@pytest.mark.usefixtures("as_users_call")
def test_what_is_wrong_with_a_policy_is_named():
    mdp = random_mdp(0)
    policy = np.full((5, 3), 1 / 3)
    off = policy.copy()
    off[3] = [0.5, 0.5, 0.5]
    with pytest.raises(InputError, match=r"`policy` must sum to one in each state, got 1\.5 in state 3"):
        policy_values(mdp, off)
    off[3] = [1.5, -0.5, 0]
    with pytest.raises(InputError, match=r"got -0\.5 in state 3, action 1"):
        policy_values(mdp, off)
    with pytest.raises(InputError, match=r"`policy` must be \[state, action\] of shape \(5, 3\), got \(5, 4\)"):
        policy_values(mdp, np.full((5, 4), 0.25))
    with pytest.raises(InputError, match="`horizon` must be at least 0, got -1"):
        policy_values(mdp, policy, horizon=-1)
    with pytest.raises(InputError, match=r"`actions` must lie in 0\.\.2, got 5 at entry 1"):
        deterministic([0, 5], 3)
    with pytest.raises(InputError, match="`best` must be at most 1.0, got 1.5"):
        softened(policy, 1.5)
    with pytest.raises(InputError, match="`discount` must be at most 1.0, got 2"):
        policy_values(mdp, policy, discount=2.0)


def test_a_log_and_its_process_judge_a_policy_alike():
    log = dataclasses.replace(LOG, state_names=tuple("abcd"), action_names=("no", "yes"))
    for world in (log, estimate(log)):
        with pytest.raises(
            InputError, match=r"`target` must sum to one in each state, got 0\.5 in state 2 \(c\); 1 such"
        ):
            policy_rows(world, np.where(np.arange(4)[:, None] == 2, 0.25, [0.5, 0.5]), argument="target")
        with pytest.raises(InputError, match=r"got -1 in state 0 \(a\), action 1 \(yes\)"):
            policy_rows(world, [[2, -1.0]] * NUM_STATES)
        with pytest.raises(InputError, match=r"`policy` must be \[state, action\] of shape \(4, 2\), got \(2, 4\)"):
            policy_rows(world, np.full((NUM_ACTIONS, NUM_STATES), 0.25))


def test_a_restricted_policy_keeps_to_what_is_known():
    transitions = np.full((3, 2, 3), 1 / 3)
    allowed = np.array([[True, True], [True, False], [True, True]])
    counts = np.zeros(transitions.shape, int)
    counts[0, 1], counts[1, 0] = 2, 1
    mdp = counted(FiniteMDP.from_dense(transitions, np.zeros(3), start=0, discount=0.9, allowed=allowed), counts)
    np.testing.assert_allclose(usual_policy(mdp), [[0, 1], [1, 0], [0.5, 0.5]])
    kept, left_out = restricted(mdp, [[0.3, 0.7], [0.2, 0.8], [0, 1]])
    np.testing.assert_allclose(kept, [[0.3, 0.7], [1, 0], [0, 1]])
    np.testing.assert_allclose(left_out, [0, 0.8, 0], atol=1e-15)
    nothing, left_out = restricted(mdp, [[0.3, 0.7], [0, 1], [0, 1]])
    np.testing.assert_allclose(nothing[1], [1, 0])
    assert left_out[1] == 1
