"""How the story of one episode is put together: one pass over the posterior draws for all that it says."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.labels import identity, listed, reader
from countermax._core.quantities import shown
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import name_of
from countermax.mdp._arrays import MOST_REWARD, Floats, Ints, Values, as_floats, one_hot
from countermax.mdp._decisions import decisions_of
from countermax.mdp._labels import spoken
from countermax.mdp._log import EpisodeLog
from countermax.mdp._posterior import PosteriorDraws
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting
from countermax.mdp._replays._trajectories import Trajectories
from countermax.mdp._results import Answer, Context, answer_of
from countermax.mdp._story import Record, Story

_MOST_ENDS = 4
_LIKELY = 0.05
_BETWEEN = re.compile(r" \+ |, ")
_LEVEL = re.compile(r"(.*\S)\s+(\d{1,6}(?:\.\d{1,6})?)")
_NOTHING = ("", "none", "nothing")


def story_of(
    mdp: FiniteMDP,
    log: EpisodeLog,
    setting: Setting,
    couplings: Mapping[str, AbstractCoupling],
    features: Mapping[str, Values] | None,
    draws: PosteriorDraws,
    context: Context,
) -> Story:
    """The story of one episode, over the steps that are compared.

    Steps are judged by the first coupling, decisions by all.
    """
    one, policy, steps = setting.log, setting.policy, setting.horizon
    names, scores = _as_features(mdp, log, features)
    ends, model = ends_of(mdp, log), Trajectories(mdp, setting, quiet=True)
    marks = np.stack([*(one_hot(int(end), mdp.num_states) for end in ends), (~mdp.ends).astype(np.float64)])
    replays = {name: model.replayed(each, path=True) for name, each in couplings.items()}
    kinds, observed, earned = list(couplings.values()), float(model.observed[0]), earned_at(mdp, one, ends)
    possible = (-np.inf, np.inf) if earned is None else (min(0.0, earned.min()), max(0.0, earned.max()))
    asked = partial(_parts, couplings=kinds, marks=marks, scores=scores, possible=possible)
    given = asked(model)
    answers = zip(given, draws.ask_parts(setting, asked, given, spread=False), (2, 2, 1), strict=True)
    found = [draws.posterior.summarise(*each) for each in answers]

    def answer(place: int, quantity: str, was: float | None = None) -> Answer:
        """One column of the numbers."""
        return answer_of(found[0], couplings, quantity, place)._replace(observed=was)

    paths = {name: each.path[0] for name, each in replays.items() if each.path is not None}
    length = min(int(one.lengths[0]), steps)
    states, actions = one.states[0, : length + 1], one.actions[0, :length]
    open_ended = not mdp.ends[states[-1]]
    carried_on = open_ended and steps > length
    first, followed = next(iter(paths.values())), dict(zip(paths, found[2][0], strict=False))
    kinds_by_name = {name: name_of(each) for name, each in couplings.items()}
    return Story(
        context=context,
        episode=one.name_of(0),
        returns=answer(0, "return" if earned is None else "score", observed),
        standard_deviations={name: float(np.sqrt(each.variances[0])) for name, each in replays.items()},
        ends=tuple(
            answer(
                place,
                f"P({spoken('state', int(end), mdp.state_names)})",
                None if carried_on else float(states[-1] == end),
            )
            for place, end in enumerate(ends, 1)
        ),
        end_rewards=earned,
        unfinished=answer(len(ends) + 1, "P(no end)", None if carried_on else float(open_ended)),
        features=plotting.Features(names, scores[states], followed, Bounds(*found[2][0][-2:]), one.step_name),
        care=_care(mdp, first, policy, actions),
        record=Record(
            tuple(spoken("state", state, mdp.state_names) for state in states.tolist()),
            tuple(spoken("action", action, mdp.action_names) for action in actions.tolist()),
            tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
            not open_ended,
            tuple(np.flatnonzero(policy[states[:-1], actions] < 0.5).tolist()),
            _visits_behind(mdp, first, policy, one),
            bool(model.untried[0]),
            one.step_name,
            None if one.times is None else one.times._replace(values=one.times.values[0, :length]),
        ),
        step_bounds=model.step_bounds(kinds[0]),
        decisions_by_coupling=decisions_of(
            mdp, setting, context, kinds_by_name, found[1], model.untried_actions(), observed
        ),
    )


def find_episode(log: EpisodeLog, episode: Hashable) -> int:
    """The position of an episode, by the rule for labels: 2 and 2.0 are one name, the text "2" is another."""
    names = log.names
    try:
        wanted = identity(reader(names)(episode))
    except TypeError:
        wanted = None
    for position, name in enumerate(names):
        if identity(name) == wanted:
            return position
    alike = [name for name in names if str(name) == str(episode)]
    hint = f"; {listed(alike[:1])} is there, but a text never equals a number" if alike else ""
    raise InputError(f"`episode` must be in the log ({listed(names)}), got {shown(episode)}{hint}")


def ends_of(mdp: FiniteMDP, log: EpisodeLog) -> Ints:
    """The ends that episodes come to, the most frequent ones first."""
    return _most_frequent(log.last_states[mdp.ends[log.last_states]], mdp.num_states)


def _most_frequent(states: Ints, num_states: int) -> Ints:
    often = np.bincount(states, minlength=num_states)
    chosen = np.argsort(-often, kind="stable")[:_MOST_ENDS]
    return chosen[often[chosen] > 0]


def _parts(
    model: Trajectories,
    couplings: list[AbstractCoupling],
    marks: Floats,
    scores: Floats,
    possible: tuple[float, float],
) -> tuple[Floats, ...]:
    """All that is asked of one process: values and chances, effects of decisions, and features over time.

    Each by coupling and then by range: over adapted couplings and, but for features, if chance may persist. Values
    stay within what is possible.
    """
    replays = [model.replayed(each, path=True) for each in couplings]
    answers = [np.append(each.values, each.last.toarray()[0] @ marks.T) for each in replays]
    ranges = np.array([*model.bounds(), *model.persistent_bounds()])
    values = np.concatenate([answers, np.concatenate([ranges, model.final_bounds(marks)[:, 0]], axis=1)])
    least, most = possible
    values[:, 0] = values[:, 0].clip(least, most)
    effects, earned = model.effects_of_actions(couplings), float(model.observed[0])
    return (
        values,
        effects.clip(least - earned, most - earned),
        np.stack(
            [*(each.path[0] @ scores for each in replays if each.path is not None), *model.feature_bounds(scores)]
        ),
    )


def earned_at(mdp: FiniteMDP, log: EpisodeLog, ends: Ints) -> Float[np.ndarray, " e"] | None:
    """What each end earns, where nothing but ends earns anything, in the log too; else None."""
    there = (mdp.probs > 0) & (mdp.allowed & ~mdp.absorbing[:, None])[:, :, None]
    if mdp.reward_variances is not None and mdp.reward_variances[there].any():
        return None
    successor, reward = mdp.successors[there], mdp.rewards[there]
    if not len(ends) or not np.isin(successor[np.flatnonzero(reward)], ends).all():
        return None
    at_end = np.isin(np.arange(mdp.num_states), ends)[successor]
    successor, reward = successor[at_end], reward[at_end]
    found = np.array([reward[successor == end].mean() if (successor == end).any() else 0.0 for end in ends])
    alike = all(np.ptp(reward[successor == end]) < 1e-9 for end in ends if (successor == end).any())
    same = bool((np.abs(log.returns(1.0) - (log.last_states[:, None] == ends) @ found) < 1e-9).all())
    return found if alike and same and found.any() else None


def _visits_behind(mdp: FiniteMDP, path: Floats, policy: Floats, one: EpisodeLog) -> Float[np.ndarray, " t"]:
    """How often the log saw what the other world does at each step; NaN where nothing rests on that.

    The least visited of all that it does with a chance of at least one in twenty, unless it does what was done in the
    logged state, or the episode is over.
    """
    found = np.full(len(path) - 1, np.nan)
    if mdp.counts is None:
        return found
    visits = mdp.counts.sum(axis=2)
    for step in range(len(found)):
        taken = path[step][:, None] * policy * ~mdp.absorbing[:, None]
        if step < one.lengths[0]:
            taken[one.states[0, step], one.actions[0, step]] = 0
        if (taken >= _LIKELY).any():
            found[step] = visits[taken >= _LIKELY].min()
        elif taken.sum() >= _LIKELY:
            found[step] = visits[taken > 0].min()
    return found


def _care(mdp: FiniteMDP, path: Floats, policy: Floats, actions: Ints) -> plotting.Care:
    parts = treatments_of(mdp)
    going = path[:-1] * ~mdp.absorbing
    alive = going.sum(axis=1, keepdims=True)
    return plotting.Care(
        parts.names,
        parts.graded,
        parts.levels[actions],
        going @ (policy @ (parts.levels > 0)),
        going @ (policy @ parts.levels) / np.where(alive > 0, alive, 1),
    )


def _as_features(
    mdp: FiniteMDP, log: EpisodeLog, features: Mapping[str, Values] | None
) -> tuple[tuple[str, ...], Floats]:
    if features is None:
        ends = ends_of(mdp, log)
        chosen = ends if len(ends) else _most_frequent(log.last_states, mdp.num_states)
        found = {spoken("state", int(end), mdp.state_names): one_hot(int(end), mdp.num_states) for end in chosen}
    elif not isinstance(features, Mapping):
        raise InputError(f"`features` must have a number for each state, by name, got {shown(features)}")
    else:
        found = {str(name): as_floats(f"features[{name!r}]", values) for name, values in features.items()}
    for name, values in found.items():
        if values.shape != (mdp.num_states,) or not (np.abs(values) <= MOST_REWARD).all():
            raise InputError(
                f"`features[{name!r}]` must have one finite number for each of {mdp.num_states} states, "
                f"got {shown(values)}"
            )
    if not found:
        raise InputError("`features` must name at least one")
    return tuple(found), np.stack(list(found.values()), axis=1)


class Treatments(NamedTuple):
    """The parts of all actions."""

    names: tuple[str, ...]
    graded: tuple[bool, ...]
    """Which of them come in levels, as in `fluid 2`; level 0 is none of it."""
    levels: Float[np.ndarray, "a p"]
    """How much of each part is in each action; 1 for parts without levels."""


def treatments_of(mdp: FiniteMDP) -> Treatments:
    """What actions are made of, read from their names: `antibiotic + ventilation`, `fluid 2, vasopressor 0`.

    An action without a name is a part of its own.
    """
    read: list[list[tuple[str, str, float | None]]] = []
    for action in range(mdp.num_actions):
        whole = spoken("action", action, mdp.action_names)
        unnamed = mdp.action_names is None or whole != str(mdp.action_names[action])
        split = [part for part in _BETWEEN.split(whole) if part not in _NOTHING]
        read.append([(whole, whole, None)] if unnamed else [(part, *_as_level(part)) for part in split])
    twice = {name for parts in read for name, times in Counter(name for _, name, _ in parts).items() if times > 1}
    found: dict[str, dict[int, float]] = {}
    graded: dict[str, bool] = {}
    for action, parts in enumerate(read):
        for text, name, level in parts:
            own = level is None or name in twice  # two levels of one thing at a time are two things
            called = text if own else name
            found.setdefault(called, {})[action] = 1.0 if own or level is None else level
            graded[called] = graded.get(called, False) or not own
    levels = np.zeros((mdp.num_actions, len(found)))
    for place, amounts in enumerate(found.values()):
        levels[list(amounts), place] = list(amounts.values())
    return Treatments(tuple(found), tuple(graded[name] for name in found), levels)


def _as_level(part: str) -> tuple[str, float | None]:
    read = _LEVEL.fullmatch(part)
    return (part, None) if read is None else (read[1], float(read[2]))
