"""Losses, what couplings make of them, and sizes that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax import Gadget2, GumbelMax, InputError
from countermax.learning import GivenOutcome, MatrixLoss, SquaredDifference
from countermax.learning._losses import expected_losses, least_losses

KEY = jax.random.key(0)
P, Q = (np.asarray(each, np.float32) for each in np.random.default_rng(0).normal(size=(2, 4)))
LOG_P, LOG_Q = jax.nn.log_softmax(P), jax.nn.log_softmax(Q)
MATRIX = SquaredDifference(np.arange(4.0))(LOG_P, LOG_Q)


def test_a_loss_given_an_outcome_is_an_ordinary_loss():
    base = SquaredDifference(np.arange(4.0))
    rows = jax.vmap(lambda x: GumbelMax().counterfactual_probs(P, Q, x))(jnp.arange(4))
    by_outcome = (rows * MATRIX).sum(axis=1)
    law = GumbelMax().joint(P, Q)
    for outcome in range(4):
        found = (law * GivenOutcome(base, outcome)(LOG_P, LOG_Q)).sum()
        assert float(found) == pytest.approx(float(by_outcome[outcome]), rel=1e-5)
    averaged = (law * GivenOutcome(base)(LOG_P, LOG_Q)).sum()
    assert float(averaged) == pytest.approx(float(by_outcome.mean()), rel=1e-5)


SCORE = SquaredDifference(np.arange(4.0))
ROWS = np.tile(np.log(0.25), (3, 4))


@pytest.mark.parametrize(
    ("loss", "log_p", "log_q", "message"),
    [
        (SCORE, ROWS[:, :3], ROWS[:, :3], "`score` is for 4 outcomes, but the pairs have 3"),
        (MatrixLoss(np.zeros((3, 3))), ROWS, ROWS, "`matrix` is for 3 outcomes, but the pairs have 4"),
        (lambda p, q: jnp.zeros((4, 3)), ROWS, ROWS, r"`loss` must give a matrix of 4 by 4 .* got shape \(4, 3\)"),
        (lambda p, q: jnp.zeros(()), ROWS, ROWS, r"got shape \(\)"),
        (SCORE, ROWS, ROWS[:2], r"same shape, a row for each pair, got \(3, 4\) and \(2, 4\)"),
        (SCORE, ROWS[0], ROWS[0], r"got \(4,\) and \(4,\)"),
    ],
    ids=["score", "matrix", "not square", "a number", "not paired", "one pair without its row"],
)
def test_sizes_that_do_not_fit_are_refused_in_words(loss, log_p, log_q, message, as_users_call):
    for ask in (lambda: expected_losses(GumbelMax(), loss, log_p, log_q), lambda: least_losses(loss, log_p, log_q)):
        with pytest.raises(InputError, match=message):
            ask()


def test_a_coupling_for_another_number_of_outcomes_is_refused(as_users_call):
    gadget = Gadget2(3, 2, key=KEY, hidden=(4,))
    with pytest.raises(InputError, match="this Gadget2 is for 3 outcomes, but the logits have 4"):
        expected_losses(gadget, SCORE, ROWS, ROWS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SquaredDifference(np.array([0.0, np.inf])), "`score` must be finite"),
        (lambda: SquaredDifference(np.zeros(3), np.zeros(4)), "both scores must have one shape"),
        (lambda: MatrixLoss(np.zeros((2, 3))), "`matrix` must be square"),
    ],
)
def test_bad_input_is_refused(make, message, as_users_call):
    with pytest.raises(InputError, match=message):
        make()
