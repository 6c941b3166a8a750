"""Damaged files: every one is refused in one line, or answered as before, or as the second implementation says."""

import random

from fuzz.case import Case
from fuzz.files import cells, checkpoints, couplings, tables
from fuzz.shelf import Shelf

_MAKERS = ((couplings.make, 50), (checkpoints.make, 8), (cells.make, 10), (tables.make_rows, 20), (tables.make_log, 12))


def make(seed: int, index: int, shelf: Shelf) -> Case:
    """The case with this number; the same for the same seed, whatever was made before."""
    rng = random.Random(f"files {seed} {index}")
    makers, weights = zip(*_MAKERS, strict=True)
    return rng.choices(makers, weights)[0](rng, shelf)
