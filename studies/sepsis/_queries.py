"""From simulated patients and records to trials: models, policies, queries and scores; as published, and repaired."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from countermax.mdp import EpisodeLog, FiniteMDP, estimate, estimate_policy, policy_iteration, simulate
from countermax.mdp._estimation import softened, visits
from countermax.mdp._planning import state_distributions
from studies.processes import sepsis
from studies.processes.icu import icu_sepsis
from studies.queries import Query, query

HORIZON = 20
DISCOUNT = 0.99
BEST_ACTION = 0.95
_ENDS = (sepsis.DEATH, sepsis.DISCHARGE)


class SimulatedCohort(NamedTuple):
    """Patients, twice: as the simulator knows them, and as a clinician sees them."""

    episodes: EpisodeLog
    """Episodes in the simulator's states."""
    log: EpisodeLog
    """The same without glucose and diabetes, in the projected space of 146 states."""
    simulator: FiniteMDP


def simulated_cohort(*, as_published: bool, num_episodes: int, seed: int) -> SimulatedCohort:
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
    return SimulatedCohort(episodes, log, simulator)


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
    entry = *_, successor = np.nonzero(transitions)
    columns = (*entry, transitions[entry], gains[successor], counts[entry])
    return FiniteMDP.from_transitions(
        dict(zip(("state", "action", "successor", "probs", "rewards", "counts"), columns, strict=True)),
        num_states=size,
        num_actions=num_actions,
        start=np.bincount(log.states[:, 0], minlength=size) / len(log),
        discount=DISCOUNT,
        absorbing=_ENDS,
        state_names=log.state_names,
        action_names=log.action_names,
    )


def in_the_simulator(policy: NDArray[np.float64]) -> NDArray[np.float64]:
    """A policy over projected states as one over the simulator's: alike where a clinician sees no difference."""
    return policy[sepsis.projection(as_published=True)]


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


Floats = NDArray[np.float64]

WORLDS = {
    "states": "sepsis, outcomes are states",
    "vitals": "sepsis, outcomes are vital signs",
    "icu-sofa": "ICU records, SOFA score",
    "icu-features": "ICU records, clinical features",
}
_END_REWARD = 4.0
_WORST_SOFA = 24.0  # the top of the scale; nobody scores higher than the dead
_GLUCOSE_SEEN = 4  # the published look-up of a projected state's glucose always finds the highest level
_NUM_VITALS = sepsis.PROJECTED.count // 8


@dataclass(frozen=True)
class Trials:
    """Pairs with scores, padded to one width with outcomes that neither world can reach."""

    log_p: Float[np.ndarray, "n k"]
    log_q: Float[np.ndarray, "n k"]
    score: Float[np.ndarray, "n k d"]
    """The score of each outcome in the factual world."""
    other_score: Float[np.ndarray, "n k d"]
    """The score of the same outcome in the other world; it differs where the outcome does not tell the whole state."""
    outcome: Int[np.ndarray, " n"]
    """What was seen."""
    pair: Int[np.ndarray, " n"]
    """Which trials share a pair."""

    def __len__(self) -> int:
        return len(self.log_p)

    @property
    def overlap(self) -> Floats:
        """The probability that both worlds give to the same outcomes, for each trial."""
        return np.minimum(np.exp(self.log_p), np.exp(self.log_q)).sum(axis=1)


@dataclass(frozen=True)
class _Trial:
    log_p: Floats
    log_q: Floats
    score: Floats
    other_score: Floats
    outcome: int
    pair: int


def trials_of(world: str, *, as_published: bool, num_scores: int, most_outcomes: int | None = None) -> Trials:
    """All trials of a world.

    Args:
        world: One of `WORLDS`.
        as_published: Whether the pipeline and the rewards are the published ones.
        num_scores: Draws of the reward for each query; records have one score of their own.
        most_outcomes: Largest number of outcomes of a query (records only).
    """
    if world.startswith("icu"):
        records = _icu_trials(world == "icu-features", most_outcomes)
        return _padded(records, max(len(each.log_p) for each in records))
    found = []
    queries = run_pipeline(as_published=as_published).queries
    for pair, asked in enumerate(queries):
        for draw in range(num_scores):
            reward = random_reward(num_scores * pair + draw, as_published=as_published)
            describe = _by_vitals if world == "vitals" else _by_state
            found.append(describe(asked.query, asked.outcome, reward, pair))
    return _padded(found, max(len(asked.query.p) for asked in queries))  # one width, so that one program serves both


