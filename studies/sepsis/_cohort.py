"""Simulated sepsis patients, their records and the models that records give: as published, and repaired.

Everything that the published slips touch is here: the simulator's glucose, the policy that treats, what is recorded of
an end, and how a model is estimated.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from countermax.mdp import (
    EpisodeLog,
    FiniteMDP,
    estimate,
    policy_iteration,
    simulate,
)
from countermax.mdp._estimation import softened
from studies.processes import sepsis

HORIZON = 20
DISCOUNT = 0.99
BEST_ACTION = 0.95
_ENDS = (sepsis.DEATH, sepsis.DISCHARGE)


class Cohort(NamedTuple):
    """Patients, twice: as the simulator knows them, and as a clinician sees them."""

    episodes: EpisodeLog
    """Episodes in the simulator's states."""
    log: EpisodeLog
    """The same without glucose and diabetes, in the projected space of 146 states."""
    simulator: FiniteMDP


def simulated_cohort(*, as_published: bool, num_episodes: int, seed: int) -> Cohort:
    """Draws patients who are treated by the best policy, with one step in twenty left to chance.

    Args:
        as_published: Whether the simulator, the treatment and the records keep the published slips: glucose that
            hardly rises, a policy planned as if death and discharge could be left again, and ends that are recorded
            as ordinary states.
        num_episodes: Number of patients.
        seed: Seed of the draw.
    """
    simulator, behaviour = _treatment(as_published)
    episodes = simulate(simulator, behaviour, num_episodes=num_episodes, horizon=HORIZON, key=jax.random.key(seed))
    projection = sepsis.projection(as_published=as_published)
    log = episodes.with_states(projection, sepsis.NUM_PROJECTED, state_names=sepsis.projected_names())
    return Cohort(episodes, log, simulator)


@lru_cache
def _treatment(as_published: bool) -> tuple[FiniteMDP, NDArray[np.float64]]:
    """The simulator and the policy that treats."""
    simulator = sepsis.process(as_published=as_published, discount=DISCOUNT)
    planned = sepsis.process(as_published=True, absorbing=False, discount=DISCOUNT) if as_published else simulator
    return simulator, softened(policy_iteration(planned).policy, BEST_ACTION)


def estimated_model(log: EpisodeLog, least_visits: int = 1) -> FiniteMDP:
    """Frequencies of the actions that were seen often enough; death and discharge are ends, and counted as such."""
    return estimate(log, absorbing=_ENDS, least_visits=least_visits, discount=DISCOUNT)


def published_model(episodes: EpisodeLog, log: EpisodeLog) -> FiniteMDP:
    """The published projection: 146 states in which deaths and discharges lose their way.

    Every observed state in which an episode ended sends one pseudo-count for each action from the ordinary state that
    shares its vital signs to the absorbing one; what was never counted is death.

    Args:
        episodes: Episodes in full states.
        log: The same in the projected space, ends recorded by their vital signs.
    """
    size, num_actions = sepsis.NUM_PROJECTED, sepsis.ACTIONS.count
    counts = np.zeros((size, num_actions, size))
    steps = log.steps()
    np.add.at(counts, (steps.state, steps.action, steps.next_state), 1)
    rewards = sepsis.rewards()
    ended = np.unique(episodes.steps().next_state % sepsis.OBSERVED.count)
    for observed in ended[rewards[ended] != 0]:
        end = sepsis.DEATH if rewards[observed] < 0 else sepsis.DISCHARGE
        counts[sepsis.projected(observed), :, end] += 1
    totals = counts.sum(axis=2, keepdims=True)
    transitions = np.where(totals > 0, counts / np.maximum(totals, 1), np.eye(size)[sepsis.DEATH])
    gains = np.zeros(size)
    gains[sepsis.DEATH], gains[sepsis.DISCHARGE] = -1, 1
    return FiniteMDP.from_dense(
        transitions,
        gains,
        start=np.bincount(log.states[:, 0], minlength=size) / len(log),
        discount=DISCOUNT,
        absorbing=_ENDS,
        counts=counts,
        state_names=log.state_names,
        action_names=log.action_names,
    )


def in_the_simulator(policy: NDArray[np.float64]) -> NDArray[np.float64]:
    """A policy over projected states as one over the simulator's: alike where a clinician sees no difference."""
    return policy[sepsis.projection(as_published=True)]
