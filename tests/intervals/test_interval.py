"""Confidence intervals and standard errors, against SciPy and by hand."""

import numpy as np
import pytest
from scipy import stats

from countermax import InputError, Interval
from countermax.intervals._interval import check_level, percentile_interval, ratio_error, standard_error


def test_the_middle_of_the_resamples_is_numpys_quantile():
    samples = np.random.default_rng(0).normal(size=(200, 2, 3))
    found = percentile_interval(samples, 0.9)
    assert isinstance(found, Interval)
    np.testing.assert_allclose((found.lower, found.upper), np.quantile(samples, [0.05, 0.95], axis=0))
    assert found.level == 0.9
    np.testing.assert_allclose(found.width, found.upper - found.lower)


def test_resamples_without_an_answer_do_not_count_for_it():
    samples = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan], [3.0, np.nan]])
    found = percentile_interval(samples, 0.5)
    np.testing.assert_allclose(found.lower, [1.5, np.nan])
    np.testing.assert_allclose(found.upper, [2.5, np.nan])
    single = percentile_interval(samples[:, 0], 0.5)
    assert float(single.lower) == pytest.approx(1.5)
    assert np.isnan(float(percentile_interval(samples[:, 1], 0.5).upper))


def test_a_part_lies_within_the_whole_also_where_they_do_not_meet():
    part = Interval(np.array([0.1, 0.3, 0.8, 0.0]), np.array([0.9, 0.4, 0.9, 0.1]), 0.9)
    found = part.within(Interval(np.array([0.2, 0.2, 0.2, 0.2]), np.array([0.7, 0.7, 0.7, 0.7]), 0.9))
    np.testing.assert_allclose(found.lower, [0.2, 0.3, 0.7, 0.2])
    np.testing.assert_allclose(found.upper, [0.7, 0.4, 0.7, 0.2])
    assert found.level == 0.9


def test_there_is_no_interval_without_resamples_or_confidence():
    assert percentile_interval(np.zeros((0, 3)), 0.95) is None
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="`level` must lie between 0 and 1"):
            percentile_interval(np.zeros((5, 3)), level)


def test_the_standard_error_is_scipys():
    sample = np.random.default_rng(1).exponential(size=50)
    assert standard_error(sample) == pytest.approx(stats.sem(sample))
    assert standard_error(sample[:1]) is None


def test_the_error_of_a_ratio_is_its_spread_over_repeats():
    """Four thousand samples of 200 pairs; the spread is known to 1.1 %, so 6 % is more than five of its errors."""
    rng = np.random.default_rng(2)
    reference = 2 + rng.exponential(size=(4000, 200))
    sample = 1.5 * reference + rng.normal(size=reference.shape)
    spread = (sample.mean(axis=1) / reference.mean(axis=1)).std(ddof=1)
    found = np.mean([ratio_error(*each) for each in zip(sample, reference, strict=True)])
    assert found == pytest.approx(spread, rel=0.06)
    assert ratio_error(1.5 * reference[0], reference[0]) == pytest.approx(0, abs=1e-12)
    assert ratio_error(sample[0, :1], reference[0, :1]) is None


@pytest.mark.parametrize("level", [None, "0.9", True, 0, 1, -0.1, float("nan"), 10**400])
def test_a_level_that_is_none_is_refused(level, as_users_call):
    with pytest.raises(InputError, match="`level` must lie between 0 and 1"):
        check_level(level)
