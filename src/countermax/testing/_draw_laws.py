"""Laws about draws: they follow the law, by chi-square tests with a stated false-alarm level."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractMatrixCoupling, AbstractSampler
from countermax.testing._subject import SINGLE, BrokenError, Case, Level, Subject, batch_size, precision

_SUSPICION = 0.05  # a smallest p-value above it, corrected for the number of tests, ends the matter
_NUM_FOLLOW_UPS = 2
_TIMES = 4


class Finding(NamedTuple):
    """The smallest p-value of a look, multiplied by the number of its tests, and what it was seen in."""

    value: float
    what: str


def look_again(
    test: Callable[[int, PRNGKeyArray], Finding], closely: Level, false_alarm: float, key: PRNGKeyArray
) -> str:
    """Condemns with probability `false_alarm` at most where the law holds."""
    num_samples = closely.num_samples
    draws = [each for each in closely.glances if each < num_samples]
    draws += [num_samples * _TIMES**each for each in range(1 + _NUM_FOLLOW_UPS)]
    reached = 1.0  # the probability that a correct coupling gets this far
    finding = Finding(1.0, "")
    for place, number in enumerate(draws):
        finding = test(number, jax.random.fold_in(key, place))
        if finding.value < false_alarm / len(draws) / reached:
            seen = f"in {number:,} draws: p-value {finding.value:.2g}"
            raise BrokenError(f"{finding.what} does not follow its law {seen}")
        if number < num_samples:
            continue
        if finding.value > _SUSPICION:
            break
        reached *= _SUSPICION
    return f"{number:,} draws, smallest p-value {finding.value:.2g}"


def smallest(tests: Sequence[tuple[str, NDArray[np.floating]]]) -> Finding:
    """The smallest of many p-values, by Bonferroni."""
    number = sum(values.size for _, values in tests)
    least = min(((float(values.min()), what) for what, values in tests if values.size), default=(1.0, "nothing"))
    return Finding(min(1.0, least[0] * max(1, number)), least[1])


def binomial(counts: Any, trials: Any, probs: Any, slack: Any = 0.0) -> NDArray[np.float64]:
    """Two-sided exact p-values of counts out of trials; a probability counts as right if it is so within `slack`."""
    from scipy.stats import binom

    below = binom.cdf(counts, trials, np.clip(np.subtract(probs, slack), 0, 1))
    above = binom.sf(np.subtract(counts, 1), trials, np.clip(np.add(probs, slack), 0, 1))
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def same_share(first: NDArray[np.integer], second: NDArray[np.integer], share: Any = 0.5) -> NDArray[np.float64]:
    """Two-sided p-values of counts in two samples; given their sum, the first's are binomial with its share."""
    return binomial(first, first + second, share)


_RAREST = 2e-3  # noise that is one uniform number of single precision cannot resolve rarer observations
_ROUNDING = 16  # units in the last place that a cell of the exact law may be off by


def draws(subject: Subject, case: Case, level: float, key: PRNGKeyArray) -> str:
    """Three views of the same law: `pair`, counterfactuals of facts, and the exact joint."""
    return look_again(partial(look, subject, case), subject.level, level, key)


def look(subject: Subject, case: Case, num_samples: int, key: PRNGKeyArray) -> Finding:
    """One look at draws."""
    return (_exact if isinstance(subject.sampler, AbstractCoupling) else _sampled)(subject, case, num_samples, key)


