"""Bounds against a linear programme over all couplings, and over the counterfactually stable ones."""

from functools import partial
from itertools import product

import jax
import numpy as np
import pytest
from scipy.optimize import linprog

from countermax import GumbelMax, Independent, InverseCDF, Maximal, effect_bounds, outcome_bounds, score_bounds
from countermax.bounds import better_bounds
from countermax.bounds._questions import filled, filled_mean

pytestmark = pytest.mark.usefixtures("double")

of_outcomes = jax.jit(outcome_bounds, static_argnames="stable")
of_scores = jax.jit(score_bounds, static_argnames="stable")


def programme(p, q, x, value, *, stable):
    """The least and the largest expectation of `value` over the row of x, by SciPy."""
    size = len(p)
    allowed = np.ones((size, size))
    if stable:
        favoured = q[None, :] * p[:, None] > q[:, None] * p[None, :] + 1e-13
        allowed = favoured | np.eye(size, dtype=bool)
    costs = np.zeros((size, size))
    costs[x] = value
    equalities = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    limits = [(0, float(each)) for each in allowed.ravel()]
    ends = []
    for sign in (1, -1):
        solution = linprog(sign * costs.ravel(), A_eq=equalities, b_eq=np.concatenate([p, q]), bounds=limits)
        assert solution.status == 0, solution.message
        ends.append(sign * solution.fun / p[x])
    return ends


def random_query(seed):
    """Pairs of every awkward kind: zeros, small integers with many ties, equal ratios."""
    rng = np.random.default_rng(seed)
    size = (1, 2, 3, 4, 6)[seed % 5]
    kind = seed % 4
    p, q = rng.dirichlet(np.ones(size), size=2)
    if kind == 1 and size > 2:
        p[0] = q[1] = 0
    if kind == 2:
        p, q = rng.integers(0, 4, size=(2, size)).astype(float)
        p[0] += 1
        q[-1] += 1
    if kind == 3:
        q = p * rng.choice([0.5, 1, 2, 3], size)
    p, q = p / p.sum(), q / q.sum()
    return p, q, int(rng.choice(np.flatnonzero(p))), rng.normal(size=size)


def logs(*probs):
    with np.errstate(divide="ignore"):
        return [np.log(each) for each in probs]


@pytest.mark.parametrize("stable", [False, True])
def test_bounds_are_those_of_the_linear_programme(stable):
    for seed in range(30):
        p, q, x, score = random_query(seed)
        found = of_outcomes(*logs(p, q), x, stable=stable)
        expected = np.array([programme(p, q, x, unit, stable=stable) for unit in np.eye(len(p))]).T
        np.testing.assert_allclose(found, expected, atol=1e-8, err_msg=f"seed {seed}")
        np.testing.assert_allclose(
            of_scores(*logs(p, q), x, score, stable=stable),
            programme(p, q, x, score, stable=stable),
            atol=1e-8,
            err_msg=f"seed {seed}",
        )


@pytest.mark.parametrize("stable", [False, True])
def test_effect_bounds_are_score_bounds_less_what_was_seen(stable):
    p, q, x, score = random_query(14)
    other = score**2
    low, high = programme(p, q, x, other, stable=stable)
    found = effect_bounds(*logs(p, q), x, score, other, stable=stable)
    np.testing.assert_allclose(found, [low - score[x], high - score[x]], atol=1e-9)


