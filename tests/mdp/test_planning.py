"""Planning against dense NumPy, a linear program and brute force over all policies and paths."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import random_arrays, random_mdp, random_policy
from scipy.optimize import linprog

from countermax import InputError
from countermax.mdp import FiniteMDP, policy_iteration, policy_value
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import action_values, policy_matrix, policy_values, state_distributions


def dense_chain(transitions, rewards, policy, absorbing=()):
    """The chain and mean rewards of a policy from full arrays: what the sparse code must agree with."""
    transitions, rewards = transitions.copy(), rewards.copy()
    for state in absorbing:
        transitions[state], rewards[state] = np.eye(len(transitions))[state], 0
    return np.einsum("sa,san->sn", policy, transitions), np.einsum("sa,san,san->s", policy, transitions, rewards)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans())
def test_values_solve_the_linear_system_of_the_dense_chain(seed, ends):
    transitions, rewards, start = random_arrays(seed)
    absorbing = [1] if ends else []
    mdp = FiniteMDP.from_dense(transitions, rewards, start=start, discount=0.9, absorbing=absorbing or None)
    policy = random_policy(mdp, seed)
    chain, gains = dense_chain(transitions, rewards, policy, absorbing)
    np.testing.assert_allclose(policy_matrix(mdp, policy).toarray(), chain, atol=1e-14)
    expected = np.linalg.solve(np.eye(5) - 0.9 * chain, gains)
    np.testing.assert_allclose(policy_values(mdp, policy), expected, atol=1e-10)
    np.testing.assert_allclose(policy_value(mdp, policy), start @ expected, atol=1e-10)


def test_finite_horizons_and_state_distributions_enumerate_all_paths():
    transitions, rewards, start = random_arrays(3, num_states=3, num_actions=2)
    mdp = FiniteMDP.from_dense(transitions, rewards, start=start, discount=0.8, absorbing=[2])
    policy = random_policy(mdp)
    transitions[2], rewards[2] = np.eye(3)[2], 0
    value, occupied = 0.0, np.zeros((4, 3))
    for path in itertools.product(range(3), repeat=4):
        for actions in itertools.product(range(2), repeat=3):
            moves = list(zip(path, actions, path[1:], strict=False))
            chance = start[path[0]] * np.prod([policy[s, a] * transitions[s, a, n] for s, a, n in moves])
            value += chance * sum(0.8**t * rewards[move] for t, move in enumerate(moves))
            for time, state in enumerate(path):
                occupied[time, state] += chance
    np.testing.assert_allclose(policy_value(mdp, policy, horizon=3), value, atol=1e-12)
    np.testing.assert_allclose(state_distributions(mdp, policy, 3), occupied, atol=1e-12)
    assert policy_value(mdp, policy, horizon=0) == 0


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.booleans())
def test_policy_iteration_beats_every_deterministic_policy(seed, ends):
    mdp = random_mdp(seed, num_states=4, num_actions=3, absorbing=[3] if ends else None)
    plan = policy_iteration(mdp)
    every = [policy_values(mdp, deterministic(actions, 3)) for actions in itertools.product(range(3), repeat=4)]
    np.testing.assert_allclose(plan.values, np.max(every, axis=0), atol=1e-9)
    np.testing.assert_allclose(action_values(mdp, plan.values).max(axis=1), plan.values, atol=1e-9)
    np.testing.assert_allclose(policy_values(mdp, plan.policy), plan.values, atol=1e-12)


def test_policy_iteration_agrees_with_the_linear_program():
    mdp = random_mdp(7, num_states=12, num_actions=4, discount=0.95)
    rows = mdp.matrix.toarray()
    constraints = 0.95 * rows - np.repeat(np.eye(12), 4, axis=0)
    solved = linprog(np.ones(12), A_ub=constraints, b_ub=-mdp.expected_rewards.ravel(), bounds=(None, None))
    np.testing.assert_allclose(policy_iteration(mdp).values, solved.x, atol=1e-7)


def test_ties_keep_the_old_action_and_end_the_search():
    """Two copies of one action, with rounding between them: an argmax would follow the last digit."""
    transitions, rewards, start = random_arrays(11, num_states=30, num_actions=2)
    noise = 1 + 1e-15 * np.random.default_rng(0).normal(size=transitions.shape)
    doubled = np.concatenate([transitions, transitions * noise], axis=1)
    mdp = FiniteMDP.from_dense(doubled, np.concatenate([rewards, rewards], axis=1), start=start, discount=0.99)
    begun = np.full(30, 2)
    plan = policy_iteration(mdp, actions=begun)
    single = policy_iteration(FiniteMDP.from_dense(transitions, rewards, start=start, discount=0.99))
    assert plan.rounds < 20
    np.testing.assert_array_equal(plan.actions % 2, single.actions)
    again = policy_iteration(mdp, actions=plan.actions)
    np.testing.assert_array_equal(again.actions, plan.actions)
    assert again.rounds == 1


def test_without_a_discount_every_state_must_lead_to_an_end():
    step = np.zeros((3, 2, 3))
    step[0, 0, 1] = step[0, 1, 2] = step[1, 0, 0] = step[1, 1, 2] = 1
    mdp = FiniteMDP.from_dense(step, [0, 0, 1.0], start=0, absorbing=[2])
    np.testing.assert_allclose(policy_values(mdp, deterministic([0, 1, 0], 2)), [1, 1, 0])
    with pytest.raises(InputError, match="under this policy state 0 does not; give a `horizon` or a `discount`"):
        policy_values(mdp, deterministic([0, 0, 0], 2))
    assert policy_values(mdp, deterministic([0, 0, 0], 2), discount=0.9).tolist() == [0, 0, 0]
