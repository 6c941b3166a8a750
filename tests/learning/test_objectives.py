"""Objectives that agree on the gradient of the expected loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax import Gadget2, InputError
from countermax.couplings import Constant
from countermax.learning import Reinforce, Relaxed, SquaredDifference
from countermax.learning._losses import Exact

KEY = jax.random.key(0)
P, Q = (np.asarray(each, np.float32) for each in np.random.default_rng(0).normal(size=(2, 4)))
LOG_P, LOG_Q = jax.nn.log_softmax(P), jax.nn.log_softmax(Q)
MATRIX = SquaredDifference(np.arange(4.0))(LOG_P, LOG_Q)


def small(seed=0, size=4):
    return Gadget2(size, 4, key=jax.random.key(seed), hidden=(8,), rounds=5)


def gradient(objective, gadget, key):
    params, rest = eqx.partition(gadget, eqx.is_inexact_array)
    found = jax.grad(lambda each: objective(eqx.combine(each, rest), LOG_P, LOG_Q, MATRIX, key=key))(params)
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(found)])


def test_the_exact_gradient_is_the_finite_difference():
    with jax.enable_x64(True):
        gadget = Gadget2(4, 3, key=KEY, part=Constant(3, 4, key=KEY))
        values = jnp.asarray(np.asarray(gadget.part.values), jnp.float64)

        @jax.jit
        def loss(values):
            each = eqx.tree_at(lambda tree: tree.part.values, gadget, values)
            p, q = (jax.nn.log_softmax(jnp.asarray(logits, jnp.float64)) for logits in (P, Q))
            return Exact()(each, p, q, jnp.asarray(MATRIX, jnp.float64), key=KEY)

        found = jax.grad(loss)(values)
        for cell in [(0, 0), (1, 2), (2, 3)]:
            step = jnp.zeros_like(values).at[cell].set(1e-6)
            expected = float(loss(values + step) - loss(values - step)) / 2e-6
            assert float(found[cell]) == pytest.approx(expected, abs=1e-7)


@pytest.mark.slow
def test_reinforce_agrees_with_exact_within_its_error():
    """In 400 random directions of the parameters; false-alarm level 1e-6 for the largest of five projections."""
    gadget = small()
    exact = gradient(Exact(), gadget, KEY)
    draws = jax.jit(jax.vmap(lambda key: gradient(Reinforce(64), gadget, key)))(jax.random.split(KEY, 400))
    for seed in range(5):
        direction = jax.random.normal(jax.random.key(seed), exact.shape)
        values = draws @ direction
        error = values.std() / 20
        assert abs(values.mean() - exact @ direction) < 5.2 * error
    assert float(jnp.linalg.norm(exact)) > 1e-3


def test_relaxed_approaches_exact_as_the_temperature_falls():
    """For a loss that is linear in one outcome the limit holds; at temperature one it is visibly off."""
    gadget = small()

    def mean(temperature):
        objective = Relaxed(temperature, 65_536)
        return float(jax.jit(lambda: objective(gadget, LOG_P, LOG_Q, MATRIX, key=KEY))())

    exact = float(Exact()(gadget, LOG_P, LOG_Q, MATRIX, key=KEY))
    errors = [abs(mean(temperature) - exact) for temperature in (1.0, 0.3, 0.02)]
    assert errors[2] < 0.05 * exact
    assert errors[0] > 2 * errors[2]


@pytest.mark.slow
def test_relaxed_gradients_approach_exact_ones():
    """One latent-free table and a small temperature; agreement in direction, averaged over draws."""
    gadget = Gadget2(4, 3, key=KEY, part=Constant(3, 4, key=KEY), learn_latents=False)
    exact = gradient(Exact(), gadget, KEY)
    keys = jax.random.split(KEY, 256)
    relaxed = jax.jit(jax.vmap(lambda key: gradient(Relaxed(0.1, 64), gadget, key)))(keys).mean(axis=0)
    cosine = float(exact @ relaxed / jnp.linalg.norm(exact) / jnp.linalg.norm(relaxed))
    assert cosine > 0.95


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Relaxed(temperature=0.0), "`temperature` must be above 0.0, got 0.0"),
        (lambda: Reinforce(num_samples=1), "at least 2"),
    ],
)
def test_bad_input_is_refused(make, message, as_users_call):
    with pytest.raises(InputError, match=message):
        make()
