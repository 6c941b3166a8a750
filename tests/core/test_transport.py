"""Optimal transport against SciPy's linear programme."""

import numpy as np
import pytest
from scipy.optimize import linprog

from countermax._core.transport import transport_plan


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_costs_what_the_linear_programme_says_and_keeps_both_marginals(seed):
    """Also with masses that do not sum to one and with negative costs."""
    rng = np.random.default_rng(seed)
    rows, columns = 3 + seed % 3, 4
    p, q = rng.exponential(size=rows), 5 * rng.exponential(size=columns)
    costs = rng.normal(size=(rows, columns)) - 3 * (seed % 2)
    plan, prices = transport_plan(p, q, costs)
    p, q = p / p.sum(), q / q.sum()
    np.testing.assert_allclose(plan.sum(axis=1), p)
    np.testing.assert_allclose(plan.sum(axis=0), q)
    equalities = np.vstack([np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))])
    solution = linprog(costs.ravel(), A_eq=equalities, b_eq=np.concatenate([p, q]))
    assert (plan * costs).sum() == pytest.approx(solution.fun, abs=1e-12)
    slack = (costs - prices) - (costs - prices).min(axis=1, keepdims=True)
    assert slack[plan > 0].max() < 1e-12  # mass goes where cost minus price is least
