"""Whole trajectories: exact replays beside sampled ones, and growth with horizon and number of states."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.measure import Row
from countermax import GumbelMax
from countermax.experiments.trajectories import sepsis_log
from countermax.mdp import EpisodeLog, FiniteMDP, policy_iteration, replay, sample_replay, simulate, trajectory_bounds
from countermax.mdp.policies import softened
from countermax.mdp.processes import sepsis

NUM_EPISODES, SOME, FEW, NUM_DRAWS, HORIZON = 20_000, 500, 200, 1000, 20


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield from _sepsis()
    yield from _growth()


def _once(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _sepsis() -> Iterator[Row]:
    log, model, _ = sepsis_log(as_published=True, num_episodes=NUM_EPISODES, seed=0)
    target = policy_iteration(model).policy
    few = log.select(np.arange(FEW))

    def exact(episodes: EpisodeLog) -> None:
        replay(model, episodes, target, GumbelMax(), progress=False)

    exact(few)  # compiles
    spent = _once(lambda: exact(log))
    yield Row(f"sepsis: {NUM_EPISODES} episodes replayed exactly, Gumbel-max", spent, "s")
    yield Row("the same", NUM_EPISODES / spent, "episodes per second")
    spent = _once(lambda: trajectory_bounds(model, log, target, progress=False))
    yield Row(f"bounds over all couplings for {NUM_EPISODES} episodes", spent, "s")
    sampled = _once(
        lambda: sample_replay(model, few, target, GumbelMax(), num_samples=NUM_DRAWS, key=jax.random.key(0))
    )
    yield Row(
        f"drawn with {NUM_DRAWS} trajectories each, against exact",
        sampled / _once(lambda: exact(few)),
        "times as long",
        f"{FEW} episodes; and the drawn answers have sampling error",
    )


def _growth() -> Iterator[Row]:
    for horizon in (10, 20, 40):
        spent = _replayed(sepsis.process(), horizon)
        yield Row(f"{SOME} episodes over 1440 states, horizon {horizon}", spent, "s")
    for num_states in (50, 200, 800):
        spent = _replayed(_random_process(num_states), HORIZON)
        yield Row(f"{SOME} episodes over {num_states} states, 6 successors each, horizon {HORIZON}", spent, "s")


def _replayed(mdp: FiniteMDP, horizon: int) -> float:
    """Seconds for a replay that is already compiled."""
    best = policy_iteration(mdp).policy
    log = simulate(mdp, softened(best, 0.7), num_episodes=SOME, horizon=horizon, key=jax.random.key(0))

    def exact() -> None:
        replay(mdp, log, best, GumbelMax(), progress=False)

    exact()
    return _once(exact)


def _random_process(num_states: int, num_actions: int = 4, width: int = 6) -> FiniteMDP:
    random = np.random.default_rng(0)
    transitions = np.zeros((num_states, num_actions, num_states))
    for state in range(num_states):
        for action in range(num_actions):
            reached = random.choice(num_states, width, replace=False)
            transitions[state, action, reached] = random.dirichlet(np.ones(width))
    return FiniteMDP.from_dense(transitions, random.normal(size=num_states), start=0, discount=0.95)
