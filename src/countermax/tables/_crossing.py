"""Bounds within strata, cross-fitted: what decides which bound binds is not the data on which it is measured.

A bound is a maximum of linear pieces. Estimated in a small stratum, the largest piece is the luckiest one: with four
people in each arm and no effect the lower bound of the benefit is .14 where 0 is right. So the piece is chosen on one
half of the people and measured on the other: its mean is then that of some piece, which is never too narrow.
"""

from collections.abc import Callable

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import listed
from countermax.bounds import Bounds, largest_worth
from countermax.causation import CausalQuestion
from countermax.tables._arms import totals_of
from countermax.tables._people import People
from countermax.tables.frames import Codes, Floats

FEWEST = 20
"""People in a stratum and arm."""

_NUM_SPLITS = 20


def merged_strata(people: People, thin: str) -> tuple[People, list[str]]:
    """Strata with enough people in both arms: thin ones are refused, or merged into one."""
    count = np.zeros((2, len(people.strata)), np.int64)
    np.add.at(count, (people.arm, people.stratum), 1)
    present = count.sum(axis=0) > 0
    few = (count < FEWEST).any(axis=0) & present
    if not few.any():
        return _renumbered(people, np.where(present, np.cumsum(present) - 1, 0), [
            name for name, some in zip(people.strata, present, strict=True) if some
        ]), []  # fmt: skip
    lacking = [name for name, lacks in zip(people.strata, few, strict=True) if lacks]
    if thin == "refuse":
        raise InputError(
            f"`strata` must have at least {FEWEST} people in each arm, but {listed(lacking)} "
            f"{'has' if len(lacking) == 1 else 'have'} fewer; coarsen the column, or say thin='merge' (--thin merge)"
        )
    together = few.copy()
    for place in np.argsort(count.min(axis=0), kind="stable"):  # the smallest of the others join until there are enough
        if (count[:, together].sum(axis=1) >= FEWEST).all():
            break
        together[place] |= bool(present[place])
    kept = present & ~together
    places = np.where(kept, np.cumsum(kept) - 1, int(kept.sum()))
    joined = [name for name, some in zip(people.strata, together & present, strict=True) if some]
    names = [name for name, some in zip(people.strata, kept, strict=True) if some] + [" + ".join(joined)]
    return _renumbered(people, places, names), [f"{len(joined)} thin strata were merged into one."]


def _renumbered(people: People, places: Codes, names: list[str]) -> People:
    return people._replace(stratum=np.asarray(places, np.int64)[people.stratum], strata=tuple(names))


def whole_law(totals: Floats) -> tuple[Floats, Floats]:
    """The law of stratum and outcome in each arm, one cell after the other."""
    here, there = (each.ravel() / max(float(each.sum()), 1e-300) for each in totals)
    return here, there


def crossed_bounds(people: People, size: int, share: float, seed: int) -> Callable[[CausalQuestion], Bounds | None]:
    """Cross-fitted bounds of any question about units of the trial, averaged over strata and splits."""
    whole = totals_of(people, np.ones(len(people.outcome)), size)
    arms = whole.sum(axis=(1, 2), keepdims=True)
    weight = (np.array([1 - share, share])[:, None, None] * whole / arms).sum(axis=(0, 2))
    stream = np.random.default_rng(seed)
    clusters, halves = np.unique(people.cluster, return_inverse=True)[1].ravel(), []
    for _ in range(_NUM_SPLITS):
        side = stream.permutation(np.arange(clusters.max() + 1) % 2)[clusters]
        halves.append([_laws(totals_of(people, (side == each).astype(float), size), whole) for each in (0, 1)])
    p, q = _laws(whole, whole)

    def crossed(question: CausalQuestion) -> Bounds | None:
        factor, asked = 1.0, np.ones(len(weight))
        if not question.of_everybody:
            both = bool(question.among_control.any() and question.among_treated.any())
            shares = (1 - share, share) if both else (1.0, 1.0)
            asked = shares[0] * (p @ question.among_control) + shares[1] * (q @ question.among_treated)
            factor = shares[1] if question.of_treated else shares[0]
        whom = float(weight @ asked)
        if whom <= 0:
            return None
        limits = []
        for sign in (-1, 1):
            pieces = largest_worth(sign * question.worth)
            values = [[pieces.values_of(slice(None), *law) for law in pair] for pair in halves]
            found = [
                np.take_along_axis(measured, chosen.argmin(axis=-1)[:, None], axis=-1)[:, 0]
                for pair in values
                for chosen, measured in (pair, pair[::-1])
            ]
            limits.append(sign * factor * float(weight @ np.mean(found, axis=0)) / whom)
            overall = factor * float(pieces.least(weight @ p, weight @ q)) / whom
            limits[-1] = max(limits[-1], -overall) if sign < 0 else min(limits[-1], overall)
        least, most = float(question.worth.min()), float(question.worth.max())
        upper = float(np.clip(limits[1], least, most))
        return Bounds(float(np.clip(limits[0], least, upper)), upper)

    return crossed


def _laws(totals: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """Outcomes by stratum in both arms; those of all people where a half has nobody."""
    some = np.where(totals.sum(axis=2, keepdims=True) > 0, totals, whole)
    here, there = some / some.sum(axis=2, keepdims=True)
    return here, there
