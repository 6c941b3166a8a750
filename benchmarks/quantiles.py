"""Vector quantiles: fitting a reference, and a row with new worlds or with worlds that were asked before."""

import time
from collections.abc import Iterator

import jax
import numpy as np

from benchmarks.measure import Row
from countermax import VectorQuantile
from countermax.learning import RandomPairs

_AIMS = {256: 20, 1024: 40}
_REPEATS = 15


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    for size in (10, 50, 150):
        for atoms, aim in _AIMS.items():
            yield from _fitted(size, atoms, aim)


def _fitted(size: int, atoms: int, aim: int) -> Iterator[Row]:
    scores = np.random.default_rng(0).normal(size=(size, 3))
    start = time.perf_counter()
    fitted = VectorQuantile.fit(scores, RandomPairs(size), key=jax.random.key(0), num_atoms=atoms)
    yield Row(f"fitting {atoms} atoms, K={size}", time.perf_counter() - start, "s", "aim: below 60 on two cores")
    worlds = (8 * np.random.default_rng(1).uniform(size=(_REPEATS, 2, size))).astype(np.float32)
    jax.block_until_ready(fitted.counterfactual_probs(worlds[0, 0], worlds[0, 1], 0))

    def asked(place: int, x: int) -> float:
        begun = time.perf_counter()
        jax.block_until_ready(fitted.counterfactual_probs(worlds[place, 0], worlds[place, 1], x))
        return time.perf_counter() - begun

    new = float(np.median([asked(place, 0) for place in range(1, _REPEATS)]))
    again = float(np.median([asked(place, 1) for place in range(1, _REPEATS)]))
    yield Row(f"a row of new worlds, K={size}, {atoms} atoms", new * 1e3, "ms", f"aim: below {aim} at K=150")
    yield Row(f"a row of worlds asked before, K={size}, {atoms} atoms", again * 1e3, "ms", "their plans are kept")
