"""What the gadgets promise beyond the common laws, which the conformance suite checks."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import AWKWARD, softmax

from countermax import Gadget1, Gadget2, GumbelMax, InputError, InverseCDF, race
from countermax._pairs import RandomPairs
from countermax.couplings import BinnedInverseCDF, Constant, Diagonal, Perceptron, ReferenceTransport
from countermax.learning._recipe import barycenter
from studies.table1 import implicit_floor

KEY = jax.random.key(0)


@eqx.filter_jit
def joint(gadget, p, q):
    return gadget.joint(p, q)


@eqx.filter_jit
def gradient_of_joint(params, rest, p, q, weights):
    return jax.grad(lambda each: (eqx.combine(each, rest).joint(p, q) * weights).sum())(params)


def sharp_gadget2(size, num_latents, **options):
    """A table with entries far apart, as training makes them: most conditional probabilities vanish."""
    gadget = Gadget2(size, num_latents, key=KEY, part=Constant(num_latents, size, key=KEY), **options)
    return eqx.tree_at(lambda each: each.part.values, gadget, 60 * gadget.part.values)


def test_gadget_2_with_one_latent_is_gumbel_max():
    p, q = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    np.testing.assert_allclose(joint(Gadget2(7, 1, key=KEY), p, q), joint(GumbelMax(), p, q), atol=1e-6)


def test_gadget_1_on_the_diagonal_is_gumbel_max():
    p, q = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    gadget = Gadget1(7, key=KEY, part=Diagonal(7, 200.0), shared=True)
    np.testing.assert_allclose(joint(gadget, p, q), joint(GumbelMax(), p, q), atol=1e-6)


@pytest.mark.usefixtures("double")
def test_the_law_of_cells_is_the_sum_over_all_pairs_of_cells():
    """K^4 terms by brute force, from the law of Gumbel-max over K^2 cells."""
    rng, size = np.random.default_rng(1), 4
    log_p = jax.nn.log_softmax(rng.normal(size=size))
    split = jax.nn.log_softmax(2 * rng.normal(size=(size, size)), axis=1)
    cells = jax.nn.log_softmax(2 * rng.normal(size=size * size)).reshape(size, size)
    everything = race.joint((log_p[:, None] + split).ravel(), cells.ravel())
    expected = np.zeros((size, size))
    for first, second in itertools.product(range(size**2), repeat=2):
        expected[first // size, second % size] += everything[first, second]
    found = jnp.exp(log_p)[:, None] * race.rows_of_cells(log_p, split, cells)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize(
    "gadget", [Gadget1(200, key=KEY, hidden=(4,)), Gadget2(200, 3, key=KEY, hidden=(4,))], ids=["1", "2"]
)
def test_marginals_are_exact_for_hundreds_of_outcomes(gadget):
    p, q = np.random.default_rng(5).normal(size=(2, 200)).astype(np.float32)
    p[::7] = q[::5] = -np.inf
    law = joint(gadget, p, q)
    np.testing.assert_allclose(law.sum(axis=1), softmax(p), atol=2e-6)
    np.testing.assert_allclose(law.sum(axis=0), softmax(q), atol=2e-6)


@pytest.mark.parametrize("correction", ["round-off", "accept-reject"])
@pytest.mark.parametrize("rounds", [0, 1, 30])
def test_marginals_are_exact_for_sharp_tables_and_any_number_of_rounds(correction, rounds):
    gadget = sharp_gadget2(8, 12, rounds=rounds, correction=correction)
    p, q = 3 * np.random.default_rng(2).normal(size=(2, 8)).astype(np.float32)
    law = joint(gadget, p + 5, q - 5)  # unnormalised on purpose
    np.testing.assert_allclose(law.sum(axis=1), softmax(p), atol=2e-6)
    np.testing.assert_allclose(law.sum(axis=0), softmax(q), atol=2e-6)


def test_gradients_in_single_precision_are_those_in_double():
    """At vanishing probabilities naive derivatives are amplified rounding, and training diverges."""

    sharp = sharp_gadget2(10, 8)

    def gradient(dtype):
        gadget = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), dtype), sharp)
        p, q = (jnp.asarray(each, dtype) for each in 3 * np.random.default_rng(3).normal(size=(2, 10)))
        loss = jnp.asarray((np.arange(10)[:, None] - np.arange(10)[None, :]) ** 2, dtype)
        params, rest = eqx.partition(gadget, eqx.is_inexact_array)
        return np.asarray(gradient_of_joint(params, rest, p, q, loss).part.values)

    single = gradient(jnp.float32)
    with jax.enable_x64(True):
        double = gradient(jnp.float64)
    np.testing.assert_allclose(single, double, atol=2e-4 * np.abs(double).max())


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize(
    "make", [lambda size: Gadget1(size, key=KEY, hidden=(8,)), lambda size: Gadget2(size, 3, key=KEY, hidden=(8,))]
)
def test_gradients_are_finite_with_impossible_outcomes(name, make):
    p, q = (jnp.asarray(each, jnp.float32) for each in AWKWARD[name])
    params, rest = eqx.partition(make(p.size), eqx.is_inexact_array)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(p.size, p.size)), jnp.float32)
    gradient = gradient_of_joint(params, rest, p, q, weights)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_gadget_2_changes_nothing_without_an_intervention():
    gadget = Gadget2(5, 4, key=KEY, hidden=(8,))
    logits = np.array([0.3, -np.inf, 1.0, -2.0, 0.0], np.float32)
    keys = jax.random.split(KEY, 500)
    y = eqx.filter_jit(jax.vmap(lambda key: gadget.counterfactual(logits, logits, 2, key=key)))(keys)
    assert (y == 2).all()


def test_a_row_of_gadget_2_builds_no_matrix():
    gadget, size = Gadget2(300, 4, key=KEY, part=Constant(4, 300, key=KEY), rounds=3), 300
    p, q = jax.nn.log_softmax(jnp.asarray(np.random.default_rng(0).normal(size=(2, size)), jnp.float32), axis=1)
    shapes = [
        variable.aval.shape
        for equation in jax.make_jaxpr(lambda p, q: gadget._counterfactual_probs(p, q, jnp.asarray(3)))(p, q).eqns
        for variable in equation.outvars
    ]
    assert max(int(np.prod(shape)) for shape in shapes) <= 4 * 3 * size


@pytest.mark.parametrize("num_latents", [20, 100])
def test_the_binned_inverse_cdf_starts_near_the_inverse_cdf(num_latents):
    size = 6
    score = np.array([3.0, 1.0, 2.0, 0.0, 5.0, 4.0])
    gadget = Gadget2(size, num_latents, key=KEY, start=BinnedInverseCDF(num_latents, score), hidden=(8,))
    p, q = np.random.default_rng(4).normal(size=(2, size)).astype(np.float32)
    loss = (score[:, None] - score[None, :]) ** 2
    best = float((joint(InverseCDF.sorted_by(score), p, q) * loss).sum())
    assert best <= float((joint(gadget, p, q) * loss).sum()) < best * (1 + 3 / num_latents)


def test_transport_from_the_barycenter_beats_gumbel_max_before_any_training():
    scores = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    pairs = RandomPairs(6, scale=4.0)
    points, _, _ = barycenter(scores, 24, pairs, key=KEY, num_worlds=60, num_rounds=4)
    gadget = Gadget2(
        6, 24, key=KEY, start=ReferenceTransport(points.astype(np.float32), scores), hidden=(8,), rounds=60
    )
    floor = implicit_floor(scores, pairs, key=KEY, num_points=48, num_worlds=60, num_rounds=4)
    loss = ((scores[:, None] - scores[None]) ** 2).sum(axis=2)
    keys = jax.random.split(jax.random.key(5), 60)
    p, q = jax.vmap(pairs)(keys)
    laws = (jax.vmap(joint, (None, 0, 0))(each, p, q) for each in (gadget, GumbelMax()))
    learned, gumbel = (float((law * loss[None]).sum(axis=(1, 2)).mean()) for law in laws)
    assert floor.loss * 0.8 < learned < 0.9 * gumbel
    assert 0 < floor.above_optimum < gumbel / floor.optimum - 1  # a mechanism cannot see both worlds; Gumbel-max is one


def test_presets_are_the_papers():
    gadget = Gadget2.as_published(10, key=KEY)
    assert [weight.shape for weight in gadget.part.weights] == [(1024, 10), (1024, 1024), (200, 1024)]
    assert (gadget.rounds, gadget.relaxation, gadget.momentum, gadget.correction) == (10, 1.0, 0.0, "accept-reject")
    assert not gadget.learn_latents
    assert Gadget1.as_published(10, key=KEY).other_part is not None


def test_bad_parts_are_refused(as_users_call):
    with pytest.raises(InputError, match=r"`part` must yield a matrix of shape \(4, 5\), got \(3, 5\)"):
        Gadget2(5, 4, key=KEY, part=Constant(3, 5, key=KEY))
    with pytest.raises(InputError, match="`activation` must be one of"):
        Perceptron(2, 3, key=KEY, activation="step")
    with pytest.raises(InputError, match="`correction` must be one of"):
        Gadget2(5, key=KEY, correction="none")
    with pytest.raises(InputError, match="this Gadget2 is for 5 outcomes"):
        Gadget2(5, key=KEY, hidden=(4,)).joint(np.zeros(4), np.zeros(4))
    with pytest.raises(InputError, match="give `part` and `other_part`"):
        Gadget1(5, key=KEY, part=Constant(5, 5, key=KEY))
