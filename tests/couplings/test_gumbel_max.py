"""Gumbel-max with clocks that two worlds share in part: its ends, its noise, its names, and who takes it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from asking import counterfactuals
from processes import LOG, MDP, POLICY
from scipy.integrate import quad

from countermax import GumbelMax, Independent, InputError, SharedGumbelMax, Worlds, effects, load, race, save
from countermax.couplings import AbstractMechanism, Gadget1, InverseCDF
from countermax.couplings._gumbel_max import noise_correlation
from countermax.couplings._named import as_coupling, as_couplings, is_same, name_of
from countermax.mdp import Cohort
from countermax.testing import check_coupling

P, Q = np.log([0.3, 0.4, 0.3]), np.log([0.1, 0.3, 0.6])


def test_gumbel_max_computes_the_race_and_nothing_else():
    """Bit by bit, and by the very program: no rate is a number in it."""
    p, q = (jnp.asarray(each, jnp.float32) for each in (P, Q))
    for coupling in (GumbelMax(), as_coupling("gumbel-max-shared-1")):
        assert not jax.tree.leaves(coupling)
        program = jax.make_jaxpr(lambda p, q, coupling=coupling: coupling._joint(p, q))(p, q)
        assert str(program) == str(jax.make_jaxpr(lambda p, q: race.joint(p, q))(p, q))
    inside = jax.jit(lambda p, q: GumbelMax().joint(p, q))
    np.testing.assert_array_equal(inside(p, q), GumbelMax().joint(p, q))
    noise = GumbelMax().noise(3, key=jax.random.key(0))
    np.testing.assert_array_equal(noise, jax.random.gumbel(jax.random.key(0), (3,)))
    assert GumbelMax().swap(noise) is noise


@pytest.mark.usefixtures("double")
def test_both_ends_are_couplings_of_this_library():
    for seed in range(5):
        p, q = np.random.default_rng(seed).normal(size=(2, 6)) * 4
        np.testing.assert_allclose(SharedGumbelMax(0).joint(p, q), Independent().joint(p, q), atol=1e-14)
        traced = jax.jit(lambda rate, p=p, q=q: SharedGumbelMax(rate).joint(p, q))(1.0)
        np.testing.assert_allclose(traced, GumbelMax().joint(p, q), atol=1e-14)
        np.testing.assert_allclose(SharedGumbelMax(1).joint(p, q), GumbelMax().joint(p, q), atol=1e-14)


def test_rates_that_are_none_are_refused(as_users_call):
    for bad, message in (
        (-0.1, "`shared` must lie between 0 and 1, got -0.1"),
        (1.5, "`shared` must lie between 0 and 1, got 1.5"),
        (float("nan"), "`shared` must lie between 0 and 1, got nan"),
        ([0.5], "`shared` must be one number, got shape"),
        ("half", "`shared` must be one number, got 'half'"),
        (True, "`shared` must hold real numbers"),
    ):
        with pytest.raises(InputError, match=message):
            SharedGumbelMax(bad)


@pytest.mark.usefixtures("double")
def test_gradients_with_respect_to_the_rate_are_differences():
    def kept(rate):
        return SharedGumbelMax(rate).counterfactual_probs(P, Q, 1)[1]

    slope = float(jax.grad(kept)(0.4))
    assert slope == pytest.approx(float(kept(0.4 + 1e-6) - kept(0.4 - 1e-6)) / 2e-6, abs=1e-8)
    own = eqx.filter_grad(lambda each: each.counterfactual_probs(P, Q, 1)[1])(SharedGumbelMax(0.4))
    assert float(own.shared) == pytest.approx(slope)


def test_the_squared_difference_is_that_of_the_law():
    coupling, score = SharedGumbelMax(0.3), np.arange(3.0)
    expected = (coupling.joint(P, Q) * (score[:, None] - score[None, :]) ** 2).sum()
    assert float(coupling.expected_squared_difference(P, Q, score)) == pytest.approx(float(expected), abs=1e-6)
    assert float(effects.treatment_effect(coupling, P, Q, score).mean) == pytest.approx(0.5, abs=1e-6)


def test_swap_exchanges_the_clocks_of_ones_own():
    coupling = SharedGumbelMax(0.5)
    noise = coupling.noise(4, key=jax.random.key(1))
    swapped = coupling.swap(noise)
    np.testing.assert_array_equal(swapped.shared, noise.shared)
    np.testing.assert_array_equal(swapped.own, noise.other)
    assert eqx.tree_equal(coupling.swap(swapped), noise)


def test_in_between_it_is_no_mechanism():
    assert isinstance(GumbelMax(), AbstractMechanism)
    assert isinstance(InverseCDF(), AbstractMechanism)
    for other in (
        SharedGumbelMax(0.5),
        SharedGumbelMax(0),
        Independent(),
        Gadget1(2, key=jax.random.key(0), hidden=(2,)),
    ):
        assert not isinstance(other, AbstractMechanism)
    law = SharedGumbelMax(0.5).joint(P, P)
    assert float(jnp.trace(law)) < 0.9  # where nothing is done something may change
    assert float(jnp.trace(GumbelMax().joint(P, P))) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.3, 1 - 1e-6, 1.0])
def test_abducted_noise_explains_what_was_seen_at_all_rates(rate):
    coupling, p = SharedGumbelMax(rate), np.array([0.0, -30.0, 2.0, -np.inf], np.float32)

    @jax.jit
    def explained(x, key):
        return coupling._respond(
            coupling._abduct(jax.nn.log_softmax(jnp.asarray(p)), x, key=key), jax.nn.log_softmax(p)
        )

    for x in (0, 1, 2):
        keys = jax.random.split(jax.random.key(x), 20_000)
        assert (jax.vmap(explained, (None, 0))(jnp.asarray(x), keys) == x).all()


@pytest.mark.parametrize("law", ["both marginals", "the joint's row", "explains what was seen", "(random)"])
def test_it_obeys_the_laws_that_are_quickly_checked(law):
    check_coupling(SharedGumbelMax(0.4), 4, key=jax.random.key(0), only=law).raise_if_broken()


def test_the_correlation_is_the_integral_and_that_of_drawn_noise():
    """Quadrature of Tiago de Oliveira's formula; then a million draws, within 4.9 standard errors (level 1e-6)."""
    for rate in (0.0, 1e-9, 0.2, 0.5, 0.9, 1 - 1e-9, 1.0):
        whole = 2 * quad(lambda w, rate=rate: -np.log1p(-rate * w) / (w * (1 - w)), 0, 0.5)[0]
        assert float(noise_correlation(rate)) == pytest.approx(whole * 6 / np.pi**2, abs=1e-12)
    shared, own, other = np.random.default_rng(0).gumbel(size=(3, 1_000_000))
    first, second = (np.maximum(shared + np.log(0.4), each + np.log(0.6)) for each in (own, other))
    products = (first - first.mean()) * (second - second.mean()) / (first.std() * second.std())
    assert abs(products.mean() - float(noise_correlation(0.4))) < 4.9 * products.std() / 1000
    assert SharedGumbelMax(0.5).noise_correlation == pytest.approx(0.4548, abs=1e-4)
    assert SharedGumbelMax(1).noise_correlation == pytest.approx(1, abs=1e-12)
    assert (np.diff(noise_correlation(np.linspace(0, 1, 1001))) > 0).all()


