"""What people say who were drawn again: standardised over strata, or in halves of the people of each stratum."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed, sorted_labels
from countermax._core.progress import ProgressBar
from countermax._tables.frames import Codes, Floats
from countermax.causation._crossing import Crossing
from countermax.causation._questions import Arms, Choosers, Evidence
from countermax.intervals._sampling import Sampling, of_influences
from countermax.trial._people import People

POPULATIONS = ("both", "control", "treated")
THIN_RULES = ("refuse", "merge")

_FEWEST = 10  # people in a stratum and arm; and in a stratum, of those who chose
_NUM_SPLITS = 20


def cells_of(people: People, times: Floats, size: int, num_groups: int = 2) -> Floats:
    """Weights of people by group (arm, or what was chosen), stratum and outcome; the last is for a missing one."""
    outcome = np.where(people.outcome < 0, size - 1, people.outcome)
    places = (people.arm * len(people.strata) + people.stratum) * size + outcome
    shape = (num_groups, len(people.strata), size)
    return np.bincount(places, people.weight * times, int(np.prod(shape))).reshape(shape).astype(np.float64)


def _standardised(totals: Floats, population: str) -> tuple[Floats, Floats]:
    """Probabilities in both arms, each stratum as frequent as in the population; NaN where an arm lacks a stratum."""
    share = _shares(totals, population)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = totals / totals.sum(axis=2, keepdims=True)
    here, there = np.where(share[None, :, None] > 0, within * share[None, :, None], 0).sum(axis=1)
    return here, there


def _shares(totals: Floats, population: str) -> Floats:
    """How frequent each stratum is in the population."""
    people = totals.sum(axis=2)
    share = {"both": people.sum(axis=0), "control": people[0], "treated": people[1]}[population]
    return np.asarray(share / share.sum())


def check_strata(people: People, totals: Floats, population: str) -> None:
    """Refuses strata that lack an arm which the population needs."""
    empty = totals.sum(axis=2) == 0
    needed = {"both": empty.any(axis=0), "control": empty[1] & ~empty[0], "treated": empty[0] & ~empty[1]}
    if needed[population].any():
        lacking = [name for name, lacks in zip(people.strata, needed[population], strict=True) if lacks]
        raise InputError(
            f"`strata` must have people in both arms, but {listed(lacking)} has only one; merge strata, or standardise "
            "to another `population`"
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
    laws, mass, size = _standardised(totals, population), totals.sum(axis=2), totals.shape[2]
    share = _shares(totals, population)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.nan_to_num(totals / mass[:, :, None])
        part = np.where(mass > 0, share / mass, 0)
    outcome = np.where(people.outcome < 0, size - 1, people.outcome)
    counted = (
        np.ones(len(outcome), bool) if population == "both" else people.arm == ("control", "treated").index(population)
    )
    own = people.weight * part[people.arm, people.stratum]
    share_of = people.weight * counted / (people.weight * counted).sum()
    influence = np.zeros((len(outcome), 2, size))
    influence[np.arange(len(outcome)), people.arm] -= own[:, None] * within[people.arm, people.stratum]
    influence[np.arange(len(outcome)), people.arm, outcome] += own
    if totals.shape[1] > 1:
        for side in (0, 1):
            influence[:, side] += share_of[:, None] * (within[side, people.stratum] - laws[side])
    present, cluster = np.unique(people.cluster, return_inverse=True)
    freedom = np.inf
    if len(present) < len(outcome):
        summed = np.zeros((len(present), 2, size))
        np.add.at(summed, cluster.ravel(), influence)
        influence = summed * np.sqrt(len(present) / max(len(present) - 1, 1))
        freedom = float(max(min(len(np.unique(people.cluster[people.arm == side])) for side in (0, 1)) - 1, 1))
    sizes = [int((people.arm == side).sum()) for side in (0, 1)]
    words = people_words(sizes, arms, first)
    if len(present) < len(outcome):
        words += f" in {len(present):,} clusters"
    counting, units = _effective_numbers(people, totals, population)
    order = [first, 1 - first]
    return of_influences(
        [laws[side] for side in order],
        influence[:, order].reshape(len(influence), -1),
        np.array(units)[order],
        np.array(counting)[order],
        words,
        freedom,
    )


def people_words(sizes: Sequence[int], arms: tuple[str, str], first: int = 0) -> str:
    """How many people in each arm."""
    a, b = first, 1 - first
    return f"{sizes[a]:,} people in {arms[a]} and {sizes[b]:,} in {arms[b]}"


def _drawn_again(
    people: People, groups: Sequence[Codes], totals: Floats, number: int, stream: np.random.Generator
) -> Iterator[Floats]:
    """Totals of clusters that were drawn again, as many of each group as there are."""
    size = int(people.cluster.max()) + 1
    with ProgressBar("resampling", number) as bar:
        for _ in range(number):
            times = np.zeros(size)
            for group in groups:
                times[group] = stream.multinomial(len(group), np.full(len(group), 1 / len(group)))
            yield cells_of(people, times[people.cluster], totals.shape[2], len(totals))
            bar.advance(1)


def _effective_numbers(people: People, totals: Floats, population: str) -> list[tuple[float, float]]:
    """How many people, and how many clusters, would count as much in each arm, if all had the same weight (Kish)."""
    mass = totals.sum(axis=2)
    counts = np.where(mass > 0, _shares(totals, population) / np.where(mass > 0, mass, 1), 0)
    each = people.weight * counts[people.arm, people.stratum]
    result = []
    for groups in (np.arange(len(each)), people.cluster):
        parts = [np.bincount(groups[people.arm == side], each[people.arm == side]) for side in (0, 1)]
        here, there = (float(part.sum() ** 2 / (part**2).sum()) for part in parts)
        result.append((here, there))
    return result


def cluster_groups(people: People) -> list[Codes]:
    """Clusters that are drawn again together: those of an arm, if each is in one arm; else all of them."""
    first = np.zeros(people.cluster.max() + 1, np.int64)
    first[people.cluster] = people.arm
    present = np.unique(people.cluster)
    if not (first[people.cluster] == people.arm).all():
        return [present]
    return [present[first[present] == side] for side in np.unique(people.arm)]


def merged_strata(samples: Sequence[People], thin: str) -> tuple[list[People], list[str]]:
    """The same strata in every sample, each with enough people: thin ones are refused, or merged with neighbours."""
    names = sorted_labels({name for people in samples for name in people.strata})
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
        first, second = sorted((thinnest, min(beside, key=size.__getitem__)))
        parts[first : second + 1] = [parts[first] + parts[second]]
    places = np.zeros(len(names), np.int64)
    for new, part in enumerate(parts):
        places[part] = new
    joined = [" + ".join(names[place] for place in part) for part in parts]
    merged = sum(len(part) for part in parts if len(part) > 1)
    return [_renumbered(each, places, joined) for each in samples], [
        f"Strata with fewer than {_FEWEST} people in an arm were merged with their neighbours: {merged} of "
        f"{int(present.sum())} became {sum(len(part) > 1 for part in parts)}."
    ]


def _effective(mass: Floats, squares: Floats) -> Floats:
    """How many people of equal weight would count as much (Kish), from sums of weights and of their squares."""
    return np.asarray(np.round(mass**2 / np.where(squares > 0, squares, 1), 9))


def _renumbered(people: People, places: Codes | list[int], names: list[str]) -> People:
    return people._replace(stratum=np.asarray(places, np.int64)[people.stratum], strata=tuple(names))


def sizes_of(samples: Sequence[People]) -> Floats:
    """[strata, 3]: how many people are in each arm, and how many chose."""
    number = len(samples[0].strata)
    count = np.zeros((number, 3))
    np.add.at(count, (samples[0].stratum, samples[0].arm), 1)
    for people in samples[1:]:
        count[:, 2] = np.bincount(people.stratum, minlength=number)
    return count


def evidence_of(
    trial: Floats, seen: Floats | None, share: float, *, of_trial: bool = True, unknown: bool = False
) -> Evidence:
    """What totals by arm, stratum and outcome say; a stratum that an arm lacks takes the other's outcomes.

    `trial` is [..., arms, strata, outcomes]; `seen`, where people were observed who chose (without, with, something
    else), [..., choices, strata, outcomes]. If `of_trial`, strata count as in the trial, not as among those who chose.
    If `unknown`, the last outcome is that none is known.
    """
    arms = [trial[..., side, :, :] for side in (0, 1)]
    people = [each.sum(axis=-1) for each in arms]
    laws = []
    for own, other in ((0, 1), (1, 0)):
        mass = np.where(people[own][..., None] > 0, arms[own], arms[other])
        total = mass.sum(axis=-1, keepdims=True)
        laws.append(np.where(total > 0, mass, 1 / mass.shape[-1]) / np.where(total > 0, total, 1))
    strata = [each / each.sum(axis=-1, keepdims=True) for each in people]
    weight = (1 - share) * strata[0] + share * strata[1]
    trial_law = Arms(laws[0], laws[1])
    if seen is None:
        return Evidence(trial_law, None, share, weight, unknown)
    whole = seen.sum(axis=(-3, -1))
    chose = seen / np.where(whole > 0, whole, 1)[..., None, :, None]
    if not of_trial:
        weight = whole / whole.sum(axis=-1, keepdims=True)
    choices = Choosers(chose[..., 0, :, :], chose[..., 1, :, :], chose[..., 2, :, :].sum(axis=-1))
    return Evidence(trial_law, choices, share, weight, unknown)


class Splits(NamedTuple):
    """Totals of all people, of halves of them, and of people who were drawn again: of a trial, and of who chose."""

    whole: list[Floats]
    """[groups, strata, outcomes] for each sample."""
    halves: list[Floats]
    """[halves, groups, strata, outcomes]: each half is followed by the other one."""
    again: list[Floats]
    freedom: float
    """Degrees of freedom."""

    def crossing(self, share: float, *, of_trial: bool = True, unknown: bool = False) -> Crossing:
        """What they say; arguments as of `evidence_of`."""
        estimates, halved, drawn = (
            evidence_of(each[0], each[1] if len(each) > 1 else None, share, of_trial=of_trial, unknown=unknown)
            for each in self[:3]
        )
        return Crossing(estimates, halved, drawn, self.freedom)


def splits_of(samples: Sequence[People], size: int, *, plain: bool = True, num_resamples: int = 400) -> Splits:
    """Totals of all people, of halves of them, and of people who were drawn again.

    They depend on who was counted, but neither on the order of rows nor on the names of clusters and strata.
    """
    stream = np.random.default_rng(0)
    samples, places = _in_order(samples, size)
    whole, halves, again = [], [], []
    for place, people in enumerate(samples):
        totals = cells_of(people, np.ones(len(people.outcome)), size, 2 + place)
        whole.append(totals)
        if plain:
            halves.append(_counted_halves(totals, place == 0, stream))
            again.append(stream.standard_gamma(totals + 1 / size, (num_resamples, *totals.shape)))
        else:
            halves.append(_drawn_halves(people, totals, place == 0, stream))
            groups = cluster_groups(people) if place == 0 else [np.unique(people.cluster)]
            drawn = np.stack([*_drawn_again(people, groups, totals, num_resamples, stream)])
            part = stream.standard_gamma(1 / size, drawn.shape)  # of a person anywhere, so that nothing is certain
            again.append(drawn + float(people.weight.mean()) * part)
    if len(samples) > 1 and not whole[1][2].any():
        again[1][:, 2] = 0.0  # a table without others says that there are none
    units = min(len(np.unique(each.cluster)) for each in samples)
    whole, halves, again = ([each.take(places, axis=-2) for each in part] for part in (whole, halves, again))
    return Splits(whole, halves, again, float(max(units - 2, 1)))


def _in_order(samples: Sequence[People], size: int) -> tuple[list[People], Codes]:
    """The samples with strata and clusters numbered by what they hold, and the number that each stratum got.

    What holds the same is interchangeable. A sum with fixed random coefficients tells what differs.
    """
    stream, number = np.random.default_rng(1), len(samples[0].strata)
    held = np.zeros(number)
    for place, each in enumerate(samples):
        totals = cells_of(each, np.ones(len(each.outcome)), size, 2 + place)
        held += np.tensordot(totals, stream.random((2 + place, size)), ([0, 2], [0, 1]))
    order = np.argsort(np.round(held, 9), kind="stable")
    places = np.argsort(order)
    result = []
    for each in samples:
        each = _renumbered(each, places, [each.strata[place] for place in order])
        own = each.weight * stream.random((3, number, size))[each.arm, each.stratum, each.outcome]
        _, cluster = np.unique(each.cluster, return_inverse=True)
        ranks = np.argsort(np.argsort(np.round(np.bincount(cluster, own), 9), kind="stable"))
        result.append(each._replace(cluster=ranks[cluster]))
    return result, places


def _counted_halves(totals: Floats, by_arm: bool, stream: np.random.Generator) -> Floats:
    """Counts of halves of the people of each stratum, and of each arm of a trial."""
    halves = np.zeros((_NUM_SPLITS, 2, *totals.shape))
    counts = totals.astype(np.int64)
    for stratum in range(totals.shape[1]):
        for some in [slice(0, 1), slice(1, 2)] if by_arm else [slice(None)]:
            cells = counts[some, stratum].ravel()
            half = stream.multivariate_hypergeometric(cells, int(cells.sum()) // 2, _NUM_SPLITS, method="marginals")
            both = np.stack([half, cells - half], axis=1)
            halves[:, :, some, stratum] = both.reshape(_NUM_SPLITS, 2, -1, totals.shape[2])
    return _filled(halves.reshape(-1, *totals.shape), totals, by_arm)


def _drawn_halves(people: People, totals: Floats, by_arm: bool, stream: np.random.Generator) -> Floats:
    """Totals of halves of the clusters."""
    clusters = np.unique(people.cluster, return_inverse=True)[1].ravel()
    halves = []
    for _ in range(_NUM_SPLITS):
        side = stream.permutation(np.arange(clusters.max() + 1) % 2)[clusters]
        halves += [cells_of(people, (side == each).astype(float), totals.shape[2], len(totals)) for each in (0, 1)]
    return _filled(np.stack(halves), totals, by_arm)


def _filled(halves: Floats, totals: Floats, by_arm: bool) -> Floats:
    """Halves, with all people where a half has nobody in a stratum, or in one of its arms."""
    some = halves.sum(axis=-1 if by_arm else (-3, -1), keepdims=True) > 0
    return np.asarray(np.where(some, halves, totals))
