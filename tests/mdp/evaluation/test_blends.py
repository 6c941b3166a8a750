"""MAGIC, fitted Q evaluation and lower limits, beside plain loops and simulated logs."""

import jax
import numpy as np
import pytest
from processes import MDP, NUM_ACTIONS, NUM_STATES, POLICY, some_episodes
from scipy.optimize import minimize
from scipy.stats import binom, norm, t

from countermax.mdp import Cohort, estimate, estimate_policy, policy_value, simulate
from countermax.mdp._importance import (
    corrected_values,
    importance_estimates,
    importance_ratios,
    lower_limits,
    model_values,
)
from countermax.mdp._planning import policy_values

KEY = jax.random.key(0)
FALSE_ALARM = 1e-3


def magic_by_hand(model, log, target, behaviour, discount):
    """Thomas and Brunskill's parts g(-1), g(0), ..., and the blend of least estimated error, by a general solver."""
    count, longest = len(log), log.longest
    weights = np.ones((count, longest))
    for k in range(count):
        running = 1.0
        for time in range(longest):
            if time < log.lengths[k]:
                state, action = log.states[k, time], log.actions[k, time]
                running *= target[state, action] / behaviour[state, action]
            weights[k, time] = running
    weights /= weights.sum(axis=0)
    values = [policy_values(model, target, horizon=left, discount=discount) for left in range(longest + 1)]
    rows = np.zeros((NUM_STATES, NUM_ACTIONS, NUM_STATES))
    rewards = np.zeros_like(rows)
    for state, action, slot in zip(*np.nonzero(model.probs), strict=True):
        reached = model.successors[state, action, slot]
        rows[state, action, reached] = model.probs[state, action, slot]
        rewards[state, action, reached] = model.rewards[state, action, slot]
    parts = np.zeros((count, longest + 1))
    for k in range(count):
        for corrected in range(longest + 1):  # steps that are corrected: g(corrected - 1)
            total = values[longest][log.states[k, 0]] / count
            for time in range(min(corrected, log.lengths[k])):
                state, action, after = log.states[k, time], log.actions[k, time], log.states[k, time + 1]
                later = values[longest - time - 1]
                worth = rows[state, action] @ (rewards[state, action] + discount * later)
                surprise = log.rewards[k, time] + discount * later[after] - worth
                total += discount**time * weights[k, time] * surprise
            parts[k, corrected] = total
    means = parts.sum(axis=0)
    errors = count / (count - 1) * np.cov(parts.T, ddof=0) * count
    near = norm.ppf(0.95) * np.sqrt(errors[-1, -1])
    bias = np.array([max(each - means[-1] - near, means[-1] - near - each, 0) for each in means])
    form = errors + np.outer(bias, bias)
    form /= form.max()
    found = [
        minimize(
            lambda x: x @ form @ x,
            start,
            jac=lambda x: 2 * form @ x,
            bounds=[(0, 1)] * (longest + 1),
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        for start in (*np.eye(longest + 1), np.full(longest + 1, 1 / (longest + 1)))
    ]
    best = min(found, key=lambda each: each.fun)
    return best.x @ means, means, form, best.x


@pytest.mark.parametrize(("seed", "count"), [(3, 30), (5, 200), (8, 12)])
def test_magic_is_that_of_plain_loops_and_a_general_solver(seed, count):
    log = some_episodes(MDP, count, seed=seed, horizon=5)
    model = estimate(log.select(np.arange(len(log) // 3)), unseen=3, discount=0.9)  # biased, so that parts disagree
    behaviour = estimate_policy(log, pseudo_count=1.0)
    steps = np.full(len(log), log.longest)
    planned = model_values(model, log, POLICY, steps, log.longest)
    found = corrected_values(planned, importance_ratios(log, POLICY, behaviour), steps, 0.9)
    by_hand, parts, form, shares = magic_by_hand(model, log, POLICY, behaviour, 0.9)
    assert found.weighted == pytest.approx(parts[-1], abs=1e-10)
    assert found.magic == pytest.approx(by_hand, abs=1e-4 * np.ptp(parts) + 1e-9)
    assert parts.min() - 1e-9 <= found.magic <= parts.max() + 1e-9
    assert shares @ form @ shares <= np.diag(form).min() + 1e-9


def test_where_the_model_is_exact_and_weights_are_wild_magic_is_the_model():
    log = simulate(MDP, np.full((NUM_STATES, NUM_ACTIONS), 0.5), num_episodes=40, horizon=8, key=KEY)
    extreme = np.eye(NUM_ACTIONS)[[0, 1, 1, 0]]
    found = Cohort(log, extreme, process=MDP, behaviour=np.full((4, 2), 0.5)).evaluate([], num_resamples=0)
    model, weighted = found["model-based"].value, found["weighted doubly robust"].value
    assert abs(found["MAGIC"].value - model) < 0.5 * abs(weighted - model)


def test_fitted_q_evaluation_is_the_model_based_estimate():
    """Regressions on a table: each is a mean over the steps of the log, once for each step that is left."""
    log, horizon = some_episodes(MDP, 300, seed=3), 7
    q = np.zeros((NUM_STATES, NUM_ACTIONS))
    for _ in range(horizon):
        targets = {}
        for step in zip(*log.steps()[2:], strict=True):
            state, action, after, reward = step
            targets.setdefault((state, action), []).append(reward + 0.8 * POLICY[after] @ q[after])
        q = np.zeros_like(q)
        for pair, values in targets.items():
            q[pair] = np.mean(values)
    whole = log.select(np.flatnonzero(log.last_states == 3))
    cohort = Cohort(whole, POLICY, process=estimate(log, absorbing=[3]), discount=0.8, horizon=horizon)
    expected = (POLICY * q).sum(axis=1)[whole.states[:, 0]].mean()
    assert cohort.evaluate([], num_resamples=0)["model-based"].value == pytest.approx(expected)


def test_lower_limits_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    returns, weights = rng.uniform(-1, 1, 205), rng.exponential(size=205)
    found = lower_limits(returns, weights, -1.0, 0.9)
    x = [weight * (each + 1) for weight, each in zip(weights, returns, strict=True)]
    mean = sum(x) / 205
    spread = (sum((each - mean) ** 2 for each in x) / 204) ** 0.5
    assert found["Student"] == pytest.approx(mean - 1 - t.ppf(0.9, 204) * spread / 205**0.5)
    kept = [each for place, each in enumerate(x) if place % 20 != 19]
    n, error = len(kept), np.log(2 / 0.1)

    def limit(cut):
        y = [min(each, cut) for each in kept]
        pairs = sum((a - b) ** 2 for a in y for b in y)  # Maurer and Pontil's variance
        return sum(y) / n - 7 * cut * error / (3 * (n - 1)) - np.sqrt(error / (n - 1) * pairs) / n - 1

    best = max(limit(cut) for cut in np.geomspace(0.01, 100, 300))
    assert best - 0.2 < found["empirical Bernstein"] <= best + 1e-3
    assert set(lower_limits(returns[:30], weights[:30], -1.0, 0.9)) == {"Student"}  # too few to choose a cut
    assert lower_limits(returns[:1], weights[:1], -1.0, 0.9) == {}


def test_lower_limits_hold_as_often_as_they_say():
    """Behaviour known, 400 logs of 60 episodes: empirical Bernstein always at the level, Student nearly."""
    uniform, horizon, size, trials = np.full((NUM_STATES, NUM_ACTIONS), 0.5), 3, 60, 400
    target = np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5], [1.0, 0.0]])
    log = simulate(MDP, uniform, num_episodes=size * trials, horizon=horizon, key=jax.random.key(11))
    weights = importance_ratios(log, target, uniform)[:, -1].reshape(trials, size)
    returns = log.returns(MDP.discount).reshape(trials, size)
    truth, least = policy_value(MDP, target, horizon=horizon), float(returns.min())
    found = [lower_limits(one, ratios, least, 0.95) for one, ratios in zip(returns, weights, strict=True)]
    most = binom.isf(FALSE_ALARM, trials, 0.05)
    assert sum(each["empirical Bernstein"] > truth for each in found) <= most
    assert sum(each["Student"] > truth for each in found) <= most
    assert np.mean([each["empirical Bernstein"] < each["Student"] for each in found]) > 0.9


def test_lower_limits_are_shown_with_what_they_assume():
    log = some_episodes(MDP, 200, seed=3)
    uniform = np.full((NUM_STATES, NUM_ACTIONS), 0.5)
    known = Cohort(log, POLICY, behaviour=uniform).evaluate([], num_resamples=0, level=0.9)
    assert [each.method for each in known.lower_limits] == ["Student", "empirical Bernstein"]
    ratios = importance_ratios(log, POLICY, uniform)
    ordinary = importance_estimates(log, ratios, discount=1.0).ordinary
    assert all(each.value < ordinary for each in known.lower_limits)
    assert known.row("90 % lower limit, Student").value == known.lower_limits[0].value
    assert any("if no return is below" in each and "is estimated" not in each for each in known.notes)
    guessed = Cohort(log, POLICY).evaluate([], num_resamples=0)
    assert any("Both need a known behaviour policy; here it is estimated" in each for each in guessed.notes)
