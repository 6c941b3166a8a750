"""Random numbers that other languages can draw again: their source is JAX's, and their laws are those they claim."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

import countermax
from countermax.intervals._inversion import inverted_intervals
from countermax.intervals._portable import PortableStream, stream_of, threefry
from countermax.intervals._sampling import CountSampling

FALSE_ALARM = 1e-4  # of each test of a law, under the fixed seeds here


def test_words_are_those_of_another_implementation():
    places = np.array([0, 1, 2, 4_000_000_000], np.uint32)
    for seed in (0, 7, 2**32 - 1):
        high, low = threefry(seed, np.full(4, 3, np.uint32), places)
        want = threefry_2x32(
            jnp.array([0, seed], jnp.uint32), jnp.concatenate([jnp.full(4, 3, jnp.uint32), jnp.asarray(places)])
        )
        np.testing.assert_array_equal(np.concatenate([high, low]), want)


def test_the_nth_number_does_not_depend_on_how_many_are_drawn_at_once():
    one, other = PortableStream(5), PortableStream(5)
    np.testing.assert_array_equal(
        one.uniform(size=10), np.concatenate([other.uniform(size=(2, 2)).ravel(), other.random(6)])
    )


@pytest.mark.parametrize("shape", [0.2, 1.0, 3.7, 50.0])
def test_gamma_numbers_follow_their_law(shape):
    drawn = PortableStream(3).standard_gamma(np.full(20_000, shape))
    assert stats.kstest(drawn, "gamma", args=(shape,)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.5), (5, 0.3), (100, 0.02), (400, 0.9), (5000, 0.4), (10**6, 0.2)])
def test_binomial_numbers_follow_their_law(trials, chance):
    drawn = PortableStream(4).binomial(np.full(20_000, trials), chance)
    values, counts = np.unique(drawn, return_counts=True)
    expected = stats.binom.pmf(values, trials, chance) * len(drawn)
    often = expected > 10
    misfit = ((counts - expected)[often] ** 2 / expected[often]).sum()
    assert stats.chi2.sf(misfit, often.sum()) > FALSE_ALARM
    assert drawn.min() >= 0
    assert drawn.max() <= trials


@pytest.mark.parametrize(("trials", "chance"), [(9, 0.5), (9, 0.3), (3600, 0.5)])
def test_the_last_digit_of_a_simple_fraction_does_not_change_the_draws(trials, chance):
    """Other languages may have it otherwise: 0.5 and the number after it are the same chance."""
    drawn = [PortableStream(6).binomial(np.full(500, trials), np.nextafter(chance, end)) for end in (0, 1)]
    np.testing.assert_array_equal(*drawn)


def test_multinomial_counts_add_up_and_impossible_outcomes_have_none():
    drawn = PortableStream(1).multinomial(np.array([7, 1000]), np.array([[0.2, 0.0, 0.8], [0.0, 1.0, 0.0]]))
    np.testing.assert_array_equal(drawn.sum(axis=1), [7, 1000])
    np.testing.assert_array_equal(drawn[1], [0, 1000, 0])
    assert drawn[0, 1] == 0


def test_a_permutation_keeps_the_values_and_whole_numbers_stay_below_their_limit():
    stream = PortableStream(2)
    assert sorted(stream.permutation(np.arange(50))) == list(range(50))
    assert set(stream.integers(3, size=100)) == {0, 1, 2}


def test_intervals_hardly_depend_on_the_source_of_the_draws():
    sampling = CountSampling(np.array([30.0, 50.0, 20.0]), np.array([10.0, 60.0, 30.0]))
    found = [inverted_intervals(sampling, lambda p, q: q - p, seed=1, draws=draws) for draws in ("numpy", "portable")]
    # Limits are the extremes of some hundred truths: they scatter by a few hundredths, whatever the source.
    np.testing.assert_allclose(found[0].lower, found[1].lower, atol=0.05)
    np.testing.assert_allclose(found[0].upper, found[1].upper, atol=0.05)


def test_an_unknown_source_is_refused():
    with pytest.raises(countermax.InputError, match="`draws` must be one of numpy, portable, got 'dice'"):
        stream_of("dice", 0)


@pytest.mark.parametrize("draws", ["numpy", "portable"])
def test_samples_in_which_everybody_had_what_was_seen_have_intervals(draws):
    sampling = CountSampling(np.array([6.0, 0.0]), np.array([7.0, 0.0]))
    found = inverted_intervals(sampling, lambda p, q: q, seen=0, draws=draws)
    assert 0 < found.lower[0] < 1 == found.upper[0]
