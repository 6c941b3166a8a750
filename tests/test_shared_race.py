"""Races in which worlds share a part of their clocks: the law against quadrature, draws, differences and its ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi2
from worlds import AWKWARD, pairs, softmax

from countermax import race

pytestmark = pytest.mark.usefixtures("double")

RATES = (0.0, 1e-300, 1e-9, 0.3, 0.8, 1 - 1e-9, 1.0)
joint = jax.jit(race.joint)
rows = jax.jit(jax.vmap(race.row, (None, None, 0, None)))
squared_difference = jax.jit(race.expected_squared_difference)
rates = st.sampled_from(RATES) | st.floats(0, 1)


def log_probs(logits):
    return jax.nn.log_softmax(jnp.asarray(logits))


@given(pairs(), rates)
def test_both_marginals_hold_to_rounding_whatever_is_shared(pair, rate):
    law = np.asarray(joint(*map(log_probs, pair), jnp.asarray(rate)))
    np.testing.assert_allclose(law.sum(axis=1), softmax(pair[0]), atol=1e-14)
    np.testing.assert_allclose(law.sum(axis=0), softmax(pair[1]), atol=1e-14)
    assert (law >= 0).all()


@given(pairs())
def test_the_ends_are_independence_and_gumbel_max(pair):
    p, q = map(log_probs, pair)
    np.testing.assert_allclose(joint(p, q, jnp.asarray(0.0)), np.outer(*map(softmax, pair)), atol=1e-14)
    np.testing.assert_allclose(joint(p, q, jnp.asarray(1.0)), joint(p, q), atol=1e-14)


@given(pairs(), rates)
def test_exchanging_the_worlds_transposes_the_law_whatever_is_shared(pair, rate):
    p, q = map(log_probs, pair)
    np.testing.assert_allclose(joint(q, p, jnp.asarray(rate)), joint(p, q, jnp.asarray(rate)).T, atol=1e-14)


@given(pairs(), rates)
def test_rows_are_those_of_the_matrix_and_distributions_for_the_rarest_outcome(pair, rate):
    p, q = map(log_probs, pair)
    found = np.asarray(rows(p, q, jnp.arange(p.size), jnp.asarray(rate)))
    possible = np.asarray(p) > -np.inf
    np.testing.assert_allclose(found[possible].sum(axis=1), 1, atol=1e-13)
    np.testing.assert_allclose(
        found * softmax(pair[0])[:, None], np.asarray(joint(p, q, jnp.asarray(rate))), atol=1e-14
    )


def test_an_outcome_of_probability_1e_minus_290_has_the_row_of_its_limit():
    """It is impossible in the other world, so that its share is 1; the integrals are SciPy's."""
    q = np.array([0.25, 0.75, 0.0])
    for tiny in (1e-100, 1e-290):
        p = np.array([0.5, 0.5 - tiny, tiny])
        for rate in (0.0, 0.5, 1.0):
            with np.errstate(divide="ignore"):
                found = np.asarray(rows(jnp.log(p), jnp.log(q), jnp.arange(3), jnp.asarray(rate)))[2]

            def until(end, rate=rate, p=p):
                return quad(lambda u: 1 / _rate(p, q, rate, u) ** 2, 0, end, points=[0.4, 2 / 3])[0]

            whole, own = until(1), 1 - rate
            expected = [
                chance * (own**2 * whole + rate * own * (2 * whole - until(t)) + rate**2 * (whole - until(t)))
                for chance, t in ((0.25, 2 / 3), (0.75, 0.4))
            ]
            np.testing.assert_allclose(found, [*expected, 0], atol=1e-9)


def _rate(p, q, rate, u):
    return 1 - rate + rate * np.maximum(p * (1 - u), q * u).sum()


def test_the_law_is_the_integral_over_both_winning_times_by_which_clock_rings():
    """A second way: survival functions of each outcome's pair of times, differentiated by hand, integrated by SciPy."""
    p, q, rate = np.array([0.5, 0.2, 0.3]), np.array([0.1, 0.6, 0.3]), 0.35

    def density(u, i, j):
        # With a = r (1 - u), b = r u, all survive (a, b) with probability exp(-r M); i rings in the first world at the
        # rate p_i of its own clock, and of the shared one if its ring at a is later than b on the other world's scale.
        first = p[i] * ((1 - rate) + rate * (p[i] * (1 - u) > q[i] * u))
        second = q[j] * ((1 - rate) + rate * (q[j] * u > p[j] * (1 - u)))
        return first * second / _rate(p, q, rate, u) ** 2

    law = np.asarray(joint(jnp.log(p), jnp.log(q), jnp.asarray(rate)))
    kinks = sorted(p / (p + q))
    for i in range(3):
        for j in range(3):
            if i != j:
                assert law[i, j] == pytest.approx(quad(density, 0, 1, (i, j), points=kinks)[0], abs=1e-10)


