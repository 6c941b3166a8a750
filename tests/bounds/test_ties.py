"""When ratios are equal: one rule, wherever stability is asked for."""

import jax
import numpy as np
import pytest

from countermax._kernel import row_bounds
from countermax.bounds import outcome_bounds
from countermax.bounds._stable import ratio_tie
from countermax.causation._stable import ratio_ranks
from countermax.maximality import maximality_gap


def worlds(apart, share):
    """Three outcomes; the last two have ratios whose logarithms lie as far `apart`."""
    p = np.array([0.5, share, 0.5 - share])
    q = np.array([0.0, 1.3, 1.3 * np.exp(apart)]) * p
    q[0] = 1 - q.sum()
    return p, q


@pytest.mark.parametrize("share", [0.2, 1e-5])
@pytest.mark.parametrize(("times", "equal"), [(0.6, True), (1.4, False)])
def test_ratios_are_equal_to_all_who_ask_or_to_none(times, equal, share):
    tie = ratio_tie(np.log([1.3, 1.3]), np.log([share, 0.5 - share])).max()
    p, q = worlds(times * tie, share)
    with jax.enable_x64(True):
        logs = np.log(p), np.log(q)
        upper = outcome_bounds(*logs, 1, stable=True).upper[2]
        assert bool(maximality_gap(*logs).is_maximal) == equal
    ranks = ratio_ranks(p, q)
    assert (ranks[1] == ranks[2]) == equal
    assert (float(upper) == 0) == equal
    assert (row_bounds(np.log(p[None]), np.log(q[None]), np.array([1]), stable=True).upper[0, 2] == 0) == equal


def test_the_rule_has_the_digits_of_its_precision():
    single, double = (ratio_tie(np.zeros(1, kind), np.zeros(1, kind)) for kind in (np.float32, np.float64))
    assert single.dtype == np.float32
    assert single[0] == pytest.approx(64 * np.finfo(np.float32).eps)
    assert double[0] == pytest.approx(64 * np.finfo(np.float64).eps)
