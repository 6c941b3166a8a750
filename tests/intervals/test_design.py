"""Weights, clusters and strata: what hardly anybody had is as uncertain as the effective number of people says."""

import numpy as np
import pytest
from scipy import stats

from countermax import InputError
from countermax.intervals._inversion import inverted_intervals
from countermax.intervals._sampling import CountSampling, ResampledSampling, _quantiles


def each_of_q(p, q):
    return q


def counted_and_resampled(*counts):
    """The same people, counted; and resampled, as weights of 1 are."""
    counts = [np.asarray(each, float) for each in counts]
    stream = np.random.default_rng(0)
    known = CountSampling(*counts)
    sizes = tuple(each.sum() for each in counts)
    again = [stream.multinomial(int(each.sum()), each / each.sum(), 400) / each.sum() for each in counts]
    return known, ResampledSampling(known.p, known.q, *again, "people", people=sizes, units=sizes)


@pytest.mark.parametrize("rare", [0, 1, 2, 5])
def test_weights_of_one_give_the_intervals_of_counts(rare):
    found = [
        inverted_intervals(each, each_of_q) for each in counted_and_resampled([30, 40, 30], [rare, 120, 130 - rare])
    ]
    assert found[1].lower[0] == pytest.approx(found[0].lower[0], abs=0.004)
    assert found[1].upper[0] == pytest.approx(found[0].upper[0], abs=0.01)
    assert found[1].upper[0] > 2.5 / 250
    np.testing.assert_allclose(found[1].width[1:], found[0].width[1:], rtol=0.3)  # of proposals at random


def test_nobody_may_have_what_a_truth_has_little_of():
    """Under 1 % nobody of 250 has it with probability 0.081; 4,000 draws are off by 0.022 once in a million."""
    _, sampling = counted_and_resampled([30, 40, 30], [3, 120, 127])
    truth = np.array([[0.01, 0.49, 0.5]])
    p, q = sampling.draws(truth, truth, 4000, None, np.random.default_rng(0))
    assert (q[0, :, 0] == 0).mean() == pytest.approx(0.99**250, abs=0.022)
    np.testing.assert_allclose(p.sum(axis=2), 1)
    p, q = sampling.draws(truth, truth, 500, 0, np.random.default_rng(0))
    assert (p[0, :, 0] > 0).all()  # the question is about somebody who had it
    assert (q[0, :, 0] == 0).any()


def test_an_outcome_that_nobody_had_is_bounded_by_the_independent_units():
    """Everybody had the same: how much clusters share is not known, and they count as if they shared everything."""
    p, q = np.array([0.5, 0.5]), np.array([0.0, 1.0])
    stream = np.random.default_rng(0)
    again = stream.multinomial(400, p, 400) / 400, np.broadcast_to(q, (400, 2))

    def upper(people, units):
        sampling = ResampledSampling(p, q, *again, "", people=(400.0, people), units=(400.0, units))
        return inverted_intervals(sampling, each_of_q).upper[0]

    assert 3 / 400 < upper(400.0, 400.0) < 6 / 400
    assert 3 / 40 < upper(400.0, 40.0) < 6 / 40
    assert upper(20.0, 20.0) > 3 / 20


def test_an_arm_of_one_person_has_somebody_in_every_draw():
    one = np.array([0.0, 1.0, 0.0])
    sampling = ResampledSampling(
        one, one, *[np.broadcast_to(one, (50, 3))] * 2, "", people=(1.0, 1.0), units=(1.0, 1.0)
    )
    truth = np.full((5, 3), 1 / 3)
    for world in sampling.draws(truth, truth, 200, None, np.random.default_rng(0)):
        np.testing.assert_allclose(world.sum(axis=2), 1)
    for world in sampling.candidates(100, np.random.default_rng(0)):
        assert (world > 0).all()


@pytest.mark.parametrize(("number", "most"), [(1, 0), (7, 0), (36, 0), (200, 1), (10**6, 2)])
def test_quantiles_are_those_of_binomial_laws(number, most):
    stream = np.random.default_rng(number)
    chance, place = 0.5 * stream.uniform(0, 1, 500) ** 2, stream.uniform(0, 1, 500)
    ones = np.ones(500)
    found = number * _quantiles(number * ones, 0 * ones, chance[None], place[None, None], None)[0, 0]
    assert np.abs(found - stats.binom.ppf(place, number, chance)).max() <= most + 1e-9


def test_the_interval_of_a_single_probability_is_that_of_effective_counts():
    """Korn and Graubard's: with 2.4 of 60 effective people, as in the textbook with counts that are not whole."""
    number, estimate = np.array([60.0]), np.array([0.04])
    upper, lower = stats.beta.ppf(0.975, 3.4, 57.6), stats.beta.ppf(0.025, 2.4, 58.6)
    places = (np.arange(4000)[None, :, None] + 0.5) / 4000
    for truth, sign in ((upper, -1), (lower, 1)):
        drawn = _quantiles(number, estimate, np.array([[truth]]), places.copy(), None)
        assert (sign * drawn >= sign * 0.04 - 1e-9).mean() == pytest.approx(0.025, abs=0.001)


def test_resamples_must_be_several_of_both_worlds():
    law = np.array([0.5, 0.5])
    with pytest.raises(InputError, match="at least 2 resamples of both worlds are needed, got 1"):
        ResampledSampling(law, law, law[None], law[None], "", people=(9.0, 9.0), units=(9.0, 9.0))
