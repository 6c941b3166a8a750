"""Importance sampling: unbiased by enumeration, equal to plain loops."""

import numpy as np
import pytest
from processes import MDP, NUM_ACTIONS, NUM_STATES, POLICY, doubly_robust, some_episodes

from countermax import InputError
from countermax.mdp import EpisodeLog, estimate, estimate_policy, policy_value
from countermax.mdp._importance import (
    effective_sample_size,
    importance_estimates,
    importance_ratios,
    marginalised_value,
    step_ratios,
)

BEHAVIOUR = np.random.default_rng(2).dirichlet(3 * np.ones(NUM_ACTIONS), NUM_STATES)
LOG = some_episodes(MDP, 400, seed=3)


def all_episodes(horizon):
    """Every episode that the process can have, with its probability under the behaviour."""
    paths = [([state], [], [], MDP.start[state]) for state in range(NUM_STATES) if MDP.start[state]]
    for _ in range(horizon):
        longer = []
        for states, actions, rewards, chance in paths:
            if MDP.absorbing[states[-1]]:
                longer.append((states, actions, rewards, chance))
                continue
            for action in range(NUM_ACTIONS):
                reached, probs = MDP.support(states[-1], action)
                for slot, (successor, prob) in enumerate(zip(reached.tolist(), probs, strict=True)):
                    gain = MDP.rewards[states[-1], action, slot]
                    odds = chance * BEHAVIOUR[states[-1], action] * prob
                    longer.append(([*states, successor], [*actions, action], [*rewards, gain], odds))
        paths = longer
    width = max(len(actions) for _, actions, _, _ in paths)

    def padded(row, size):
        return [*row, *[0] * (size - len(row))]

    log = EpisodeLog(
        states=np.array([padded(states, width + 1) for states, _, _, _ in paths]),
        actions=np.array([padded(actions, width) for _, actions, _, _ in paths]),
        rewards=np.array([padded(rewards, width) for _, _, rewards, _ in paths], float),
        lengths=np.array([len(actions) for _, actions, _, _ in paths]),
        num_states=NUM_STATES,
        num_actions=NUM_ACTIONS,
    )
    return log, np.array([chance for _, _, _, chance in paths])


def test_importance_sampling_and_doubly_robust_are_unbiased_over_all_episodes():
    """Each estimator on every single episode, averaged with the episodes' probabilities, is the exact value."""
    log, chances = all_episodes(2)
    assert chances.sum() == pytest.approx(1)
    truth = policy_value(MDP, POLICY, horizon=2)
    ratios = importance_ratios(log, POLICY, BEHAVIOUR)
    wrong = estimate(some_episodes(MDP, 300, seed=9), discount=MDP.discount)  # a poor model must do no harm
    totals = np.zeros(3)
    for episode, chance in enumerate(chances):
        one = log.select([episode])
        its = ratios[[episode], : one.longest]
        found = importance_estimates(one, its, discount=MDP.discount)
        robust = doubly_robust(wrong, one, POLICY, its, horizon=2)
        totals += chance * np.array([found.ordinary, found.per_decision, robust])
    np.testing.assert_allclose(totals, truth, atol=1e-12)


def test_estimates_are_those_of_plain_loops():
    behaviour = estimate_policy(LOG)
    found = importance_estimates(LOG, importance_ratios(LOG, POLICY, behaviour), discount=0.8)
    ordinary, per_decision, weights = [], [], []
    for episode in range(len(LOG)):
        weight, total, decided = 1.0, 0.0, 0.0
        for step in range(LOG.lengths[episode]):
            state, action = LOG.states[episode, step], LOG.actions[episode, step]
            weight *= POLICY[state, action] / behaviour[state, action]
            total += 0.8**step * LOG.rewards[episode, step]
            decided += 0.8**step * weight * LOG.rewards[episode, step]
        weights.append(weight)
        ordinary.append(weight * total)
        per_decision.append(decided)
    assert found.ordinary == pytest.approx(np.mean(ordinary))
    assert found.per_decision == pytest.approx(np.mean(per_decision))
    assert found.weighted == pytest.approx(np.sum(ordinary) / np.sum(weights))
    size = effective_sample_size(importance_ratios(LOG, POLICY, behaviour))
    assert size == pytest.approx(np.sum(weights) ** 2 / np.sum(np.square(weights)))


