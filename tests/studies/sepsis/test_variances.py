"""Variances of effects and their optima: against enumeration, linear programs and brute force."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from countermax.couplings import Comonotone
from studies.sepsis import _variances as variances


def random_problem(seed, size=5):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(size * size)).reshape(size, size)
    return joint, rng.normal(size=(size, 2)), rng.normal(size=(size, 2)), rng


def over_everybody(joints, score, other):
    squares = ((score[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)
    expected = np.array([(joint * squares).sum() for joint in joints])
    p, q = (np.stack([joint.sum(axis=axis) for joint in joints]) for axis in (1, 0))
    return variances.over_everybody(expected, p, q, score, other)


@pytest.mark.parametrize("seed", range(3))
def test_variances_are_those_of_the_enumerated_effect(seed):
    joint, score, other, _ = random_problem(seed)
    effects = other[None, :, :] - score[:, None, :]
    mean = np.einsum("xy,xyd->d", joint, effects)
    total = np.einsum("xy,xyd->", joint, (effects - mean) ** 2)
    np.testing.assert_allclose(over_everybody([joint], score, other), [total, 0], atol=1e-12)
    split = variances.given_what_was_seen(joint[None], score, other)
    np.testing.assert_allclose(split.within + split.between, total)
    rows = joint / joint.sum(axis=1, keepdims=True)
    within = 0.0
    for x, row in enumerate(rows):
        spread = row @ ((other - row @ other) ** 2).sum(axis=1)
        within += joint[x].sum() * spread
        np.testing.assert_allclose(variances.given_one_outcome(joint[None], other, x).within, spread)
    np.testing.assert_allclose(split.within, within)


def test_several_queries_add_the_variance_of_their_means():
    first, score, other, _ = random_problem(0)
    second = random_problem(1)[0]
    parts = [over_everybody([each], score, other).within for each in (first, second)]
    both = over_everybody([first, second], score, other)
    np.testing.assert_allclose(both.within, np.mean(parts))
    np.testing.assert_allclose(sum(both), over_everybody([(first + second) / 2], score, other).within)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("seed", range(4))
def test_the_least_variance_given_what_was_seen_is_that_of_the_best_order(seed):
    """Brute force over all orders of stretches, and no vertex of the transport polytope does better."""
    joint, _, other, rng = random_problem(seed, size=4)
    p, q, h = joint.sum(axis=1), joint.sum(axis=0), other[:, 0]
    found = []
    for order in itertools.permutations(range(4)):
        rank = np.argsort(order).astype(float)
        found.append(
            variances.given_what_was_seen(
                np.asarray(Comonotone(rank, h).joint(np.log(p), np.log(q)))[None], h[:, None], h[:, None]
            ).within
        )
    least = variances.least_given_what_was_seen(p[None], q[None], h)
    np.testing.assert_allclose(least, [min(found)], atol=1e-12)
    marginals = np.concatenate([np.kron(np.eye(4), np.ones(4)), np.kron(np.ones(4), np.eye(4))])
    for _ in range(60):
        vertex = linprog(rng.normal(size=16), A_eq=marginals, b_eq=np.concatenate([p, q])).x.reshape(4, 4)
        assert variances.given_what_was_seen(vertex[None], h[:, None], h[:, None]).within > least[0] - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_least_variance_given_one_outcome_is_that_of_the_best_part_of_q(seed):
    """No part of q of the right mass, at the vertices of all such parts, has less variance."""
    joint, _, other, rng = random_problem(seed)
    p, q, h = joint.sum(axis=1), joint.sum(axis=0), other[:, 0]
    outcome = int(p.argmax())
    least = variances.least_given_one_outcome(p[None], q[None], h, outcome)[0]
    reached = np.inf
    for centre in np.linspace(h.min(), h.max(), 400):
        solved = linprog(
            (h - centre) ** 2, A_eq=np.ones((1, 5)), b_eq=[1.0], bounds=[(0, each / p[outcome]) for each in q]
        )
        share = solved.x
        reached = min(reached, share @ (h - share @ h) ** 2)
    np.testing.assert_allclose(least, reached, atol=1e-6)
