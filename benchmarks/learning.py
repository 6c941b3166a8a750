"""Learning: exact against relaxed, the cost of a step, and one exact law of each gadget."""

import time
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Row, seconds
from countermax import Gadget1, Gadget2, RandomPairs, Relaxed, SquaredDifference, fit
from countermax.couplings import AbstractCoupling

PAPER_QUALITY = 8.76 / 8.14 - 1  # Gadget 2 in the column `independent` of the paper's Table 1


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield from _to_the_papers_quality()
    yield from _cost_of_a_step()
    yield from _exact_laws(146)


def _to_the_papers_quality() -> Iterator[Row]:
    key = jax.random.key(0)
    pairs, loss = RandomPairs(10), SquaredDifference(np.arange(10.0))
    start = time.perf_counter()
    exact = fit(Gadget2(10, 20, key=key), pairs, loss, key=key, steps=200, evaluate_every=5, progress=False)
    total = time.perf_counter() - start
    assert exact.optimum is not None
    above = np.asarray(exact.history.held_out) / exact.optimum - 1
    reached = int(np.argmax(above <= PAPER_QUALITY))
    assert above[reached] <= PAPER_QUALITY
    steps = exact.history.step[reached]
    yield Row("exact objective, defaults: steps to the paper's quality (7.6 % above the optimum)", steps, "steps")
    yield Row("the same in time", total * steps / 200, "s", "its share of a run of 200 steps, compilation included")
    start = time.perf_counter()
    relaxed = fit(
        Gadget2.paper(10, key=key),
        pairs,
        loss,
        key=key,
        steps=100,
        evaluate_every=50,
        progress=False,
        objective=Relaxed(1.0, 16),
        batch_size=64,
        learning_rate=1e-3,
        clip=None,
    )
    spent = time.perf_counter() - start
    assert relaxed.optimum is not None
    yield Row("relaxed objective, the paper's settings: time of 100 steps", spent, "s", "the paper trained for 50,000")
    left = 100 * (relaxed.history.held_out[-1] / relaxed.optimum - 1)
    yield Row("and its distance to the optimum then", left, "% above")


def _cost_of_a_step() -> Iterator[Row]:
    times = {}
    for size, latents in ((10, 20), (50, 20), (200, 20), (10, 5), (10, 50), (10, 200)):
        times[size, latents] = _step_time(size, latents)
        yield Row(f"one training step, K={size}, Z={latents}, 16 pairs", times[size, latents] * 1e3, "ms")
    growth = np.log(times[200, 20] / times[50, 20]) / np.log(4)
    yield Row("growth of a step with K, from 50 to 200: time ~ K to the power", float(growth), "")
    growth = np.log(times[10, 200] / times[10, 50]) / np.log(4)
    yield Row("growth of a step with Z, from 50 to 200: time ~ Z to the power", float(growth), "")


def _step_time(size: int, latents: int) -> float:
    gadget = Gadget2(size, latents, key=jax.random.key(0))
    params, rest = eqx.partition(gadget, eqx.is_inexact_array)
    logs = jax.nn.log_softmax(8 * jax.random.uniform(jax.random.key(1), (2, 16, size)), axis=2)
    loss = SquaredDifference(np.arange(float(size)))

    @jax.jit
    def gradient(params: AbstractCoupling) -> AbstractCoupling:
        def objective(each: AbstractCoupling) -> jax.Array:
            mechanism = eqx.combine(each, rest)
            return jax.vmap(lambda p, q: (mechanism._joint(p, q) * loss(p, q)).sum())(logs[0], logs[1]).mean()

        return jax.grad(objective)(params)

    return seconds(gradient, params, repeat=5)


def _exact_laws(size: int) -> Iterator[Row]:
    p, q = jax.nn.log_softmax(jnp.asarray(np.random.default_rng(0).normal(size=(2, size)), jnp.float32), axis=1)
    for name, gadget in (
        ("Gadget 1", Gadget1(size, key=jax.random.key(0))),
        ("Gadget 2, Z=20", Gadget2(size, 20, key=jax.random.key(0))),
    ):
        law = jax.jit(lambda p, q, gadget=gadget: gadget._joint(p, q)).lower(p, q).compile()
        yield Row(f"exact law of {name}, K={size}", seconds(law, p, q) * 1e3, "ms")
        memory = law.memory_analysis()
        yield Row(f"exact law of {name}, K={size}: working memory", memory.temp_size_in_bytes / 2**20, "MiB")
