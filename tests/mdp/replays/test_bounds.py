"""Bounds on whole trajectories, against every coupling and against brute force over all of them."""

import itertools

import jax
import numpy as np
import pytest
from processes import HORIZON, LOG, MDP, NUM_ACTIONS, NUM_STATES, POLICY, small_mdp, some_episodes

from countermax import GumbelMax, InverseCDF, Maximal
from countermax.mdp import Cohort, FiniteMDP, simulate
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import state_distributions


def vertices(p_seen, q):
    """All corners of the set of rows with 0 <= w <= q / p_x that sum to one: all but one entry are full or empty."""
    room = np.minimum(q / p_seen, 1)
    found = []
    for free in range(len(q)):
        for full in itertools.product((0, 1), repeat=len(q) - 1):
            row = np.insert(np.array(full, float), free, 0) * room
            row[free] = 1 - row.sum()
            if -1e-12 <= row[free] <= room[free] + 1e-12:
                found.append(np.maximum(row, 0))
    return np.unique(np.round(found, 12), axis=0)


def brute_force(mdp, log, episode, actions, discount):
    """The least and the largest value over all couplings that may differ from step to step, by trying every one.

    A coupling is a corner for each state at each step. The value is multilinear in these choices, so its extremes are
    at corners; they are tried all together, not step by step.
    """
    length = int(log.lengths[episode])
    options = []
    for step in range(length):
        state, action, successor = (
            int(each) for each in (log.states[episode, step], log.actions[episode, step], log.states[episode, step + 1])
        )
        seen = mdp.row(state, action)[successor]
        for other in range(mdp.num_states):
            if mdp.absorbing[other]:
                rows = np.eye(mdp.num_states)[[other]]
            elif (other, actions[other]) == (state, action):
                rows = np.eye(mdp.num_states)[[successor]]
            else:
                rows = vertices(seen, mdp.row(other, actions[other]))
            options.append(rows)
    rewards = np.zeros((mdp.num_states, mdp.num_states))
    for other in range(mdp.num_states):
        reached, _ = mdp.support(other, actions[other])
        rewards[other, reached] = mdp.rewards[other, actions[other], : len(reached)]
    values = []
    for choice in itertools.product(*options):
        mass, value = np.eye(mdp.num_states)[int(log.states[episode, 0])], 0.0
        for step in range(length):
            chain = np.array(choice[step * mdp.num_states : (step + 1) * mdp.num_states])
            value += discount**step * mass @ (chain * rewards).sum(axis=1)
            mass = mass @ chain
        values.append(value)
    return min(values), max(values)


def test_bounds_are_reached_by_brute_force():
    rng = np.random.default_rng(0)
    checked = 0
    for seed in range(6):
        transitions = rng.dirichlet(np.ones(3), size=(3, 2))
        mdp = FiniteMDP.from_dense(transitions, rng.normal(size=(3, 2, 3)), start=0, absorbing=[2], discount=0.9)
        log = simulate(mdp, np.full((3, 2), 0.5), num_episodes=2, horizon=2, key=jax.random.key(seed))
        actions = [1, 0, 0]
        for episode in range(2):
            one = log.select([episode])
            found = Cohort(one, deterministic(actions, 2), process=mdp, horizon=int(log.lengths[episode])).bounds()
            expected = brute_force(mdp, log, episode, actions, 0.9)
            np.testing.assert_allclose([found.lower[0], found.upper[0]], expected, atol=1e-10)
            checked += int(log.lengths[episode]) == 2
    assert checked >= 4


def test_every_coupling_lies_within_the_bounds():
    wide, narrow = (Cohort(LOG, POLICY, process=MDP).bounds(stable=stable) for stable in (False, True))
    for coupling in (GumbelMax(), InverseCDF(), Maximal()):
        values = Cohort(LOG, POLICY, process=MDP).replay(coupling).values
        assert wide.contains(values, 1e-9).all()
    values = Cohort(LOG, POLICY, process=MDP).replay(GumbelMax()).values
    assert narrow.contains(values, 1e-9).all()
    assert (narrow.width <= wide.width + 1e-9).all()
    assert narrow.width.sum() < 0.9 * wide.width.sum()


def test_doing_what_was_done_leaves_nothing_open():
    """A deterministic target that the episode happened to follow."""
    log = some_episodes(MDP, 40, seed=2)
    actions = [0, 1, 0, 0]
    followed = [
        episode
        for episode in range(len(log))
        if all(log.actions[episode, step] == actions[log.states[episode, step]] for step in range(log.lengths[episode]))
        and log.states[episode, log.lengths[episode]] == 3
    ]
    assert followed
    found = Cohort(log.select(followed), deterministic(actions, NUM_ACTIONS), process=MDP).bounds()
    np.testing.assert_allclose(found.width, 0, atol=1e-12)
    np.testing.assert_allclose(found.lower, log.select(followed).returns(MDP.discount), atol=1e-12)


def test_a_final_score_bounds_a_probability():
    dead = np.eye(NUM_STATES)[3]
    found = Cohort(LOG, POLICY, process=MDP, discount=1.0).bounds(rewards=0.0, final=dead)
    assert (found.lower >= -1e-12).all()
    assert (found.upper <= 1 + 1e-12).all()
    exact = Cohort(LOG, POLICY, process=MDP).replay(GumbelMax()).last.toarray()[:, 3]
    assert (found.lower - 1e-9 <= exact).all()
    assert (exact <= found.upper + 1e-9).all()


def test_after_the_end_of_the_log_the_process_decides():
    """An episode of one step, followed for two more: the plain chain from where the first step can lead."""
    mdp = small_mdp(3, sparse=False)
    log = some_episodes(mdp, 5, seed=1, horizon=1)
    found = Cohort(log, POLICY, process=mdp, discount=1.0, horizon=HORIZON).bounds(
        rewards=0.0, final=np.ones(NUM_STATES)
    )
    np.testing.assert_allclose(found.lower, 1, atol=1e-12)
    np.testing.assert_allclose(found.upper, 1, atol=1e-12)
    assert state_distributions(mdp, POLICY, 2).shape == (3, NUM_STATES)


@pytest.mark.parametrize("stable", [False, True])
def test_many_episodes_are_what_they_are_alone(stable):
    together = Cohort(LOG, POLICY, process=MDP).bounds(stable=stable)
    for episode in range(0, len(LOG), 2):
        alone = Cohort(LOG.select([episode]), POLICY, process=MDP, horizon=LOG.longest).bounds(stable=stable)
        assert alone.lower[0] == pytest.approx(together.lower[episode], abs=1e-10)
        assert alone.upper[0] == pytest.approx(together.upper[episode], abs=1e-10)