def test_with_the_behaviour_as_target_everything_is_the_observed_return():
    behaviour = estimate_policy(LOG)
    ratios = importance_ratios(LOG, behaviour, behaviour)
    found = importance_estimates(LOG, ratios, discount=1.0)
    np.testing.assert_allclose(found, LOG.returns().mean())
    assert effective_sample_size(ratios) == pytest.approx(len(LOG))


def test_bad_input_is_named(as_users_call):
    never = np.eye(NUM_ACTIONS)[[0, 0, 0, 0]]
    with pytest.raises(InputError, match=r"but has none for action 1 in state \d \(episode \d+, step \d\)"):
        importance_ratios(LOG, POLICY, never)
    with pytest.raises(InputError, match=r"`behaviour` must sum to one in each state, got 2 in state 0"):
        importance_ratios(LOG, POLICY, 2 * POLICY)
    with pytest.raises(InputError, match="`discount` must be at most 1.0, got 1.5"):
        importance_estimates(LOG, importance_ratios(LOG, POLICY, estimate_policy(LOG)), discount=1.5)


@pytest.mark.parametrize(("known", "expected"), [(True, 1.0), (False, 0.75)])
def test_importance_sampling_is_unbiased_with_a_known_behaviour_and_not_with_frequencies(known, expected):
    """Two episodes of one step that earns 1 whatever is done: all four logs, each as likely as the others."""
    behaviour, target = np.full((1, 2), 0.5), np.array([[0.2, 0.8]])
    found = []
    for actions in np.ndindex(2, 2):
        done = {"actions": np.array(actions)[:, None], "rewards": np.ones((2, 1)), "lengths": np.ones(2, int)}
        log = EpisodeLog(states=np.zeros((2, 2), int), **done, num_states=1, num_actions=2)
        ratios = importance_ratios(log, target, behaviour if known else estimate_policy(log))
        found.append(importance_estimates(log, ratios, discount=1.0)[:2])
    assert np.mean(found, axis=0) == pytest.approx([expected, expected])


def marginalised_by_hand(log, target, behaviour, discount):
    """Xie, Ma and Wang: state distributions at each time, carried on by weighted transitions of that time."""
    total, mass = 0.0, {}
    for state in log.states[:, 0].tolist():
        mass[state] = mass.get(state, 0) + 1 / len(log)
    for time in range(log.longest):
        after = {}
        for state, share in mass.items():
            at = [each for each in range(len(log)) if time < log.lengths[each] and log.states[each, time] == state]
            for each in at:
                action = log.actions[each, time]
                ratio = target[state, action] / behaviour[state, action] / len(at)
                total += discount**time * share * ratio * log.rewards[each, time]
                if time + 1 < log.lengths[each]:
                    reached = int(log.states[each, time + 1])
                    after[reached] = after.get(reached, 0) + share * ratio
        mass = after
    return total


def test_marginalised_importance_sampling_is_that_of_plain_loops():
    for seed, horizon in ((3, 3), (4, 6)):
        log = some_episodes(MDP, 80, seed=seed, horizon=horizon)
        found = marginalised_value(log, step_ratios(log, POLICY, BEHAVIOUR), 0.9, horizon)
        assert found == pytest.approx(marginalised_by_hand(log, POLICY, BEHAVIOUR, 0.9), abs=1e-12)


def test_marginalised_importance_sampling_is_unbiased_over_all_logs():
    """Every log of two episodes, its states apart from all others', its rewards times the log's probability."""
    log, chances = all_episodes(2)
    first, second = (each.ravel() for each in np.indices((len(log), len(log))))
    chosen = np.stack([first, second], axis=1).ravel()
    apart = NUM_STATES * np.repeat(np.arange(len(first)), 2)[:, None]
    every = EpisodeLog(
        states=log.states[chosen] + apart,
        actions=log.actions[chosen],
        rewards=log.rewards[chosen] * np.repeat(chances[first] * chances[second], 2)[:, None],
        lengths=log.lengths[chosen],
        num_states=NUM_STATES * len(first),
        num_actions=NUM_ACTIONS,
    )
    found = marginalised_value(every, step_ratios(log, POLICY, BEHAVIOUR)[chosen], MDP.discount, 2) * len(first)
    assert found == pytest.approx(policy_value(MDP, POLICY, horizon=2), abs=1e-12)
