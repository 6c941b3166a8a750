"""Vector quantiles: a mechanism for several scores at once, its law, its reference, and what it reduces to."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax import InputError, InverseCDF, Optimal, VectorQuantile
from countermax._pairs import draw_pairs
from countermax.couplings import _plans, _reference
from countermax.couplings._named import as_coupling, named_couplings
from countermax.couplings._reference import scores_of_loss
from countermax.learning import (
    Disagreement,
    FixedPair,
    GivenOutcome,
    MatrixLoss,
    ObservedPairs,
    RandomPairs,
    SquaredDifference,
)
from countermax.learning._losses import expected_losses, least_losses
from countermax.testing import check_coupling

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(6, 2)).astype(np.float32)
POINTS = RNG.normal(size=(9, 2)).astype(np.float32)
P, Q = (3 * RNG.normal(size=(2, 6))).astype(np.float32)
QUANTILE = VectorQuantile(POINTS, SCORES)


def squares(scores):
    return ((scores[:, None] - scores[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("law", ["both marginals", "the joint's row", "explains", "exchanged", "refused", "(random)"])
def test_the_laws_that_are_quickly_checked(law):
    check_coupling(QUANTILE, 6, key=KEY, only=law).raise_if_broken()


def test_one_score_is_the_inverse_cdf_in_its_order():
    score = np.array([3.0, 0.0, 1.0, 1.0, -2.0, 5.0], np.float32)
    for points in (np.zeros((1, 1)), RNG.normal(size=(7, 1))):
        vector, line = VectorQuantile(points, score), InverseCDF.sorted_by(score)
        np.testing.assert_array_equal(vector.joint(P, Q), line.joint(P, Q))
        np.testing.assert_array_equal(vector.counterfactual_probs(P, Q, 3), line.counterfactual_probs(P, Q, 3))
    fitted = VectorQuantile.fit(score, RandomPairs(6), key=KEY)
    np.testing.assert_array_equal(fitted.joint(P, Q), line.joint(P, Q))
    assert as_coupling("vector-quantile", 6, score=score).joint(P, Q).tolist() == line.joint(P, Q).tolist()


def test_a_plan_is_an_optimal_vertex_with_exact_marginals():
    with jax.enable_x64(True):
        vector = VectorQuantile(POINTS.astype(float), SCORES.astype(float), weights=np.arange(1.0, 10.0))
        log_p = jax.nn.log_softmax(jnp.asarray(P, float))
        plan = np.asarray(vector._shares(log_p) * jnp.exp(log_p)[:, None]).T
    assert (plan > 0).sum() <= 9 + 6 - 1
    np.testing.assert_allclose(plan.sum(axis=1), np.arange(1, 10) / 45, atol=1e-15)
    np.testing.assert_allclose(plan.sum(axis=0), np.exp(log_p), atol=1e-15)
    from scipy.optimize import linprog

    costs = ((POINTS[:, None].astype(float) - SCORES[None]) ** 2).sum(axis=2)
    rows, columns = np.kron(np.eye(9), np.ones(6)), np.kron(np.ones(9), np.eye(6))
    limits = np.concatenate([plan.sum(axis=1), plan.sum(axis=0)])
    least = linprog(costs.ravel(), A_eq=np.concatenate([rows, columns]), b_eq=limits).fun
    assert (plan * costs).sum() <= least + _plans.TIE_BREAKING * costs.max()


def test_ties_and_equal_points_change_nothing_but_by_rounding():
    tied = VectorQuantile(np.zeros((4, 2)), np.array([[0, 0], [0, 0], [1, 0], [1, 0], [0, 1], [0, 1]]))
    near = P + np.float32(1e-6) * Q
    assert np.abs(tied.joint(P, Q) - tied.joint(near, Q)).max() < 1e-4
    assert np.abs(tied.joint(P, P) - np.diag(jax.nn.softmax(P))).max() < 1e-6


def test_a_world_that_is_asked_again_is_not_solved_again(monkeypatch):
    solved = []
    monkeypatch.setattr(_plans, "_KEPT", _plans._Kept())
    whole = _plans.transport_shares
    monkeypatch.setattr(_plans, "transport_shares", lambda *given: solved.append(1) or whole(*given))
    for x in range(3):
        QUANTILE.counterfactual_probs(P, Q, x)
    QUANTILE.joint(Q, P)
    assert len(solved) == 2
    QUANTILE.joint(P + 1e-3 * Q, Q)
    assert len(solved) == 3
    VectorQuantile(POINTS + 1, SCORES).joint(P, Q)
    assert len(solved) == 5


def test_no_more_plans_are_kept_than_memory_is_set_aside_for(monkeypatch):
    kept = _plans._Kept()
    monkeypatch.setattr(_plans, "_KEPT", kept)
    monkeypatch.setattr(_plans, "_MOST_KEPT", 3000)
    for shift in range(20):
        QUANTILE.joint(P + shift * Q, Q)
    assert 0 < kept._size <= 3000
    assert kept._size == sum(_plans._bytes(each) for each in kept._plans.values())


def test_batches_are_their_members_under_jit_and_vmap():
    ps, qs = (2 * RNG.normal(size=(2, 5, 6))).astype(np.float32)
    joints = eqx.filter_jit(lambda each: jax.vmap(each.joint)(ps, qs))(QUANTILE)
    for place in range(5):
        np.testing.assert_allclose(joints[place], QUANTILE.joint(ps[place], qs[place]), atol=1e-6)
    many = eqx.filter_vmap(lambda points: VectorQuantile(points, SCORES[:, :1]).joint(P, Q))(
        jnp.asarray(RNG.normal(size=(3, 4, 1)))
    )
    assert many.shape == (3, 6, 6)


def test_gradients_are_refused_by_name():
    with pytest.raises(InputError, match="`VectorQuantile` of several scores has no gradient.*Gadget2"):
        jax.grad(lambda p: QUANTILE.joint(p, Q)[0, 0])(P)


@pytest.mark.parametrize(
    ("noise", "message"), [((9, 0.5), r"lie in \[0, 9\)"), ((-1, 0.5), r"\[0, 9\)"), ((0, 1.0), r"\[0, 1\)")]
)
def test_noise_that_cannot_be_is_refused(noise, message):
    with pytest.raises(InputError, match=message):
        QUANTILE.respond(type(QUANTILE.noise(6, key=KEY))(*map(jnp.asarray, noise)), P)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((POINTS[:, :1], SCORES), "same dimension, got 1 and 2"),
        ((POINTS, SCORES * np.nan), "`scores` must be finite"),
        ((POINTS, SCORES * np.float32(1e30)), "must not exceed"),
        ((np.zeros((0, 2)), SCORES), "`points` must be"),
    ],
)
def test_what_is_no_reference_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        VectorQuantile(*arguments)
    with pytest.raises(InputError, match="one positive number for each of 9 points"):
        VectorQuantile(POINTS, SCORES, weights=np.zeros(9))


def test_one_fixed_pair_gets_its_optimum():
    fitted = VectorQuantile.fit(SCORES, FixedPair(P, Q), key=KEY)
    assert fitted.num_atoms <= 11
    assert fitted.expected_loss(P, Q, squares(SCORES)) <= 1.001 * Optimal(squares(SCORES)).cost(P, Q)


def test_fitting_beats_every_order_and_nears_the_floor():
    scores = np.random.default_rng(1).normal(size=(8, 3))
    pairs = RandomPairs(8)
    log_p, log_q = draw_pairs(pairs, 200, key=jax.random.key(1))
    loss = SquaredDifference(scores)
    fitted = VectorQuantile.fit(scores, pairs, key=KEY, num_atoms=64, num_worlds=100, num_restarts=2, num_rounds=4)
    again = VectorQuantile.fit(scores, pairs, key=KEY, num_atoms=64, num_worlds=100, num_restarts=2, num_rounds=4)
    np.testing.assert_array_equal(fitted.points, again.points)
    optimum = least_losses(loss, log_p, log_q).mean()
    found = {"fitted": fitted, **{str(each): InverseCDF.sorted_by(scores[:, each]) for each in range(3)}}
    above = {
        name: float(expected_losses(each, loss, log_p, log_q).mean()) / optimum - 1 for name, each in found.items()
    }
    assert 0 <= above["fitted"] < 0.1
    assert min(value for name, value in above.items() if name != "fitted") > above["fitted"] + 0.05


def test_rounds_are_many_where_they_are_cheap_and_see_no_world_twice(monkeypatch):
    seen = {}

    def idle(scores, worlds, weights, points):
        seen.setdefault(len(points), []).append(worlds)
        return points, 0.0

    monkeypatch.setattr(_reference, "_round", idle)
    monkeypatch.setattr(_reference, "_PAIRS_FOR_STARTS", 1)
    VectorQuantile.fit(SCORES, RandomPairs(6), key=KEY, num_atoms=1024, num_restarts=1)
    for atoms, rounds in ((256, 24), (1024, 12)):
        worlds = np.concatenate(seen[atoms])
        assert worlds.shape == (rounds * 200, 6)
        assert len(np.unique(worlds, axis=0)) == len(worlds)


def test_a_table_of_pairs_is_fitted_to_its_own_worlds_by_weight():
    log_p, log_q = (2 * RNG.normal(size=(2, 3, 6))).astype(np.float32)
    loss = squares(SCORES)

    def above(weights, place):
        pairs = ObservedPairs(log_p, log_q, weights)
        fitted = VectorQuantile.fit(SCORES, pairs, key=KEY, num_atoms=64, num_restarts=1)
        return fitted.expected_loss(log_p[place], log_q[place], loss) / Optimal(loss).cost(log_p[place], log_q[place])

    assert above(np.array([1.0, 0.0, 0.0]), 0) < 1.001
    assert above(np.array([1.0, 1.0, 1.0]), 0) < 1.5


def test_disagreement_is_a_squared_distance_in_disguise():
    scores = scores_of_loss(1 - np.eye(5))
    np.testing.assert_allclose(squares(scores), 1 - np.eye(5), atol=1e-12)
    np.testing.assert_allclose(squares(scores_of_loss(squares(SCORES))), squares(SCORES), atol=1e-5)
    line = np.abs(np.arange(4.0)[:, None] - np.arange(4.0))
    np.testing.assert_allclose(squares(scores_of_loss(line)), line, atol=1e-12)
    assert scores_of_loss(np.zeros((3, 3))).shape == (3, 1)
    fitted = VectorQuantile.for_loss(Disagreement(), FixedPair(P, Q), key=KEY)
    stay = 1 - np.eye(6, dtype=np.float32)
    assert fitted.expected_loss(P, Q, stay) <= 1.001 * Optimal(stay).cost(P, Q)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (np.triu(np.ones((6, 6)), 1), "symmetric.*train a `Gadget2`"),
        (np.ones((6, 6)), "zero where the outcome stays"),
        ((np.arange(6.0)[:, None] - np.arange(6.0)) ** 4, "conditionally negative definite.*`countermax.fit`"),
        (GivenOutcome(Disagreement()), "the same for all pairs"),
        (np.full((6, 6), np.nan), "finite"),
        (MatrixLoss(np.zeros((5, 5))), "for 5 outcomes"),
    ],
)
def test_a_loss_that_no_distance_represents_is_refused_in_words(loss, message):
    with pytest.raises(InputError, match=message):
        VectorQuantile.for_loss(loss, RandomPairs(6), key=KEY)


def test_it_goes_by_its_name_wherever_couplings_are_named():
    pairs = FixedPair(P, Q)
    named = named_couplings(score=SCORES, pairs=pairs)
    assert list(named) == ["Gumbel-max", "inverse CDF", "vector quantile", "maximal", "independent"]
    assert "vector quantile" not in named_couplings(score=SCORES)
    assert "vector quantile" not in named_couplings(score=SCORES[:, 0])
    assert isinstance(as_coupling("vector-quantile", score=SCORES, pairs=pairs), VectorQuantile)
    for options, message in (
        ({}, "only with a `score` beside it"),
        ({"score": SCORES}, "fit it with `VectorQuantile.fit`"),
        ({"score": SCORES, "counterfactual_score": 2 * SCORES, "pairs": pairs}, "both worlds have the same scores"),
    ):
        with pytest.raises(InputError, match=message):
            as_coupling("vector-quantile", **options)
    with pytest.raises(InputError, match="one number for each outcome"):
        as_coupling("inverse-cdf-by-score", score=SCORES)
