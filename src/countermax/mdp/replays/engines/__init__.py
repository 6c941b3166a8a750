"""Engines that replay episodes: one for any coupling, and a compiled one for closed forms and bounds."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from os import cpu_count, environ
from typing import TypeVar

from countermax.mdp._arrays import Ints
from countermax.mdp.replays._course import Course
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays.engines._base import AbstractEngine as AbstractEngine
from countermax.mdp.replays.engines._base import Bounded as Bounded
from countermax.mdp.replays.engines._base import Walked as Walked
from countermax.mdp.replays.engines._general import GeneralEngine as GeneralEngine
from countermax.mdp.replays.engines._spread import ToCome as ToCome
from countermax.mdp.replays.engines._spread import walk_on_ray as walk_on_ray

Found = TypeVar("Found")


def engine_for(course: Course, law: TransitionCoupling | None, *, stable: bool = False) -> AbstractEngine:
    """The quickest engine there is for one coupling, or for bounds."""
    if find_spec("numba") is not None:
        from countermax.mdp.replays.engines._compiled import CompiledEngine, has_closed_form

        if has_closed_form(law):
            return CompiledEngine(course, law, stable=stable)
    return GeneralEngine(course, law, stable=stable)


def walk_all(engine: AbstractEngine, walk: Callable[[Ints], Found], *, rows: Ints | None = None) -> Iterator[Found]:
    """Walks all batches, as many at once as there are processors where the code is compiled, as they are done.

    Args:
        engine: Engine that walks.
        walk: Function of the engine that walks one batch.
        rows: [episode]: what is still to come when the log ends, by its number, for walks backwards.
    """
    batches = engine.batches(rows)
    if isinstance(engine, GeneralEngine) or len(batches) == 1:
        yield from map(walk, batches)
        return
    with ThreadPoolExecutor(_threads()) as pool:
        waiting = [pool.submit(walk, batch) for batch in batches]
        try:
            for each in as_completed(waiting):
                yield each.result()
        finally:
            for each in waiting:
                each.cancel()


def _threads() -> int:
    """As many as processors, or as the worker of a cluster may have."""
    allowed = environ.get("OMP_NUM_THREADS", "")
    return min(int(allowed) if allowed.isdecimal() and int(allowed) else cpu_count() or 1, 8)
