"""Optimal transport against SciPy's linear programme."""

import numpy as np
import pytest
from scipy.optimize import linprog

from countermax._core.transport import transport_plan, transport_rows, transport_shares


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


@pytest.mark.parametrize("rare", [0.0, -90.0])
def test_shares_are_the_plan_seen_from_its_columns_however_rare_they_are(rare):
    rng = np.random.default_rng(0)
    log_p, costs = np.full(7, -np.log(7)), rng.uniform(size=(7, 5))
    log_q = np.array([0.0, rare, -1.0, -np.inf, 1.0])
    found = transport_shares(log_p, log_q, costs)
    dense = np.zeros((5, 7))
    dense[found.columns, found.rows] = found.shares
    assert not dense[3].any()
    assert len(found.shares) <= 7 + 4 - 1
    expected = transport_rows(log_q, log_p, costs.T)
    np.testing.assert_allclose(dense[[0, 1, 2, 4]], expected[[0, 1, 2, 4]], atol=1e-12)
    np.testing.assert_allclose(dense[[0, 1, 2, 4]].sum(axis=1), 1)
