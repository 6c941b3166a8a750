"""Finite MDPs, planning, logs and estimation, against dense NumPy and brute force over all policies and paths."""

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import countermax.mdp.processes.sepsis
from countermax import InputError
from countermax.mdp import (
    EpisodeLog,
    FiniteMDP,
    action_values,
    deterministic,
    estimate,
    estimate_policy,
    policy_iteration,
    policy_matrix,
    policy_value,
    policy_values,
    query,
    softened,
    state_distributions,
    visits,
)


def random_arrays(seed, num_states=5, num_actions=3):
    """Transitions with zeros in them, rewards of every transition, a start."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(num_states), (num_states, num_actions))
    transitions[rng.random(transitions.shape) < 0.4] = 0
    transitions[..., 0] += transitions.sum(axis=2) == 0
    transitions /= transitions.sum(axis=2, keepdims=True)
    return transitions, rng.normal(size=transitions.shape), rng.dirichlet(np.ones(num_states))


def random_mdp(seed, *, absorbing=None, discount=0.9, **sizes):
    transitions, rewards, start = random_arrays(seed, **sizes)
    return FiniteMDP.from_dense(transitions, rewards, start=start, discount=discount, absorbing=absorbing)


def random_policy(mdp, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(mdp.num_actions), mdp.num_states)


def dense_chain(transitions, rewards, policy, absorbing=()):
    """The chain and mean rewards of a policy from full arrays: what the sparse code must agree with."""
    transitions, rewards = transitions.copy(), rewards.copy()
    for state in absorbing:
        transitions[state], rewards[state] = np.eye(len(transitions))[state], 0
    return np.einsum("sa,san->sn", policy, transitions), np.einsum("sa,san,san->s", policy, transitions, rewards)


# ------------------------------------------------------------------------------------------------- the value itself


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


def test_rewards_can_be_given_in_three_ways_and_actions_first():
    transitions, _, start = random_arrays(0)
    by_arrival = np.arange(5.0)
    full = np.broadcast_to(by_arrival, transitions.shape)
    made = [
        FiniteMDP.from_dense(transitions, full, start=start),
        FiniteMDP.from_dense(transitions, by_arrival, start=start),
        FiniteMDP.from_dense(transitions.transpose(1, 0, 2), full.transpose(1, 0, 2), start=start, action_axis=0),
    ]
    for mdp in made[1:]:
        np.testing.assert_array_equal(mdp.rewards, made[0].rewards)
        np.testing.assert_array_equal(mdp.successors, made[0].successors)
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
    with pytest.raises(InputError, match="`discount` must lie in"):
        dataclasses.replace(mdp, discount=1.5)
    with pytest.raises(InputError, match="must hold 5 different names, got 4 in 5"):
        dataclasses.replace(mdp, state_names=("a", "b", "c", "d", "d"))


def test_sparse_rows_stay_sparse():
    size = 2000
    state = np.arange(size)
    mdp = FiniteMDP.from_transitions(
        np.repeat(state, 2),
        np.zeros(2 * size, int),
        np.stack([state, (state + 1) % size], axis=1).ravel(),
        np.full(2 * size, 0.5),
        np.ones(2 * size),
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
    with pytest.raises(InputError, match=r"next state \d: `rewards` must be finite, got nan"):
        broken(rewards=np.full(5, np.nan))
    with pytest.raises(InputError, match=r"`transitions` must be \[state, action.*set `action_axis` to 0"):
        broken(transitions=transitions.transpose(1, 0, 2))
    with pytest.raises(InputError, match=r"`rewards` must be given for each.*got shape \(4,\)"):
        broken(rewards=np.zeros(4))
    with pytest.raises(InputError, match="`start` must sum to one, got 2"):
        broken(start=2 * start)
    with pytest.raises(InputError, match=r"`start` must lie in 0\.\.4, got 5"):
        broken(start=5)
    with pytest.raises(InputError, match=r"`absorbing` must lie in 0\.\.4, got 7"):
        broken(absorbing=[7])
    with pytest.raises(InputError, match="`action_axis` must be 0 or 1"):
        broken(action_axis=2)
    with pytest.raises(InputError, match=r"`counts` must hold whole numbers, got 0\.5"):
        broken(counts=np.full(transitions.shape, 0.5))
    with pytest.raises(InputError, match="state 0, action 0, next state 1: each transition must be given once"):
        FiniteMDP.from_transitions([0, 0], [0, 0], [1, 1], [0.5, 0.5], [0, 0], num_states=2, num_actions=1, start=0)
    with pytest.raises(InputError, match="state 1 must allow an action or be absorbing"):
        FiniteMDP.from_transitions([0], [0], [1], [1.0], [0], num_states=2, num_actions=1, start=0)
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


# --------------------------------------------------------------------------------------------------------- planning


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
    with pytest.raises(InputError, match="`horizon` must not be negative"):
        policy_values(mdp, policy, horizon=-1)
    with pytest.raises(InputError, match=r"`actions` must lie in 0\.\.2, got 5 at entry 1"):
        deterministic([0, 5], 3)
    with pytest.raises(InputError, match="`best` must lie in"):
        softened(policy, 1.5)
    with pytest.raises(InputError, match=r"`discount` must lie in \[0, 1\], got 2"):
        policy_values(mdp, policy, discount=2.0)


# ------------------------------------------------------------------------------------------------------------- logs


def frame_of(*rows):
    return pd.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])


def small_frame():
    return frame_of(("b", 0, 0, 1, 2, 0.5), ("b", 1, 2, 0, 1, -1.0), ("a", 0, 1, 1, 1, 0.0), ("a", 1, 1, 0, 3, 1.0))


def test_frames_and_logs_round_trip_whatever_the_order_of_rows():
    frame = small_frame()
    log = EpisodeLog.from_frame(frame.sample(frac=1, random_state=1), num_states=5)
    assert (len(log), log.num_steps, log.num_states, log.num_actions) == (2, 4, 5, 2)
    assert set(log.episodes) == {"a", "b"}
    again = log.to_frame().sort_values(["episode", "step"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(again, frame.sort_values(["episode", "step"]).reset_index(drop=True))


def test_padding_repeats_the_last_state_and_earns_nothing():
    log = EpisodeLog.from_frame(frame_of(("a", 0, 0, 1, 2, 1.0), ("b", 0, 1, 1, 0, 2.0), ("b", 1, 0, 1, 1, 3.0)))
    assert log.states.tolist() == [[0, 2, 2], [1, 0, 1]]
    assert log.actions.tolist() == [[1, 0], [1, 1]]
    assert log.mask.tolist() == [[True, False], [True, True]]
    assert log.last_states.tolist() == [2, 1]
    np.testing.assert_allclose(log.returns(0.5), [1, 3.5])
    assert log.steps().next_state.tolist() == [2, 0, 1]
    assert log.select([1, 1, 0]).states.tolist() == [[1, 0, 1], [1, 0, 1], [0, 2, 2]]
    assert log.with_states([0, 1, 1], 2).states.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_names_are_looked_up():
    frame = small_frame()
    frame["state"] = frame["state"].map(lambda index: "wxyz"[index])
    frame["next_state"] = frame["next_state"].map(lambda index: "wxyz"[index])
    log = EpisodeLog.from_frame(frame, state_names=list("wxyz"), action_names=["no", "yes"])
    np.testing.assert_array_equal(log.states, EpisodeLog.from_frame(small_frame()).states)
    frame.loc[2, "next_state"] = "v"
    with pytest.raises(
        InputError, match=r"row 2 \(episode a, step 0\): `next_state` must be one of w, x, y, z, got 'v'"
    ):
        EpisodeLog.from_frame(frame, state_names=list("wxyz"))


def with_cell(row, column, value):
    frame = small_frame().astype({column: object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (small_frame().drop(columns=["action", "reward"]), "lacks action, reward; it has episode, step"),
        (small_frame().iloc[:0], "at least one step, got a table without rows"),
        (with_cell(3, "next_state", 9), r"row 3 \(episode a, step 1\): `next_state` must lie in 0\.\.3, got 9"),
        (with_cell(0, "state", -1), r"row 0 \(episode b, step 0\): `state` must lie in 0\.\.3, got -1"),
        (with_cell(2, "action", 2), r"row 2 \(episode a, step 0\): `action` must lie in 0\.\.1, got 2"),
        (with_cell(2, "action", "yes"), r"row 2 .*`action` must hold whole numbers, or give `action_names`, got 'yes'"),
        (with_cell(2, "state", 1.5), r"row 2 .*`state` must hold whole numbers.* got 1\.5"),
        (with_cell(1, "reward", None), r"row 1 .*`reward` must hold finite numbers, got None"),
        (with_cell(1, "episode", None), r"row 1 .*`episode` must name an episode, got None"),
        (
            with_cell(1, "step", 2),
            r"row 1 \(episode b, step 2\): `step` must count 0, 1, 2, \.\.\. without a gap, got 2",
        ),
        (with_cell(1, "step", 0), r"row 1 .*`step` must be different in each row of an episode, got 0"),
        (small_frame().assign(step=lambda each: each.step + 2), "`step` must count from 0 or from 1, got 2"),
        (with_cell(1, "state", 3), r"row 1 \(episode b, step 1\): `state` must be where the step before it led \(2\)"),
    ],
)
def test_what_is_wrong_with_a_log_is_named_by_row_and_column(frame, message):
    with pytest.raises(InputError, match=message):
        EpisodeLog.from_frame(frame, num_states=4, num_actions=2)


@pytest.mark.usefixtures("as_users_call")
def test_empty_episodes_and_wrong_arrays_are_refused():
    good = {
        "states": np.zeros((2, 3), int),
        "actions": np.zeros((2, 2), int),
        "rewards": np.zeros((2, 2)),
        "lengths": np.array([2, 1]),
        "num_states": 2,
        "num_actions": 2,
    }
    EpisodeLog(**good)
    for change, message in (
        ({"lengths": np.array([2, 0])}, "no episode is empty, got 0 in episode 1"),
        ({"states": np.array([[0, 1, 2], [0, 0, 9]])}, r"`states` must lie in 0\.\.1, got 2 in episode 0, step 2"),
        ({"actions": np.array([[0, -1], [0, -1]])}, r"`actions` must lie in 0\.\.1, got -1 in episode 0, step 1"),
        ({"rewards": np.full((2, 2), np.nan)}, "`rewards` must be finite, got nan in episode 0, step 0"),
        ({"states": np.zeros((2, 2), int)}, r"`states` must have shape \(2, 3\), got \(2, 2\)"),
    ):
        with pytest.raises(InputError, match=message):
            EpisodeLog(**good | change)
    with pytest.raises(InputError, match=r"`episodes` must lie in 0\.\.1, got 5"):
        EpisodeLog(**good).select([5])


# ------------------------------------------------------------------------------------------------------- estimation


def random_log(seed, num_states=4, num_actions=2, count=50, longest=6, ends=3):
    """Uniform wandering that stops in the state `ends`, one step at a time."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(count):
        state = int(rng.integers(0, ends))
        for step in range(longest):
            after = int(rng.integers(0, num_states))
            rows.append((episode, step, state, int(rng.integers(0, num_actions)), after, float(rng.normal())))
            state = after
            if state == ends:
                break
    return frame_of(*rows)


