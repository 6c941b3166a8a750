"""Mistakes found in published code for this problem, each as a test that it is not made here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import softmax

from countermax import GumbelMax, InputError, InverseCDF, Maximal

KEYS = jax.random.split(jax.random.key(0), 20_000)
SPARSE_P, SPARSE_Q = np.array([0.5, -np.inf, 0.0, 1.0], np.float32), np.array([-np.inf, 0.3, 1.0, 0.0], np.float32)


@pytest.mark.parametrize("size", [1, 3, 10, 20, 50])
def test_no_number_of_outcomes_is_hard_coded(size):
    p, q = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32)
    for coupling in (GumbelMax(), InverseCDF(), Maximal()):
        law = coupling.joint(p, q)
        assert law.shape == (size, size)
        np.testing.assert_allclose(law.sum(), 1, rtol=1e-5)


@pytest.mark.parametrize("mechanism", [GumbelMax(), InverseCDF()], ids=lambda each: type(each).__name__)
def test_impossible_outcomes_are_neither_nan_nor_drawn(mechanism):
    x, y = jax.jit(jax.vmap(lambda key: mechanism.pair(SPARSE_P, SPARSE_Q, key=key)))(KEYS)
    assert not (x == 1).any()
    assert not (y == 0).any()
    y = jax.jit(jax.vmap(lambda key: mechanism.counterfactual(SPARSE_P, SPARSE_Q, 0, key=key)))(KEYS)
    assert not (y == 0).any()
    assert jnp.isfinite(mechanism.counterfactual_probs(SPARSE_P, SPARSE_Q, 0)).all()


def test_abducted_gumbels_are_finite_and_explain_the_observation():
    for x in (0, 2, 3):
        noise = jax.jit(jax.vmap(lambda key, x=x: GumbelMax().abduct(SPARSE_P, x, key=key)))(KEYS)
        assert jnp.isfinite(noise).all()
        assert ((np.asarray(noise) + SPARSE_P).argmax(axis=1) == x).all()


def test_a_rare_observation_is_explained_as_surely_as_a_common_one():
    logits = np.array([0.0, -60.0, 60.0], np.float32)
    for x in range(3):
        noise = jax.jit(jax.vmap(lambda key, x=x: GumbelMax().abduct(logits, x, key=key)))(KEYS)
        found = jax.vmap(lambda each: GumbelMax().respond(each, logits))(noise)
        assert (found == x).all()


def test_temperature_divides_logits_and_noise_alike():
    noise, logits = jnp.array([1.0, 3.0, 0.0]), jnp.array([2.0, -1.0, 0.5])
    normalised = np.log(softmax(logits))
    for temperature in (0.1, 1.0, 5.0):
        np.testing.assert_allclose(
            GumbelMax().relax(noise, logits, temperature), softmax((normalised + noise) / temperature), rtol=1e-5
        )


def test_a_counterfactual_is_a_draw_and_not_the_likeliest_outcome():
    """Draws follow the exact row; false-alarm level 1e-6 for each outcome."""
    p, q = np.log(np.float32([0.3, 0.4, 0.3])), np.log(np.float32([0.1, 0.3, 0.6]))
    draws = jax.jit(jax.vmap(lambda key: GumbelMax().counterfactual(p, q, 0, key=key)))(KEYS)
    shares = np.bincount(draws, minlength=3) / len(KEYS)
    expected = np.asarray(GumbelMax().counterfactual_probs(p, q, 0))
    assert (np.abs(shares - expected) < 4.9 * np.sqrt(expected * (1 - expected) / len(KEYS)) + 1e-9).all()
    assert (shares[expected > 0.05] > 0).all()


def test_draws_with_different_keys_differ():
    x, y = jax.jit(jax.vmap(lambda key: GumbelMax().pair(np.zeros(50, np.float32), np.zeros(50, np.float32), key=key)))(
        KEYS
    )
    assert len(np.unique(x)) == 50
    np.testing.assert_array_equal(x, y)


def test_wrong_input_is_an_error_and_not_an_assertion(as_users_call):
    with pytest.raises(InputError):
        GumbelMax().joint(np.zeros(3), np.zeros(2))
    assert not issubclass(InputError, AssertionError)
