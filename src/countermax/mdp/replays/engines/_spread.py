"""Batches of episodes walked on Ray, each by the engine that was prepared for the whole log.

Workers get what was prepared once, and of the episodes only those that they walk. Batches are the same as on one
machine and so are the walks, whoever takes them.
"""

from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from countermax._ray import connect, in_prepared_parts
from countermax.mdp._arrays import Ints
from countermax.mdp.replays._course import Course, Part
from countermax.mdp.replays.engines._base import AbstractEngine

Found = TypeVar("Found")
ToCome: TypeAlias = tuple[Any, ...]
"""Tables [row, state] of what is still to come when the log ends; the last entry says which row each episode has."""
Walk: TypeAlias = Callable[[AbstractEngine, Course, Ints, ToCome], Found]


def walk_on_ray(
    engine: AbstractEngine, course: Course, to_come: ToCome, walk: Walk[Found], *, backwards: bool
) -> Iterator[tuple[Ints, Found]]:
    """Each batch of episodes and what a walk found of it, where it counts the batch's episodes from 0; in order.

    Args:
        engine: Engine that walks.
        course: Course of all episodes.
        to_come: Tables of what is still to come when the log ends.
        walk: Function of an engine, its course, positions in it and what is to come; other processes can import it.
        backwards: Whether it walks backwards.
    """
    connect()
    batches = engine.batches(to_come[-1] if backwards else None)
    parts = ((course.part(batch), engine.part(batch), _some(to_come, batch)) for batch in batches)
    found: Iterator[Found]
    if len(batches) == 1:  # quicker done than sent
        found = starmap(_walking(engine, course, walk), parts)
    else:
        none = np.zeros(0, np.int64)
        nobody = course.of_part(course.part(none))
        found = in_prepared_parts(_walking, (engine.of_part(nobody, *engine.part(none)), nobody, walk), parts)
    return zip(batches, found, strict=True)


def _some(to_come: ToCome, batch: Ints) -> ToCome:
    """The rows of these episodes alone."""
    *tables, rows = to_come
    kept, rows = np.unique(rows[batch], return_inverse=True)
    return *(table[kept] for table in tables), rows


def _walking(engine: AbstractEngine, course: Course, walk: Walk[Found]) -> Callable[..., Found]:
    """A function that walks a part."""

    def walked(part: Part, prepared: tuple[NDArray, ...], to_come: ToCome) -> Found:
        some = course.of_part(part)
        return walk(engine.of_part(some, *prepared), some, np.arange(len(some)), to_come)

    return walked
