"""Trials: a query and a score each, for every description of the outcomes in which the experiment is run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from countermax.mdp import Query, policy_iteration, query
from countermax.mdp._planning import state_distributions
from studies.processes import sepsis
from studies.processes.icu import icu_sepsis
from studies.sepsis._pipeline import NUM_QUERIES, run_pipeline

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
