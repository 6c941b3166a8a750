"""From simulated patients to queries: a model, a target policy, and where it would act differently."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from countermax.mdp import (
    EpisodeLog,
    FiniteMDP,
    Query,
    estimate_policy,
    policy_iteration,
    query,
)
from countermax.mdp._estimation import visits
from countermax.mdp._planning import state_distributions
from studies.processes import sepsis
from studies.sepsis._cohort import (
    BEST_ACTION,
    DISCOUNT,
    HORIZON,
    estimated_model,
    in_the_simulator,
    published_model,
    simulated_cohort,
)

NUM_EPISODES = 20_000
NUM_QUERIES = 6
_LEAST_VISITS = 20
_LEAST_SUCCESSORS = {True: 5, False: 4}  # as published and repaired: how many outcomes each row must have


def pipeline_settings(*, as_published: bool) -> dict[str, int | float]:
    """What the queries depend on, to be stored beside results."""
    return {
        "num_episodes": NUM_EPISODES,
        "horizon": HORIZON,
        "best_action": BEST_ACTION,
        "discount": DISCOUNT,
        "least_successors": _LEAST_SUCCESSORS[as_published],
        "least_visits": 1 if as_published else _LEAST_VISITS,
    }


@dataclass(frozen=True)
class AskedQuery:
    """A query that the log contains, with what was seen and how much stands behind its rows."""

    query: Query
    outcome: int
    """The position of the observed next state among the outcomes."""
    times_logged: int
    visits: tuple[int, int]
    """How often each of the two actions was seen in the state."""


@dataclass(frozen=True)
class Pipeline:
    """Everything between the simulator and the queries."""

    log: EpisodeLog
    """Episodes in the projected space."""
    model: FiniteMDP
    target: NDArray[np.int64]
    """The action of the target policy in each projected state."""
    queries: tuple[AskedQuery, ...]
    num_candidates: int
    """How many distinct queries pass the filter."""
    shares: dict[str, tuple[float, float]]
    """Deaths and discharges within the horizon: in the data, in the model, and of the target policy in truth."""


@lru_cache
def run_pipeline(*, as_published: bool, seed: int = 0) -> Pipeline:
    """Follows the published steps one by one, or the repaired ones; a second or two.

    As published: the behaviour policy is planned as if death and discharge could be left again, ends are recorded as
    ordinary states and reach the absorbing pair only by a pseudo-count, what was never seen is death for certain, and
    queries are the first six distinct pairs of rows in a shuffled order. Repaired: ends end, arrivals in them are
    counted as such, actions seen fewer than twenty times in a state are not considered, and queries are the most
    frequent ones, one for each state.
    """
    episodes, log, simulator = simulated_cohort(as_published=as_published, num_episodes=NUM_EPISODES, seed=seed)
    model = published_model(episodes, log) if as_published else estimated_model(log, _LEAST_VISITS)
    plan = policy_iteration(model)
    candidates = list(_candidates(log, model, plan.actions, _LEAST_SUCCESSORS[as_published]))
    if as_published:
        candidates = _without_repeats(candidates)
        order = np.random.default_rng(seed).permutation(len(candidates))
        chosen = [candidates[each] for each in order[:NUM_QUERIES]]
    else:
        candidates.sort(key=lambda each: -each.times_logged)
        first = {each.query.state: each for each in reversed(candidates)}
        chosen = sorted(first.values(), key=lambda each: -each.times_logged)[:NUM_QUERIES]
    last = state_distributions(model, _behaviour_in_model(log, model), HORIZON)[-1]
    truth = state_distributions(simulator, in_the_simulator(plan.policy), HORIZON)[-1]
    rewards = np.tile(sepsis.rewards(), 2)
    shares = {
        "data": (float((episodes.returns() < 0).mean()), float((episodes.returns() > 0).mean())),
        "model": (float(last[sepsis.DEATH]), float(last[sepsis.DISCHARGE])),
        "target": (float(truth[rewards < 0].sum()), float(truth[rewards > 0].sum())),
    }
    return Pipeline(log, model, plan.actions, tuple(chosen), len(candidates), shares)


def _candidates(
    log: EpisodeLog, model: FiniteMDP, target: NDArray[np.int64], least_successors: int
) -> Iterator[AskedQuery]:
    """Logged (state, action) pairs for which the target policy acts differently, by their first appearance."""
    steps = log.steps()
    seen = visits(log)
    cells = steps.state * log.num_actions + steps.action
    distinct, first, times = np.unique(cells, return_index=True, return_counts=True)
    for place in np.argsort(first):
        state, action = divmod(int(distinct[place]), log.num_actions)
        other = int(target[state])
        if model.absorbing[state] or action == other or not model.allowed[state, [action, other]].all():
            continue
        asked = query(model, state, action, other)
        if min(np.isfinite(asked.p).sum(), np.isfinite(asked.q).sum()) < least_successors:
            continue
        outcome = asked.outcome_of(int(steps.next_state[first[place]]))
        behind = (int(seen[state, action]), int(seen[state, other]))
        yield AskedQuery(asked, outcome, int(times[place]), behind)


def _without_repeats(candidates: list[AskedQuery]) -> list[AskedQuery]:
    """As published, a pair of rows counts once, whichever step it was met in first."""
    found: dict[bytes, AskedQuery] = {}
    for each in candidates:
        found.setdefault(b"".join(part.tobytes() for part in each.query[3:]), each)
    return list(found.values())


def _behaviour_in_model(log: EpisodeLog, model: FiniteMDP) -> NDArray[np.float64]:
    """How often each action was taken, among those that the model allows."""
    policy = estimate_policy(log) * model.allowed
    totals = policy.sum(axis=1, keepdims=True)
    return np.where(
        totals > 0, policy / np.where(totals > 0, totals, 1), model.allowed / model.allowed.sum(axis=1)[:, None]
    )
