"""Linear pieces of answers are found once each, and without rounding errors."""

import numpy as np
import pytest

from countermax import Trial
from countermax.intervals._linearised import _around, _distinct, _moved, _tangents
from countermax.intervals._sampling import of_counts


@pytest.mark.parametrize("counts", [([30, 40, 30], [10, 30, 60]), ([3, 2], [4, 4], [1, 5])])
def test_one_function_has_the_same_coefficients_wherever_it_is_found(counts):
    """The larger of two linear functions has two pieces, though it is looked at in forty points."""
    sampling = of_counts([np.array(each, float) for each in counts], "people")
    weights = np.random.default_rng(0).normal(size=(2, len(sampling.laws)))
    weights[1] += (weights[0] - weights[1]) @ sampling.smooth / len(counts)  # as large at the estimate
    points = _around(sampling, [sampling.smooth], 40, 1.0, np.arange(len(sampling.laws)))
    values = (_moved(sampling, points) @ weights.T).max(axis=2, keepdims=True)
    pieces, _ = _distinct(_tangents(sampling, values, points)[:, :, 0], 1.0)
    assert len(pieces) == 2
    np.testing.assert_allclose(np.sort(pieces @ points.T, axis=0), np.sort(weights @ points.T, axis=0), atol=1e-8)


def test_an_answer_that_is_certain_has_no_rounding_errors_in_its_limits():
    """The maximal coupling lets everybody keep an outcome that has become far likelier: with few people among many."""
    found = (
        Trial.from_counts([2, 59_998], [55_000, 5_000]).compare(0, level=0.999, couplings="all").row("P(0)", "maximal")
    )
    assert 1 - found.ci_lower < 1e-9
    assert found.ci_upper == 1


def test_a_score_that_does_not_vary_has_an_interval_without_width():
    found = Trial.from_counts([6, 4], [3, 7], score=[2, 2]).compare(0)
    for name in found.joints:
        row = found.row("expected score", name)
        assert (row.ci_lower, row.ci_upper) == (2, 2)