def test_estimates_are_frequencies_with_their_counts():
    frame = random_log(0)
    log = EpisodeLog.from_frame(frame, num_states=4, num_actions=2)
    mdp = estimate(log, absorbing=[3], discount=0.9)
    for (state, action), group in frame.groupby(["state", "action"]):
        expected = group.next_state.value_counts().sort_index()
        successors, probs = mdp.support(state, action)
        assert successors.tolist() == expected.index.tolist()
        np.testing.assert_allclose(probs, expected / len(group))
        assert mdp.counts[state, action, : len(successors)].tolist() == expected.tolist()
        means = group.groupby("next_state").reward.mean()
        np.testing.assert_allclose(mdp.rewards[state, action, : len(successors)], means)
    assert mdp.counts.sum() == len(frame) == visits(log).sum()
    starts = frame[frame.step == 0].state.value_counts(normalize=True)
    np.testing.assert_allclose(mdp.start[starts.index], starts)
    assert mdp.absorbing.tolist() == [False, False, False, True]
    taken = frame.groupby("state").action.mean()
    np.testing.assert_allclose(estimate_policy(log)[taken.index, 1], taken)


def test_what_was_never_seen_is_not_allowed_or_goes_where_it_is_sent():
    frame = frame_of(("a", 0, 0, 0, 1, 0.0), ("a", 1, 1, 1, 2, 1.0))
    log = EpisodeLog.from_frame(frame, num_states=5, num_actions=2)
    careful = estimate(log)
    assert careful.allowed.tolist() == [[True, False], [False, True], *[[True, True]] * 3]
    assert careful.absorbing.tolist() == [False, False, True, True, True]
    feared = estimate(log, absorbing=[2], unseen=4)
    assert feared.allowed.all()
    assert feared.absorbing.tolist() == [False, False, True, False, True]
    np.testing.assert_array_equal(feared.row(3, 0), np.eye(5)[4])
    np.testing.assert_array_equal(feared.row(0, 1), np.eye(5)[4])
    assert feared.counts.sum() == 2
    with pytest.raises(InputError, match="`least_visits` must be at least 1"):
        estimate(log, least_visits=0)
    with pytest.raises(InputError, match="episode 'a' goes on from state 1 at step 1"):
        estimate(log, absorbing=[1])


def test_rows_from_too_few_visits_do_not_count():
    log = EpisodeLog.from_frame(random_log(1), num_states=4, num_actions=2)
    seen = visits(log)
    least = int(np.median(seen[:3]))
    mdp = estimate(log, absorbing=[3], least_visits=least)
    often = seen >= least
    known = often.any(axis=1)
    np.testing.assert_array_equal(mdp.allowed[known], often[known])
    assert mdp.absorbing[~known].all()
    full = estimate(log, absorbing=[3])
    for state, action in np.argwhere(often).tolist():
        np.testing.assert_array_equal(mdp.row(state, action), full.row(state, action))


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


def test_every_public_name_of_decision_processes_is_in_the_reference():
    reference = (Path(__file__).parents[2] / "docs/reference.md").read_text()
    for module in (countermax.mdp, countermax.mdp.processes.sepsis):
        public = re.findall(r" as (\w+)$", Path(module.__file__).read_text(), re.MULTILINE)
        assert len(public) > 10
        assert [name for name in public if not re.search(rf"\b{name}\b", reference)] == []
