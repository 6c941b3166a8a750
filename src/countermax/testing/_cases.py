"""The pairs of worlds that a coupling is checked on, and what it means to break a law."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray


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
    def tolerance(self) -> float:
        """How far a sum of probabilities may be off by rounding."""
        return float(200 * np.finfo(self.p.dtype).eps * max(1.0, np.sqrt(self.p.size)))


def cases(size: int, key: PRNGKeyArray) -> list[Case]:
    """Worlds with zeros, ties and extreme logits, and two that are equal."""
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    dtype = jnp.zeros(()).dtype
    p, q = 1.5 * rng.normal(size=(2, size))
    extreme_p, extreme_q = rng.uniform(-80, 80, size=(2, size))
    tied_p, tied_q = rng.integers(0, 3, size=(2, size)).astype(float)
    sparse_p, sparse_q = p.copy(), q.copy()
    sparse_p[1:2], sparse_q[2:3] = -np.inf, -np.inf
    sparse_p[3:4] = sparse_q[3:4] = -np.inf
    pairs = {
        "random": (p, q),
        "sparse": (sparse_p, sparse_q),
        "equal": (p, p),
        "tied": (tied_p, tied_q),
        "extreme": (extreme_p, extreme_q),
    }
    return [Case(name, first.astype(dtype), second.astype(dtype)) for name, (first, second) in pairs.items()]


def on_each(tried: list[Case], law: Callable[[Case], float]) -> str:
    """Checks a law on every case and says how far off the worst of them was."""
    worst = 0.0
    for case in tried:
        try:
            worst = max(worst, law(case))
        except BrokenError as broken:
            raise BrokenError(f"{case.name}: {broken}") from None
    return f"within {worst:.1g} in {len(tried)} cases"


def close(what: str, found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> float:
    """The largest difference, which must be within the tolerance."""
    if found.shape != expected.shape:
        raise BrokenError(f"{what} has shape {found.shape}, not {expected.shape}")
    if not np.isfinite(found).all():
        raise BrokenError(f"{what} is not finite")
    error = float(np.abs(found - expected).max())
    if error > tolerance:
        raise BrokenError(f"{what} is off by {error:.2g}")
    return error
