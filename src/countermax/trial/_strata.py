"""What people in strata say: standardised over them, or in each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed, told_apart
from countermax._tables.frames import Codes, Floats
from countermax.causation._crossing import Crossing
from countermax.intervals._sampling import Sampling, of_influences
from countermax.trial._people import People

POPULATIONS = ("both", "control", "treated")
THIN_RULES = ("refuse", "merge")

_FEWEST = 10  # people in a stratum and arm; and in a stratum, of those who chose


def cells_of(people: People, times: Floats, size: int, num_groups: int = 2) -> Floats:
    """Weights of people by group (arm, or what was chosen), stratum and outcome; the last is for a missing one."""
    shape = (num_groups, len(people.strata), size)
    found = np.bincount(places_of(people, size), people.weight * times, int(np.prod(shape)))
    return found.reshape(shape).astype(np.float64)


def places_of(people: People, size: int) -> Codes:
    """The cell of each person."""
    outcome = np.where(people.outcome < 0, size - 1, people.outcome)
    return np.asarray((people.arm * len(people.strata) + people.stratum) * size + outcome)


def check_strata(people: People, totals: Floats, population: str) -> None:
    """Refuses strata that lack an arm which the population needs."""
    empty = totals.sum(axis=2) == 0
    needed = {"both": empty[0] != empty[1], "control": empty[1] & ~empty[0], "treated": empty[0] & ~empty[1]}
    if needed[population].any():
        lacking = [name for name, lacks in zip(people.strata, needed[population], strict=True) if lacks]
        raise InputError(
            f"`strata` must have people in both arms, but {'each of ' * (len(lacking) > 1)}{listed(lacking)} "
            "has people in one arm only; merge strata, or standardise to another `population`"
        )


def thin_notes(people: People) -> list[str]:
    """That strata have few people."""
    count = np.zeros((2, len(people.strata)), np.int64)
    np.add.at(count, (people.arm, people.stratum), 1)
    few = np.asarray((count < _FEWEST).any(axis=0) & count.any(axis=0))
    thin = [people.strata[place] for place in np.flatnonzero(few)]
    if not thin:
        return []
    return [
        f"Fewer than {_FEWEST} people in an arm of stratum {listed(thin)}: intervals may be too short; merge strata."
    ]


def standardised(people: People, totals: Floats, arms: tuple[str, str], population: str, first: int) -> Sampling:
    """Both arms' laws with the control (0) or the treated (1) first, each stratum as frequent as in the population.

    Their covariance is that of the influence of each person, or cluster, on them (Taylor linearisation).
    """
    check_strata(people, totals, population)
    mass, size = totals.sum(axis=2), totals.shape[2]
    whose = {"both": [0, 1], "control": [0], "treated": [1]}[population]
    count, unit = mass[whose].sum(axis=0), np.where(mass > 0, mass, 1)
    share = count / count.sum()
    within, factor = totals / unit[:, :, None], np.where(mass > 0, share / unit, 0)
    laws = (within * share[None, :, None]).sum(axis=1)
    outcome = np.where(people.outcome < 0, size - 1, people.outcome)
    own = people.weight * factor[people.arm, people.stratum]
    influence = np.zeros((len(outcome), 2, size))
    influence[np.arange(len(outcome)), people.arm] -= own[:, None] * within[people.arm, people.stratum]
    influence[np.arange(len(outcome)), people.arm, outcome] += own
    if totals.shape[1] > 1:
        counted = people.weight * np.isin(people.arm, whose)
        share_of = counted / counted.sum()
        for side in (0, 1):
            influence[:, side] += share_of[:, None] * (within[side, people.stratum] - laws[side])
    present, cluster = np.unique(people.cluster, return_inverse=True)
    freedom = np.inf
    if len(present) < len(outcome):
        summed = np.zeros((len(present), 2, size))
        np.add.at(summed, cluster.ravel(), influence)
        freedom = float(max(min(len(np.unique(people.cluster[people.arm == side])) for side in (0, 1)) - 1, 1))
        influence = summed * np.sqrt((freedom + 1) / freedom)
    sizes = [int((people.arm == side).sum()) for side in (0, 1)]
    words = people_words(sizes, arms, first)
    if len(present) < len(outcome):
        words += f" in {len(present):,} clusters"
    counting, units = (_effective_sizes(people, own, groups) for groups in (np.arange(len(own)), people.cluster))
    order = [first, 1 - first]
    return of_influences(
        [laws[side] for side in order],
        influence[:, order].reshape(len(influence), -1),
        units[order],
        counting[order],
        words,
        freedom,
    )


def people_words(sizes: Sequence[int], arms: Sequence[str], first: int = 0) -> str:
    """How many people in each arm."""
    (a, b), arms = (first, 1 - first), told_apart(arms)
    return f"{sizes[a]:,} people in {arms[a]} and {sizes[b]:,} in {arms[b]}"


def _effective_sizes(people: People, weight: Floats, groups: Codes) -> Floats:
    """How many groups would count as much in each arm, if all had the same weight (Kish)."""
    parts = (np.bincount(groups[people.arm == side], weight[people.arm == side]) for side in (0, 1))
    return np.array([part.sum() ** 2 / (part**2).sum() for part in parts])


def merged_strata(samples: Sequence[People], thin: str) -> tuple[list[People], list[str]]:
    """The same strata in every sample, each with enough people: thin ones are refused, or merged with neighbours."""
    names = _in_one_order([people.strata for people in samples])
    kin = {name: each for people in samples for name, each in zip(people.strata, people.kin, strict=True)}
    place_of = {name: place for place, name in enumerate(names)}
    samples = [_renumbered(each, [place_of[name] for name in each.strata], names) for each in samples]
    groups = [(samples[0], samples[0].arm == side) for side in (0, 1)]
    groups += [(each, np.ones(len(each.arm), bool)) for each in samples[1:]]
    mass, squares = np.zeros((2, len(groups), len(names)))
    for place, (each, some) in enumerate(groups):
        mass[place] = np.bincount(each.stratum[some], each.weight[some], len(names))
        squares[place] = np.bincount(each.stratum[some], each.weight[some] ** 2, len(names))
    present = mass.sum(axis=0) > 0
    few = (_effective(mass, squares) < _FEWEST).any(axis=0) & present
    if not few.any():
        return list(samples), []
    lacking = [name for name, lacks in zip(names, few, strict=True) if lacks]
    if thin == "refuse":
        whom = "in each arm" if len(samples) == 1 else "in each arm of the trial and of those who chose"
        raise InputError(
            f"`strata` must have at least {_FEWEST} people {whom}, but {listed(lacking)} "
            f"{'has' if len(lacking) == 1 else 'have'} fewer; coarsen the column, or say thin='merge' (--thin merge)"
        )
    parts = [[place] for place in np.flatnonzero(present)]
    while len(parts) > 1:  # the thinnest joins its thinner neighbour
        size = [float(_effective(mass[:, part].sum(axis=1), squares[:, part].sum(axis=1)).min()) for part in parts]
        thinnest = int(np.argmin(size))
        if size[thinnest] >= _FEWEST:
            break
        beside = [place for place in (thinnest - 1, thinnest + 1) if 0 <= place < len(parts)]
        own = {kin[names[place]] for place in parts[thinnest]}
        beside = [place for place in beside if {kin[names[each]] for each in parts[place]} == own] or beside
        first, second = sorted((thinnest, min(beside, key=size.__getitem__)))
        parts[first : second + 1] = [parts[first] + parts[second]]
    places = np.zeros(len(names), np.int64)
    for new, part in enumerate(parts):
        places[part] = new
    joined = [" + ".join(names[place] for place in part) for part in parts]
    merged = [name for name, part in zip(joined, parts, strict=True) if len(part) > 1]
    return [_renumbered(each, places, joined) for each in samples], [
        f"Strata with fewer than {_FEWEST} people in an arm were merged with their neighbours: {listed(merged)}."
    ]


def _in_one_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """All names in the order of the first list; those of others behind the one that they follow there."""
    found = list(lists[0])
    for names in lists[1:]:
        for before, name in zip((None, *names), names, strict=False):
            if name not in found:
                found.insert(0 if before is None else found.index(before) + 1, name)
    return found


def _effective(mass: Floats, squares: Floats) -> Floats:
    """How many people of equal weight would count as much (Kish), from sums of weights and of their squares."""
    return np.asarray(np.round(mass**2 / np.where(squares > 0, squares, 1), 9))


def _renumbered(people: People, places: Codes | list[int], names: list[str]) -> People:
    found = np.asarray(places, np.int64)[people.stratum]
    return people._replace(stratum=found, strata=tuple(names), kin=("",) * len(names))


def sizes_of(samples: Sequence[People]) -> Floats:
    """[strata, 3]: how many people are in each arm, and how many chose."""
    number = len(samples[0].strata)
    count = np.zeros((number, 3))
    np.add.at(count, (samples[0].stratum, samples[0].arm), 1)
    for people in samples[1:]:
        count[:, 2] = np.bincount(people.stratum, minlength=number)
    return count


def crossing_of(samples: Sequence[People], size: int, share: float, *, of_trial: bool = True) -> Crossing:
    """What people say by stratum.

    Args:
        samples: People of the trial, and people who chose.
        size: Number of outcomes, with the missing one if outcomes are missing.
        share: Share of the treated in the trial.
        of_trial: Whether strata count as in the trial, not as among those who chose.
    """
    totals = [cells_of(each, np.ones(len(each.outcome)), size, 2 + place) for place, each in enumerate(samples)]
    units = [_units_of(each, whole) for each, whole in zip(samples, totals, strict=True)]
    groups = [each.cluster[each.arm == side] for each in samples[:1] for side in (0, 1)]
    groups += [each.cluster for each in samples[1:]]
    freedom = float(max(min(len(np.unique(each)) for each in groups) - 1, 1))
    unknown = any(each.some_missing for each in samples)
    return Crossing(tuple(totals), tuple(units), share, of_trial, unknown, freedom)


def _units_of(people: People, totals: Floats) -> Any:
    """[units, cells], sparse: what each unit that was sampled weighs in each cell.

    People of one cell are one unit, unless clusters were sampled. One more person in each arm and stratum may have had
    anything, so that nothing is certain.
    """
    from scipy import sparse

    every, size = np.arange(totals.size), totals.shape[2]
    present, cluster = np.unique(people.cluster, return_inverse=True)
    row, column, value = every, every, np.sqrt(cells_of(people, people.weight, size, len(totals)).ravel())
    if len(present) < len(people.cluster):
        arms = [people.cluster[people.arm == side] for side in (0, 1)] if len(totals) == 2 else [people.cluster]
        fewest = min(len(np.unique(each)) for each in arms)
        value = people.weight * np.sqrt(fewest / max(fewest - 1, 1))
        row, column = cluster.ravel(), places_of(people, size)
    more = np.full(totals.shape, float(people.weight.mean()) / np.sqrt(size))
    if len(totals) > 2 and not totals[2].any():
        more[2] = 0.0  # a table without others says that there are none
    rows, columns = np.concatenate([row, len(present) + totals.size + every]), np.concatenate([column, every])
    return sparse.csc_array((np.concatenate([value, more.ravel()]), (rows, columns)))