def test_it_is_saved_and_found_by_name(tmp_path, as_users_call):
    stored = load(save(SharedGumbelMax(0.25), tmp_path / "quarter.safetensors"))
    assert is_same(stored, SharedGumbelMax(0.25))
    assert is_same(load(save(GumbelMax(), tmp_path / "whole.safetensors")), GumbelMax())
    assert is_same(as_coupling("gumbel-max-shared-0.25"), SharedGumbelMax(0.25))
    assert is_same(as_coupling("gumbel-max-shared-1"), GumbelMax())
    assert [name_of(each) for each in ("gumbel-max-shared-0.3", SharedGumbelMax(0.3), GumbelMax())] == [
        "Gumbel-max shared 0.3",
        "Gumbel-max shared 0.3",
        "Gumbel-max",
    ]
    assert list(as_couplings(["gumbel-max", "gumbel-max-shared-0.5"])) == ["Gumbel-max", "Gumbel-max shared 0.5"]
    with pytest.raises(InputError, match="must differ from each other"):
        as_couplings(["gumbel-max-shared-0.5", "gumbel-max-shared-0.50"])
    for bad in ("gumbel-max-shared-2", "gumbel-max-shared-", "gumbel-max-shared-nan"):
        with pytest.raises(
            InputError, match="gumbel-max-shared-RATE with a rate from 0 to 1, nested-.* or a file with one, got"
        ):
            as_coupling(bad)


def test_tables_and_comparisons_take_it_by_name():
    table = pd.DataFrame({"y": ["a", "b"], "p_a": 0.6, "p_b": 0.4, "q_a": 0.3, "q_b": 0.7})
    asked = {"outcome": "y", "factual": "p_", "counterfactual": "q_"}
    found = counterfactuals(table, **asked, coupling="gumbel-max-shared-0.5")
    with jax.enable_x64(True):
        expected = SharedGumbelMax(0.5).counterfactual_probs(np.log([0.6, 0.4]), np.log([0.3, 0.7]), 0)
    np.testing.assert_allclose(
        found.loc[0, ["counterfactual_a", "counterfactual_b"]].astype(float), expected, atol=1e-9
    )
    assert "Gumbel-max shared 0.5" in str(found.attrs["countermax"])
    asked = Worlds([0.6, 0.4], [0.3, 0.7]).compare(0, couplings=["gumbel-max", "gumbel-max-shared-0.5"])
    np.testing.assert_allclose(asked.probabilities["Gumbel-max shared 0.5"], expected, atol=1e-12)


def test_trajectories_take_it_and_do_not_mistake_it_for_gumbel_max():
    """The compiled engine knows Gumbel-max and not its dial, and at rate 0 the replay is that of independence."""
    found = {
        name: Cohort(LOG, POLICY, process=MDP, censored="model").replay(coupling).values
        for name, coupling in (
            ("none", SharedGumbelMax(0)),
            ("half", SharedGumbelMax(0.5)),
            ("all", GumbelMax()),
            ("independent", Independent()),
        )
    }
    np.testing.assert_allclose(found["none"], found["independent"], atol=1e-6)
    assert np.abs(found["half"] - found["all"]).max() > 1e-3
    assert np.abs(found["half"] - found["none"]).max() > 1e-3
