"""Makes scope_rl.json: what the classes of scope-rl say of small logs. Not a test, and no part of the suite.

    pip install numpy scipy scikit-learn gym && pip install --no-deps scope-rl==0.2.1
    python tests/mdp/evaluation/make_scope_rl.py

in an environment of its own.

Only the estimators are asked, so what they do not use (d3rlpy, torch) is replaced by empty modules. After an episode's
end its steps are filled with a certain action, no reward and a value of zero, which is how scope-rl wants them.
scope-rl's distributions discount the first reward too, so returns are compared without a discount.
"""

import importlib
import importlib.metadata
import json
import sys
import types
from pathlib import Path

import numpy as np

NUM_STATES, NUM_ACTIONS, END, HORIZON = 4, 3, 3, 5
SHARES = (0.05, 0.2, 0.35, 0.5, 0.8)


def estimators():
    """The modules with the estimators, without the rest of the package."""
    found = importlib.metadata.distribution("scope-rl").locate_file("scope_rl")
    for name, path in (
        ("d3rlpy", None),
        ("d3rlpy.preprocessing", None),
        ("scope_rl", found),
        ("scope_rl.ope", found / "ope"),
    ):
        module = types.ModuleType(name)
        module.__path__ = [] if path is None else [str(path)]
        sys.modules[name] = module
    sys.modules["d3rlpy.preprocessing"].ActionScaler = object
    discrete = types.ModuleType("scope_rl.ope.discrete")
    discrete.__path__ = [str(found / "ope" / "discrete")]
    sys.modules["scope_rl.ope.discrete"] = discrete
    return (
        importlib.import_module("scope_rl.ope.discrete.basic_estimators"),
        importlib.import_module("scope_rl.ope.discrete.cumulative_distribution_estimators"),
    )


def case(seed, count, *, ends, discount):
    """A random process, a log of it, and two policies."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(NUM_STATES), (NUM_STATES, NUM_ACTIONS))
    if not ends:
        transitions[..., END] = 0
        transitions /= transitions.sum(axis=2, keepdims=True)
    transitions[END] = np.eye(NUM_STATES)[END]
    rewards = rng.normal(size=transitions.shape).round(3)
    rewards[END] = 0
    behaviour, target = rng.dirichlet(2 * np.ones(NUM_ACTIONS), (2, NUM_STATES))
    states, actions, earned, lengths = [], [], [], []
    for _ in range(count):
        path, done, gains = [int(rng.integers(0, END))], [], []
        while len(done) < HORIZON and path[-1] != END:
            action = int(rng.choice(NUM_ACTIONS, p=behaviour[path[-1]]))
            after = int(rng.choice(NUM_STATES, p=transitions[path[-1], action]))
            gains.append(round(float(rewards[path[-1], action, after] + rng.normal()), 3))
            done.append(action)
            path.append(after)
        lengths.append(len(done))
        missing = HORIZON - len(done)
        states.append([*path, *[path[-1]] * missing])
        actions.append([*done, *[0] * missing])
        earned.append([*gains, *[0.0] * missing])
    return {
        "transitions": transitions.tolist(), "process_rewards": rewards.tolist(), "absorbing": [END],
        "behaviour": behaviour.tolist(), "target": target.tolist(), "discount": discount,
        "states": states, "actions": actions, "rewards": earned, "lengths": lengths,
    }  # fmt: skip


def action_values(given):
    """[steps to go, state, action], by plain recursion."""
    transitions, rewards = np.array(given["transitions"]), np.array(given["process_rewards"])
    later, found = np.zeros(NUM_STATES), [None]
    for _ in range(HORIZON):
        found.append((transitions * (rewards + given["discount"] * later)).sum(axis=2))
        later = (found[-1] * np.array(given["target"])).sum(axis=1)
    return found


def asked(given, basic, distributions):
    states, actions = np.array(given["states"]), np.array(given["actions"])
    behaviour, target, values = np.array(given["behaviour"]), np.array(given["target"]), action_values(given)
    count = len(states)
    chances, wanted = np.ones((count, HORIZON)), np.zeros((count, HORIZON, NUM_ACTIONS))
    predicted = np.zeros((count, HORIZON, NUM_ACTIONS))
    wanted[..., 0] = 1
    for episode in range(count):
        for step in range(given["lengths"][episode]):
            state = states[episode, step]
            chances[episode, step] = behaviour[state, actions[episode, step]]
            wanted[episode, step] = target[state]
            predicted[episode, step] = values[HORIZON - step][state]
    inputs = {
        "step_per_trajectory": HORIZON, "action": actions.ravel(), "reward": np.array(given["rewards"]).ravel(),
        "pscore": chances.ravel(), "evaluation_policy_action_dist": wanted.reshape(-1, NUM_ACTIONS),
        "state_action_value_prediction": predicted.reshape(-1, NUM_ACTIONS),
    }  # fmt: skip
    names = {
        "ordinary": "TrajectoryWiseImportanceSampling", "per_decision": "PerDecisionImportanceSampling",
        "weighted": "SelfNormalizedTIS", "weighted_per_decision": "SelfNormalizedPDIS",
        "doubly_robust": "DoublyRobust", "weighted_doubly_robust": "SelfNormalizedDR", "model": "DirectMethod",
    }  # fmt: skip
    found = {
        ours: float(getattr(basic, theirs)().estimate_policy_value(**inputs, gamma=given["discount"]))
        for ours, theirs in names.items()
    }
    returns = np.unique(np.array(given["rewards"]).sum(axis=1))
    # A bin holds its left edge and not its right one: edges just above the returns hold one return each.
    edges = np.concatenate([[returns[0] - 1], np.nextafter(returns, np.inf)])
    for ours, theirs in (("", "CumulativeDistributionTIS"), ("weighted_", "CumulativeDistributionSNTIS")):
        made = getattr(distributions, theirs)()
        at = {**inputs, "reward_scale": edges}
        found[f"{ours}distribution"] = {
            "returns": returns.tolist(),
            "cdf": made.estimate_cumulative_distribution_function(**at)[1:].tolist(),
            "mean": float(made.estimate_mean(**at)),
            "variance": float(made.estimate_variance(**at)),
            "cvar": made.estimate_conditional_value_at_risk(**at, alphas=np.array(SHARES)).tolist(),
        }
    return found


if __name__ == "__main__":
    modules = estimators()
    given = {
        "all steps": case(1, 8, ends=False, discount=1.0),
        "all steps, discounted": case(2, 12, ends=False, discount=0.9),
        "some end early, discounted": case(3, 15, ends=True, discount=0.8),
        "ratios sum to more than one": case(8, 10, ends=True, discount=1.0),
    }
    record = {
        "made_by": "tests/mdp/evaluation/make_scope_rl.py",
        "scope-rl": importlib.metadata.version("scope-rl"),
        "numpy": np.__version__,
        "horizon": HORIZON,
        "shares": SHARES,
        "cases": {name: {"input": each, "scope_rl": asked(each, *modules)} for name, each in given.items()},
    }
    text = json.dumps(record)
    Path(__file__).with_name("scope_rl.json").write_text(text.replace(', "', ',\n"') + "\n")
