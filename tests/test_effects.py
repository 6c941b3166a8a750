"""Treatment effects: exact, sampled, and the identity of the paper's first appendix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import softmax

from countermax import (
    Comonotone,
    GumbelMax,
    Independent,
    InputError,
    InverseCDF,
    Maximal,
    Optimal,
    individual_effect,
    treatment_effect,
)
from countermax.effects import effect_from_joint, sampled_effect

pytestmark = pytest.mark.usefixtures("double")

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(2, 5))
SCORE, OTHER = RNG.normal(size=(2, 5))
COUPLINGS = [Independent(), GumbelMax(), InverseCDF(), Maximal()]


@pytest.mark.parametrize("coupling", COUPLINGS, ids=lambda each: type(each).__name__)
def test_the_mean_effect_is_the_other_world_less_this_one_whatever_the_coupling(coupling):
    effect = treatment_effect(coupling, P, Q, SCORE, OTHER)
    assert float(effect.mean) == pytest.approx(softmax(Q) @ OTHER - softmax(P) @ SCORE, abs=1e-12)


@pytest.mark.parametrize("other", [None, OTHER])
def test_the_variance_is_the_second_moment_less_the_squared_mean(other):
    effect = treatment_effect(GumbelMax(), P, Q, SCORE, other)
    second = GumbelMax().expected_squared_difference(P, Q, SCORE, other)
    assert float(effect.variance) == pytest.approx(float(second - effect.mean**2), abs=1e-12)
    assert float(effect.standard_deviation) == pytest.approx(float(effect.variance) ** 0.5)


def test_no_coupling_has_less_variance_than_the_optimal_one():
    transport = Optimal((SCORE[:, None] - OTHER[None, :]) ** 2)
    least = treatment_effect(transport, P, Q, SCORE, OTHER).variance
    assert float(treatment_effect(Comonotone(SCORE, OTHER), P, Q, SCORE, OTHER).variance) == pytest.approx(float(least))
    for coupling in COUPLINGS:
        assert treatment_effect(coupling, P, Q, SCORE, OTHER).variance >= least - 1e-12


def test_independent_worlds_add_their_variances():
    p, q = softmax(P), softmax(Q)
    expected = p @ SCORE**2 - (p @ SCORE) ** 2 + q @ SCORE**2 - (q @ SCORE) ** 2
    assert float(treatment_effect(Independent(), P, Q, SCORE).variance) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=lambda each: type(each).__name__)
def test_individual_effects_average_to_the_overall_one(coupling):
    individual = jax.vmap(lambda x: individual_effect(coupling, P, Q, x, SCORE, OTHER))(jnp.arange(5))
    overall = treatment_effect(coupling, P, Q, SCORE, OTHER)
    p = softmax(P)
    assert float(p @ individual.mean) == pytest.approx(float(overall.mean), abs=1e-12)
    between = p @ (individual.mean - overall.mean) ** 2
    assert float(p @ individual.variance + between) == pytest.approx(float(overall.variance), abs=1e-12)


def test_the_effect_can_be_computed_by_abduction_from_the_other_world():
    """First appendix: E[h2(Y) - h1(X)] = sum_y q(y) E[h2(y) - h1(X) | Gumbels abducted from y]."""
    mechanism, q = GumbelMax(), softmax(Q)
    backwards = jax.vmap(lambda y: mechanism.counterfactual_probs(Q, P, y))(jnp.arange(5))
    expected = q @ OTHER - softmax(P) @ SCORE
    assert float(q @ (OTHER - backwards @ SCORE)) == pytest.approx(expected, abs=1e-12)

    num_samples = 40_000

    def draw(key):
        key_y, key_noise = jax.random.split(key)
        y = jax.random.categorical(key_y, jnp.asarray(Q))
        noise = mechanism.abduct(Q, y, key=key_noise)
        return jnp.asarray(OTHER)[y] - jnp.asarray(SCORE)[jnp.argmax(noise + P)]

    draws = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), num_samples))
    error = float(draws.std()) / num_samples**0.5
    assert abs(float(draws.mean()) - expected) < 4.9 * error  # false-alarm level 1e-6


@pytest.mark.parametrize("coupling", COUPLINGS, ids=lambda each: type(each).__name__)
def test_sampled_effects_agree_with_exact_ones_within_their_errors(coupling):
    """False-alarm level 1e-6 for each of the two numbers."""
    exact = treatment_effect(coupling, P, Q, SCORE, OTHER)
    found = sampled_effect(coupling, P, Q, SCORE, OTHER, num_samples=100_000, key=jax.random.key(1))
    assert abs(found.mean - exact.mean) < 4.9 * found.mean_error
    assert abs(found.variance - exact.variance) < 4.9 * found.variance_error


def test_standard_errors_are_honest():
    """Over repetitions, estimates scatter as much as their errors say."""
    keys = jax.random.split(jax.random.key(2), 400)
    runs = jax.jit(jax.vmap(lambda key: sampled_effect(GumbelMax(), P, Q, SCORE, num_samples=500, key=key)))(keys)
    assert float(runs.mean.std() / runs.mean_error.mean()) == pytest.approx(1, abs=0.15)
    assert float(runs.variance.std() / runs.variance_error.mean()) == pytest.approx(1, abs=0.15)


def test_bad_input_is_refused(as_users_call):
    with pytest.raises(InputError, match="`num_samples` must be at least 2, got 1"):
        sampled_effect(GumbelMax(), P, Q, SCORE, num_samples=1, key=jax.random.key(0))
    with pytest.raises(InputError, match="`joint` must be square"):
        effect_from_joint(np.ones((2, 3)) / 6, np.zeros(2))


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        (np.array([[0.5, np.nan], [0.0, 0.5]]), "`joint` must be finite"),
        (np.array([[1.5, -0.5], [0.0, 0.0]]), "`joint` must not be negative"),
        (np.array([[3.0, 1.0], [2.0, 4.0]]), "`joint` must sum to one"),
    ],
)
def test_what_is_no_joint_law_is_refused(joint, message, as_users_call):
    with pytest.raises(InputError, match=message):
        effect_from_joint(joint, np.zeros(2))


def test_numpys_whole_numbers_are_counts_and_fractions_are_not(as_users_call):
    few = sampled_effect(GumbelMax(), P, Q, SCORE, num_samples=np.int64(10), key=jax.random.key(0))
    assert few.num_samples == 10
    with pytest.raises(InputError, match="`num_samples` must be a whole number, got 10.5"):
        sampled_effect(GumbelMax(), P, Q, SCORE, num_samples=10.5, key=jax.random.key(0))