@pytest.mark.parametrize(
    "coupling",
    [
        GumbelMax(),
        pytest.param(InverseCDF(), marks=pytest.mark.slow),
        pytest.param(Maximal(), marks=pytest.mark.slow),
        Independent(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_mechanism_lies_within_the_bounds(coupling):
    @jax.jit
    def inside(p, q, x):
        answer = coupling.counterfactual_probs(p, q, x)
        stable = outcome_bounds(p, q, x, stable=isinstance(coupling, GumbelMax))
        return outcome_bounds(p, q, x).contains(answer) & stable.contains(answer)

    for seed in range(20):
        p, q, x, _ = random_query(seed)
        assert inside(*logs(p, q), x).all()


def test_a_rare_outcome_may_leave_for_what_only_the_other_world_can_reach():
    """It is likelier there, and much is lost before it: sums that are cut at one say nothing about its own ratio."""
    p, q = np.array([0, 0.14, 0, 0.86]), np.array([0.44, 0.33, 0.08, 0.15])
    score = np.array([-0.6, -1.2, -1.1, -1.7])
    with jax.enable_x64(True):
        found = score_bounds(*logs(p, q), 1, score, stable=True)
    np.testing.assert_allclose(found, programme(p, q, 1, score, stable=True), atol=1e-9)
    assert found.upper == pytest.approx(-0.6)


def test_stability_narrows_the_bounds():
    p, q = logs(np.array([0.3, 0.4, 0.3]), np.array([0.1, 0.3, 0.6]))
    wide, narrow = (of_outcomes(p, q, 0, stable=stable) for stable in (False, True))
    assert (narrow.width <= wide.width + 1e-12).all()
    assert narrow.width.sum() < 0.6 * wide.width.sum()


def test_equal_ratios_are_equal_despite_rounding():
    """0.1 / 0.2 and 0.3 / 0.6 differ in the last digit; a stable coupling still moves nothing between them."""
    p, q = np.array([0.1, 0.3, 0.6]), np.array([0.2, 0.6, 0.2])
    upper = outcome_bounds(*logs(p, q), 0, stable=True).upper
    assert float(upper[1]) == 0


def stable_range(worlds, i, j):
    """The least and the largest P(i in the first world, j in the second) that is stable for every two of the worlds.

    A linear programme over what one value of the noise can yield in each world.
    """
    responses = [()]
    for here, world in enumerate(worlds):
        changes = [world - other for other in worlds[:here]]
        responses = [
            (*each, y)
            for each in responses
            for y in range(len(world))
            if all(x == y or change[y] - change[x] > 1e-9 for x, change in zip(each, changes, strict=True))
        ]
    table = np.array(responses)
    sums = np.concatenate([(table == outcome).T for outcome in range(len(worlds[0]))]).astype(float)
    probs = np.exp(worlds) / np.exp(worlds).sum(axis=1, keepdims=True)
    counted = ((table[:, 0] == i) & (table[:, 1] == j)).astype(float)
    return [sign * linprog(sign * counted, A_eq=sums, b_eq=probs.T.ravel()).fun for sign in (1, -1)]


def test_a_third_world_leaves_of_three_outcomes_stable_couplings_only_gumbel_max():
    """It is the first world, with the outcome that gains most raised by what it gains on the second."""
    pairs = [np.log([[0.3, 0.4, 0.3], [0.1, 0.3, 0.6]]), *np.random.default_rng(0).normal(size=(5, 2, 3))]
    assert stable_range(pairs[0], 0, 2) == pytest.approx([0, 0.2])
    for p, q in pairs:
        _, second, most = np.argsort(q - p)
        third = p + ((q - p)[most] - (q - p)[second]) * np.eye(3)[most]
        joint = np.asarray(GumbelMax().joint(p, q))
        for i, j in np.ndindex(3, 3):
            assert stable_range([p, q, third], i, j) == pytest.approx([joint[i, j]] * 2, abs=1e-8)
    assert GumbelMax().joint(*pairs[0])[0, 2] == pytest.approx(1 / 6)


def test_stable_ranges_of_four_outcomes_narrow_around_gumbel_max_as_worlds_are_added():
    p, q = np.log([0.4, 0.3, 0.2, 0.1]), np.log([0.1, 0.2, 0.3, 0.4])
    gain = q - p
    third = p + (gain[3] - gain[2]) * np.array([0, 0, 0, 1])
    fourth = third + (gain[2] - gain[1]) * np.array([0, 0, 1, 1])
    halves = [p + (gain - gain[3]) * (*each, 0) for each in product((0, 0.5, 1), repeat=3) if 0 < sum(each) < 3]
    families = [[p, q], [p, q, third, fourth], [p, q, third, fourth, *halves]]
    ranges = [stable_range(worlds, 0, 2) for worlds in families]
    assert ranges[0] == pytest.approx([0, 0.3])
    assert ranges[1] == pytest.approx([3 / 70, 9 / 70])
    assert ranges[2] == pytest.approx([0.0741196, 0.1272928], abs=1e-6)
    assert all(low < GumbelMax().joint(p, q)[0, 2] < high for low, high in ranges)


def test_single_precision_keeps_four_digits():
    bounds = partial(of_scores, stable=True)
    for seed in range(40):
        p, q, x, score = random_query(seed)
        single = [each.astype(np.float32) for each in (*logs(p, q), score)]
        np.testing.assert_allclose(bounds(single[0], single[1], x, single[2]), bounds(*logs(p, q), x, score), atol=1e-4)


def test_bounds_hold_where_probabilities_are_nearly_one_or_vanish():
    """In single precision 1 - q_j has no digits where q_j is nearly one, and exp(160) overflows."""
    single = np.float32
    np.testing.assert_array_equal(of_outcomes(single([0, -25]), single([0, -20]), 1).lower, [0, 0])
    np.testing.assert_array_equal(of_outcomes(single([80, -80]), single([80, -80]), 1), [[0, 0], [1, 1]])
    p, q = single([80, -80, 10]), single([80, -80, 20])
    np.testing.assert_array_equal(of_outcomes(p, q, 1, stable=True), [[0, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(of_scores(p, q, 1, single([0, 1, 2]), stable=True), [1, 1])


@pytest.mark.parametrize("stable", [False, True])
def test_gradients_of_bounds_are_finite(stable):
    def total(p, q):
        ends = outcome_bounds(p, q, 2, stable=stable), score_bounds(p, q, 2, np.float32([0, 1, 2, 1]), stable=stable)
        return sum(each.sum() for each in jax.tree.leaves(ends))

    gradients = jax.jit(jax.grad(total, (0, 1)))(np.float32([80, -80, 0, 1]), np.float32([-80, 80, 0, 1]))
    assert all(np.isfinite(each).all() for each in gradients)


def test_stable_outcome_bounds_keep_four_digits_in_single_precision():
    bounds = partial(of_outcomes, stable=True)
    p, q = [-1.13985, 7.99036, 1.79648, -4.86857, 8.6468], [-7.39761, 0.92333, -8.39728, -11.74193, 7.19655]
    rng = np.random.default_rng(0)
    pairs = [np.array([p, q]), *(scale * rng.normal(size=(2, 5)) for scale in (1, 5, 20) for _ in range(30))]
    for pair in pairs:
        single = pair.astype(np.float32)
        for x in (0, 3):
            np.testing.assert_allclose(bounds(*single, x), bounds(*single.astype(float), x), atol=1e-4)


def test_rooms_are_filled_one_after_the_other():
    np.testing.assert_allclose(filled(np.array([0.3, 0.5, 0.4, 1.0])), [0.3, 0.5, 0.2, 0.0])
    np.testing.assert_allclose(filled(np.array([[0.3, 0.5], [0.1, 0.2]]), 0.4), [[0.3, 0.1], [0.1, 0.2]])
    assert filled_mean(np.array([0.25, 2.0]), np.array([4.0, 1.0])) == pytest.approx(1.75)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_who_is_better_off_are_those_of_a_linear_program(seed):
    stream = np.random.default_rng(seed)
    size = int(stream.integers(2, 6))
    p, q = (stream.dirichlet(np.full(size, 0.6)) for _ in range(2))
    here, there = (stream.integers(0, 4, size).astype(float) for _ in range(2))
    rises = (there[None, :] > here[:, None]).ravel().astype(float)
    sums = np.concatenate([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    limits = [sign * linprog(sign * rises, A_eq=sums, b_eq=np.concatenate([p, q])).fun for sign in (1, -1)]
    with jax.enable_x64(True):
        found = better_bounds(np.log(p), np.log(q), here, there)
    np.testing.assert_allclose([found.lower, found.upper], limits, atol=1e-8)
