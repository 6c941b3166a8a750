"""The closed form against the paper's formulas, matrices, finite differences and draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from worlds import AWKWARD, pairs, softmax

from countermax import race

pytestmark = pytest.mark.usefixtures("double")

joint = jax.jit(race.joint)
row = jax.jit(race.row)
rows = jax.jit(jax.vmap(race.row, (None, None, 0)))
agreement_by_outcome = jax.jit(race.agreement_by_outcome)
agreement = jax.jit(race.agreement)
squared_difference = jax.jit(race.expected_squared_difference)


def log_probs(logits):
    return jax.nn.log_softmax(jnp.asarray(logits))


@given(pairs())
def test_both_marginals_hold_to_rounding(pair):
    p, q = pair
    law = np.asarray(joint(log_probs(p), log_probs(q)))
    np.testing.assert_allclose(law.sum(axis=1), softmax(p), atol=1e-14)
    np.testing.assert_allclose(law.sum(axis=0), softmax(q), atol=1e-14)
    assert (law >= 0).all()


@given(pairs())
def test_exchanging_the_worlds_transposes_the_law(pair):
    p, q = map(log_probs, pair)
    np.testing.assert_allclose(joint(q, p), joint(p, q).T, atol=1e-14)


@given(pairs(), st.randoms(use_true_random=False))
def test_relabelling_outcomes_relabels_the_law(pair, random):
    p, q = map(log_probs, pair)
    order = list(range(p.size))
    random.shuffle(order)
    order = np.array(order)
    np.testing.assert_allclose(joint(p[order], q[order]), joint(p, q)[np.ix_(order, order)], atol=1e-14)


@given(pairs(spread=5.0))
def test_an_outcome_changes_only_to_one_that_is_favoured_more(pair):
    p, q = map(softmax, pair)
    law = np.asarray(joint(*map(log_probs, pair)))
    favoured = q[None, :] * p[:, None] > q[:, None] * p[None, :] * (1 + 1e-12)
    np.testing.assert_allclose(law[~favoured & ~np.eye(p.size, dtype=bool)], 0, atol=1e-12)


@given(pairs())
def test_a_row_is_the_normalised_row_of_the_matrix(pair):
    p, q = map(log_probs, pair)
    law = joint(p, q)
    for x in np.flatnonzero(np.exp(p) > 1e-6):
        np.testing.assert_allclose(row(p, q, jnp.asarray(x)), law[x] / jnp.exp(p[x]), atol=1e-9)


@given(pairs())
def test_agreement_is_proposition_1(pair):
    p, q = map(softmax, pair)
    expected = [
        1 / (np.maximum(p / p[i], q / q[i])).sum() if p[i] > 1e-200 and q[i] > 1e-200 else 0.0 for i in range(p.size)
    ]
    found = agreement_by_outcome(*map(log_probs, pair))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(agreement(*map(log_probs, pair)), sum(expected), atol=1e-14)


@given(pairs(), st.integers(0, 2**31))
def test_the_matrix_free_loss_is_the_matrix_loss(pair, seed):
    p, q = map(log_probs, pair)
    first, second = np.random.default_rng(seed).normal(10, 3, size=(2, p.size))
    for score_q in (first, second):
        expected = (joint(p, q) * (first[:, None] - score_q[None, :]) ** 2).sum()
        found = squared_difference(p, q, jnp.asarray(first), jnp.asarray(score_q))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_the_law_is_the_integral_over_both_winning_times():
    """An independent route: the polar integral of the density, by quadrature."""
    p, q = np.array([0.5, 0.2, 0.3]), np.array([0.1, 0.6, 0.3])

    def density(u, i, j):
        wins = p[i] * (1 - u) >= q[i] * u and q[j] * u >= p[j] * (1 - u)
        return p[i] * q[j] / np.maximum(p * (1 - u), q * u).sum() ** 2 if wins else 0.0

    law = np.asarray(joint(jnp.log(p), jnp.log(q)))
    kinks = sorted(p / (p + q))
    for i in range(3):
        for j in range(3):
            if i != j:
                assert law[i, j] == pytest.approx(quad(density, 0, 1, (i, j), points=kinks)[0], abs=1e-10)


@jax.jit
def everything(p, q, weights, score):
    p, q = log_probs(p), log_probs(q)
    return (
        (race.joint(p, q) * weights).sum()
        + (race.row(p, q, jnp.argmax(p)) * weights[0]).sum()
        + race.agreement(p, q)
        + race.expected_squared_difference(p, q, score, -score)
    )


gradients = jax.jit(jax.grad(everything, (0, 1)))


@pytest.mark.parametrize("name", AWKWARD)
def test_gradients_are_finite_everywhere(name):
    p, q = AWKWARD[name]
    weights = np.random.default_rng(0).normal(size=(p.size, p.size))
    for dtype in (np.float32, np.float64):
        arguments = (each.astype(dtype) for each in (p, q, weights, np.arange(p.size)))
        for gradient in gradients(*arguments):
            assert jnp.isfinite(gradient).all()


@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_finite_differences(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.normal(size=(2, 6)) * 2
    p[0] = q[1] = -np.inf  # impossible outcomes stay impossible, so only the others are moved
    weights, score = rng.normal(size=(6, 6)), rng.normal(size=6)

    def loss(p, q):
        return everything(p, q, weights, score)

    found = np.concatenate(gradients(p, q, weights, score))
    both = np.concatenate([p, q])
    for k in np.flatnonzero(np.isfinite(both)):
        step = 1e-6 * np.eye(12)[k]
        up, down = (np.split(both + sign * step, 2) for sign in (1, -1))
        assert found[k] == pytest.approx(float(loss(*up) - loss(*down)) / 2e-6, abs=1e-8)
    assert (found[~np.isfinite(both)] == 0).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_logits_over_eighty_either_way_are_safe(dtype):
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, q = (log_probs(rng.uniform(-80, 80, 40)).astype(dtype) for _ in range(2))
        found = rows(p, q, jnp.arange(40))
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=100 * jnp.finfo(dtype).eps)
        assert (found >= 0).all()


def test_a_row_of_a_hundred_thousand_outcomes_builds_no_matrix():
    size = 100_000
    p, q = (log_probs(np.random.default_rng(seed).normal(size=size)) for seed in (0, 1))
    program = jax.jit(race.row).lower(p, q, jnp.asarray(3)).compile()
    assert program.memory_analysis().temp_size_in_bytes < 64 * size * 8
    np.testing.assert_allclose(program(p, q, jnp.asarray(3)).sum(), 1, atol=1e-11)


@pytest.mark.slow
def test_two_million_draws_agree_with_the_closed_form():
    """False-alarm level 1e-6, over all cells."""
    from scipy.stats import chi2

    p, q = map(log_probs, np.random.default_rng(5).normal(size=(2, 12)) * 1.5)
    noise = np.random.default_rng(6).gumbel(size=(2_000_000, 12))
    counts = np.zeros((12, 12))
    np.add.at(counts, ((noise + np.asarray(p)).argmax(1), (noise + np.asarray(q)).argmax(1)), 1)
    expected = 2_000_000 * np.asarray(joint(p, q))
    assert (counts[expected < 1e-9] == 0).all()
    common = expected > 5
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert chi2.sf(statistic, common.sum() - 1) > 1e-6
