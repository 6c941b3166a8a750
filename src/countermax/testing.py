"""The laws that every coupling must satisfy, as a function that you can run on your own.

Algebraic laws are checked to rounding. Laws about draws are chi-square tests; together they raise a false alarm with
probability `false_alarm` at most (Bonferroni), and a fixed key makes the verdict repeatable.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from countermax._errors import InputError
from countermax._types import Keys
from countermax.couplings import AbstractArgmaxMechanism, AbstractCoupling, AbstractMechanism, AbstractSampler

_Draw = Callable[[AbstractSampler, ArrayLike, ArrayLike, PRNGKeyArray], tuple[Array, Array]]

_NUM_STATISTICAL_TESTS = 28  # an upper limit on how many chi-square tests one call makes
_RAREST_JOINT = 1e-30  # below, single precision has no room for the joint probabilities of an outcome
_COARSE = 1e-3  # how far a rare outcome's row may be from the joint's: at extreme logits p itself has lost digits
_RAREST_ABDUCTION = 1e-6  # a mechanism that reads one uniform number cannot resolve rarer observations
_NUM_PAIRS_OF_OTHER_SIZES = 4096
_LEAST_EXPECTED = 5.0  # cells expected less often than this are pooled


class Law(NamedTuple):
    """One law and how the coupling fared."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Conformance:
    """The verdict on a coupling, law by law."""

    coupling: str
    num_outcomes: int
    laws: tuple[Law, ...]

    @property
    def passed(self) -> bool:
        """Whether all laws hold."""
        return all(law.passed for law in self.laws)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the laws that do not hold."""
        return tuple(law.name for law in self.laws if not law.passed)

    def raise_if_broken(self) -> None:
        """Fails with the report as the message, for use in a test."""
        if not self.passed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        lines = [f"{self.coupling}, {self.num_outcomes} outcomes: {'conforms' if self.passed else 'DOES NOT CONFORM'}"]
        lines += [f"  {'ok    ' if law.passed else 'BROKEN'}  {law.name}: {law.detail}" for law in self.laws]
        return "\n".join(lines)

    def __rich__(self) -> Table:
        # Details quote errors and names; square brackets in them are no markup.
        title = Text(f"{self.coupling}, {self.num_outcomes} outcomes")
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in ("law", "holds", "detail"):
            table.add_column(column)
        for law in self.laws:
            table.add_row(Text(law.name), "yes" if law.passed else "[bold red]NO[/]", Text(law.detail))
        return table


class _Query(NamedTuple):
    name: str
    p: NDArray[np.floating]
    q: NDArray[np.floating]

    @property
    def probs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        p, q = (np.exp(each.astype(np.float64) - each.max()) for each in (self.p, self.q))
        return p / p.sum(), q / q.sum()


def check_coupling(
    coupling: AbstractSampler,
    num_outcomes: int,
    *,
    key: PRNGKeyArray,
    num_samples: int = 500_000,
    false_alarm: float = 1e-6,
) -> Conformance:
    """Checks the contract on queries with zeros, ties, extreme logits and equal worlds.

    Couplings without an exact law are checked by their draws alone; mechanisms also by their noise.

    Args:
        coupling: Anything built on the abstract classes of `countermax.couplings`.
        num_outcomes: The number of outcomes to try it with.
        key: Consumed once; the same key gives the same verdict.
        num_samples: Draws for each statistical law. The default finds a probability that is off by 0.01.
        false_alarm: The probability that a correct coupling fails any of the statistical laws.
    """
    if num_outcomes < 1:
        raise InputError(f"`num_outcomes` must be at least 1, got {num_outcomes}")
    key_queries, key_draws = jax.random.split(key)
    queries = _queries(num_outcomes, key_queries)
    laws = [_guarded(name, law) for name, law in _laws(coupling, queries, num_samples, false_alarm, key_draws)]
    return Conformance(type(coupling).__name__, num_outcomes, tuple(laws))


def _laws(
    coupling: AbstractSampler, queries: list[_Query], num_samples: int, false_alarm: float, key: PRNGKeyArray
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each law as a function that returns what it saw, or raises `_BrokenError`."""
    level = false_alarm / _NUM_STATISTICAL_TESTS
    if isinstance(coupling, AbstractCoupling):
        exact = coupling
        yield "the joint law has both marginals", lambda: _each(queries, lambda query: _marginals(exact, query))
        yield "a counterfactual row is the joint's row", lambda: _each(queries, lambda query: _rows(exact, query))
        yield "logits may be shifted by a constant", lambda: _each(queries, lambda query: _shift(exact, query))
        yield "gradients are finite, or refused", lambda: _gradients(exact, queries)
        yield "other sizes work or are refused", lambda: _other_sizes(exact, queries[0], level, key)
    for index, query in enumerate(query for query in queries if query.name != "extreme"):
        draws = partial(_draws, coupling, query, num_samples, level, jax.random.fold_in(key, index))
        yield f"draws follow the law ({query.name})", draws
    if isinstance(coupling, AbstractMechanism):
        mechanism: AbstractMechanism[Any] = coupling
        yield (
            "abducted noise explains what was seen",
            lambda: _each(queries, lambda query: _explains(mechanism, query, key)),
        )
    if isinstance(coupling, AbstractArgmaxMechanism):
        argmax: AbstractArgmaxMechanism[Any] = coupling
        yield (
            "the relaxation points at the response",
            lambda: _each(queries, lambda query: _relaxes(argmax, query, key)),
        )


