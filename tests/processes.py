"""Small decision processes and logs for the tests, by arrays that can be checked by hand."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd

from countermax.mdp import Cohort, FiniteMDP, simulate
from countermax.mdp._importance import corrected_values, model_values
from countermax.mdp._log import steps_of

NUM_STATES, NUM_ACTIONS, HORIZON = 4, 2, 3
STATES, ACTIONS = ("ill", "worse", "better", "home"), ("wait", "treat")


def small_mdp(seed, *, sparse=True):
    """Random rows, some of them with zeros; state 3 is the end; rewards for every transition."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(NUM_STATES), size=(NUM_STATES, NUM_ACTIONS))
    if sparse:
        transitions[0, 0, 1] = transitions[1, 1, 2] = transitions[2, 0, 3] = 0
    transitions /= transitions.sum(axis=2, keepdims=True)
    rewards = rng.normal(size=transitions.shape)
    return FiniteMDP.from_dense(transitions, rewards, start=[0.5, 0.3, 0.2, 0], absorbing=[3], discount=0.9)


def counted(mdp, counts):
    """The process as an estimate from these counts, [state, action, next state]."""
    seen = np.take_along_axis(np.asarray(counts), mdp.successors, axis=2) * (mdp.probs > 0)
    return replace(mdp, counts=seen * ~mdp.absorbing[:, None, None])


def some_episodes(mdp, num_episodes=6, seed=0, horizon=HORIZON):
    uniform = np.full((NUM_STATES, NUM_ACTIONS), 1 / NUM_ACTIONS)
    return simulate(mdp, uniform, num_episodes=num_episodes, horizon=horizon, key=jax.random.key(seed))


MDP = small_mdp(0)
LOG = some_episodes(MDP)
POLICY = np.random.default_rng(1).dirichlet(np.ones(NUM_ACTIONS), NUM_STATES)


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


def frame_of(*rows):
    return pd.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])


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


def steps_and_decisions(log, policy, *, names=False):
    """A log and a policy as people keep them: by index or by name."""
    steps = log.to_frame()
    rows = [(state, action, policy[state, action]) for state in range(3) for action in range(NUM_ACTIONS)]
    decisions = pd.DataFrame(rows, columns=["state", "action", "probability"])
    if names:
        for frame in (steps, decisions):
            for column in frame.columns.intersection(["state", "next_state"]):
                frame[column] = [STATES[each] for each in frame[column]]
            frame["action"] = [ACTIONS[each] for each in frame["action"]]
    return steps, decisions


def write_frames(frames, folder):
    """The same as CSV files."""
    paths = folder / "steps.csv", folder / "policy.csv"
    for frame, path in zip(frames, paths, strict=True):
        frame.to_csv(path, index=False)
    return paths


def single_decisions(mdp, log, coupling, *, otherwise=None, **options):
    """Single decisions about the one episode of a log; the policy plays no part in them."""
    anything = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    return Cohort(log, anything, process=mdp, **options).decisions(log.name_of(0), coupling, otherwise=otherwise)


def doubly_robust(mdp, log, target, ratios, *, weighted=False, horizon=None):
    """The model's value, corrected by importance sampling, over as many steps of every episode."""
    steps = np.full(len(log), steps_of(log, horizon))
    planned = model_values(mdp, log, target, steps, steps_of(log, horizon))
    found = corrected_values(planned, ratios, steps, mdp.discount)
    return found.weighted if weighted else found.robust
