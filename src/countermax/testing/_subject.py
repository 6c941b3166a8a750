"""A coupling under examination: how closely it is looked at, on which pairs of worlds, and what it answers."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

from countermax.couplings import AbstractNoiseSampler, AbstractSampler


class Level(NamedTuple):
    """What one level of checking asks for."""

    num_samples: int
    """Draws of a statistical law, unless a suspicion calls for more."""
    glances: tuple[int, ...]
    """Draws of looks before, which can only condemn, so that gross faults are told soon."""
    other_sizes: tuple[int, ...]
    """Numbers of outcomes to try beside the one asked for, where a coupling takes any."""
    drawn: tuple[str, ...]
    """Cases that are drawn from."""
    num_facts: int
    """Observations to be explained in each case."""
    both_precisions: bool
    """Whether noise, draws and other sizes are tried in both precisions; exact laws always are."""
    without_jit: bool
    """Whether everything is asked without any compilation too, operation by operation."""


LEVELS = {
    "quick": Level(
        num_samples=100_000,
        glances=(),
        other_sizes=(1, 33),
        drawn=("random", "zeros", "scarce", "rare"),
        num_facts=4096,
        both_precisions=False,
        without_jit=False,
    ),
    "thorough": Level(
        num_samples=4_000_000,
        glances=(100_000, 600_000),
        other_sizes=(1, 2, 33, 300, 3),
        drawn=("random", "sparse", "zeros", "voids", "equal", "tied", "scarce", "rare"),
        num_facts=32_768,
        both_precisions=True,
        without_jit=True,
    ),
}


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


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
BOTH = (SINGLE, DOUBLE)
_MOST_ROWS = 16  # of many outcomes, only some are asked about
_SMALLEST = {SINGLE: 1e-30, DOUBLE: 1e-290}  # rarer observations may be refused


class Reply(NamedTuple):
    """The exact law of one pair of worlds, as a coupling tells it."""

    case: Case
    joint: NDArray[np.floating]
    asked: NDArray[np.integer]
    """The outcomes whose rows were asked for."""
    rows: NDArray[np.floating]


Tried = TypeVar("Tried", Reply, Case)


class Subject:
    """The coupling, how closely to look at it, and what it has answered so far."""

    def __init__(self, sampler: AbstractSampler, size: int, level: Level, key: PRNGKeyArray):
        """Asks nothing yet."""
        self.sampler, self.size, self.level, self.key = sampler, size, level, key
        self.native = np.dtype(jnp.zeros(()).dtype)
        self.in_precision = cache(self._in_precision)
        self.answers = cache(self._answers)

    @property
    def drawn_in(self) -> tuple[np.dtype[Any], ...]:
        """The precisions of draws: the session's own first."""
        return (self.native, *(each for each in BOTH if each != self.native and self.level.both_precisions))

    def cases(self, dtype: np.dtype[Any], size: int | None = None) -> list[Case]:
        """The pairs of worlds for a number of outcomes."""
        number = size or self.size
        return cases(number, dtype, jax.random.fold_in(self.key, number))

    def case(self, name: str, dtype: np.dtype[Any]) -> Case:
        """One of the pairs of worlds."""
        return next(each for each in self.cases(dtype) if each.name == name)

    def ask(self, case: Case) -> Reply:
        """Asks about two worlds one by one, as a person would: outside of `jit` and `vmap`."""
        coupling, asked = self.in_precision(case.p.dtype), askable(case)
        with precision(case.p.dtype):
            joint = np.asarray(coupling.joint(case.p, case.q))
            rows = np.stack([np.asarray(coupling.counterfactual_probs(case.p, case.q, int(x))) for x in asked])
        if joint.shape != (case.p.size, case.p.size):
            raise BrokenError(f"{case}: the joint law has shape {joint.shape}, not {(case.p.size, case.p.size)}")
        return Reply(case, joint, asked, rows)

    def _in_precision(self, dtype: np.dtype[Any]) -> Any:
        """The coupling with its own numbers in double precision, if that is asked for."""
        if dtype == SINGLE:
            return self.sampler
        own, rest = eqx.partition(self.sampler, eqx.is_inexact_array)
        with precision(dtype):
            return eqx.combine(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), own), rest)

    def _answers(self, size: int, dtype: np.dtype[Any]) -> list[Reply]:
        return [self.ask(case) for case in self.cases(dtype, size)]


def precision(dtype: np.dtype[Any]) -> AbstractContextManager[Any]:
    """Where numbers of this kind can be computed with."""
    return jax.enable_x64(True) if dtype == DOUBLE else nullcontext()


def askable(case: Case) -> NDArray[np.integer]:
    """Outcomes that can be asked about, spread over the common and the rare."""
    p, _ = case.probs
    found = np.flatnonzero(p > _SMALLEST[case.p.dtype])
    if found.size > _MOST_ROWS:
        found = found[np.argsort(-p[found])][np.linspace(0, found.size - 1, _MOST_ROWS).astype(int)]
    return found


def on_each(tried: Iterable[Tried], law: Callable[[Tried], float]) -> str:
    """Checks a law in every case and says how far off the worst of them was."""
    errors = []
    for each in tried:
        try:
            errors.append(law(each))
        except BrokenError as broken:
            raise BrokenError(f"{each.case if isinstance(each, Reply) else each}: {broken}") from None
    return f"within {max(errors, default=0.0):.1g} in {len(errors)} cases"


def batch_size(sampler: AbstractSampler, size: int) -> int:
    """How many draws to make at once: most need one number for each outcome, but some noise is a matrix."""
    needed = size
    if isinstance(sampler, AbstractNoiseSampler):
        noise = eqx.filter_eval_shape(lambda: sampler.noise(size, key=jax.random.key(0)))
        leaves = (leaf for leaf in jax.tree.leaves(noise) if isinstance(leaf, jax.ShapeDtypeStruct))
        needed = max(size, sum(leaf.size for leaf in leaves))
    return min(2**16, max(1, 2**21 // needed))
