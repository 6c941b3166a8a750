"""The pairs of worlds that a coupling is checked on, and what it means to break a law."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

GENERIC = ("random", "sparse", "zeros", "voids")
"""Cases in which nothing is equal, near the edge of a float or about to change: answers are smooth there."""


class BrokenError(Exception):
    """A law does not hold; the message says how it was seen."""


class Case(NamedTuple):
    """Logits of two worlds."""

    name: str
    p: NDArray[np.floating]
    q: NDArray[np.floating]

    @property
    def probs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both worlds' probabilities in double precision."""
        p, q = (np.exp(each.astype(np.float64) - each.max()) for each in (self.p, self.q))
        return p / p.sum(), q / q.sum()

    @property
    def possible(self) -> NDArray[np.integer]:
        """The outcomes that can be seen in the factual world."""
        return np.flatnonzero(self.p > -np.inf)

    @property
    def tolerance(self) -> float:
        """How far a sum of probabilities may be off by rounding."""
        return float(200 * np.finfo(self.p.dtype).eps * max(1.0, np.sqrt(self.p.size)))

    def __str__(self) -> str:
        return f"{self.name} ({self.p.dtype}, {self.p.size} outcomes)"


def cases(size: int, dtype: np.dtype[Any], key: PRNGKeyArray) -> list[Case]:
    """Worlds with zeros, ties, rare outcomes and extreme logits, and some that are equal or nearly so.

    Every logit is a number of single precision, whatever the dtype, so that both precisions answer the same question.
    """
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    p, q = 1.5 * rng.normal(size=(2, size))
    places = np.arange(size)
    role, half = rng.permutation(size) % 4, rng.permutation(size) < (size + 1) // 2
    inside = (places % 3 != 0) & (places != size - 1) if size > 2 else places >= 0
    first, second = places == rng.integers(size), places == rng.integers(size)
    rare_p, rare_q = rng.permuted(np.tile(np.linspace(0, -27, size), (2, 1)), axis=1)
    pairs = {
        "random": (p, q),
        "sparse": (_without(p, (places == 1) | (places == 3)), _without(q, (places == 2) | (places == 3))),
        # A quarter of the outcomes each: possible in both worlds, in one of them, in the other, in neither.
        "zeros": (_without(p, role >= 2), _without(q, (role % 2 == 1) & (role > 0))),
        "voids": (_without(p, ~inside), _without(q, ~inside)),
        "disjoint": (_without(p, ~half), _without(q, half & (size > 1))),
        "certain": (_without(p, ~first), _without(q, ~second)),
        "equal": (p, p),
        "near": (p, p + 1e-3 * q),
        "tied": tuple(rng.integers(-3, 0, size=(2, size)).astype(float)),
        "scarce": (rare_p / 3, rare_q / 3),
        "rare": (rare_p, rare_q),
        "extreme": tuple(rng.uniform(-80, 80, size=(2, size))),
    }
    return [Case(name, *(each.astype(np.float32).astype(dtype) for each in pair)) for name, pair in pairs.items()]


def _without(logits: NDArray[np.float64], impossible: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The logits with some outcomes made impossible, as long as one is left."""
    return logits if impossible.all() else np.where(impossible, -np.inf, logits)


def close(what: str, found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> float:
    """The largest difference, which must be within the tolerance."""
    if found.shape != expected.shape:
        raise BrokenError(f"{what} has shape {found.shape}, not {expected.shape}")
    if not np.isfinite(found).all():
        raise BrokenError(f"{what} is not finite")
    error = float(np.abs(found - expected).max(initial=0.0))
    if error > tolerance:
        raise BrokenError(f"{what} is off by {error:.2g}")
    return error
