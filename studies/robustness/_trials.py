"""Random processes, logs of them, policies that look best on the estimate, and what the true process says."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from countermax.mdp import Doubt, EpisodeLog, FiniteMDP, estimate, policy_iteration, rank_episodes, simulate
from countermax.mdp import trajectory_bounds as bounds_of
from countermax.mdp.replays import SMALL
from studies.engine import Result
from studies.trajectories import sepsis_log, true_value

NUM_ACTIONS = 3
HORIZON = 8
NUM_RESAMPLES = 200
_PATIENCE = 0.95  # discount while planning, so that every policy has a value


class Family(NamedTuple):
    """Random processes: every row leads to some of the states, with probabilities from a flat Dirichlet."""

    num_states: int
    num_successors: int
    num_episodes: int


FAMILIES: dict[str, Family] = {
    "10 states, 2 successors, 100 episodes": Family(10, 2, 100),
    "10 states, 4 successors, 100 episodes": Family(10, 4, 100),
    "10 states, 4 successors, 400 episodes": Family(10, 4, 400),
    "10 states, 8 successors, 100 episodes": Family(10, 8, 100),
    "20 states, 4 successors, 100 episodes": Family(20, 4, 100),
    "20 states, 8 successors, 100 episodes": Family(20, 8, 100),
}


def random_process(family: Family, seed: int) -> FiniteMDP:
    """One of the family: the last state ends episodes, every other one may start them.

    Args:
        family: Sizes of the process.
        seed: Seed that picks the process.
    """
    random = np.random.default_rng([2, *family, seed])
    size = family.num_states
    transitions = np.zeros((size, NUM_ACTIONS, size))
    for state in range(size):
        for action in range(NUM_ACTIONS):
            reached = random.choice(size, family.num_successors, replace=False)
            transitions[state, action, reached] = random.dirichlet(np.ones(family.num_successors))
    start = np.append(np.full(size - 1, 1 / (size - 1)), 0)
    return FiniteMDP.from_dense(transitions, random.normal(size=size), start=start, absorbing=[size - 1])


def robust_gains(
    family: Family, num_processes: int, num_resamples: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """How many gains are called robust, how many of those are none in truth, and how many true ones are found.

    True is what holds under every mechanism of the true process, for the very episodes of the log.

    Args:
        family: The processes.
        num_processes: Number of processes, each logged once by random actions.
        num_resamples: Number of processes drawn to doubt an estimate.
        advance: Function that is told which fraction is done.
    """
    counts = np.zeros(6, np.int64)
    for seed in range(num_processes):
        process = random_process(family, seed)
        usual = np.full((family.num_states, NUM_ACTIONS), 1 / NUM_ACTIONS)
        draw = jax.random.fold_in(jax.random.key(0), seed)
        log = simulate(process, usual, num_episodes=family.num_episodes, horizon=HORIZON, key=draw)
        model = estimate(log, absorbing=process.absorbing)
        policy = policy_iteration(replace(model, discount=_PATIENCE)).policy
        counts += _counted(process, model, log, policy, num_resamples)
        advance((seed + 1) / num_processes)
    return dict(
        zip(("agreed", "agreed_wrongly", "robust", "robust_wrongly", "true", "found"), counts.tolist(), strict=True)
    )


def _counted(
    process: FiniteMDP, model: FiniteMDP, log: EpisodeLog, policy: np.ndarray, num_resamples: int
) -> np.ndarray:
    found = rank_episodes(
        model, log, policy, couplings=["gumbel-max"], doubt=Doubt(num_resamples=num_resamples), progress=False
    )
    truth = bounds_of(process, log, policy, progress=False).lower - found.observed > SMALL
    agreed, robust = found.bounds.lower > SMALL, found.robust
    return np.array([each.sum() for each in (agreed, agreed & ~truth, robust, robust & ~truth, truth, robust & truth)])


def sepsis_gains(num_episodes: int, num_resamples: int) -> Result:
    """Sepsis patients, and the policy that looks best on the estimate: how many are told of a gain, and of what worth.

    Args:
        num_episodes: Number of patients.
        num_resamples: Number of processes drawn to doubt the estimate.
    """
    log, model, simulator = sepsis_log(as_published=False, num_episodes=num_episodes, seed=0)
    policy = policy_iteration(model).policy
    doubt = Doubt(num_resamples=num_resamples)
    found = rank_episodes(model, log, policy, couplings=["gumbel-max"], discount=1.0, doubt=doubt, progress=False)
    return {
        "episodes": num_episodes,
        "agreed": int((found.bounds.lower > SMALL).sum()),
        "robust": int(found.robust.sum()),
        "observed": float(found.observed.mean()),
        "true_value": true_value(simulator, policy),
    }