@pytest.mark.parametrize("rate", [0.15, 0.6])
def test_draws_of_clocks_agree_with_the_law(rate):
    """False-alarm level 1e-6, over all cells; exponential clocks drawn by NumPy."""
    number, p, q = 400_000, softmax([0.0, 1.0, -1.0, 2.0]), softmax([1.0, 1.0, 0.5, -np.inf])
    stream = np.random.default_rng(7)
    shared, own, other = stream.exponential(size=(3, number, 4))
    with np.errstate(divide="ignore"):
        x, y = (
            (np.minimum(shared / rate, each / (1 - rate)) / world).argmin(axis=1)
            for each, world in ((own, p), (other, q))
        )
    counts = np.zeros((4, 4))
    np.add.at(counts, (x, y), 1)
    with np.errstate(divide="ignore"):
        expected = number * np.asarray(joint(jnp.log(p), jnp.log(q), jnp.asarray(rate)))
    assert (counts[expected == 0] == 0).all()
    common = expected > 5
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert chi2.sf(statistic, common.sum() - 1) > 1e-6


@given(pairs(), st.integers(0, 2**31), rates)
def test_the_matrix_free_loss_is_the_matrix_loss_whatever_is_shared(pair, seed, rate):
    p, q = map(log_probs, pair)
    here, there = np.random.default_rng(seed).normal(size=(2, p.size))
    expected = (joint(p, q, jnp.asarray(rate)) * (here[:, None] - there[None, :]) ** 2).sum()
    found = squared_difference(p, q, jnp.asarray(here), jnp.asarray(there), jnp.asarray(rate))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@jax.jit
def everything(p, q, rate, weights, score):
    p, q = log_probs(p), log_probs(q)
    return (
        (race.joint(p, q, rate) * weights).sum()
        + (race.row(p, q, jnp.argmax(p), rate) * weights[0]).sum()
        + race.expected_squared_difference(p, q, score, -score, rate)
    )


gradients = jax.jit(jax.grad(everything, (0, 1, 2)))


@pytest.mark.parametrize("name", AWKWARD)
def test_gradients_are_finite_everywhere_and_at_both_ends(name):
    p, q = AWKWARD[name]
    weights = np.random.default_rng(0).normal(size=(p.size, p.size))
    for dtype in (np.float32, np.float64):
        for rate in (0.0, 0.4, 1.0):
            arguments = (np.asarray(each, dtype) for each in (p, q, rate, weights, np.arange(p.size)))
            for gradient in gradients(*arguments):
                assert jnp.isfinite(gradient).all()


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.97])
def test_gradients_with_respect_to_logits_and_rate_are_finite_differences(rate):
    rng = np.random.default_rng(3)
    p, q = rng.normal(size=(2, 5)) * 2
    p[0] = q[1] = -np.inf
    weights, score = rng.normal(size=(5, 5)), rng.normal(size=5)
    both = np.concatenate([p, q, [rate]])

    def loss(moved):
        return float(everything(moved[:5], moved[5:10], moved[10], weights, score))

    found = np.concatenate([np.atleast_1d(each) for each in gradients(p, q, rate, weights, score)])
    for k in np.flatnonzero(np.isfinite(both)):
        step = 1e-6 * np.eye(11)[k]
        assert found[k] == pytest.approx((loss(both + step) - loss(both - step)) / 2e-6, abs=1e-8)


def test_single_precision_says_what_double_precision_says():
    p, q = np.random.default_rng(2).normal(size=(2, 30)) * 3
    for rate in (1e-30, 1e-4, 0.5, 0.9999):
        exact = joint(log_probs(p), log_probs(q), jnp.asarray(rate))
        rough = joint(*(log_probs(each).astype(jnp.float32) for each in (p, q)), jnp.asarray(rate, jnp.float32))
        np.testing.assert_allclose(rough, exact, atol=1e-6)


def test_a_row_of_a_hundred_thousand_outcomes_builds_no_matrix_whatever_is_shared():
    size = 100_000
    p, q = (log_probs(np.random.default_rng(seed).normal(size=size)) for seed in (0, 1))
    program = jax.jit(race.row).lower(p, q, jnp.asarray(3), jnp.asarray(0.5)).compile()
    assert program.memory_analysis().temp_size_in_bytes < 64 * size * 8
    np.testing.assert_allclose(program(p, q, jnp.asarray(3), jnp.asarray(0.5)).sum(), 1, atol=1e-11)