def random_reward(seed: int, *, as_published: bool) -> Floats:
    """A reward for each of the 146 projected states: the sum of one normal number for each variable's level.

    The published look-up adds glucose too, always at its highest level, which a projected state knows nothing about:
    one more constant, felt only against the fixed rewards of death and discharge.
    """
    random = np.random.default_rng([59, seed])
    worths = [random.normal(size=size) for size in sepsis.PROJECTED.sizes]
    values = sepsis.PROJECTED.all_values()
    total = np.sum([worth[column] for worth, column in zip(worths, values.T, strict=True)], axis=0)
    if as_published:
        total = total + random.normal(size=len(sepsis.LEVELS["glucose"]))[_GLUCOSE_SEEN]
    return np.append(total, [-_END_REWARD, _END_REWARD])


def _by_state(asked: Query, outcome: int, reward: Floats, pair: int) -> _Trial:
    score = reward[asked.successors][:, None]
    return _Trial(asked.p, asked.q, score, score, outcome, pair)


def _by_vitals(asked: Query, outcome: int, reward: Floats, pair: int) -> _Trial:
    """Outcomes are vital signs, or an end; which treatments are in force follows from the action.

    Two actions then lead to the same outcomes, which a coupling can keep where it has a reason to.
    """
    ends = [sepsis.DEATH, sepsis.DISCHARGE]
    kind = np.where(
        asked.successors < sepsis.DEATH, asked.successors // 8, asked.successors - sepsis.DEATH + _NUM_VITALS
    )
    outcomes, place = np.unique(kind, return_inverse=True)
    logits = np.full((2, len(outcomes)), -np.inf)
    for row, log_probs in zip(logits, (asked.p, asked.q), strict=True):
        reached = np.isfinite(log_probs)
        row[place[reached]] = log_probs[reached]

    def scored(action: int) -> Floats:
        states = np.append(8 * np.arange(_NUM_VITALS) + sepsis.flags_after(action), ends)
        return reward[states[outcomes]][:, None]

    return _Trial(logits[0], logits[1], scored(asked.action), scored(asked.other_action), int(place[outcome]), pair)


def _icu_trials(with_features: bool, most_outcomes: int | None) -> list[_Trial]:
    """The most frequent choices of clinicians that the best policy would not make, one for each state."""
    icu = icu_sepsis(admissible_only=True)
    best = policy_iteration(icu.mdp).actions
    everybody = icu_sepsis().mdp
    time_spent = state_distributions(everybody, icu.expert_policy, 20)[:-1].sum(axis=0)
    often = time_spent[:, None] * icu.expert_policy * icu.admissible
    often[np.arange(len(best)), best] = 0
    often[icu.mdp.absorbing] = 0
    score = _features(icu.features) if with_features else _sofa(icu.sofa_scores)[:, None]
    found: list[_Trial] = []
    for state in np.argsort(-often.max(axis=1)).tolist():
        if len(found) == NUM_QUERIES:
            break
        asked = query(icu.mdp, state, int(often[state].argmax()), int(best[state]))
        if most_outcomes is not None and len(asked.successors) > most_outcomes:
            continue
        worth = score[asked.successors]
        found.append(_Trial(asked.p, asked.q, worth, worth, int(asked.p.argmax()), len(found)))
    return found


def _sofa(scores: Floats) -> Floats:
    """Organ failure; the package has zero for all ends, where death deserves the worst and survival the best."""
    worth = scores.copy()
    worth[713:] = [_WORST_SOFA, 0.0, 0.0]
    return worth


def _features(features: Floats) -> Floats:
    """Clinical measurements in units of their spread.

    The ends have none. They are put at the average patient, and distinguished along an axis of their own, as far out as
    a typical state is.
    """
    live = features[:713]
    scaled = np.append((live - live.mean(axis=0)) / live.std(axis=0), np.zeros((3, live.shape[1])), axis=0)
    fate = np.zeros((len(scaled), 1))
    fate[713:715, 0] = np.sqrt(live.shape[1]) * np.array([-1, 1])
    return np.append(scaled, fate, axis=1)


def _padded(trials: Sequence[_Trial], width: int) -> Trials:

    def stacked(part: Callable[[_Trial], Floats], filler: float) -> Floats:
        arrays = [part(each) for each in trials]
        return np.stack(
            [
                np.pad(each, [(0, width - len(each)), *[(0, 0)] * (each.ndim - 1)], constant_values=filler)
                for each in arrays
            ]
        )

    return Trials(
        stacked(lambda each: each.log_p, -np.inf),
        stacked(lambda each: each.log_q, -np.inf),
        stacked(lambda each: each.score, 0.0),
        stacked(lambda each: each.other_score, 0.0),
        np.array([each.outcome for each in trials]),
        np.array([each.pair for each in trials]),
    )
