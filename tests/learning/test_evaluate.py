"""Evaluation on common pairs, and the optimum that it is measured against."""

import io
import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from countermax import GumbelMax, Independent, InputError, InverseCDF, Maximal, Optimal, evaluate
from countermax._pairs import draw_pairs
from countermax.learning import Disagreement, FixedPair, MatrixLoss, RandomPairs, SquaredDifference
from countermax.learning._losses import least_losses

KEY = jax.random.key(0)
SCORE = np.array([2.0, 0.0, 1.0, 3.0])
COUPLINGS = {"Gumbel-max": GumbelMax(), "independent": Independent(), "sorted": InverseCDF.sorted_by(SCORE)}


@pytest.fixture(scope="module")
def evaluation():
    return evaluate(COUPLINGS, RandomPairs(4), SquaredDifference(SCORE), key=KEY, num_pairs=120)


def test_losses_are_exact_and_paired(evaluation):
    p, q = draw_pairs(RandomPairs(4), 120, key=KEY)
    loss = SquaredDifference(SCORE)(p[0], q[0])
    for name, coupling in COUPLINGS.items():
        expected = (jax.jit(lambda p, q, each=coupling: each.joint(p, q))(p[7], q[7]) * loss).sum()
        assert evaluation.losses[name][7] == pytest.approx(float(expected), rel=1e-5)
    rows = evaluation.by_coupling
    assert rows["sorted"]["above_optimum"] == pytest.approx(0, abs=1e-5)
    assert rows["Gumbel-max"]["difference"] == 0
    differences = evaluation.losses["independent"] - evaluation.losses["Gumbel-max"]
    assert rows["independent"]["difference_error"] == pytest.approx(differences.std(ddof=1) / np.sqrt(120))
    assert rows["independent"]["difference_error"] < rows["independent"]["standard_error"]


@pytest.mark.parametrize(
    "loss",
    [
        SquaredDifference(SCORE),
        Disagreement(),
        SquaredDifference(SCORE, -SCORE),
        MatrixLoss(np.arange(16.0).reshape(4, 4)),
    ],
    ids=["scalar", "disagreement", "a score for each world", "matrix"],
)
def test_the_optimum_is_the_transport_problems(loss):
    p, q = draw_pairs(RandomPairs(4), 10, key=KEY)
    found = least_losses(loss, p, q)
    cost = jax.jit(lambda a, b: Optimal(loss(a, b)).cost(a, b))
    expected = [float(cost(a, b)) for a, b in zip(p, q, strict=True)]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_maximal_coupling_attains_the_least_disagreement():
    result = evaluate({"maximal": Maximal()}, RandomPairs(5), Disagreement(), key=KEY, num_pairs=20)
    np.testing.assert_allclose(result.losses["maximal"], result.optimum, atol=1e-5)


def test_it_shows_itself(evaluation):
    console = Console(file=io.StringIO(), width=120)
    console.print(evaluation)
    shown = " ".join(console.file.getvalue().split())
    assert "Expected loss (SquaredDifference) on held-out pairs (RandomPairs)" in shown
    assert "above the optimum" in shown
    assert "Sample: 120 held-out pairs" in shown
    found = evaluation.row("expected loss", "independent")
    error = evaluation.by_coupling["independent"]["standard_error"]
    assert found.ci_upper - found.value == pytest.approx(1.96 * error, rel=1e-3)
    assert evaluation.row("above the optimum", "optimum").value == 0
    about = evaluation.to_dict()
    assert (about["loss"], about["pairs"], about["num_pairs"]) == ("SquaredDifference", "RandomPairs", 120)
    assert evaluation.sheet().markdown().startswith("| coupling | loss | standard_error |")
    assert isinstance(evaluation.plot(), Figure)


def test_what_is_no_number_is_none_in_json(evaluation):
    broken = replace(evaluation, losses={**evaluation.losses, "independent": np.full(120, np.nan)})
    assert broken.to_dict()["by_coupling"]["independent"]["loss"] is None
    assert json.loads(broken.to_json())["by_coupling"]["independent"]["difference"] is None


def test_a_function_is_called_by_its_name():
    def distance(log_p, log_q):
        return jnp.abs(jnp.arange(4.0)[:, None] - jnp.arange(4.0)[None, :])

    assert evaluate(["maximal"], RandomPairs(4), distance, key=KEY, num_pairs=3).loss == "distance"


def test_one_pair_has_no_standard_error():
    rows = evaluate(COUPLINGS, FixedPair(np.zeros(4), np.arange(4.0)), SquaredDifference(SCORE), key=KEY).by_coupling
    assert rows["Gumbel-max"]["standard_error"] is None
    assert rows["Gumbel-max"]["above_optimum"] > 0


def test_bad_input_is_refused(as_users_call):
    for couplings, reference, message in (
        ({}, None, "at least one coupling"),
        ({"it": jnp.zeros(3)}, None, "must be a coupling with an exact law"),
        (COUPLINGS, "nobody", "`reference` must be one of"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(couplings, RandomPairs(4), Disagreement(), key=KEY, reference=reference)
    with pytest.raises(InputError, match="`key` must be one key of random numbers"):
        evaluate(COUPLINGS, RandomPairs(4), Disagreement(), key=0)


def test_a_loss_that_is_no_number_is_an_error():
    def poisoned(log_p, log_q):
        return jnp.where(log_p[0] > log_p[1], jnp.nan, 1.0) * jnp.ones((4, 4))

    with pytest.raises(InputError, match="the loss of 'Gumbel-max' is not finite on pair"):
        evaluate({"Gumbel-max": "gumbel-max"}, RandomPairs(4), poisoned, key=KEY, num_pairs=20)


@pytest.mark.parametrize(
    ("pairs", "num_pairs", "message"),
    [
        (RandomPairs(4), 0, "`num_pairs` must be at least 1, got 0"),
        (RandomPairs(4), 2.5, "`num_pairs` must be a whole number, got 2.5"),
        (RandomPairs(10), 10**9, "drawing 1000000000 pairs of 10 outcomes would need about"),
        (RandomPairs(10**9), 1, "drawing 1 pairs of 1000000000 outcomes would need about"),
        (RandomPairs(10**6), 1, "the loss of 1 pairs of 1000000 outcomes would need about"),
    ],
)
def test_numbers_that_cannot_be_are_refused_at_once(pairs, num_pairs, message, as_users_call, monkeypatch):
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "4")
    with pytest.raises(InputError, match=message):
        evaluate(["gumbel-max"], pairs, Disagreement(), key=KEY, num_pairs=num_pairs)


def test_no_coupling_takes_the_row_of_the_optimum():
    with pytest.raises(InputError, match="no coupling can be called 'optimum'"):
        evaluate({"optimum": GumbelMax()}, RandomPairs(4), Disagreement(), key=KEY, num_pairs=2)