class _BrokenError(Exception):
    """A law does not hold; the message says how it was seen."""


def _guarded(name: str, law: Callable[[], str]) -> Law:
    try:
        return Law(name, True, law())
    except _BrokenError as broken:
        return Law(name, False, str(broken))
    except Exception as error:  # a coupling that crashes breaks the law, and the report should still be complete
        return Law(name, False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def _each(queries: list[_Query], law: Callable[[_Query], float]) -> str:
    worst = 0.0
    for query in queries:
        try:
            worst = max(worst, law(query))
        except _BrokenError as broken:
            raise _BrokenError(f"{query.name}: {broken}") from None
    return f"within {worst:.1g} on {len(queries)} queries"


def _queries(size: int, key: PRNGKeyArray) -> list[_Query]:
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
    return [_Query(name, first.astype(dtype), second.astype(dtype)) for name, (first, second) in pairs.items()]


def _tolerance(query: _Query) -> float:
    return float(200 * np.finfo(query.p.dtype).eps * max(1.0, np.sqrt(query.p.size)))


def _close(what: str, found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> float:
    if found.shape != expected.shape:
        raise _BrokenError(f"{what} has shape {found.shape}, not {expected.shape}")
    if not np.isfinite(found).all():
        raise _BrokenError(f"{what} is not finite")
    error = float(np.abs(found - expected).max())
    if error > tolerance:
        raise _BrokenError(f"{what} is off by {error:.2g}")
    return error


def _joint(coupling: AbstractCoupling, query: _Query) -> NDArray[np.floating]:
    joint = np.asarray(_exact_joint(coupling, query.p, query.q))
    size = query.p.size
    if joint.shape != (size, size):
        raise _BrokenError(f"the joint law has shape {joint.shape}, not {(size, size)}")
    if (joint < 0).any():
        raise _BrokenError(f"the joint law has a negative entry, {joint.min():.2g}")
    return joint


def _marginals(coupling: AbstractCoupling, query: _Query) -> float:
    joint = _joint(coupling, query)
    p, q = query.probs
    tolerance = _tolerance(query)
    if joint[p == 0].any() or joint[:, q == 0].any():
        raise _BrokenError("an impossible outcome has positive probability")
    return max(
        _close("the factual marginal", joint.sum(axis=1), p, tolerance),
        _close("the other world's marginal", joint.sum(axis=0), q, tolerance),
    )


def _rows(coupling: AbstractCoupling, query: _Query) -> float:
    p, q = query.probs
    joint = _joint(coupling, query)
    possible = np.flatnonzero(query.p > -np.inf)
    rows = np.asarray(
        _exact_rows(coupling, query.p, query.q, np.where(query.p > -np.inf, np.arange(p.size), possible[0]))
    )
    rows = rows[possible]
    if (rows < 0).any() or rows[:, q == 0].any():
        raise _BrokenError("a counterfactual row is negative, or holds an impossible outcome")
    worst = _close("the sum of a counterfactual row", rows.sum(axis=1), np.ones(len(possible)), _tolerance(query))
    for x, row in zip(possible, rows, strict=True):
        what = f"the counterfactual row of outcome {x}"
        if p[x] > 1e-3:
            expected = joint[x] / joint[x].sum()
            worst = max(worst, _close(what, row, expected, _tolerance(query) / p[x]))
        elif p[x] > _RAREST_JOINT:
            worst = max(worst, _close(what, row, joint[x].astype(np.float64) / p[x], _COARSE))
    return worst


def _shift(coupling: AbstractCoupling, query: _Query) -> float:
    moved = _Query(query.name, query.p + query.p.dtype.type(7.25), query.q - query.q.dtype.type(3.5))
    scale = max(1.0, float(np.abs(query.p[query.p > -np.inf]).max()))  # shifting rounds the logits themselves
    return _close(
        "the law of shifted logits", _joint(coupling, moved), _joint(coupling, query), scale * _tolerance(query)
    )


def _gradients(coupling: AbstractCoupling, queries: list[_Query]) -> str:
    """Of the joint law and of a row, with respect to both worlds' logits."""
    # At extreme logits a derivative may itself be too large for single precision.
    queries = [query for query in queries if query.name != "extreme"]
    for query in queries:
        try:
            gradients = _joint_gradients(coupling, query.p, query.q)
        except InputError as refusal:
            return f"refused: {refusal}"
        if not all(np.isfinite(np.asarray(each)).all() for each in gradients):
            raise _BrokenError(f"{query.name}: a gradient of the joint law is not finite")
    return f"finite on {len(queries)} queries"


def _other_sizes(coupling: AbstractCoupling, query: _Query, level: float, key: PRNGKeyArray) -> str:
    seen = []
    for size in sorted({1, 2, query.p.size + 3} - {query.p.size}):
        other = _queries(size, jax.random.fold_in(key, size))[0]
        try:
            _marginals(coupling, other)
            pairs = _tally(_draw_pair, coupling, other, _NUM_PAIRS_OF_OTHER_SIZES, jax.random.fold_in(key, size))
            _follows("a pair", pairs, _joint(coupling, other).astype(np.float64), level)
            seen.append(f"{size} works")
        except _BrokenError as broken:
            raise _BrokenError(f"with {size} outcomes, {broken}") from None
        except InputError:
            seen.append(f"{size} is refused")
    return ", ".join(seen)


def _draws(coupling: AbstractSampler, query: _Query, num_samples: int, level: float, key: PRNGKeyArray) -> str:
    """Three views of the same law: pairs, counterfactuals of facts that follow p, and the exact joint."""
    p, q = query.probs
    key_pairs, key_facts = jax.random.split(key)
    pairs = _tally(_draw_pair, coupling, query, num_samples, key_pairs)
    facts = _tally(_draw_fact_and_counterfactual, coupling, query, num_samples, key_facts)
    for what, counts in (("pairs", pairs), ("counterfactuals", facts)):
        _follows(f"the factual outcome of {what}", counts.sum(axis=1), p, level)
        _follows(f"the other world's outcome of {what}", counts.sum(axis=0), q, level)
    if isinstance(coupling, AbstractCoupling):
        law = _joint(coupling, query).astype(np.float64)
        least = min(
            _follows("a pair", pairs, law, level), _follows("a fact with its counterfactual", facts, law, level)
        )
    else:
        least = _same_law(pairs, facts, level)
    return f"{pairs.sum()} draws, smallest p-value {least:.2g}"


def _tally(
    draw: _Draw, coupling: AbstractSampler, query: _Query, num_samples: int, key: PRNGKeyArray
) -> NDArray[np.integer]:
    """How often each pair of outcomes was drawn."""
    size = query.p.size
    batch = min(num_samples, _batch(coupling, size))
    total = np.zeros(size * size + 1, int)
    for start in range(0, num_samples, batch):
        keys = jax.random.split(jax.random.fold_in(key, start), batch)  # of one shape, so that it is compiled once
        total += np.asarray(_count(draw, coupling, query.p, query.q, keys))
    if total[-1]:
        raise _BrokenError(f"{total[-1]} draws are no outcomes at all")
    return total[:-1].reshape(size, size)


def _batch(coupling: AbstractSampler, size: int) -> int:
    """How many draws to make at once: most need one number for each outcome, but some mechanisms' noise is a matrix."""
    needed = size
    if isinstance(coupling, AbstractMechanism):
        noise = eqx.filter_eval_shape(lambda: coupling.noise(size, key=jax.random.key(0)))
        leaves = (leaf for leaf in jax.tree.leaves(noise) if isinstance(leaf, jax.ShapeDtypeStruct))
        needed = max(size, sum(leaf.size for leaf in leaves))
    return max(1, 2**22 // needed)


# Compiled once for all queries of one shape, since the coupling and its logits are arguments.
@eqx.filter_jit
def _exact_joint(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike) -> Array:
    return coupling.joint(p, q)


@eqx.filter_jit
def _exact_rows(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, outcomes: ArrayLike) -> Array:
    return jax.vmap(coupling.counterfactual_probs, (None, None, 0))(p, q, outcomes)


@eqx.filter_jit
def _count(draw: _Draw, coupling: AbstractSampler, p: ArrayLike, q: ArrayLike, keys: Keys) -> Int[Array, " cells"]:
    size = jnp.size(p)
    x, y = jax.vmap(lambda key: draw(coupling, p, q, key))(keys)
    inside = (x >= 0) & (x < size) & (y >= 0) & (y < size)
    return jnp.bincount(jnp.where(inside, x * size + y, size * size), length=size * size + 1)


@eqx.filter_jit
def _relaxed_and_hard(mechanism: AbstractArgmaxMechanism[Any], p: ArrayLike, keys: Keys) -> tuple[Array, Array]:
    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = mechanism.noise(jnp.size(p), key=key, dtype=jnp.result_type(p))
        # A temperature far from one, so that noise left out of the division shows.
        return mechanism.relax(noise, p, 3.0), mechanism.respond(noise, p)

    return jax.vmap(one)(keys)


def _draw_pair(coupling: AbstractSampler, p: ArrayLike, q: ArrayLike, key: PRNGKeyArray) -> tuple[Array, Array]:
    return coupling.pair(p, q, key=key)


def _draw_fact_and_counterfactual(
    coupling: AbstractSampler, p: ArrayLike, q: ArrayLike, key: PRNGKeyArray
) -> tuple[Array, Array]:
    key_fact, key_answer = jax.random.split(key)
    x = jax.random.categorical(key_fact, jnp.asarray(p))
    return x, coupling.counterfactual(p, q, x, key=key_answer)


@eqx.filter_jit
def _explained(
    mechanism: AbstractMechanism[Any], p: ArrayLike, outcomes: Int[ArrayLike, " n"], keys: Keys
) -> tuple[Array, Array]:
    """What the noise that was abducted from each outcome yields, and whether any of it is NaN."""

    def one(x: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        noise = mechanism.abduct(p, x, key=key)
        floats = jax.tree.leaves(eqx.filter(noise, eqx.is_inexact_array))
        return mechanism.respond(noise, p), jnp.array([jnp.isnan(each).any() for each in floats]).any()

    return jax.vmap(one)(jnp.asarray(outcomes), keys)


@eqx.filter_jit
def _joint_gradients(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    size = jnp.size(p)
    weights = jnp.cos(jnp.arange(size * size)).reshape(size, size)  # no symmetry that could hide a term

    def weighed(p: Array, q: Array) -> Array:
        row = coupling.counterfactual_probs(p, q, jnp.argmax(p))
        return (coupling.joint(p, q) * weights).sum() + (row * weights[0]).sum()

    gradients: tuple[Array, Array] = jax.grad(weighed, (0, 1))(jnp.asarray(p), jnp.asarray(q))
    return gradients


def _follows(what: str, counts: NDArray[np.integer], probs: NDArray[np.floating], level: float) -> float:
    """A chi-square test of counts against probabilities, rare cells pooled; impossible cells must stay empty."""
    from scipy.stats import chi2

    counts, probs = counts.ravel(), probs.ravel() / probs.sum()
    if counts[probs == 0].any():
        raise _BrokenError(f"{what} has probability zero in {counts[probs == 0].sum()} draws")
    expected = probs * counts.sum()
    common = expected >= _LEAST_EXPECTED
    cells = [*zip(counts[common], expected[common], strict=True), (counts[~common].sum(), expected[~common].sum())]
    cells = [(seen, wanted) for seen, wanted in cells if wanted >= _LEAST_EXPECTED]
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    value = float(chi2.sf(statistic, len(cells) - 1)) if len(cells) > 1 else 1.0
    if value < level:
        raise _BrokenError(f"{what} does not follow its law: p-value {value:.2g}")
    return value


def _same_law(first: NDArray[np.integer], second: NDArray[np.integer], level: float) -> float:
    from scipy.stats import chi2_contingency

    table = np.stack([first.ravel(), second.ravel()])
    table = table[:, table.sum(axis=0) >= 4 * _LEAST_EXPECTED]
    value = float(chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
    if value < level:
        raise _BrokenError(f"pairs and facts with their counterfactuals follow different laws: p-value {value:.2g}")
    return value


def _explains(mechanism: AbstractMechanism[Any], query: _Query, key: PRNGKeyArray, num_samples: int = 20_000) -> float:
    """Every possible outcome in turn, so that rare ones are seen as often as common ones."""
    p, _ = query.probs
    rarest = 0.0 if isinstance(mechanism, AbstractArgmaxMechanism) else _RAREST_ABDUCTION
    facts = np.resize(np.flatnonzero((query.p > -np.inf) & (p > rarest)), num_samples)
    batch = min(num_samples, _batch(mechanism, p.size))
    for start in range(0, num_samples, batch):
        seen = np.resize(facts[start : start + batch], batch)
        keys = jax.random.split(jax.random.fold_in(key, start), batch)
        found, undefined = map(np.asarray, _explained(mechanism, query.p, seen, keys))
        if undefined.any():
            raise _BrokenError(f"the noise that explains outcome {seen[undefined.argmax()]} is NaN")
        wrong = found != seen
        if wrong.any():
            example = f"{found[wrong.argmax()]} instead of {seen[wrong.argmax()]}"
            raise _BrokenError(f"{wrong.sum()} of {batch} times the noise yields another outcome, {example}")
    return 0.0


def _relaxes(
    mechanism: AbstractArgmaxMechanism[Any], query: _Query, key: PRNGKeyArray, num_samples: int = 2_000
) -> float:
    soft, hard = map(np.asarray, _relaxed_and_hard(mechanism, query.p, jax.random.split(key, num_samples)))
    wrong = int((soft.argmax(axis=1) != hard).sum())
    if wrong:
        raise _BrokenError(f"in {wrong} of {num_samples} draws the largest weight is on another outcome")
    return _close("the sum of a relaxation", soft.sum(axis=1), np.ones(num_samples), _tolerance(query))
