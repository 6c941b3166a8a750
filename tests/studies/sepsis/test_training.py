"""What is trained in the sepsis experiment: on what can be reached, and for what is reported."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from countermax.couplings import Constant, Gadget2, Perceptron
from countermax.learning import FixedPair, GivenOutcome, SquaredDifference, Training, fit
from studies.processes import sepsis
from studies.sepsis import _variances as variances
from studies.sepsis._queries import random_reward, run_pipeline
from studies.sepsis._variances import ScoreProducts, VarianceGivenSeen


def narrowed(part, successors, size):
    """The same part for the outcomes that can be reached: its parameters for the others are left out."""
    if isinstance(part, Constant):
        return eqx.tree_at(lambda each: each.values, part, part.values[:, successors])
    last = part.weights[-1].reshape(part.num_rows, size, -1)[:, successors]
    bias = part.biases[-1].reshape(part.num_rows, size)[:, successors]
    weights = (part.weights[0][:, successors], *part.weights[1:-1], last.reshape(-1, last.shape[2]))
    return eqx.tree_at(lambda each: (each.weights, each.biases), part, (weights, (*part.biases[:-1], bias.ravel())))


@pytest.mark.slow
@pytest.mark.usefixtures("double")
def test_training_on_what_can_be_reached_is_training_on_everything():
    """146 outcomes, of which p or q can reach nine: the same loss and the same step of Adam, again and again."""
    asked = run_pipeline(as_published=False).queries[1].query
    size, key = sepsis.NUM_PROJECTED, jax.random.key(0)
    reward = random_reward(0, as_published=False)
    network = Perceptron(3, size, key=key, hidden=(6,), features="probabilities")
    wide = np.full((2, size), -np.inf)
    wide[:, asked.successors] = asked.p, asked.q
    losses, laws = [], []
    for part, (p, q), score in (
        (network, wide, reward),
        (narrowed(network, asked.successors, size), (asked.p, asked.q), reward[asked.successors]),
    ):
        params, rest = eqx.partition(Gadget2(len(score), 3, key=key, part=part, rounds=2), eqx.is_inexact_array)
        p, q = jnp.asarray(p), jnp.asarray(q)
        matrix = SquaredDifference(score)(p, q)

        @jax.jit
        def step(params, p=p, q=q, matrix=matrix, rest=rest):
            def expected(params):
                law = eqx.combine(params, rest)._joint(p, q)
                return (law * matrix).sum(), law

            return jax.value_and_grad(expected, has_aux=True)(params)

        optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))
        state = optimizer.init(params)
        for _ in range(4):
            (loss, law), gradient = step(params)
            updates, state = optimizer.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
            losses.append(float(loss))
        laws.append(np.asarray(law))
    np.testing.assert_allclose(losses[:4], losses[4:], rtol=1e-9)
    assert losses[3] < losses[0]
    np.testing.assert_allclose(laws[0][np.ix_(asked.successors, asked.successors)], laws[1], atol=1e-9)
    np.testing.assert_allclose(laws[0].sum(), laws[1].sum())


@pytest.mark.slow
@pytest.mark.usefixtures("double")
def test_whole_trainings_agree_with_and_without_unreachable_outcomes():
    asked = run_pipeline(as_published=False).queries[1].query
    size, key = sepsis.NUM_PROJECTED, jax.random.key(0)
    reward = random_reward(0, as_published=False)
    constant = Constant(3, size, key=key)
    wide = np.full((2, size), -np.inf)
    wide[:, asked.successors] = asked.p, asked.q
    fits = [
        fit(
            Gadget2(len(score), 3, key=key, part=part, rounds=3),
            FixedPair(*pair),
            SquaredDifference(score),
            Training(steps=200),
            key=key,
        )
        for part, pair, score in (
            (constant, wide, reward),
            (narrowed(constant, asked.successors, size), (asked.p, asked.q), reward[asked.successors]),
        )
    ]
    np.testing.assert_allclose(fits[0].history.held_out, fits[1].history.held_out, rtol=1e-6)
    full, small = fits[0].coupling.joint(*wide), fits[1].coupling.joint(asked.p, asked.q)
    np.testing.assert_allclose(full[np.ix_(asked.successors, asked.successors)], small, atol=1e-6)


@pytest.mark.usefixtures("double")
def test_what_is_trained_is_what_is_reported():
    rng = np.random.default_rng(0)
    log_p, log_q = np.log(rng.dirichlet(np.ones(4), 2))
    log_p[3] = -np.inf
    log_p -= np.log(np.exp(log_p).sum())
    score, other = rng.normal(size=(2, 4, 2))
    gadget = Gadget2(4, 3, key=jax.random.key(0), hidden=(4,), rounds=3)
    joint = np.asarray(gadget.joint(log_p, log_q))
    matrix = ScoreProducts(jnp.asarray(other))(jnp.asarray(log_p), jnp.asarray(log_q))
    value = VarianceGivenSeen()(gadget, jnp.asarray(log_p), jnp.asarray(log_q), matrix, key=jax.random.key(1))
    np.testing.assert_allclose(value, variances.given_what_was_seen(joint[None], score, other).within)
    one = GivenOutcome(SquaredDifference(score, other), 2)
    given = joint[2] / joint[2].sum()
    moment = given @ ((score[2] - other) ** 2).sum(axis=1)
    np.testing.assert_allclose((joint * one(jnp.asarray(log_p), jnp.asarray(log_q))).sum(), moment)
