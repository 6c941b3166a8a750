"""Datasets of offline reinforcement learning as dataframes of steps: d3rlpy, Minari, or arrays of the same names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.quantities import shown

if TYPE_CHECKING:
    import pandas as pd

_TERMINATED = ("terminations", "terminated", "terminals", "dones")
_TRUNCATED = ("truncations", "truncated", "timeouts")
_RULE = (
    "`dataset` must have `episodes` or `iterate_episodes()`, or be such episodes, or arrays observations, actions, "
    "rewards, and terminations or terminals, with truncations or timeouts"
)


def frame_of_dataset(dataset: Any, *, names: Sequence[str] | None = None) -> "pd.DataFrame":
    """A dataset as a dataframe for `Measurements`: episode, step, observations, action, reward, outcome.

    A dataset of d3rlpy or Minari, episodes of either, or a mapping with arrays of all steps as D4RL has them; told by
    the names of their fields, so that neither has to be installed. Observations are `names`, or x0, x1, ...; actions of
    several numbers are action0, action1, ..., for `doses`. The outcome is "end" where an episode terminated, and
    nothing where it was truncated; then the last observation is a row without an action.
    """
    frames = [_rows(number, each, names) for number, each in enumerate(_episodes(dataset))]
    if not frames:
        raise InputError("`dataset` must hold at least one episode, got none")
    return import_pandas().concat(frames, ignore_index=True)


def _episodes(dataset: Any) -> Iterable[Any]:
    if callable(found := getattr(dataset, "iterate_episodes", None)):
        return found()
    if hasattr(dataset, "episodes"):
        return dataset.episodes
    if _field(dataset, "observations") is not None:
        return _cut(dataset)
    if isinstance(dataset, Iterable) and not isinstance(dataset, Mapping):
        return dataset
    raise InputError(f"{_RULE}, got {shown(dataset)}")


def _field(episode: Any, *names: str) -> Any:
    for name in names:
        found = episode.get(name) if isinstance(episode, Mapping) else getattr(episode, name, None)
        if found is not None:
            return found
    return None


def _cut(dataset: Any) -> Iterable[Mapping[str, Any]]:
    """Episodes of arrays that hold one after the other, up to each termination or truncation."""
    parts = {name: np.asarray(_field(dataset, name)) for name in ("observations", "actions", "rewards")}
    count = len(parts["rewards"])
    ended, stopped = (np.asarray(_field(dataset, *each)) for each in (_TERMINATED, _TRUNCATED))
    ended = np.zeros(count, bool) if ended.ndim == 0 else ended.astype(bool).ravel()
    stopped = np.zeros(count, bool) if stopped.ndim == 0 else stopped.astype(bool).ravel()
    if any(len(each) != count for each in (*parts.values(), ended, stopped)):
        raise InputError(f"{_RULE}, all of one length, got {[len(each) for each in (*parts.values(), ended, stopped)]}")
    for some in np.split(np.arange(count), np.flatnonzero(ended | stopped) + 1):
        if len(some):
            yield {name: each[some] for name, each in parts.items()} | {"terminated": bool(ended[some[-1]])}


def _rows(number: int, episode: Any, names: Sequence[str] | None) -> "pd.DataFrame":
    """One row for each step, and one for where a truncated episode was seen last."""
    seen, actions, rewards, ended = (
        _field(episode, *each) for each in (("observations",), ("actions",), ("rewards",), _TERMINATED)
    )
    if seen is None or actions is None or rewards is None or ended is None:
        raise InputError(f"{_RULE}, got {shown(episode)} as episode {number}")
    if isinstance(seen, Mapping | tuple):
        raise InputError("`dataset` must have observations of plain numbers; flatten dictionaries and tuples first")
    rewards = np.asarray(rewards, np.float64).ravel()
    steps = len(rewards)
    seen = np.asarray(seen).reshape(len(seen), -1)
    actions = np.asarray(actions).reshape(len(actions), -1)
    if len(actions) != steps or len(seen) not in (steps, steps + 1):
        raise InputError(
            f"`dataset` must have as many actions as rewards, and as many observations or one more, got "
            f"{len(actions)}, {steps} and {len(seen)} in episode {number}"
        )
    over = bool(np.asarray(ended).ravel()[-1])
    called = [f"x{each}" for each in range(seen.shape[1])] if names is None else list(names)
    if len(called) != seen.shape[1]:
        raise InputError(f"`names` must name {seen.shape[1]} observations, got {len(called)}")
    rows = steps if over else len(seen)
    frame = import_pandas().DataFrame({"episode": number, "step": np.arange(rows)})
    for place, name in enumerate(called):
        frame[name] = seen[:rows, place]
    for place in range(actions.shape[1]):
        name = "action" if actions.shape[1] == 1 else f"action{place}"
        frame[name] = import_pandas().Series(actions[:rows, place])
    frame["reward"] = import_pandas().Series(rewards[:rows])
    frame["outcome"] = "end" if over else None
    return frame
