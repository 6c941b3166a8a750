"""What a reader is told about a log and a policy."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from countermax._core.labels import alike_notes
from countermax._core.words import percent
from countermax.mdp._arrays import Floats
from countermax.mdp._estimation import restricted, visits
from countermax.mdp._importance import FEW_EPISODES, effective_sample_size
from countermax.mdp._labels import spoken
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import state_distributions
from countermax.mdp._process import FiniteMDP
from countermax.mdp._results import NOT_IN_LOG, Meaning, counted

_MOST_NAMED = 6
_MOST_LETTERS = 120  # of all that are named
_SMALL_SHARE = 1e-9  # rounding
_THIN_VISITS = 10
_DISAGREEING = 1e-6
_STANDARD_ERRORS = 5.0  # of mean rewards: beyond them it is no chance
_LARGE_THIN_SHARE = 0.1
_SELDOM = 0.05
_NOT_KNOWN = ("censored", "lost", "lost to follow-up", "unknown", "missing", "n/a", "transferred", "transfer")
_DEATH = ("dead", "death", "died", "deceased")


def told_of_ends(
    log: EpisodeLog, ends: Bool[np.ndarray, " s"], never_left: Bool[np.ndarray, " s"] | None
) -> tuple[str, ...]:
    """Which states count as ends though nobody named them, and beyond which others nothing is known."""
    if never_left is None:
        return ()
    told = []
    if taken := _where(log, ends & never_left):
        told.append(
            f"Taken as ends, because nobody was seen to leave them: {taken}. If that is wrong, name the ends with "
            "`absorbing`."
        )
    called = [spoken("state", each, log.state_names) for each in np.flatnonzero(ends).tolist()]
    if open_ := [each for each in called if each.lower() in _NOT_KNOWN]:
        told.append(
            f"WARNING: {_some(open_)} counts as an end that is known. If it means that the outcome is not, leave the "
            "cell empty: then those episodes are censored."
        )
    if unknown := _where(log, ~ends & never_left):
        told.append(f"Nothing is known beyond {unknown}: whoever comes there, in any world, stays and earns nothing.")
    return tuple(told)


def told_of_rewards(log: EpisodeLog, process: FiniteMDP) -> tuple[str, ...]:
    """Whether the log earned what the process pays: each time, or on average where that varies."""
    steps = log.steps()
    rows = process.successors[steps.state, steps.action], process.probs[steps.state, steps.action] > 0
    there = (rows[0] == steps.next_state[:, None]) & rows[1]
    each = np.arange(len(there)), there.argmax(axis=1)
    paid = process.rewards[steps.state, steps.action][each]
    earned, room = steps.reward, _DISAGREEING * np.maximum(1, np.abs(paid))
    if process.reward_variances is not None:
        variance = process.reward_variances[steps.state, steps.action][each]
        cells = np.stack([steps.state, steps.action, steps.next_state], axis=1)
        _, where, times = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        mean = (np.bincount(where.ravel(), earned) / times)[where.ravel()]
        earned = np.where(variance > 0, mean, earned)
        room = room + _STANDARD_ERRORS * np.sqrt(variance / times[where.ravel()])
    off = there.any(axis=1) & (np.abs(paid - earned) > room)
    if not off.any():
        return ()
    at = int(off.argmax())
    return (
        f"WARNING: rewards of the log and of the process disagree at {int(off.sum())} of {len(off)} steps (episode "
        f"{log.name_of(int(steps.episode[at]))}, step {steps.step[at]}: {steps.reward[at]:g} and {paid[at]:g}). What "
        "was earned comes from the log, what would have been earned from the process: effects mix both.",
    )


def told_of_meaning(meaning: Meaning) -> tuple[str, ...]:
    """What a return counts, and whether that looks as if it had been turned around."""
    scores = {} if meaning.rewards is None else dict(zip(meaning.ends, meaning.rewards.tolist(), strict=True))
    best = [end for end, score in scores.items() if end.lower() in _DEATH and score > min(scores.values())]
    turned = (
        f"WARNING: higher is better, and {_some(best)} is not the worst score. If that is not meant, turn it around."
    )
    return (meaning.told(), *([turned] if best else []))


def told_of_few(log: EpisodeLog) -> str:
    """That a process is estimated from hardly any episodes."""
    many = len(log) >= FEW_EPISODES
    return "" if many else f"WARNING: the process is estimated from {counted(len(log), 'episode')}: read it as a guess."


def told_of_labels(log: EpisodeLog) -> tuple[str, ...]:
    """Which states, and which actions, differ in how they are written and in nothing else."""
    steps, found = log.steps(), list[str]()
    for what, names, cells in (
        ("states", log.state_names, np.concatenate([steps.next_state, log.states[:, 0]])),
        ("actions", log.action_names, steps.action),
    ):
        if names is not None:
            found += alike_notes(names, what, np.bincount(cells, minlength=len(names)))
    return tuple(found)


def told_of_undone(log: EpisodeLog, policy: Floats) -> str:
    """What a policy would do that nobody did in that state: `surgery in severe (surgery occurs nowhere in the log)`."""
    counts = visits(log)
    weights = counts.sum(axis=1, keepdims=True) * policy * (counts == 0)
    state, action = np.nonzero(weights > _SMALL_SHARE)
    order = np.argsort(-weights[state, action], kind="stable").tolist()
    undone = [_pair(log, int(action[each]), int(state[each])) for each in order]
    nowhere = [each for each in dict.fromkeys(action[order].tolist()) if not counts[:, each].any()]
    told = [spoken("action", each, log.action_names) for each in nowhere]
    verb = "occurs" if len(told) == 1 else "occur"
    return _some(undone) + (f" ({_some(told)} {verb} nowhere in the log)" if told else "")


def told_of_restriction(mdp: FiniteMDP, log: EpisodeLog, policy: Floats) -> tuple[str, ...]:
    """What becomes of a policy whose actions were not all seen where it would take them."""
    kept, left_out = restricted(mdp, policy)
    changed = (left_out > _SMALL_SHARE) & ~mdp.absorbing
    if not changed.any():
        return ()
    undone = told_of_undone(log, policy) or "actions that the model leaves out"
    told = f"{NOT_IN_LOG}: {undone}."
    partly = changed & (left_out < 1 - _SMALL_SHARE)
    if partly.any():
        told += " Where it asks for other actions as well, it was replaced by those."
    usual = [_pair(log, int(kept[state].argmax()), state) for state in np.flatnonzero(changed & ~partly).tolist()]
    if usual:
        told += (
            f" In its place was used what was done there most often, {_some(usual)}, so that this is not your policy."
        )
    return (told,)


def told_of_weights(log: EpisodeLog, policy: Floats, ratios: Floats) -> tuple[str, ...]:
    """What makes importance sampling unreliable: few effective episodes, and actions that nobody took."""
    found = []
    size = effective_sample_size(ratios)
    if size < FEW_EPISODES:
        matching = int((ratios[:, -1] > 0).sum())
        found.append(
            f"WARNING: importance sampling has an effective sample size of {size:.1f} ({matching} of {len(log)} "
            "episodes have any weight); its estimates and their intervals are not to be trusted."
        )
    counts = visits(log)
    unseen = float(counts.sum(axis=1) / log.num_steps @ (policy * (counts == 0)).sum(axis=1))
    if unseen > _SMALL_SHARE:
        found.append(
            f"WARNING: in {100 * unseen:.2g} % of the logged steps the target policy would do what nobody ever did in "
            f"that state: {told_of_undone(log, policy)}."
        )
    return tuple(found)


def told_of_overlap(log: EpisodeLog, policy: Floats) -> str:
    """How often the policy would do what was done, and how often what was seldom done."""
    counts = visits(log)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    weights = counts.sum(axis=1) / log.num_steps
    same, seldom = (float(weights @ (policy * each).sum(axis=1)) for each in (shares, shares < _SELDOM))
    return (
        f"Overlap: in {percent(same)} of the logged steps the policy would have done what was done, and in "
        f"{percent(seldom)} something that was done there in fewer than {percent(_SELDOM)} of the steps."
    )


def told_of_support(process: FiniteMDP, log: EpisodeLog, wanted: Floats, horizon: int) -> tuple[str, ...]:
    """How much of a policy's own steps the model does not know, or hardly knows."""
    policy, left_out = restricted(process, wanted)
    found = []
    occupancy = state_distributions(process, policy, horizon)[:-1].sum(axis=0) * ~process.absorbing
    occupancy /= max(occupancy.sum(), 1e-300)
    beyond = float(occupancy @ left_out)
    if beyond > _SMALL_SHARE:
        found.append(
            f"WARNING: for {100 * beyond:.2g} % of the target policy's own steps the model knows no such action; every "
            "estimate is of the policy that chooses among the actions that it knows, and where it knows none that the "
            "target policy wants, does what was done most often."
        )
    thin = float((occupancy[:, None] * policy * (visits(log) < _THIN_VISITS)).sum())
    if thin > _LARGE_THIN_SHARE:
        found.append(
            f"WARNING: {100 * thin:.0f} % of the target policy's own steps rest on rows of fewer than {_THIN_VISITS} "
            "visits; where data are thin a policy that was optimised on them looks too good."
        )
    return tuple(found)


