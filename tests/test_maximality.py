"""The paper's Corollaries 1 and 2."""

import jax
import numpy as np
import pytest
from hypothesis import given
from worlds import AWKWARD, pairs, softmax

from countermax import Maximal, maximality_gap

pytestmark = pytest.mark.usefixtures("double")

gap_of = jax.jit(maximality_gap)


def condition_of_corollary_1(p, q):
    """Whether the inequality of the corollary holds for some outcome, as it is printed, up to rounding."""
    for i in range(len(p)):
        if p[i] > 0 and q[i] > 0:
            other = np.arange(len(p)) != i
            left = max((p / p[i])[other].sum(), (q / q[i])[other].sum())
            right = np.maximum(p / p[i], q / q[i])[other].sum()
            if left < right * (1 - 1e-12):
                return True
    return False


@given(pairs(spread=3.0))
def test_gumbel_max_misses_exactly_where_corollary_1_says(pair):
    found = gap_of(*pair)
    suboptimal = condition_of_corollary_1(*map(softmax, pair))
    assert bool(found.is_maximal) == (not suboptimal) or float(found.gap) < 1e-9
    if not suboptimal:
        assert float(found.gap) < 1e-12


@given(pairs())
def test_gumbel_max_is_never_worse_than_a_factor_of_two(pair):
    found = gap_of(*pair)
    assert float(found.maximal) <= 2 * float(found.gumbel_max) + 1e-12
    assert float(found.gumbel_max) <= float(found.maximal) + 1e-12


def test_the_factor_of_two_is_approached():
    """So that the law above is sharp: nearly disjoint worlds that share one rare outcome."""
    rare = 1e-4
    p, q = np.array([1 - rare, 0, rare]), np.array([0, 1 - rare, rare])
    with np.errstate(divide="ignore"):
        found = gap_of(np.log(p), np.log(q))
    assert float(found.maximal / found.gumbel_max) == pytest.approx(2, abs=1e-3)
    assert not found.is_maximal


@given(pairs(sizes=(2,)))
def test_gumbel_max_is_maximal_for_two_outcomes(pair):
    found = gap_of(*pair)
    assert bool(found.is_maximal)
    assert float(found.gap) < 1e-12


@pytest.mark.parametrize("name", AWKWARD)
def test_the_gap_is_the_distance_to_the_maximal_coupling(name):
    p, q = AWKWARD[name]
    found = gap_of(p, q)
    assert float(found.maximal) == pytest.approx(float(np.trace(Maximal().joint(p, q))), abs=1e-14)
    assert float(found.gap) == pytest.approx(float(found.maximal - found.gumbel_max), abs=1e-12)


def test_equal_worlds_are_kept():
    assert bool(gap_of(*AWKWARD["equal"]).is_maximal)
