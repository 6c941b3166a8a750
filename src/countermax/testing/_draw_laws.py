"""Laws of draws: chi-square tests against the exact law where there is one, against each other where there is none."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.types import Keys
from countermax.couplings import AbstractCoupling, AbstractNoiseSampler, AbstractSampler
from countermax.testing._cases import BrokenError, Case
from countermax.testing._exact_laws import joint_of

_Draw = Callable[[AbstractSampler, ArrayLike, ArrayLike, PRNGKeyArray], tuple[Array, Array]]

NUM_STATISTICAL_TESTS = 36  # at most: six views of the draws, in four cases and for two other sizes
_LEAST_EXPECTED = 5.0  # cells expected less often than this are pooled


def draws(coupling: AbstractSampler, case: Case, num_samples: int, level: float, key: PRNGKeyArray) -> str:
    """Three views of the same law: pairs, counterfactuals of facts that follow p, and the exact joint."""
    p, q = case.probs
    key_pairs, key_facts = jax.random.split(key)
    pairs = _tally(_draw_pair, coupling, case, num_samples, key_pairs)
    facts = _tally(_draw_fact_and_counterfactual, coupling, case, num_samples, key_facts)
    for what, counts in (("pairs", pairs), ("counterfactuals", facts)):
        _follows(f"the factual outcome of {what}", counts.sum(axis=1), p, level)
        _follows(f"the other world's outcome of {what}", counts.sum(axis=0), q, level)
    if isinstance(coupling, AbstractCoupling):
        law = joint_of(coupling, case).astype(np.float64)
        least = min(
            _follows("a pair", pairs, law, level), _follows("a fact with its counterfactual", facts, law, level)
        )
    else:
        least = _same_law(pairs, facts, level)
    return f"{pairs.sum()} draws, smallest p-value {least:.2g}"


def batch_size(coupling: AbstractSampler, size: int) -> int:
    """How many draws to make at once: most need one number for each outcome, but some noise is a matrix."""
    needed = size
    if isinstance(coupling, AbstractNoiseSampler):
        sampler: AbstractNoiseSampler[Any] = coupling
        noise = eqx.filter_eval_shape(lambda: sampler.noise(size, key=jax.random.key(0)))
        leaves = (leaf for leaf in jax.tree.leaves(noise) if isinstance(leaf, jax.ShapeDtypeStruct))
        needed = max(size, sum(leaf.size for leaf in leaves))
    return max(1, 2**22 // needed)


def _tally(
    draw: _Draw, coupling: AbstractSampler, case: Case, num_samples: int, key: PRNGKeyArray
) -> NDArray[np.integer]:
    """How often each pair of outcomes was drawn."""
    size = case.p.size
    batch = min(num_samples, batch_size(coupling, size))
    total = np.zeros(size * size + 1, int)
    for start in range(0, num_samples, batch):
        keys = jax.random.split(jax.random.fold_in(key, start), batch)  # of one shape, so that it is compiled once
        total += np.asarray(_count(draw, coupling, case.p, case.q, keys))
    if total[-1]:
        raise BrokenError(f"{total[-1]} draws are no outcomes at all")
    return total[:-1].reshape(size, size)


@eqx.filter_jit
def _count(draw: _Draw, coupling: AbstractSampler, p: ArrayLike, q: ArrayLike, keys: Keys) -> Int[Array, " cells"]:
    size = jnp.size(p)
    x, y = jax.vmap(lambda key: draw(coupling, p, q, key))(keys)
    inside = (x >= 0) & (x < size) & (y >= 0) & (y < size)
    return jnp.bincount(jnp.where(inside, x * size + y, size * size), length=size * size + 1)


def _draw_pair(coupling: AbstractSampler, p: ArrayLike, q: ArrayLike, key: PRNGKeyArray) -> tuple[Array, Array]:
    return coupling.pair(p, q, key=key)


def _draw_fact_and_counterfactual(
    coupling: AbstractSampler, p: ArrayLike, q: ArrayLike, key: PRNGKeyArray
) -> tuple[Array, Array]:
    key_fact, key_answer = jax.random.split(key)
    x = jax.random.categorical(key_fact, jnp.asarray(p))
    return x, coupling.counterfactual(p, q, x, key=key_answer)


def _follows(what: str, counts: NDArray[np.integer], probs: NDArray[np.floating], level: float) -> float:
    """A chi-square test of counts against probabilities, rare cells pooled; impossible cells must stay empty."""
    from scipy.stats import chi2

    counts, probs = counts.ravel(), probs.ravel() / probs.sum()
    if counts[probs == 0].any():
        raise BrokenError(f"{what} has probability zero in {counts[probs == 0].sum()} draws")
    expected = probs * counts.sum()
    common = expected >= _LEAST_EXPECTED
    cells = [*zip(counts[common], expected[common], strict=True), (counts[~common].sum(), expected[~common].sum())]
    cells = [(seen, wanted) for seen, wanted in cells if wanted >= _LEAST_EXPECTED]
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    value = float(chi2.sf(statistic, len(cells) - 1)) if len(cells) > 1 else 1.0
    if value < level:
        raise BrokenError(f"{what} does not follow its law: p-value {value:.2g}")
    return value


def _same_law(first: NDArray[np.integer], second: NDArray[np.integer], level: float) -> float:
    from scipy.stats import chi2_contingency

    counts = np.stack([first.ravel(), second.ravel()])
    counts = counts[:, counts.sum(axis=0) >= 4 * _LEAST_EXPECTED]
    value = float(chi2_contingency(counts).pvalue) if counts.shape[1] > 1 else 1.0
    if value < level:
        raise BrokenError(f"pairs and facts with their counterfactuals follow different laws: p-value {value:.2g}")
    return value
