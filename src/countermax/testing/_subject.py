"""A coupling under examination: what it answers, asked once for all laws."""

from collections.abc import Callable, Iterable, Iterator
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
from countermax.testing._cases import BrokenError, Case, cases
from countermax.testing._levels import Level

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

    def exact(self) -> Iterator[Reply]:
        """The exact law of every case, in both precisions."""
        for dtype in BOTH:
            yield from self.answers(self.size, dtype)

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
        with precision(dtype):
            return jax.tree.map(
                lambda leaf: jnp.asarray(leaf, dtype) if eqx.is_inexact_array(leaf) else leaf, self.sampler
            )

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