def told_of_censoring(censored: int, count: int, *, carried_on: bool) -> tuple[str, ...]:
    """How many episodes stop before their end, if any do, and what becomes of them."""
    what = (
        "carried on with the model in both worlds, the factual one by what was usually done"
        if carried_on
        else "compared up to where they stop, the others up to the horizon. Means and expected numbers follow "
        "everybody as long as the log does, assuming independent censoring (Kaplan-Meier)"
    )
    return (f"{censored} of {count} episodes are censored: {what}.",) if censored else ()


def _where(log: EpisodeLog, states: Bool[np.ndarray, " s"]) -> str:
    """In which of the states episodes stop, the most frequent ones first: `home (99 of 150 episodes), dead (37)`."""
    often = np.bincount(log.last_states, minlength=log.num_states) * states
    found = np.argsort(-often, kind="stable")[: int((often > 0).sum())].tolist()
    told = [f"{spoken('state', each, log.state_names)} ({often[each]}" for each in found]
    return _some([each + (f" of {len(log)} episodes)" if place == 0 else ")") for place, each in enumerate(told)])


def _pair(log: EpisodeLog, action: int, state: int) -> str:
    return f"{spoken('action', action, log.action_names)} in {spoken('state', state, log.state_names)}"


def _some(texts: Sequence[str]) -> str:
    """The first of them, fewer where they are long."""
    numbers = range(min(len(texts), _MOST_NAMED), 1, -1)
    shown = next((each for each in numbers if sum(map(len, texts[:each])) <= _MOST_LETTERS), 1)
    more = len(texts) - shown
    return ", ".join(texts[:shown]) + (f" and {more} more" if more > 0 else "")
