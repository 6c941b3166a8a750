"""Strata of one sample, or of a trial and of people who chose: who is in them, and what halves of them say."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax._core.progress import ProgressBar
from countermax._tables.frames import Codes, Floats
from countermax.causation import Arms, Choosers, Crossing, Evidence
from countermax.tables._arms import FEWEST, cluster_groups
from countermax.tables._people import People

_NUM_SPLITS, _NUM_DRAWS = 20, 400


def merged_strata(samples: Sequence[People], thin: str) -> tuple[list[People], list[str]]:
    """The same strata in every sample, each with enough people: thin ones are refused, or merged into one.

    Args:
        samples: A trial; and people who chose, if they were observed.
        thin: Whether to `refuse` thin strata or to `merge` them.
    """
    names = list(dict.fromkeys(name for people in samples for name in people.strata))
    place_of = {name: place for place, name in enumerate(names)}
    samples = [_renumbered(each, [place_of[name] for name in each.strata], names) for each in samples]
    count = np.zeros((2, len(names)), np.int64)
    np.add.at(count, (samples[0].arm, samples[0].stratum), 1)
    for people in samples[1:]:
        count = np.concatenate([count, np.bincount(people.stratum, minlength=len(names))[None]])
    present = count.sum(axis=0) > 0
    few = (count < FEWEST).any(axis=0) & present
    if not few.any():
        return _kept(samples, present, names, []), []
    lacking = [name for name, lacks in zip(names, few, strict=True) if lacks]
    if thin == "refuse":
        whom = "in each arm" if len(samples) == 1 else "in each arm of the trial and of those who chose"
        raise InputError(
            f"`strata` must have at least {FEWEST} people {whom}, but {listed(lacking)} "
            f"{'has' if len(lacking) == 1 else 'have'} fewer; coarsen the column, or say thin='merge' (--thin merge)"
        )
    together = few.copy()
    for place in np.argsort(count.min(axis=0), kind="stable"):  # the smallest of the others join until there are enough
        if (count[:, together].sum(axis=1) >= FEWEST).all():
            break
        together[place] |= bool(present[place])
    joined = [name for name, some in zip(names, together & present, strict=True) if some]
    merged = _kept(samples, present & ~together, names, [" + ".join(joined)])
    return merged, [f"{len(joined)} thin strata were merged into one."]


def _kept(samples: Sequence[People], kept: NDArray[np.bool_], names: list[str], rest: list[str]) -> list[People]:
    """Strata that are kept, and one for all others."""
    places = np.where(kept, np.cumsum(kept) - 1, int(kept.sum()))
    names = [name for name, some in zip(names, kept, strict=True) if some] + rest
    return [_renumbered(each, places, names) for each in samples]


def _renumbered(people: People, places: Codes | list[int], names: list[str]) -> People:
    return people._replace(stratum=np.asarray(places, np.int64)[people.stratum], strata=tuple(names))


def whole_law(totals: Floats) -> tuple[Floats, Floats]:
    """The law of stratum and outcome in each arm, one cell after the other."""
    here, there = (each.ravel() / max(float(each.sum()), 1e-300) for each in totals)
    return here, there


def cells_of(people: People, times: Floats, size: int, num_groups: int) -> Floats:
    """Weights of people by group (arm, or what was chosen), stratum and outcome; the last is for a missing one."""
    outcome = np.where(people.outcome < 0, size - 1, people.outcome)
    places = (people.arm * len(people.strata) + people.stratum) * size + outcome
    shape = (num_groups, len(people.strata), size)
    return np.bincount(places, people.weight * times, int(np.prod(shape))).reshape(shape).astype(np.float64)


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

    Args:
        trial: [..., arms, strata, outcomes].
        seen: [..., choices, strata, outcomes], where people were observed who chose: without, with, something else.
        share: Share of the treated in the trial.
        of_trial: Whether strata count as in the trial, not as among those who chose.
        unknown: Whether the last outcome is that none is known.
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


def crossing_of(
    samples: Sequence[People],
    size: int,
    share: float,
    seed: int,
    *,
    of_trial: bool = True,
    unknown: bool = False,
    plain: bool = True,
    num_draws: int = _NUM_DRAWS,
    progress: bool | None = None,
) -> Crossing:
    """Estimates of all people, of halves of them, and of people who were drawn again.

    Args:
        samples: A trial; and people who chose, if they were observed.
        size: Number of outcomes.
        share: Share of the treated in the trial.
        seed: Seed of the halves and of the draws.
        of_trial: Whether strata count as in the trial.
        unknown: Whether the last outcome is that none is known.
        plain: Whether people are independent and count the same.
        num_draws: Number of times that people are drawn again.
        progress: Whether to show a bar.
    """
    stream = np.random.default_rng(seed)
    whole, halves, again = [], [], []
    for place, people in enumerate(samples):
        groups = 2 + place
        totals = cells_of(people, np.ones(len(people.outcome)), size, groups)
        whole.append(totals)
        if plain:
            halves.append(_counted_halves(totals, place == 0, stream))
            again.append(stream.standard_gamma(totals + 1 / size, (num_draws, *totals.shape)))
        else:
            halves.append(_drawn_halves(people, totals, place == 0, stream))
            again.append(_drawn_again(people, totals, place == 0, num_draws, stream, progress))
    if len(samples) > 1 and not whole[1][2].any():
        again[1][:, 2] = 0.0  # a table without others says that there are none
    units = min(len(np.unique(each.cluster)) for each in samples)
    estimates, halved, drawn = (
        evidence_of(each[0], each[1] if len(each) > 1 else None, share, of_trial=of_trial, unknown=unknown)
        for each in (whole, halves, again)
    )
    return Crossing(estimates, halved, drawn, float(max(units - 2, 1)))


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


def _drawn_again(
    people: People, totals: Floats, by_arm: bool, number: int, stream: np.random.Generator, progress: bool | None
) -> Floats:
    """Totals of clusters that were drawn again; and of part of a person anywhere, so that nothing is certain."""
    groups = cluster_groups(people) if by_arm else [np.unique(people.cluster)]
    size = int(people.cluster.max()) + 1
    found = np.empty((number, *totals.shape))
    with ProgressBar("resampling", number, progress) as bar:
        for draw in range(number):
            times = np.zeros(size)
            for group in groups:
                times[group] = stream.multinomial(len(group), np.full(len(group), 1 / len(group)))
            found[draw] = cells_of(people, times[people.cluster], totals.shape[2], len(totals))
            bar.advance(1)
    mean = float(people.weight.mean())
    return found + mean * stream.standard_gamma(1 / totals.shape[2], found.shape)
