"""Episodes of a course walked forwards to the end of what is compared: here, or by workers of a cluster."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from countermax.mdp._arrays import Floats, Ints
from countermax.mdp.replays._course import Course
from countermax.mdp.replays.engines import AbstractEngine, ToCome, Walked, walk_all, walk_on_ray


class Replayed(NamedTuple):
    """Some episodes: which ones, both moments of their returns, and where they are at the end."""

    episodes: Ints
    first: Floats
    second: Floats
    last: sparse.csr_array


def replayed(engine: AbstractEngine, course: Course, paths: Floats | None, *, spread: bool) -> Iterator[Replayed]:
    """All episodes in parts, as they are done.

    Args:
        engine: Engine that walks.
        course: Course of all episodes.
        paths: [episode, time, state]: where to write distributions, if asked for.
        spread: Whether they are walked on Ray.
    """
    to_come = course.squares_to_come()
    if spread:
        return _walked_elsewhere(engine, course, to_come, paths)
    return walk_all(engine, lambda batch: _walked(engine, course, batch, to_come, paths))


def _walked(engine: AbstractEngine, course: Course, batch: Ints, to_come: ToCome, paths: Floats | None) -> Replayed:
    walked = engine.forwards(batch, path=paths is not None)
    last = _carried_on(engine, course, walked) if paths is None else _followed(course, walked, paths)
    return Replayed(walked.episodes, *_moments(course, walked, *to_come), last)


def _walked_there(
    engine: AbstractEngine, course: Course, batch: Ints, to_come: ToCome, *, path: bool
) -> tuple[Replayed, Floats | None]:
    paths = np.zeros((len(course), course.horizon + 1, course.mdp.num_states)) if path else None
    return _walked(engine, course, batch, to_come, paths), paths


def _walked_elsewhere(
    engine: AbstractEngine, course: Course, to_come: ToCome, paths: Floats | None
) -> Iterator[Replayed]:
    """The same by workers of a cluster, with their paths brought home."""
    walk = partial(_walked_there, path=paths is not None)
    for batch, (part, kept) in walk_on_ray(engine, course, to_come, walk, backwards=False):
        if paths is not None:
            paths[batch] = kept
        yield part._replace(episodes=batch[part.episodes])


def _moments(course: Course, walked: Walked, first: Floats, second: Floats, rows: Ints) -> tuple[Floats, Floats]:
    """First and second moment of the return: of what was earned when the log ends, and of what is still to come."""
    row = rows[walked.episodes]
    factor = course.discount ** course.seen[walked.episodes]
    mass, one, two = np.moveaxis(walked.moments, 2, 0)
    later, its_square = first[row], second[row]
    return (
        one.sum(axis=1) + factor * (mass * later).sum(axis=1),
        two.sum(axis=1) + 2 * factor * (one * later).sum(axis=1) + factor**2 * (mass * its_square).sum(axis=1),
    )


def _carried_on(engine: AbstractEngine, course: Course, walked: Walked) -> sparse.csr_array:
    """Where chains are at the end of what is compared, on plain rows after the log's end."""
    rest = course.steps[walked.episodes] - course.seen[walked.episodes]
    return sparse.csr_array(engine.carry_on(walked.moments[:, :, 0], rest))


def _followed(course: Course, walked: Walked, paths: Floats) -> sparse.csr_array:
    """The same, with where they are at all times on the way."""
    seen, steps = course.seen[walked.episodes], course.steps[walked.episodes]
    here = walked.moments[:, :, 0].copy()
    if walked.path is not None:
        paths[walked.episodes, : walked.path.shape[1]] = walked.path
    for step in range(int(seen.min()), course.horizon):
        going = np.flatnonzero((seen <= step) & (step < steps))
        if len(going):
            here[going] = np.asarray(here[going] @ course.chain)
        over = np.flatnonzero(seen <= step)
        paths[walked.episodes[over], step + 1] = here[over]
    return sparse.csr_array(here)
