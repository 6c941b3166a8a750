"""One patient: factual and counterfactual side by side, with what is certain, what is not, and where it was decided."""

from collections.abc import Hashable, Mapping

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import identity, listed, reader
from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._arrays import MOST_REWARD, Floats, Values, as_floats, one_hot, shortened
from countermax.mdp._cautions import told_of_log
from countermax.mdp._couplings import Couplings, chosen_couplings
from countermax.mdp._estimation import as_policy
from countermax.mdp._labels import spoken
from countermax.mdp._log import EpisodeLog, steps_compared, steps_of
from countermax.mdp._posterior import Doubt, doubt_of
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP, as_discount
from countermax.mdp.replays import Replay, feature_bounds, single_decisions, step_bounds
from countermax.mdp.story._outlook import MOST_ENDS, earned_at, ends_of, outlook_of, visits_behind
from countermax.mdp.story._story import Story
from countermax.mdp.story._treatments import treatments_of


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
    censored: str = "stop",
    doubt: Doubt | None = None,
    progress: bool | None = None,
) -> Story:
    """What would have become of one patient under another policy, and how much of the answer is the coupling's doing.

    Args:
        mdp: The process.
        log: Logged episodes.
        episode: The patient: the name of an episode, or its position where episodes have no names.
        policy: [state, action]: what would have been done.
        couplings: Couplings by name; steps are judged by the first, decisions by all. By default Gumbel-max and
            inverse CDF.
        features: Features to follow over time: a number for each state, by name; probabilities and indicators read
            best. By default the ends that episodes come to; where the log has no end of the process, their last states.
        outcomes: Label of each state as an outcome; see `replay`.
        horizon: Number of steps, also of the logged episode; by default that of the longest episode in the log, as in
            `rank_episodes`. An episode that stops before its end is told up to there, unless the model carries it on.
        discount: Discount factor for each step; by default the process's own; 1 for the plain return.
        censored: Treatment of an episode that stops before its end: "stop" tells it up to there, "model" carries both
            worlds on with the process up to `horizon`; see `replay`.
        doubt: Doubt about the process; by default an estimate is doubted, and a process without counts is not.
        progress: Whether to show progress bars; by default if the output is a terminal.
    """
    position = _find_episode(log, episode)
    asked = chosen_couplings(couplings)
    probs = as_policy(mdp, policy)
    names, scores = _as_features(mdp, log, features)
    one = log.select([position])
    factor = as_discount(mdp, discount)
    steps = steps_of(log, horizon)
    if censored == "stop":
        steps = int(steps_compared(one, mdp.ends, steps)[0])
    length = min(int(one.lengths[0]), steps)
    doubts, ends = doubt_of(mdp, doubt), ends_of(mdp, log)
    outlook = outlook_of(
        mdp, one, probs, asked, ends, outcomes=outcomes, horizon=steps, discount=factor, censored=censored,
        doubt=doubts, progress=progress,
    )  # fmt: skip
    told = next(iter(outlook.replays.values()))
    paths = {name: _path(each) for name, each in outlook.replays.items()}
    path = next(iter(paths.values()))
    first = next(iter(asked.values()))
    parts = treatments_of(mdp)
    going = path[:-1] * ~mdp.absorbing
    alive = going.sum(axis=1, keepdims=True)
    states, actions = one.states[0, : length + 1], one.actions[0, :length]
    done = probs[states[:-1], actions]
    least, most = outlook.bounds
    return Story(
        episode=log.name_of(position),
        features=names,
        observed=scores[states],
        counterfactual={name: path @ scores for name, path in paths.items()},
        bounds=feature_bounds(mdp, one, probs, scores, horizon=steps),
        discount=factor,
        observed_return=float(told.observed[0]),
        values={name: float(each.values[0]) for name, each in outlook.replays.items()},
        standard_deviations={name: float(np.sqrt(each.variances[0])) for name, each in outlook.replays.items()},
        value_bounds=Bounds(float(least[0]), float(most[0])),
        intervals={name: _one(each, 0) for name, each in outlook.intervals.items()},
        doubted=None if outlook.doubted is None else _one(outlook.doubted, 0),
        ended=bool(mdp.ends[states[-1]]),
        ends=tuple(spoken("state", int(end), mdp.state_names) for end in ends),
        end_rewards=earned_at(mdp, one, ends),
        chances={name: path[-1, ends] for name, path in paths.items()},
        chance_bounds=Bounds(least[1:-1], most[1:-1]),
        chances_doubted=None if outlook.doubted is None else _part(outlook.doubted, slice(1, -1)),
        unfinished={name: float(path[-1, ~mdp.ends].sum()) for name, path in paths.items()},
        unfinished_bounds=Bounds(float(least[-1]), float(most[-1])),
        unfinished_doubted=None if outlook.doubted is None else _one(outlook.doubted, -1),
        step_bounds=step_bounds(
            mdp, one, probs, first, outcomes=outcomes, horizon=steps, discount=factor, censored=censored
        ),
        decisions_by_coupling={
            name: single_decisions(
                mdp,
                one,
                each,
                outcomes=outcomes,
                horizon=steps,
                discount=factor,
                censored=censored,
                doubt=doubts,
                progress=progress,
            )  # fmt: skip
            for name, each in asked.items()
        },
        treatments=parts.names,
        graded=parts.graded,
        given=parts.levels[actions],
        wanted=going @ (probs @ (parts.levels > 0)),
        wanted_levels=going @ (probs @ parts.levels) / np.where(alive > 0, alive, 1),
        visits=visits_behind(mdp, path, probs, one),
        differing=tuple(np.flatnonzero(done < 0.5).tolist()),
        state_labels=tuple(spoken("state", state, mdp.state_names) for state in states.tolist()),
        action_labels=tuple(spoken("action", action, mdp.action_names) for action in actions.tolist()),
        action_names=tuple(spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)),
        notes=(
            *told_of_log(mdp, log),
            *(note for note in told.notes if note not in (MODEL_GIVEN, *told.of_log)),
            doubts.told(mdp),
        ),
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


def _one(interval: Interval, place: int) -> Interval:
    return Interval(float(interval.lower[place]), float(interval.upper[place]), interval.level)


def _part(interval: Interval, places: slice) -> Interval:
    return Interval(interval.lower[places], interval.upper[places], interval.level)


def _as_features(
    mdp: FiniteMDP, log: EpisodeLog, features: Mapping[str, Values] | None
) -> tuple[tuple[str, ...], Floats]:
    if features is None:
        chosen = ends_of(mdp, log)
        if not len(chosen):
            often = np.bincount(log.last_states, minlength=mdp.num_states)
            chosen = np.argsort(-often, kind="stable")[:MOST_ENDS]
            chosen = chosen[often[chosen] > 0]
        found = {spoken("state", int(end), mdp.state_names): one_hot(int(end), mdp.num_states) for end in chosen}
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
