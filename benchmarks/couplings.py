"""The exact coupling: against Monte Carlo, against a sort, and in batches."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Row, ratio, seconds
from countermax import GumbelMax, race
from countermax._kernel import answer_rows, in_batches
from countermax.bounds._questions import unchecked_outcome_bounds


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    for size in (10, 146, 1000):
        yield from _exact_against_monte_carlo(size)
    yield from _one_row(131_072)
    yield from _batched_rows(10_000, 146)
    for size in (3, 10):
        yield from _loops_beside_jax(200_000, size)


def _log_probs(size: int, seed: int) -> jax.Array:
    return jax.nn.log_softmax(jnp.asarray(1.5 * np.random.default_rng(seed).normal(size=size), jnp.float32))


def _exact_against_monte_carlo(size: int) -> Iterator[Row]:
    p, q = _log_probs(size, 0), _log_probs(size, 1)
    num_draws = {10: 2**20, 146: 2**17, 1000: 2**14}[size]

    @jax.jit
    def sampled(key: jax.Array) -> jax.Array:
        noise = jax.random.gumbel(key, (num_draws, size))
        cells = (noise + p).argmax(axis=1) * size + (noise + q).argmax(axis=1)
        return jnp.bincount(cells, length=size * size).reshape(size, size) / num_draws

    exact = jax.jit(race.joint)
    with jax.enable_x64(True):
        truth = np.asarray(
            race.joint(*(jax.nn.log_softmax(jnp.asarray(np.asarray(each), jnp.float64)) for each in (p, q)))
        )
    error = float(np.sqrt(np.mean((np.asarray(exact(p, q)) - truth) ** 2)))
    sampled_error = float(np.sqrt(np.mean((np.asarray(sampled(jax.random.key(0))) - truth) ** 2)))
    measured = ratio(lambda: sampled(jax.random.key(0)), lambda: exact(p, q))
    yield Row(
        f"joint, K={size}: Monte Carlo with {num_draws} draws takes",
        measured,
        "times as long",
        f"and is {sampled_error / error:.3g} times less accurate",
    )
    # Errors fall with the square root of the draws, so equal accuracy needs the square of the ratio of errors.
    yield Row(
        f"joint, K={size}: Monte Carlo of equal accuracy would take",
        measured * (sampled_error / error) ** 2,
        "times as long",
        "extrapolated from the line above by 1/sqrt(draws)",
    )


def _one_row(size: int) -> Iterator[Row]:
    p, q = _log_probs(size, 0), _log_probs(size, 1)
    x = jnp.asarray(7)
    row = jax.jit(race.row).lower(p, q, x).compile()
    sort = jax.jit(jnp.sort)
    yield Row(
        f"one row, K={size}, takes",
        ratio(lambda: row(p, q, x), lambda: sort(p)),
        "times as long as a sort",
        "aim: at most 8",
    )
    yield Row(f"one row, K={size}", seconds(row, p, q, x) * 1e3, "ms")
    memory = row.memory_analysis()
    peak = memory.temp_size_in_bytes + memory.output_size_in_bytes
    yield Row(
        f"one row, K={size}, peak working memory",
        peak / 2**20,
        "MiB",
        f"{peak / size:.0f} bytes an outcome; a matrix would be {size**2 * 4 / 2**30:.0f} GiB",
    )


def _batched_rows(count: int, size: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    p, q = (jnp.asarray(rng.normal(size=(count, size)), jnp.float32) for _ in range(2))
    x = jnp.asarray(rng.integers(0, size, count))
    ask = jax.jit(jax.vmap(lambda p, q, x: GumbelMax().counterfactual_probs(p, q, x)))
    yield Row(
        f"{count} rows (p, q, x) of K={size}, checked and normalised", count / seconds(ask, p, q, x), "rows per second"
    )


def _loops_beside_jax(count: int, size: int) -> Iterator[Row]:
    """Probabilities and bounds of distinct rows, by compiled loops and by JAX in batches, in one run."""
    rng = np.random.default_rng(0)
    log_p, log_q = np.log(rng.dirichlet(np.ones(size), (2, count)))
    x = rng.integers(0, size, count)

    @eqx.filter_jit
    def by_jax(log_p: jax.Array, log_q: jax.Array, x: jax.Array) -> jax.Array:
        def one(p: jax.Array, q: jax.Array, x: jax.Array) -> jax.Array:
            limits = unchecked_outcome_bounds(p, q, x)
            return jnp.concatenate([race.row(p, q, x), *limits, limits.width.max()[None]])

        return jax.vmap(one, out_axes=1)(log_p, log_q, x)

    quick = seconds(lambda: answer_rows(GumbelMax(), log_p, log_q, x))
    yield Row(f"{count} rows and their bounds, K={size}, by compiled loops", count / quick, "rows per second")
    longer = ratio(lambda: in_batches(by_jax, (), (log_p, log_q, x)), lambda: answer_rows(GumbelMax(), log_p, log_q, x))
    yield Row(f"the same by JAX, K={size}, takes", longer, "times as long", "aim: at least 3")