def _exact(subject: Subject, case: Case, num_samples: int, key: PRNGKeyArray) -> Finding:
    """Every count is binomial: that of a cell, a row, a column, of agreement; then each row's."""
    law = subject.ask(case)
    p, q = case.probs
    joint = law.joint.astype(np.float64) / law.joint.sum()
    resolves = isinstance(subject.sampler, AbstractArgmaxSampler | AbstractMatrixCoupling) or case.p.dtype != SINGLE
    askable = p[law.asked] > (0 if resolves else _RAREST)
    drawn, facts = _tallies(subject, case, np.resize(law.asked[askable], num_samples), key)
    slack, total = _ROUNDING * float(np.finfo(case.p.dtype).eps), drawn.sum()
    tests = [
        ("the factual outcome by `pair`", binomial(drawn.sum(axis=1), total, p, slack * (p > 0))),
        ("the other world's outcome by `pair`", binomial(drawn.sum(axis=0), total, q, slack * (q > 0))),
        ("`pair`", binomial(drawn, total, joint, slack * np.outer(p > 0, q > 0))),
        ("how often both outcomes of `pair` are equal", binomial(np.trace(drawn), total, np.trace(joint), slack)),
    ]
    for x, row in zip(law.asked[askable], law.rows[askable].astype(np.float64), strict=True):
        rounding = 10 * slack if resolves else slack / p[x]
        values = binomial(facts[x], facts[x].sum(), row / row.sum(), rounding * (q > 0))
        tests.append((f"a counterfactual of outcome {x}", values))
    return smallest(tests)


def _sampled(subject: Subject, case: Case, num_samples: int, key: PRNGKeyArray) -> Finding:
    """Without an exact law: `pair`, and facts with their counterfactuals, have both marginals and follow one law."""
    p, q = case.probs
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    drawn, facts = _tallies(subject, case, rng.choice(p.size, num_samples, p=p), key)
    slack = _ROUNDING * float(np.finfo(case.p.dtype).eps)
    return smallest(
        [
            ("the factual outcome by `pair`", binomial(drawn.sum(axis=1), drawn.sum(), p, slack * (p > 0))),
            ("the other world's outcome by `pair`", binomial(drawn.sum(axis=0), drawn.sum(), q, slack * (q > 0))),
            ("the counterfactual of a fact", binomial(facts.sum(axis=0), facts.sum(), q, slack * (q > 0))),
            ("`pair` beside a fact with its counterfactual", same_share(drawn, facts)),
        ]
    )


def _tallies(
    subject: Subject, case: Case, facts: NDArray[np.integer], key: PRNGKeyArray
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """How often each pair of outcomes was drawn, and each counterfactual of the given facts."""
    size, sampler = case.p.size, subject.in_precision(case.p.dtype)
    batch = min(len(facts), batch_size(subject.sampler, size))
    totals = np.zeros((2, size * size + 1), int)
    with precision(case.p.dtype):
        for start in range(0, len(facts), batch):
            seen = np.resize(facts[start : start + batch], batch)  # of one shape, so that it is compiled once
            totals += np.asarray(_count(sampler, case.p, case.q, seen, jax.random.fold_in(key, start)))
    if totals[:, -1].any():
        raise BrokenError(f"{totals[:, -1].sum()} draws are not outcomes at all")
    drawn, counterfactuals = totals[:, :-1].reshape(2, size, size)
    return drawn, counterfactuals


@eqx.filter_jit
def _count(
    sampler: AbstractSampler, p: ArrayLike, q: ArrayLike, facts: Int[ArrayLike, " n"], key: PRNGKeyArray
) -> Int[Array, "views cells"]:
    def one(x: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        key_pair, key_answer = jax.random.split(key)
        return *sampler.pair(p, q, key=key_pair), sampler.counterfactual(p, q, x, key=key_answer)

    seen = jnp.asarray(facts)
    x, y, answer = jax.vmap(one)(seen, jax.random.split(key, seen.size))
    return jnp.stack([_tally(x, y, jnp.size(p)), _tally(seen, answer, jnp.size(p))])


def _tally(x: Any, y: Any, size: int) -> Int[Array, " cells"]:
    """Counts of cells, and last what is no outcome."""
    inside = (x >= 0) & (x < size) & (y >= 0) & (y < size)
    return jnp.bincount(jnp.where(inside, x * size + y, size * size), length=size * size + 1)
