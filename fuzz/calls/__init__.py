"""Random calls: command lines and Python, most of them sensible, many of them not quite."""

import random

from fuzz.calls import compare, learning, odd, processes, python, tables, trajectories
from fuzz.case import Case
from fuzz.shelf import Shelf

_MAKERS = (
    (compare.make, 20),
    (tables.make_counterfactuals, 26),
    (tables.make_transitions, 14),
    (trajectories.make_evaluation, 7),
    (trajectories.make_explanation, 6),
    (learning.make_training, 2),
    (learning.make_evaluation, 3),
    (odd.make, 4),
    (python.make, 18),
    (processes.make, 6),
)


def make(seed: int, index: int, shelf: Shelf) -> Case:
    """The case with this number; the same for the same seed, whatever was made before."""
    rng = random.Random(f"calls {seed} {index}")
    makers, weights = zip(*_MAKERS, strict=True)
    maker = rng.choices(makers, weights)[0]
    return maker(rng, shelf) if maker is learning.make_evaluation else maker(rng)
