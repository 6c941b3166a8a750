"""Bad input gives a clear error, traced or not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax import Comonotone, GumbelMax, InputError, score_bounds

pytestmark = pytest.mark.usefixtures("as_users_call")

GOOD = np.zeros(3)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        (np.zeros(3), np.zeros(4), "same number of outcomes, got 3 and 4"),
        (np.zeros((2, 3)), np.zeros(3), r"`p` must be a vector, got shape \(2, 3\); use jax.vmap"),
        (np.zeros(3), np.array(1.0), "`q` must be a vector"),
        (np.zeros(0), np.zeros(0), "at least one outcome"),
        (np.array([0, np.nan, 0]), GOOD, "`p` must not contain NaN"),
        (GOOD, np.array([0, np.inf, 0]), r"`q` must not contain \+inf"),
        (GOOD, np.full(3, -np.inf), "`q` must leave at least one outcome possible"),
        (GOOD.astype(complex), GOOD, "real numbers"),
    ],
)
def test_logits_are_checked(p, q, message):
    with pytest.raises(InputError, match=message):
        GumbelMax().joint(p, q)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (3, "must lie in 0..2, got 3"),
        (-1, "must lie in 0..2, got -1"),
        (1, "outcome 1 was observed and has probability zero"),
        (0.5, "must be one outcome's index"),
        (np.array([0, 2]), "use jax.vmap"),
    ],
)
def test_observations_are_checked(x, message):
    p = np.array([0.0, -np.inf, 1.0])
    for ask in (
        GumbelMax().counterfactual_probs,
        lambda *each: GumbelMax().counterfactual(*each, key=jax.random.key(0)),
    ):
        with pytest.raises(InputError, match=message):
            ask(p, GOOD, x)
    with pytest.raises(InputError, match=message):
        GumbelMax().abduct(p, x, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("p", "x", "message"),
    [
        (np.array([0.0, -np.inf, 1.0]), 1, "outcome 1 was observed and has probability zero"),
        (np.array([0.0, -np.inf, 1.0]), 7, "must lie in 0..2"),
        (np.array([0.0, np.nan, 1.0]), 0, "NaN"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_traced_values_are_checked_when_they_are_known(p, x, message):
    ask = eqx.filter_jit(jax.vmap(GumbelMax().counterfactual_probs, (0, 0, 0)))
    batch = jnp.stack([jnp.asarray(GOOD), jnp.asarray(p)]), jnp.zeros((2, 3)), jnp.array([0, x])
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(ask(*batch))


def test_scores_are_checked():
    with pytest.raises(InputError, match="`score` must have one number for each of 3 outcomes, got 2"):
        score_bounds(GOOD, GOOD, 0, np.zeros(2))
    with pytest.raises(InputError, match="`score` must be finite"):
        score_bounds(GOOD, GOOD, 0, np.array([0, 1, np.nan]))
    with pytest.raises(InputError, match="`counterfactual_score` must have one number"):
        Comonotone(np.zeros(3), np.zeros(2))


def test_integers_and_half_precision_are_widened():
    law = GumbelMax().joint(np.array([0, 1, 2]), np.array([2, 1, 0], np.float16))
    assert law.dtype == jnp.float32
    np.testing.assert_allclose(law.sum(), 1, rtol=1e-6)


def test_ragged_lists_and_words_are_refused():
    for logits in ([0.0, [1.0, 2.0], 0.0], ["one", "two", "three"]):
        with pytest.raises(InputError, match="`p` must be a vector of numbers"):
            GumbelMax().joint(logits, GOOD)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan])
def test_a_temperature_must_be_positive(temperature):
    with pytest.raises(InputError, match="`temperature` must be positive"):
        GumbelMax().relax(jnp.zeros(3), GOOD, temperature)


def test_a_list_of_traced_numbers_is_a_vector():
    law = jax.jit(lambda a, b: GumbelMax().joint([a, b], [b, a]))(0.0, 2.0)
    np.testing.assert_allclose(law, GumbelMax().joint([0.0, 2.0], [2.0, 0.0]), rtol=1e-6)
