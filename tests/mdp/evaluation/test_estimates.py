"""Off-policy estimates: unbiased by enumeration, equal to plain loops, honest about what they rest on."""

import io
import json

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from test_replay import MDP, NUM_ACTIONS, NUM_STATES, POLICY, some_episodes

from countermax import GumbelMax, InputError
from countermax.mdp import (
    EpisodeLog,
    doubly_robust,
    effective_sample_size,
    estimate,
    estimate_policy,
    evaluate_policy,
    importance_estimates,
    importance_ratios,
    policy_value,
    policy_values,
    replay,
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
        one, its = log.select([episode]), ratios[[episode]]
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
    found = importance_estimates(LOG, ratios)
    np.testing.assert_allclose(found, LOG.returns().mean())
    assert effective_sample_size(ratios) == pytest.approx(len(LOG))


@pytest.fixture(scope="module")
def evaluation():
    return evaluate_policy(LOG, POLICY, mechanisms={"Gumbel-max": GumbelMax()}, num_bootstrap=12, key=jax.random.key(0))


def test_each_estimate_is_what_its_name_says(evaluation):
    model = estimate(LOG)
    assert evaluation["observed return"].value == pytest.approx(LOG.returns().mean())
    expected = policy_values(model, POLICY, horizon=LOG.longest, discount=1.0)[LOG.states[:, 0]].mean()
    assert evaluation["model-based"].value == pytest.approx(expected)
    replayed = replay(model, LOG, POLICY, GumbelMax(), discount=1.0)
    assert evaluation["counterfactual, Gumbel-max"].value == pytest.approx(replayed.mean)
    assert evaluation.bounds[0] < replayed.mean < evaluation.bounds[1]
    for each in evaluation.estimates:
        assert each.lower <= each.value <= each.upper
    with pytest.raises(KeyError, match="there are observed return"):
        evaluation["guess"]


def test_intervals_come_from_refitting_the_model(evaluation):
    """With a process that is known only the first states vary, which is far less."""
    known = evaluate_policy(LOG, POLICY, model=MDP, mechanisms={}, num_bootstrap=12, key=jax.random.key(0))
    wide, narrow = evaluation["model-based"], known["model-based"]
    assert wide.upper - wide.lower > 1.5 * (narrow.upper - narrow.lower)
    assert narrow.value == pytest.approx(policy_values(MDP, POLICY, horizon=3, discount=1.0)[LOG.states[:, 0]].mean())


def test_it_shows_itself(evaluation):
    console = Console(file=io.StringIO(), width=120)
    console.print(evaluation)
    text = console.file.getvalue()
    for word in ("weighted importance sampling", "95% interval", "any mechanism", "effective sample size"):
        assert word in text
    plain = json.loads(evaluation.to_json())
    assert plain["estimates"][0]["name"] == "observed return"
    assert evaluation.to_frame().loc["doubly robust", "kind"] == "importance sampling"
    assert isinstance(evaluation.plot(truth=0.1), Figure)


def test_thin_coverage_is_told():
    few = some_episodes(MDP, 6, seed=0)
    seen = np.zeros((NUM_STATES, NUM_ACTIONS))
    steps = few.steps()
    np.add.at(seen, (steps.state, steps.action), 1)
    target = np.eye(NUM_ACTIONS)[seen.argmin(axis=1)]
    found = evaluate_policy(few, target, mechanisms={}, num_bootstrap=0, key=jax.random.key(0))
    told = " ".join(found.warnings)
    assert "effective episodes" in told
    assert "rows of fewer than 10 visits" in told
    assert found["model-based"].lower is None
    plenty = evaluate_policy(LOG, estimate_policy(LOG), mechanisms={}, num_bootstrap=0, key=jax.random.key(0))
    assert plenty.warnings == ()


def test_actions_that_nobody_took_are_told_and_left_out():
    log = LOG.select(np.flatnonzero(~((LOG.states[:, :-1] == 1) & (LOG.actions == 1) & LOG.mask).any(axis=1)))
    target = np.eye(NUM_ACTIONS)[[0, 1, 0, 0]]
    found = evaluate_policy(log, target, mechanisms={"Gumbel-max": GumbelMax()}, num_bootstrap=0, key=jax.random.key(0))
    told = " ".join(found.warnings)
    assert "what nobody ever did" in told
    assert "the model knows no such action" in told


def test_bad_input_is_named(as_users_call):
    arguments = {"num_bootstrap": 0, "key": jax.random.key(0)}
    with pytest.raises(InputError, match=r"sum to one in each state, got 1.5 in state 0"):
        evaluate_policy(LOG, np.full((NUM_STATES, NUM_ACTIONS), 0.75), **arguments)
    with pytest.raises(InputError, match=r"of shape \(4, 2\), got \(2, 4\)"):
        evaluate_policy(LOG, POLICY.T, **arguments)
    never = np.eye(NUM_ACTIONS)[[0, 0, 0, 0]]
    with pytest.raises(InputError, match=r"but has none for action 1 in state \d \(episode \d+, step \d\)"):
        importance_ratios(LOG, POLICY, never)
    with pytest.raises(InputError, match="`level` within"):
        evaluate_policy(LOG, POLICY, level=1.0, **arguments)
