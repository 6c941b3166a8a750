"""Processes as values: packed rows against the dense ones, and bad input named by state and action."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import counted, random_arrays, random_mdp

from countermax import InputError
from countermax.mdp import FiniteMDP, policy_iteration
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import policy_values


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_packed_rows_are_the_dense_ones(seed):
    transitions, rewards, start = random_arrays(seed)
    mdp = FiniteMDP.from_dense(transitions, rewards, start=start)
    for state, action in np.ndindex(5, 3):
        np.testing.assert_allclose(mdp.row(state, action), transitions[state, action], rtol=1e-15)
        successors, probs = mdp.support(state, action)
        assert (np.diff(successors) > 0).all()
        assert (probs > 0).all()
    np.testing.assert_allclose(mdp.expected_rewards, (transitions * rewards).sum(axis=2), atol=1e-14)
    np.testing.assert_allclose(mdp.matrix.toarray().reshape(transitions.shape), transitions, rtol=1e-15)


def test_rewards_can_be_given_in_three_ways():
    transitions, _, start = random_arrays(0)
    by_arrival = np.arange(5.0)
    full = np.broadcast_to(by_arrival, transitions.shape)
    made = [
        FiniteMDP.from_dense(transitions, full, start=start),
        FiniteMDP.from_dense(transitions, by_arrival, start=start),
    ]
    np.testing.assert_array_equal(made[1].rewards, made[0].rewards)
    np.testing.assert_array_equal(made[1].successors, made[0].successors)
    by_pair = np.arange(15.0).reshape(5, 3)
    np.testing.assert_allclose(FiniteMDP.from_dense(transitions, by_pair, start=start).expected_rewards, by_pair)


def test_absorbing_states_keep_to_themselves_and_earn_nothing():
    mdp = random_mdp(1, absorbing=[2, 4])
    assert mdp.absorbing.tolist() == [False, False, True, False, True]
    for state in (2, 4):
        for action in range(3):
            np.testing.assert_array_equal(mdp.row(state, action), np.eye(5)[state])
    assert (mdp.rewards[[2, 4]] == 0).all()


def test_a_process_is_immutable_and_can_be_replaced_in_part():
    mdp = random_mdp(0)
    with pytest.raises(ValueError, match="read-only"):
        mdp.probs[0, 0, 0] = 1
    assert dataclasses.replace(mdp, discount=0.5).discount == 0.5
    assert "5 states" in repr(mdp)
    with pytest.raises(InputError, match="`discount` must be at most 1.0, got 1.5"):
        dataclasses.replace(mdp, discount=1.5)
    with pytest.raises(InputError, match="must hold 5 different names, got 4 in 5"):
        dataclasses.replace(mdp, state_names=("a", "b", "c", "d", "d"))


def test_sparse_rows_stay_sparse():
    size = 2000
    state = np.arange(size)
    mdp = FiniteMDP.from_transitions(
        {
            "state": np.repeat(state, 2),
            "action": np.zeros(2 * size, int),
            "successor": np.stack([state, (state + 1) % size], axis=1).ravel(),
            "probs": np.full(2 * size, 0.5),
            "rewards": np.ones(2 * size),
        },
        num_states=size,
        num_actions=1,
        start=0,
        discount=0.9,
    )
    assert mdp.width == 2
    np.testing.assert_allclose(policy_values(mdp, np.ones((size, 1))), 10)


def broken(**changes):
    transitions, rewards, start = random_arrays(0)
    arguments = {"transitions": transitions, "rewards": rewards, "start": start} | changes
    return FiniteMDP.from_dense(arguments.pop("transitions"), arguments.pop("rewards"), **arguments)


def listed(*columns):
    transitions = dict(zip(("state", "action", "successor", "probs", "rewards"), columns, strict=False))
    return FiniteMDP.from_transitions(transitions, num_states=2, num_actions=1, start=0)


@pytest.mark.usefixtures("as_users_call")
def test_what_is_wrong_with_arrays_is_named_by_state_and_action():
    transitions, rewards, start = random_arrays(0)
    heavy = transitions.copy()
    heavy[3, 1, 0] += 0.1
    negative = transitions.copy()
    negative[2, 0, 1:3] = [-0.1, np.nan]
    empty = transitions.copy()
    empty[4, 2] = 0
    with pytest.raises(InputError, match=r"must sum to one.* state 3, action 1 sums to 1\.1; 1 row"):
        broken(transitions=heavy)
    with pytest.raises(InputError, match=r"state 2, action 0, next state 1: `probs` must be finite.*got -0\.1"):
        broken(transitions=negative)
    with pytest.raises(InputError, match="state 4, action 2 sums to 0; if the action cannot be taken there"):
        broken(transitions=empty)
    with pytest.raises(InputError, match=r"next state \d: `rewards` must be finite, and lie within .*, got nan"):
        broken(rewards=np.full(5, np.nan))
    with pytest.raises(InputError, match=r"must be \[state, action, next state\], got shape \(3, 5, 5\).*moveaxis"):
        broken(transitions=transitions.transpose(1, 0, 2))
    with pytest.raises(InputError, match=r"`rewards` must be given for each.*got shape \(4,\)"):
        broken(rewards=np.zeros(4))
    with pytest.raises(InputError, match="`start` must sum to one, got 2"):
        broken(start=2 * start)
    with pytest.raises(InputError, match=r"`start` must lie in 0\.\.4, got 5"):
        broken(start=5)
    with pytest.raises(InputError, match=r"`absorbing` must lie in 0\.\.4, got 7"):
        broken(absorbing=[7])
    with pytest.raises(InputError, match=r"`counts` must hold whole numbers, got 0\.5"):
        counted(broken(), np.full(transitions.shape, 0.5))
    with pytest.raises(InputError, match="state 0, action 0, next state 1: each transition must be given once"):
        listed([0, 0], [0, 0], [1, 1], [0.5, 0.5], [0, 0])
    with pytest.raises(InputError, match="state 1 must allow an action or be absorbing"):
        listed([0], [0], [1], [1.0], [0])
    with pytest.raises(InputError, match=r"`transitions` must have state, .*, but lacks \['probs', 'rewards'\]"):
        listed([0], [0], [1])
    mdp = broken()
    with pytest.raises(InputError, match=r"`action` must lie in 0\.\.2, got 3"):
        mdp.row(0, 3)
    with pytest.raises(InputError, match=r"`state` must lie in 0\.\.4, got -1"):
        mdp.row(-1, 0)
    with pytest.raises(InputError, match="state 0, action 0: reachable successors must come first"):
        dataclasses.replace(mdp, successors=mdp.successors[:, :, ::-1], probs=mdp.probs[:, :, ::-1])


def test_actions_that_are_not_allowed_have_no_row_and_are_never_chosen():
    transitions, rewards, start = random_arrays(0)
    allowed = np.ones((5, 3), bool)
    allowed[1, 2] = allowed[3, 0] = False
    rewards[1, 2] = rewards[3, 0] = 100
    mdp = FiniteMDP.from_dense(transitions, rewards, start=start, discount=0.9, allowed=allowed)
    plan = policy_iteration(mdp)
    assert allowed[np.arange(5), plan.actions].all()
    assert plan.action_values[1, 2] == -np.inf
    with pytest.raises(InputError, match="action 2 is not allowed in state 1"):
        mdp.row(1, 2)
    with pytest.raises(InputError, match=r"takes action 2 in state 1, which has no transition row; 1 such pair"):
        policy_values(mdp, deterministic([0, 2, 0, 1, 0], 3))
