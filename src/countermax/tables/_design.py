"""How people were sampled, in words: weighted, in clusters, and where there are too few."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._tables.frames import Codes
from countermax.tables._people import People

_FEW_CLUSTERS, _FEW_CLUSTERS_OF_ARM, _FEW_COUNTING = 30, 10, 30
_TOO_FEW = ": few, so intervals may be too short"


def count_clusters(clusters: Codes, whom: str, column: Hashable) -> int:
    """How many clusters people come in; a single one is refused.

    Args:
        clusters: The cluster of each person.
        whom: The people in words.
        column: Name of the column.
    """
    number = len(np.unique(clusters))
    if number < 2:
        raise InputError(
            f"`clusters` must be at least two in each sample, but {whom} has one in column {column!r}, which does not "
            "show how clusters differ; add clusters, or leave `clusters` (--clusters) out, but only if people of the "
            "same cluster are no more alike than others"
        )
    return number


def design_notes(people: People, asked: Mapping[str, Any], worlds: tuple[str, str]) -> list[str]:
    """That people are weighted, or come in clusters; one cluster in an arm is refused.

    Args:
        people: Everybody in the two arms.
        asked: Names of columns by argument.
        worlds: Names of the arms.
    """
    notes = []
    if asked["weights"] is not None:
        here, there = (people.weight[people.arm == side] for side in (0, 1))
        counting = [float(each.sum() ** 2 / (each**2).sum()) for each in (here, there)]  # Kish's number
        few = min(counting) < _FEW_COUNTING
        notes.append(
            f"People are weighted by column {asked['weights']!r}: they count as {counting[0]:,.0f} in {worlds[0]} and "
            f"{counting[1]:,.0f} in {worlds[1]} of equal weight{_TOO_FEW if few else ''}."
        )
    if asked["clusters"] is not None:
        number = len(np.unique(people.cluster))
        own, other = (
            count_clusters(people.cluster[people.arm == side], f"arm {worlds[side]!r}", asked["clusters"])
            for side in (0, 1)
        )
        few = number < _FEW_CLUSTERS or min(own, other) < _FEW_CLUSTERS_OF_ARM
        notes.append(
            f"People come in {number:,} clusters of column {asked['clusters']!r}, {own:,} of them in {worlds[0]} and "
            f"{other:,} in {worlds[1]}{_TOO_FEW if few else ''}."
        )
    return notes
