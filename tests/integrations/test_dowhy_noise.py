"""A mechanism's noise in one number: the law of the mechanism itself, and outcomes of any rarity explained."""

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from countermax import Gadget1, Gadget2, GumbelMax, InputError, InverseCDF, Maximal
from countermax.integrations.dowhy._noise import RaceNoise, _fractions, _scrambled, _unscrambled, noise_of

P, Q = np.array([0.3, 0.0, 0.4, 0.25, 0.05]), np.array([0.1, 0.2, 0.3, 0.0, 0.4])
NUM_DRAWS = 200_000
FALSE_ALARM = 1e-6  # of each test; the seeds are fixed


def mechanisms():
    return {
        "Gumbel-max": GumbelMax(),
        "inverse CDF": InverseCDF(),
        "inverse CDF in an order": InverseCDF([3, 0, 4, 1, 2]),
        "Gadget 2": Gadget2(5, 3, key=jax.random.key(1), hidden=(4,), rounds=1),
    }


def rows(probs, count):
    return np.tile(probs, (count, 1))


@given(st.integers(0, 2**53 - 1), st.integers(0, 200))
def test_copies_of_a_number_can_be_turned_round(number, copy):
    bits, which = np.array([number], np.uint64), np.uint64(copy)
    scrambled = _scrambled(bits, which)
    assert scrambled[0] < 2**53
    assert _unscrambled(scrambled, which)[0] == number


@pytest.mark.parametrize("numbers", ["random", "successive", "high bits only"])
def test_copies_are_uniform_and_independent(numbers):
    drawn = {
        "random": np.random.default_rng(0).integers(0, 2**53, 2**18, dtype=np.uint64),
        "successive": np.arange(2**18, dtype=np.uint64),
        "high bits only": np.arange(2**18, dtype=np.uint64) << np.uint64(35),
    }[numbers]
    copies = [_fractions(_scrambled(drawn, np.uint64(copy))) for copy in range(4)]
    for first in range(4):
        for second in range(first):
            cells = np.histogram2d(copies[first], copies[second], bins=32, range=[[0, 1], [0, 1]])[0]
            assert stats.chisquare(cells.ravel()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", mechanisms())
def test_two_worlds_with_one_noise_have_the_mechanisms_joint_law(name):
    mechanism = mechanisms()[name]
    noise = noise_of(mechanism)
    num_draws = 20_480 if name == "Gadget 2" else NUM_DRAWS
    numbers = np.random.default_rng(0).random(num_draws)
    x, y = (noise.respond(rows(probs, num_draws), numbers) for probs in (P, Q))
    found = np.zeros((5, 5))
    np.add.at(found, (x, y), 1)
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        law = np.asarray(eqx.filter_jit(mechanism.joint)(np.log(P), np.log(Q)))
    possible = law > 1e-9
    assert found[~possible].sum() == 0
    assert stats.chisquare(found[possible], law[possible] / law[possible].sum() * num_draws).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", mechanisms())
def test_what_was_seen_is_explained_and_its_counterfactuals_have_their_exact_law(name):
    mechanism = mechanisms()[name]
    noise = noise_of(mechanism)
    uniforms = np.random.default_rng(2)
    count = 8192
    exact = eqx.filter_jit(mechanism.counterfactual_probs)
    for x in np.flatnonzero(P):
        seen = np.full(count, x)
        numbers = noise.abduct(rows(P, count), seen, uniforms)
        assert ((numbers >= 0) & (numbers < 1)).all()
        assert (noise.respond(rows(P, count), numbers) == seen).all()
        found = np.bincount(noise.respond(rows(Q, count), numbers), minlength=5)
        with jax.enable_x64(True), np.errstate(divide="ignore"):
            law = np.asarray(exact(np.log(P), np.log(Q), int(x)))
        possible = law > 1e-9
        assert found[~possible].sum() == 0
        if possible.sum() > 1:
            expected = law[possible] / law[possible].sum() * count
            assert stats.chisquare(found[possible], expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("rarity", [1e-4, 1e-8, 1e-12])
def test_rare_outcomes_are_explained_by_noise_of_the_right_law(rarity):
    """If x wins, the time of the race is Exp(1) whoever wins, so x's own number is Exp(1) times its probability."""
    count = 4000
    noise = RaceNoise(None)
    numbers = noise.abduct(rows([1 - rarity, rarity], count), np.ones(count, int), np.random.default_rng(0))
    assert (noise.respond(rows([1 - rarity, rarity], count), numbers) == 1).all()
    bits = (numbers * 2.0**53).astype(np.uint64)
    times = -np.log1p(-_fractions(_scrambled(bits, np.uint64(1)))) / rarity
    assert stats.kstest(times, "expon").pvalue > FALSE_ALARM


@pytest.mark.parametrize("mechanism", [GumbelMax(), InverseCDF()])
def test_outcomes_below_the_grid_of_numbers_are_refused(mechanism):
    probs = np.array([[0.5, 1e-18, 0.5]])
    with pytest.raises(InputError, match="too unlikely to be explained"):
        noise_of(mechanism).abduct(probs, np.array([1]), np.random.default_rng(0))


def test_mechanisms_that_are_no_function_of_noise_are_refused():
    with pytest.raises(InputError, match="Gadget 1 is not: it reads its noise by rows in one world"):
        noise_of(Gadget1(3, key=jax.random.key(0), hidden=(4,)))
    with pytest.raises(InputError, match="got Maximal"):
        noise_of(Maximal())
