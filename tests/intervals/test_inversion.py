"""Intervals by inverted tests: they hold at kinks, at boundaries and where nobody had an outcome."""

import numpy as np
import pytest
from scipy import stats

from countermax import InputError
from countermax.intervals._inversion import inverted_intervals, resampled_intervals
from countermax.intervals._sampling import CountSampling, ResampledSampling


def first_of_q(p, q):
    return q[:, :1]


def better_range(p, q):
    """The limits of P(better) for three ordered outcomes: maxima of differences, with kinks where worlds are equal."""
    above = np.cumsum((q - p)[:, ::-1], axis=1)
    below = np.cumsum(q, axis=1) - (np.cumsum(p, axis=1) - p)
    return np.stack([np.maximum(above.max(axis=1), 0), 1 - np.maximum(below.max(axis=1), 0)], axis=1)


def counted(*counts):
    return CountSampling(*(np.asarray(each, float) for each in counts))


def test_a_smooth_answer_has_the_interval_of_the_textbook():
    interval = inverted_intervals(counted([50, 50], [30, 70]), first_of_q, num_candidates=1000, num_draws=1000)
    exact = stats.binomtest(30, 100).proportion_ci(0.96)  # four fifths of the error goes to the tests
    np.testing.assert_allclose([interval.lower[0], interval.upper[0]], exact, atol=0.02)


def test_the_interval_of_a_range_holds_it_at_a_kink():
    """At no effect the limit of the range is a maximum of tied differences: percentiles hold it in 64 % of trials.

    Of 60 trials fewer than 48 hold it with probability below 1e-6 if each does with probability 0.95.
    """
    truth = np.full(3, 1 / 3)
    limits = better_range(truth[None], truth[None])[0]
    stream = np.random.default_rng(0)
    held = {inverted_intervals: 0, resampled_intervals: 0}
    for trial in range(60):
        sampling = counted(stream.multinomial(200, truth), stream.multinomial(200, truth))
        for method in held:
            found = method(sampling, better_range, num_candidates=120, num_draws=120, seed=trial)
            held[method] += found.lower[0] <= limits[0] + 1e-9 and found.upper[1] >= limits[1] - 1e-9
    assert held[inverted_intervals] >= 48
    assert held[resampled_intervals] < held[inverted_intervals]


def test_equal_worlds_are_in_the_interval_unless_the_data_exclude_them():
    def distance(p, q):
        return np.abs(p - q).sum(axis=1, keepdims=True)

    near = inverted_intervals(counted([50, 50], [45, 55]), distance)
    far = inverted_intervals(counted([50, 50], [5, 95]), distance)
    assert near.lower[0] == 0
    assert far.lower[0] > 0.4


def test_that_nobody_had_an_outcome_does_not_make_it_impossible():
    interval = inverted_intervals(counted([20, 30], [0, 50]), first_of_q)
    assert interval.lower[0] == 0
    assert 0.03 < interval.upper[0] < 0.15  # the rule of three says 0.06


def test_the_interval_holds_the_estimate_and_is_repeatable():
    sampling = counted([5, 20, 9], [14, 3, 8])
    first, second = (inverted_intervals(sampling, better_range, seen=0, seed=3) for _ in range(2))
    other = inverted_intervals(sampling, better_range, seen=0, seed=4)
    estimate = better_range(sampling.p[None], sampling.q[None])[0]
    assert (first.lower <= estimate).all()
    assert (estimate <= first.upper).all()
    np.testing.assert_array_equal(first.lower, second.lower)
    assert (first.lower != other.lower).any()


def test_more_confidence_is_wider_and_more_people_narrower():
    sampling, larger = counted([30, 40, 30], [10, 30, 60]), counted([300, 400, 300], [100, 300, 600])
    widths = [inverted_intervals(sampling, first_of_q, level=level).width[0] for level in (0.8, 0.95, 0.99)]
    assert widths == sorted(widths)
    assert inverted_intervals(larger, first_of_q).width[0] < 0.5 * widths[1]


def test_draws_have_the_outcome_that_the_question_is_about():
    sampling = counted([1, 60], [30, 31])
    p, q = sampling.draws(sampling.p[None], sampling.q[None], 4000, 0, np.random.default_rng(0))
    counts = p[0, :, 0] * 61
    assert counts.min() >= 1
    # A binomial number given that it is positive; the mean of 4,000 is off by five standard errors once in a million.
    rate = 1 / 61
    expected = 1 / (1 - (1 - rate) ** 61)
    assert counts.mean() == pytest.approx(expected, abs=5 * counts.std() / np.sqrt(4000))
    np.testing.assert_allclose(p.sum(axis=2), 1)
    assert q[0].mean(axis=0)[0] == pytest.approx(30 / 61, abs=0.01)


def test_resampled_errors_agree_with_counted_ones():
    counts = np.array([30.0, 40, 30]), np.array([15.0, 30, 55])
    stream = np.random.default_rng(0)
    resampled = [stream.multinomial(100, each / 100, 2000) / 100 for each in counts]
    known = CountSampling(*counts)
    found = ResampledSampling(
        known.p, known.q, *resampled, "100 people each", people=(100.0, 100.0), units=(100.0, 100.0)
    )
    first, second = (inverted_intervals(each, better_range) for each in (known, found))
    np.testing.assert_allclose(first.lower, second.lower, atol=0.04)
    np.testing.assert_allclose(first.upper, second.upper, atol=0.04)
    assert found.words() == "100 people each"


def test_worlds_that_the_data_tell_apart_are_not_equal_whatever_one_answer_says():
    """Truths with equal worlds are marked; the marked sum fits the data well, the worlds do not."""

    def marked_sum(p, q):
        return p[:, :1] + q[:, :1] + 10 * (np.abs(p - q) < 1e-9).all(axis=1, keepdims=True)

    assert inverted_intervals(counted([50, 50], [45, 55]), marked_sum).upper[0] > 10
    assert inverted_intervals(counted([50, 50], [5, 95]), marked_sum).upper[0] < 1


@pytest.mark.parametrize("counts", [[1.5, 2], [-1, 3], [0, 0]])
def test_what_is_not_counted_is_refused(counts):
    with pytest.raises(InputError, match="`p` must (hold counts|count at least)"):
        counted(counts, [1, 2])


def test_searching_finds_truths_in_which_all_of_several_numbers_are_large():
    """The least of two numbers: under .7 and .7 one in seventeen samples has as small a one, so the interval holds .7.

    Proposals at random have to be lucky with both numbers, and end before .7 for some seeds.
    """

    def smaller(p, q):
        return np.minimum(q[:, 2:].sum(axis=1), p[:, :2].sum(axis=1))[:, None]

    sampling = counted([15, 14, 11, 10], [7, 7, 18, 18])
    some = {"num_candidates": 200, "num_draws": 125}
    proposed, searched = (
        [inverted_intervals(sampling, smaller, **some, num_searched=more, seed=seed).upper[0] for seed in range(12)]
        for more in (0, 4000)
    )
    assert min(proposed) < 0.7 <= min(searched)
