"""Distributions of pairs, and what is drawn from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax import InputError
from countermax._pairs import draw_pairs
from countermax.learning import FixedPair, ObservedPairs, PerturbedPair, RandomPairs

KEY = jax.random.key(0)
P, Q = (np.asarray(each, np.float32) for each in np.random.default_rng(0).normal(size=(2, 4)))
LOG_P, LOG_Q = jax.nn.log_softmax(P), jax.nn.log_softmax(Q)


def test_distributions_draw_what_they_promise():
    p, q = draw_pairs(RandomPairs(5, mirrored=True), 7, key=KEY)
    np.testing.assert_allclose(q, p[:, ::-1])
    p, q = draw_pairs(FixedPair(P, Q), 100, key=KEY)
    assert p.shape == (1, 4)
    p, _ = draw_pairs(PerturbedPair(P, Q, 0.0), 3, key=KEY)
    np.testing.assert_allclose(p[0], LOG_P, atol=1e-6)
    noisy, _ = draw_pairs(PerturbedPair(np.array([0.0, -np.inf, 1.0]), np.zeros(3), 1.0), 50, key=KEY)
    assert (noisy[:, 1] == -jnp.inf).all()
    seen = ObservedPairs(np.stack([P, Q]), np.stack([Q, P]), weights=np.array([0.0, 1.0]))
    p, _ = draw_pairs(seen, 20, key=KEY)
    np.testing.assert_allclose(p, np.tile(np.asarray(LOG_Q), (20, 1)), atol=1e-6)
    assert draw_pairs(ObservedPairs(np.stack([P, Q]), np.stack([Q, P])), 20, key=KEY)[0].shape == (2, 4)


def test_no_more_pairs_are_drawn_than_there_are():
    one = ObservedPairs(P[None], Q[None])
    for pairs, count in ((FixedPair(P, Q), 1), (one, 1), (RandomPairs(4), 7), (PerturbedPair(P, Q, 1.0), 7)):
        assert len(draw_pairs(pairs, 7, key=KEY)[0]) == count
        assert pairs.num_distinct in (None, count)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ObservedPairs(np.zeros((2, 3)), np.zeros((2, 4))), "same shape"),
        (lambda: ObservedPairs(np.array([[0.0, np.nan]]), np.zeros((1, 2))), "row 0 has NaN"),
        (lambda: ObservedPairs(np.zeros((2, 3)), np.zeros((2, 3)), weights=np.array([-1.0, 2.0])), "non-negative"),
        (lambda: PerturbedPair(P, Q, -1.0), "`scale` must be at least 0.0, got -1.0"),
        (lambda: RandomPairs(4, scale=float("inf")), "`scale` must be a finite number"),
        (lambda: RandomPairs(2.5), "`num_outcomes` must be a whole number"),
        (lambda: draw_pairs(RandomPairs(4), 0, key=KEY), "at least 1"),
        (lambda: draw_pairs(RandomPairs(10), 10**9, key=KEY), "1000000000 pairs of 10 outcomes would need"),
        (lambda: draw_pairs(RandomPairs(10**9), 64, key=KEY), "64 pairs of 1000000000 outcomes would need"),
        (lambda: draw_pairs(lambda key: (P, Q[:2]), 3, key=KEY), "two vectors of logits of one length"),
    ],
)
def test_bad_input_is_refused(make, message, as_users_call):
    with pytest.raises(InputError, match=message):
        make()
