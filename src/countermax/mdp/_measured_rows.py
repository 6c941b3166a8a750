"""Rows of measurements, doses and outcomes, as users have them: checked, ordered, and without gaps."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import listed
from countermax._core.quantities import shown
from countermax.mdp import _frames as frames
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._clusters import MeasuredSteps
from countermax.mdp._labels import Coded, coded, shared_names

if TYPE_CHECKING:
    import pandas as pd

_MOST_LABELS = 50  # actions: more are doses
_MISSING = ("", "na", "nan", "null", "none", ".", "?")
_END = "end"
_RULE = (
    "the steps must have the columns episode, time (or step), action (or `doses`), and reward or outcome with `score`; "
    "`columns` says what they are called"
)


def arranged_rows(
    frame: "pd.DataFrame", columns: Mapping[str, str] | None, scored: bool, doses: Sequence[str] | None
) -> "pd.DataFrame":
    """Rows in order, with the columns of a log by their usual names."""
    frame = frames.renamed(frame, frames.checked_columns(columns))
    names = list(frame.columns)
    by = "step" if "step" in names else "time"
    needed = ["episode", by, *([] if doses else ["action"]), *([] if "reward" in names else ["outcome"])]
    frames.require_columns(names, needed, (), _RULE)
    if frame.empty:
        raise InputError("the steps must hold at least one row, got none")
    if "reward" not in names and not scored:
        raise InputError(frames.NO_REWARD)
    frame = frames.in_hours(frame)[0] if by == "time" else frame
    numbers = frames.numbers(frame, by)
    episode, _ = coded(frame["episode"])
    frames.refuse(frame, "episode", episode < 0, "must name an episode")
    order = np.lexsort((numbers, episode))
    frame = frame.assign(**{by: numbers}).iloc[order]
    frames.refuse_repeated(frame, by)
    return frame


def checked_features(frame: "pd.DataFrame", features: Sequence[str]) -> tuple[str, ...]:
    """Columns of the rows, at least one."""
    if isinstance(features, str) or not len(features):
        raise InputError(f"`features` must be a list of columns, got {shown(features)}")
    frames.require_columns(
        list(frame.columns), list(features), (), f"the steps must have the features {listed(features)}"
    )
    return tuple(features)


def measured_numbers(frame: "pd.DataFrame", names: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """[row, feature], without gaps, and what was done about them."""
    pandas, found, told = import_pandas(), [], []
    for name in names:
        values = _numbers_or_nothing(frame, name)
        missing = np.isnan(values)
        if missing.all():
            raise InputError(f"`features` must hold numbers, but {name} has none")
        carried = pandas.Series(values).groupby(frame["episode"].to_numpy(), sort=False).ffill().to_numpy(np.float64)
        rest = np.isnan(carried)
        if missing.any():
            told.append(
                f"{name} is missing in {int(missing.sum())} of {len(values)} rows: {int((missing & ~rest).sum())} "
                f"carried forward from the row before, {int(rest.sum())} set to the median."
            )
        found.append(np.where(rest, np.nanmedian(values), carried))
        if np.ptp(found[-1]) == 0:
            raise InputError(f"`features` must vary, but {name} is {found[-1][0]:g} in every row")
    return np.stack(found, axis=1), tuple(told)


def _numbers_or_nothing(frame: "pd.DataFrame", name: str) -> Floats:
    values = frame[name]
    found = import_pandas().to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    text = values.astype("string").str.strip().str.lower()
    wrong = np.isnan(found) & ~(values.isna() | text.isin(_MISSING)).to_numpy(bool, na_value=True)
    frames.refuse(frame, name, wrong | np.isinf(found), "must hold finite numbers, or nothing")
    return found


def actions_of(
    frame: "pd.DataFrame", doses: Sequence[str] | None, levels: int
) -> tuple[Ints, tuple[Hashable, ...], tuple[str, ...]]:
    """The action of each row, -1 where it is missing; what actions are called; and what was done about doses."""
    if not doses:
        read: Coded = coded(frame["action"])
        if len(read.distinct) > _MOST_LABELS:
            raise InputError(
                f"the steps must have at most {_MOST_LABELS} actions, got {len(read.distinct)}; if they are doses, "
                "name the column in `doses`"
            )
        if not read.distinct:
            raise InputError("the steps must say what was done, but every action is missing")
        names = shared_names([("the steps", frame["action"].iloc[np.flatnonzero(read.codes >= 0)])])
        return np.where(read.codes < 0, -1, read.places(names)), names, ()
    if isinstance(doses, str):
        raise InputError(f"`doses` must be a list of columns, got {shown(doses)}")
    frames.require_columns(list(frame.columns), list(doses), (), f"the steps must have the doses {listed(doses)}")
    binned, edges = zip(*(_binned(frame, name, levels) for name in doses), strict=True)
    sizes = [len(each) + 1 for each in edges]
    missing = np.any([each < 0 for each in binned], axis=0)
    codes = np.ravel_multi_index([np.maximum(each, 0) for each in binned], sizes)
    used, codes = np.unique(np.where(missing, -1, codes), return_inverse=True)
    used, codes = (used[1:], codes - 1) if missing.any() else (used, codes)
    parts = np.stack(np.unravel_index(used, sizes), axis=1)
    names = tuple(
        ", ".join(f"{name} {level}" for name, level in zip(doses, each, strict=True)) for each in parts.tolist()
    )
    told = [
        f"{name} has {len(each) + 1} levels: 0 is none, from 1 on they begin above "
        f"{', '.join(f'{edge:.4g}' for edge in each)}."
        for name, each in zip(doses, edges, strict=True)
    ]
    return codes, names, tuple(told)


def _binned(frame: "pd.DataFrame", name: str, levels: int) -> tuple[Ints, Floats]:
    """The level of each dose, -1 where it is missing; and above which doses the levels from 1 on begin."""
    values = _numbers_or_nothing(frame, name)
    frames.refuse(frame, name, values < 0, "must hold doses, which are not negative")
    given = values[values > 0]
    inner = np.quantile(given, np.arange(1, levels) / levels) if len(given) else np.zeros(0)
    edges = np.unique(np.append(0.0, inner))
    found = np.searchsorted(edges, values, side="left")
    used = np.unique(found[~np.isnan(values)])  # equal doses may leave a level without any
    return np.where(np.isnan(values), -1, np.searchsorted(used, found)), edges[used[used > 0] - 1]


def steps_of_rows(
    frame: "pd.DataFrame",
    numbers: Floats,
    features: tuple[str, ...],
    action: tuple[Ints, tuple[Hashable, ...]],
    score: Mapping | None,
) -> MeasuredSteps:
    """Episodes as arrays; rows are in order."""
    codes, action_names = action
    episode, names = coded(frame["episode"])
    sizes = np.bincount(episode)
    first = np.cumsum(sizes) - sizes
    last = first + sizes - 1
    if "outcome" in frame.columns:
        outcome = coded(frame["outcome"].iloc[last])
        ends = (
            shared_names([("the steps", frame["outcome"].iloc[last[outcome.codes >= 0]])])
            if len(outcome.distinct)
            else ()
        )
        ended = np.where(outcome.codes < 0, -1, outcome.places(ends)) if ends else outcome.codes
    else:
        ends, ended = (_END,), np.zeros(len(names), np.int64)
    lengths = sizes - (ended < 0)
    kept = lengths > 0
    if not kept.any():
        raise InputError("the steps must hold an episode with an outcome or of more than one row, got none")
    followed = np.ones(len(frame), bool)
    followed[last[ended < 0]] = False
    unknown = followed & (codes < 0)
    if unknown.any():
        where = frame.index[int(unknown.argmax())]
        raise InputError(f"actions and doses must not be missing before an episode's end, but one is in row {where}")
    earned = np.zeros(len(frame))
    if "reward" in frame.columns:
        earned[followed] = frames.numbers(frame.iloc[np.flatnonzero(followed)], "reward")
    else:
        known = frames.scored(ends, score)
        for place, label in enumerate(ends):
            earned[last[ended == place]] = known[str(label)]
    shape, position = (len(names), int(lengths.max())), np.arange(len(frame)) - first[episode]
    rows = np.tile(np.where(ended < 0, last, -1 - ended)[:, None], shape[1] + 1)
    rows[episode, position] = np.arange(len(frame))
    actions, rewards, at = np.zeros(shape, np.int64), np.zeros(shape), (episode[followed], position[followed])
    actions[at], rewards[at] = codes[followed], earned[followed]
    return MeasuredSteps(
        numbers,
        features,
        rows[kept],
        actions[kept],
        rewards[kept],
        lengths[kept],
        np.where(kept, np.cumsum(kept) - 1, -1)[episode],
        tuple(name for name, keep in zip(names, kept, strict=True) if keep),
        tuple(ends),
        tuple(action_names),
    )
