"""Who is in the two arms of a trial, with which outcome: read from a frame or a file, and checked."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import (
    Labels,
    are_numbers,
    as_number,
    found_labels,
    listed,
    looks,
    name_of,
    reader,
    says_missing,
    sorted_labels,
    spelling_notes,
)
from countermax._core.words import WARNING, percent
from countermax._tables.frames import AbstractFrame, Codes, Flags, Floats

MISSING_RULES = ("refuse", "worst", "drop")

_MOST_PERIODS, _MANY_SHARED = 4, 0.15  # rows of one person in a crossover, and the share of people who crossed over
_FEW_CLUSTERS, _FEW_CLUSTERS_OF_ARM, _FEW_COUNTING = 30, 10, 30
_MOST_CATEGORIES = 20  # outcomes; more of them than half the people may be measurements
_TOO_FEW = ": few, so intervals may be too short"


class People(NamedTuple):
    """Everybody in the two arms; arrays run over people."""

    labels: Labels
    is_ordered: bool
    order: str | None
    """Source of the order of the outcomes; None where nobody gave one."""
    outcome: Codes  # -1 where it is missing
    arm: Codes  # 0 the control, 1 the treated, 2 another one that was chosen
    weight: Floats
    cluster: Codes
    stratum: Codes
    strata: tuple[str, ...]
    kin: tuple[str, ...]
    """What each stratum is called by all columns but the last: those of one kin lie next to each other."""
    notes: tuple[str, ...]
    left_out: str
    """Who was left out, and why; empty where nobody was."""

    @property
    def some_missing(self) -> bool:
        """Whether outcomes are missing."""
        return bool((self.outcome < 0).any())

    def from_worst_to_best(self, score: Floats) -> "People":
        """The same people, with the outcomes in the order of a score."""
        order = np.argsort(score, kind="stable")
        places = np.append(np.argsort(order), -1)  # a missing outcome stays one
        values, names = (tuple(each[place] for place in order) for each in (self.labels.values, self.labels.names))
        return self._replace(labels=replace(self.labels, values=values, names=names), outcome=places[self.outcome])


def read_people(
    frame: AbstractFrame,
    asked: Mapping[str, Any],
    arms: tuple[Hashable, Hashable],
    labels: Sequence[Hashable] | None,
    missing: str,
    *,
    elsewhere: bool = False,
) -> People:
    """Everybody in the two arms, and `elsewhere`: in all other arms, as a third one whose outcomes play no part."""
    arm = _arms(frame, asked["arm"], arms)
    chosen = arm >= 0
    column = frame.column("outcome", asked["outcome"])
    codes, values = frame.factorised(column)
    names, is_ordered, order = _outcomes(frame, column, values, codes[chosen], labels)
    places = np.append(names.places(values), -1)
    outcome = places[codes[chosen]]
    words = [place for place, value in enumerate(values) if places[place] == -1 and says_missing(value)]
    texts = int(np.isin(codes[chosen], words).sum())
    told = f"{texts:,} cells hold {listed(values[place] for place in words)}" if texts else ""
    if (outcome < -1).any():
        unknown = [value for value, place in zip(values, places, strict=False) if place < -1]
        raise InputError(
            f"`outcome` must hold labels {listed(names.values)} only, got {listed(unknown)}"
            f"{names.resemblance(unknown[0]) or '; empty the cells of people without an outcome, and say `missing`'}"
        )
    notes = [f"Arm = column {asked['arm']!r}: an intention-to-treat comparison only if that is the arm as assigned."]
    in_arms, every_arm, _ = _groups(frame, "arm", asked["arm"], np.arange(len(arm)))
    notes += spelling_notes(every_arm, "arms", np.bincount(in_arms))
    cells = np.bincount(outcome[outcome >= 0], minlength=len(names))
    notes += spelling_notes(names.values, "outcomes", cells, "empty these cells and say `missing`")
    lost = outcome < 0
    left_out = []
    if not chosen.all():
        others = listed(every_arm[place] for place in np.unique(in_arms[~chosen]))
        left_out.append(f"{int((~chosen).sum()):,} in other arms ({others})")
    if lost.any():
        count = int(lost.sum())
        by_arm = (int((arm[chosen][lost] == side).sum()) for side in (0, 1))
        whose = ", ".join(f"{number:,} in {name_of(each)}" for number, each in zip(by_arm, arms, strict=True))
        whose += f"; {told}" if told else ""
        if missing == "refuse":
            raise InputError(
                f"{count:,} of {len(outcome):,} people have no `outcome`{f' ({told})' if told else ''}; say `missing`: "
                "'worst' widens the bounds to cover whatever they had, 'drop' assumes that they are like the others"
            )
        if missing == "worst":
            notes.append(
                f"{count:,} of {len(outcome):,} people ({whose}) have no outcome: bounds cover whatever they had. What "
                "a single coupling says needs every outcome: say missing='drop' (--missing drop) for that."
            )
        if missing == "drop":
            share = percent(count / len(outcome))
            left_out.append(f"{count:,} without an outcome ({share}: {whose}), assumed to be like the others")
    if left_out:
        analysed = int(chosen.sum()) - (int(lost.sum()) if missing == "drop" else 0)
        notes.append(f"{analysed:,} of {len(chosen):,} people were analysed; left out: {'; '.join(left_out)}.")
    kept = ~lost if missing == "drop" else np.ones(len(outcome), bool)
    rows, outside = np.flatnonzero(chosen)[kept], np.flatnonzero(~chosen & elsewhere)
    outcome, rows = np.append(outcome[kept], np.zeros_like(outside)), np.append(rows, outside)
    arm = np.where(chosen, arm, 2)[rows]
    weight = _weights(frame, asked["weights"], rows)
    cluster, strata = np.arange(len(weight)), _Groups(np.zeros(len(weight), np.int64), [""], [""])
    if asked["clusters"] is not None:
        cluster, clusters, _ = _groups(frame, "clusters", asked["clusters"], rows)
        notes += spelling_notes(clusters, "clusters", np.bincount(cluster))
    if asked["strata"] is not None:
        strata = _groups(frame, "strata", asked["strata"], rows)
        notes += spelling_notes(strata.names, "strata", np.bincount(strata.codes))
    people = People(
        labels=names,
        is_ordered=is_ordered,
        order=order,
        outcome=outcome,
        arm=arm,
        weight=weight,
        cluster=cluster,
        stratum=strata.codes,
        strata=tuple(map(name_of, strata.names)),
        kin=tuple(strata.kin),
        notes=tuple(notes),
        left_out="; ".join(left_out),
    )
    for side, label in enumerate(arms):
        if not (people.outcome[people.arm == side] >= 0).any():
            raise InputError(f"nobody in arm {label!r} has an outcome; an arm needs people")
        if not people.weight[people.arm == side].any():
            raise InputError(f"`weights` must not all be zero in arm {label!r}")
    return people


def _weights(frame: AbstractFrame, name: Hashable | None, rows: Codes) -> Floats:
    """The weights of some rows; ones where no column has them."""
    if name is None:
        return np.ones(len(rows))
    weight = frame.numbers("weights", [name])[rows, 0]
    for wrong, what in ((np.isnan(weight), "missing"), (weight < 0, "negative"), (weight == np.inf, "infinite")):
        if wrong.any():
            first = int(rows[wrong.argmax()])
            raise InputError(
                f"`weights` must be finite and not negative, but {int(wrong.sum()):,} of column {name!r} are {what}, "
                f"the first in {frame.row_name(first)}: {weight[wrong.argmax()]:g}"
            )
    return weight


_SCALES = (  # words in a column's name, labels of the scale, its best end, and what it is called
    (("mrs", "rankin"), range(7), 0, "modified Rankin Scale"),
    (("ecog",), range(6), 0, "ECOG performance status"),
    (("gose", "gos-e", "gos_e"), range(1, 9), 8, "extended Glasgow Outcome Scale"),
    (("who",), range(11), 0, "WHO clinical progression scale"),
)


def scale_notes(column: Hashable, labels: Labels, score: Floats | None, count: int) -> list[str]:
    """Warns of a column that looks continuous, or like a known scale of which the score does not say what is good."""
    if len(labels) > _MOST_CATEGORIES and 2 * len(labels) > count:
        return [
            f"{WARNING}Column {column!r} has {len(labels):,} different outcomes of {count:,} people. If it is a "
            "measurement, group its values into a few outcomes first."
        ]
    for words, values, best, name in _SCALES:
        if not any(word in str(column).lower() for word in words):
            continue
        numbers = [as_number(each) for each in labels.names]
        odd = [each for each, number in zip(labels.values, numbers, strict=True) if number not in values]
        if odd and len(labels) - len(odd) > len(values) // 2:
            return [
                f"{WARNING}Column {column!r} looks like the {name}, {values[0]} to {values[-1]}, but {listed(odd)} "
                "counts as an outcome too. If it means that nothing is known, empty these cells and say `missing`."
            ]
        if not odd:
            far = [abs((number or 0) - best) for number in numbers]
            if score is not None and score[int(np.argmin(far))] > score[int(np.argmax(far))]:
                return []
            return [
                f"{WARNING}Column {column!r} looks like the {name}, on which {best} is best: say best={best} "
                f"(--best {best})."
            ]
    return []


class _Groups(NamedTuple):
    """Groups that a column makes, or several together: those that occur, in their order."""

    codes: Codes
    names: list[Any]
    kin: list[str]
    """What each group is called by all columns but the last."""


def _groups(frame: AbstractFrame, argument: str, name: Hashable, rows: Codes) -> _Groups:
    """The groups of some rows; in the order of a category, else by the numbers in their names, then by the alphabet."""
    codes, found = [], []
    for each in name if isinstance(name, list | tuple) else [name]:
        column = frame.column(argument, each)
        (places, values), (listing, is_ordered) = frame.factorised(column), frame.categories(column)
        ordered = [value for value in listing or () if value in values] if is_ordered else _in_order(values)
        place_of = {value: place for place, value in enumerate(ordered)}
        codes.append(np.array([*map(place_of.__getitem__, values), -1])[places[rows]])
        found.append(ordered)
    _check_known(frame, argument, name, np.min(codes, axis=0) >= 0, rows)
    sizes = [len(each) for each in found]
    present, group = np.unique(np.ravel_multi_index(codes, sizes), return_inverse=True)
    values = [[each[place] for each, place in zip(found, places, strict=True)]
              for places in zip(*np.unravel_index(present, sizes), strict=True)]  # fmt: skip
    names = [each[0] if len(each) == 1 else ", ".join(map(name_of, each)) for each in values]
    return _Groups(group, names, [", ".join(map(name_of, each[:-1])) for each in values])


def _check_known(frame: AbstractFrame, argument: str, name: Hashable, known: Flags, rows: Codes) -> None:
    """Refuses empty cells, the first of which is named."""
    if not known.all():
        first, number = frame.row_name(int(rows[known.argmin()])), int((~known).sum())
        empty, it = ("one empty cell", "it") if number == 1 else (f"{number:,} empty cells, the first", "them")
        raise InputError(
            f"`{argument}` must be known, but column {_column(name)} has {empty} in {first}; fill or drop {it}"
        )


def _in_order(values: Sequence[Any]) -> list[Any]:
    """Values by the numbers in them: `<50`, `50-60`, `>60`; those without any come last."""
    found = sorted_labels(values)
    numbers = {
        place: tuple(map(float, re.findall(r"\d+(?:\.\d+)?", name_of(each)))) for place, each in enumerate(found)
    }
    if are_numbers(found) or not any(numbers.values()):
        return found
    return [found[place] for place in sorted(numbers, key=lambda place: (not numbers[place], numbers[place], place))]


def _arms(frame: AbstractFrame, name: Hashable, arms: tuple[Hashable, Hashable]) -> Codes:
    """0 for the control, 1 for the treated, -1 for all others."""
    column = frame.column("arm", name)
    codes, values = frame.factorised(column)
    _check_known(frame, "arm", name, codes >= 0, np.arange(len(codes)))
    present = Labels(tuple(values), untyped=frame.untyped)
    read = reader(values, frame.kind_of(column))
    places = [present.places([read(each)])[0] for each in arms]
    for argument, place, each in zip(("control", "treated"), places, arms, strict=True):
        if place < 0:
            raise InputError(_no_arm(argument, name, present, each))
    if places[0] == places[1]:
        raise InputError(f"`control` and `treated` must be two arms, got {arms[0]!r} twice")
    result = np.full(len(values), -1)
    result[places] = (0, 1)
    return result[codes]


def _outcomes(
    frame: AbstractFrame, column: Any, values: list[Any], codes: Codes, labels: Sequence[Hashable] | None
) -> tuple[Labels, bool, str | None]:
    """The outcomes in their order, whether that is an order of better and worse, and where it comes from."""
    if labels is not None:
        known = Labels.read(labels, values, frame.kind_of(column), untyped=frame.untyped)
        return known, False, "in the order of `labels`"
    categories, is_ordered = frame.categories(column)
    if categories is not None:
        return Labels(tuple(categories)), is_ordered, "in the order of the category" if is_ordered else None
    known = found_labels((values[place] for place in np.unique(codes[codes >= 0])), untyped=frame.untyped)
    return known, False, "sorted as numbers" if are_numbers(known.values) else None


def _no_arm(argument: str, column: Hashable, arms: Labels, given: Hashable) -> str:
    alike = arms.resemblance(given)
    return f"`{argument}` must be one of the arms {listed(arms.values)} (column {column!r}), got {given!r}{alike}"


def two_arms(frame: AbstractFrame, arm: Hashable, control: Hashable, treated: Hashable) -> tuple[Hashable, Hashable]:
    """The two arms, as far as they can be told without being named."""
    column = frame.column("arm", arm)
    _, values = frame.factorised(column)
    read = reader(values, frame.kind_of(column), untyped=frame.untyped)
    control, treated = (None if each is None else read(each) for each in (control, treated))
    if control is not None and treated is not None:
        return control, treated
    plain = {looks(value): value for value in values}
    for pair in (("0.0", "1.0"), ("false", "true")):
        if control is None and treated is None and set(plain) == set(pair):
            return plain[pair[0]], plain[pair[1]]
    if len(values) == 2 and (control is not None or treated is not None):
        given = str(treated if control is None else control)
        other = [value for value in values if str(value) != given]
        if len(other) == 1:
            return (other[0], treated) if control is None else (control, other[0])
    named = [each for each in (("control", control), ("treated", treated)) if each[1] is not None]
    for argument, name in named:
        if str(name) not in map(str, values):
            raise InputError(_no_arm(argument, arm, Labels(tuple(values), untyped=frame.untyped), name))
    raise InputError(
        f"`control` and `treated` must say which arms of column {arm!r} are compared; they are {listed(values)}"
    )


def count_clusters(clusters: Codes, whom: str, column: Hashable) -> int:
    """How many clusters people come in; a single one is refused."""
    number = len(np.unique(clusters))
    if number < 2:
        raise InputError(
            f"`clusters` must be at least two in each sample, but {whom} has one in column {column!r}, which does not "
            "show how clusters differ; add clusters, or leave `clusters` (--clusters) out, but only if people of the "
            "same cluster are no more alike than others"
        )
    return number


def design_notes(people: People, asked: Mapping[str, Any], arms: tuple[str, str]) -> list[str]:
    """That people are weighted, or come in clusters; one cluster in an arm is refused."""
    notes = []
    if asked["weights"] is not None:
        here, there = (people.weight[people.arm == side] for side in (0, 1))
        counting = [float(each.sum() ** 2 / (each**2).sum()) for each in (here, there)]  # Kish
        few = min(counting) < _FEW_COUNTING
        notes.append(
            f"People are weighted by column {asked['weights']!r}: the effective sample size is {counting[0]:,.0f} in "
            f"{arms[0]} and {counting[1]:,.0f} in {arms[1]}{_TOO_FEW if few else ''}."
        )
    if asked["clusters"] is not None:
        number = len(np.unique(people.cluster))
        own, other = (
            count_clusters(people.cluster[people.arm == side], f"arm {arms[side]!r}", asked["clusters"])
            for side in (0, 1)
        )
        few = number < _FEW_CLUSTERS or min(own, other) < _FEW_CLUSTERS_OF_ARM
        notes.append(
            f"People come in {number:,} clusters of column {asked['clusters']!r}, {own:,} of them in {arms[0]} and "
            f"{other:,} in {arms[1]}{_TOO_FEW if few else ''}."
        )
    for name, groups in (("clusters", people.cluster), ("strata", people.stratum)):
        sizes = np.stack([np.bincount(groups[people.arm == side], minlength=groups.max() + 1) for side in (0, 1)])
        shared = (sizes.min(axis=0) > 0) & (sizes.sum(axis=0) <= _MOST_PERIODS)
        if asked[name] is not None and shared.sum() > _MANY_SHARED * (sizes.sum(axis=0) > 0).sum():
            notes.append(
                f"{WARNING}{int(shared.sum()):,} {name} of column {_column(asked[name])} have at most {_MOST_PERIODS} "
                "rows, and some in either arm. If these are the same person again (a crossover), both outcomes were "
                "seen: count the pairs of outcomes, and no coupling has to be assumed."
            )
    return notes


def _column(name: Any) -> str:
    """A column in words, or several."""
    return listed(name) if isinstance(name, list | tuple) else repr(name)
