"""One patient: factual and counterfactual side by side, with what is certain, what is not, and where it was decided."""

from collections.abc import Hashable, Mapping

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import identity, listed, reader
from countermax.bounds import Bounds
from countermax.mdp._arrays import MOST_REWARD, Floats, Values, as_floats, one_hot, shortened
from countermax.mdp._couplings import Couplings, chosen_couplings
from countermax.mdp._labels import spoken
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, steps_of
from countermax.mdp.policies import as_policy
from countermax.mdp.replays import Replay, feature_bounds, replay, single_decisions, step_bounds, trajectory_bounds
from countermax.mdp.story._story import Story

_MOST_ENDS = 4
_NOTHING = ("none", "nothing")


def explain(
    mdp: FiniteMDP,
    log: EpisodeLog,
    episode: Hashable,
    policy: Values,
    *,
    couplings: Couplings | None = None,
    features: Mapping[str, Values] | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Story:
    """What would have become of one patient under another policy, and how much of the answer is the coupling's doing.

    Args:
        mdp: The process.
        log: What happened.
        episode: The patient: the name of an episode, or its position where episodes have no names.
        policy: [state, action]: what would have been done.
        couplings: Couplings by name; steps and decisions are judged by the first. By default Gumbel-max and inverse
            CDF.
        features: What to follow over time: a number for each state, by name; probabilities and indicators read best. By
            default the ends that episodes come to; where the log has no end of the process, their last states.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps, of what happened too; by default as many as the episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own; 1 for the plain
            return.
    """
    position = _find_episode(log, episode)
    asked = chosen_couplings(couplings)
    probs = as_policy(mdp, policy)
    names, scores = _as_features(mdp, log, features)
    one = log.select([position])
    steps, factor = steps_of(one, horizon), as_discount(mdp, discount)
    length = min(int(one.lengths[0]), steps)
    replays = {
        name: replay(
            mdp, one, probs, each, outcomes=outcomes, horizon=steps, discount=factor, path=True, progress=False
        )
        for name, each in asked.items()
    }
    paths = {name: _path(each) for name, each in replays.items()}
    value_bounds = trajectory_bounds(mdp, one, probs, horizon=steps, discount=factor, progress=False)
    first = next(iter(asked.values()))
    treatments, contents = _treatments(mdp)
    taken = next(iter(paths.values()))[:-1] * ~mdp.absorbing @ (probs @ contents)
    states, actions = one.states[0, : length + 1], one.actions[0, :length]
    return Story(
        episode=log.name_of(position),
        features=names,
        observed=scores[states],
        counterfactual={name: path @ scores for name, path in paths.items()},
        bounds=feature_bounds(mdp, one, probs, scores, horizon=steps),
        discount=factor,
        observed_return=float(one.returns(factor, horizon=steps)[0]),
        values={name: float(each.values[0]) for name, each in replays.items()},
        standard_deviations={name: float(np.sqrt(each.variances[0])) for name, each in replays.items()},
        value_bounds=Bounds(float(value_bounds.lower[0]), float(value_bounds.upper[0])),
        step_bounds=step_bounds(mdp, one, probs, first, outcomes=outcomes, horizon=steps, discount=factor),
        decisions=single_decisions(mdp, one, first, outcomes=outcomes, horizon=steps, discount=factor),
        treatments=treatments,
        given=contents[actions],
        wanted=taken,
        state_labels=tuple(spoken("state", state, mdp.state_names) for state in states.tolist()),
        action_labels=tuple(spoken("action", action, mdp.action_names) for action in actions.tolist()),
        action_names=tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
    )


def _find_episode(log: EpisodeLog, episode: Hashable) -> int:
    """The position of an episode, by the rule for labels: 2 and 2.0 are one name, the text "2" is another."""
    names = [log.name_of(position) for position in range(len(log))]
    try:
        wanted = identity(reader(names)(episode))
    except TypeError:
        wanted = None
    for position, name in enumerate(names):
        if identity(name) == wanted:
            return position
    alike = [name for name in names if str(name) == str(episode)]
    hint = f"; {listed(alike[:1])} is there, but a text never equals a number" if alike else ""
    raise InputError(f"`episode` must be in the log ({listed(names)}), got {shortened(episode)}{hint}")


def _path(replayed: Replay) -> Floats:
    assert replayed.path is not None
    return replayed.path[0]


def _as_features(
    mdp: FiniteMDP, log: EpisodeLog, features: Mapping[str, Values] | None
) -> tuple[tuple[str, ...], Floats]:
    if features is None:
        ended = mdp.absorbing[log.last_states]
        often = np.bincount(log.last_states[ended if ended.any() else ...], minlength=mdp.num_states)
        chosen = np.argsort(-often, kind="stable")[:_MOST_ENDS]
        found = {
            spoken("state", int(end), mdp.state_names): one_hot(int(end), mdp.num_states)
            for end in chosen
            if often[end]
        }
    elif not isinstance(features, Mapping):
        raise InputError(f"`features` must have a number for each state, by name, got {shortened(features)}")
    else:
        found = {str(name): as_floats(f"features[{name!r}]", values) for name, values in features.items()}
    for name, values in found.items():
        if values.shape != (mdp.num_states,) or not (np.abs(values) <= MOST_REWARD).all():
            raise InputError(
                f"`features[{name!r}]` must have one finite number for each of {mdp.num_states} states, "
                f"got {shortened(values)}"
            )
    if not found:
        raise InputError("`features` must name at least one")
    return tuple(found), np.stack(list(found.values()), axis=1)


def _treatments(mdp: FiniteMDP) -> tuple[tuple[str, ...], Floats]:
    """What actions are made of, from names such as `antibiotic + ventilation`; [action, part]."""
    parts = [
        [part for part in spoken("action", action, mdp.action_names).split(" + ") if part not in _NOTHING]
        for action in range(mdp.num_actions)
    ]
    names = tuple(dict.fromkeys(part for each in parts for part in each))
    return names, np.array([[name in each for name in names] for each in parts], np.float64)
