"""The lower limit of every mechanism, on worlds so few that a linear programme knows their barycenter."""

import numpy as np
import pytest
from scipy.optimize import linprog

from countermax.couplings._reference import lloyd
from studies.floors import Search, barycenter_limit

RNG = np.random.default_rng(0)
SCORES, WORLDS = RNG.normal(size=(4, 2)), RNG.dirichlet(np.ones(4), size=3)


def least_distance():
    """Of any joint distribution of the worlds' outcomes: the mean of their scores is the point they come from."""
    outcomes = np.array(list(np.ndindex(4, 4, 4)))
    cost = SCORES[outcomes].var(axis=1).sum(axis=1)
    margins = [outcomes[:, world] == outcome for world in range(3) for outcome in range(4)]
    return linprog(cost, A_eq=np.array(margins, float), b_eq=WORLDS.ravel()).fun


def test_the_limit_is_the_value_of_a_linear_programme_and_below_what_points_reach():
    least = least_distance()
    found = barycenter_limit(SCORES, WORLDS, Search(0.05, ((1, 300, 0.3), (2, 300, 0.02)), last=3e-4, tolerance=1e-4))
    assert 0.998 * least < found <= least
    start = RNG.choice(SCORES, 40) + 0.05 * RNG.normal(size=(40, 2))
    assert found < lloyd(SCORES, WORLDS, np.full(3, 1 / 3), start, 10).distance


@pytest.mark.parametrize("side", [0.25, 0.5, 1.0])
def test_prices_found_on_a_coarse_grid_give_a_lower_value_and_never_one_that_is_too_high(side):
    """The least height on the grid itself would be up to 90 % too high."""
    assert barycenter_limit(SCORES, WORLDS, Search(side, ((1, 200, 0.3),))) < least_distance()
