"""A mechanism's noise in one number: the law of the mechanism itself, whatever it is, and what is seen explained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from countermax import Gadget2, GumbelMax, InputError, InverseCDF
from countermax.couplings import AbstractCoupling, AbstractMechanism

pytest.importorskip("dowhy.gcm")
from countermax.integrations.dowhy._mechanism import abduct, draw, respond  # noqa: E402

P, Q = np.array([0.3, 0.0, 0.4, 0.25, 0.05]), np.array([0.1, 0.2, 0.3, 0.0, 0.4])
FALSE_ALARM = 1e-6  # of each test; the seeds are fixed


class Ours(AbstractMechanism, AbstractCoupling):
    """Two independent races, and a uniform number that chooses between them: not one of the library's mechanisms."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        key_place, key_races = jax.random.split(key)
        return jax.random.uniform(key_place, (), dtype), jax.random.gumbel(key_races, (2, num_outcomes), dtype)

    def _respond(self, noise, log_p):
        place, races = noise
        return jnp.argmax(races[(place > 0.25).astype(int)] + log_p)

    def _abduct(self, log_p, x, *, key):
        raise NotImplementedError

    def _joint(self, log_p, log_q):
        return GumbelMax()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return GumbelMax()._counterfactual_probs(log_p, log_q, x)


MECHANISMS = {
    "Gumbel-max": GumbelMax,
    "inverse CDF": InverseCDF,
    "inverse CDF in an order": lambda: InverseCDF([3, 0, 4, 1, 2]),
    "Gadget 2": lambda: Gadget2(5, 3, key=jax.random.key(1), hidden=(4,), rounds=1),
    "one's own": Ours,
}


def rows(probs, count):
    return np.tile(probs, (count, 1))


def exact(method, *worlds):
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        return np.asarray(eqx.filter_jit(method)(*(np.log(each) if np.ndim(each) else each for each in worlds)))


def assert_follows(counts, law):
    assert counts[law <= 1e-9].sum() == 0
    counts, law = counts[law > 1e-9], law[law > 1e-9]
    assert law.size == 1 or stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", MECHANISMS)
def test_two_worlds_with_one_noise_have_the_mechanisms_joint_law(name):
    mechanism, count = MECHANISMS[name](), 40_960
    numbers = draw(count, np.random.default_rng(0).random)
    found = np.zeros((5, 5))
    np.add.at(found, tuple(respond(mechanism, rows(probs, count), numbers) for probs in (P, Q)), 1)
    assert_follows(found, exact(mechanism.joint, P, Q))


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_was_seen_is_explained_and_its_counterfactuals_have_their_exact_law(name):
    mechanism, count = MECHANISMS[name](), 8000
    rng = np.random.default_rng(2)
    for x in np.flatnonzero(P):
        seen = np.full(count, x)
        numbers = abduct(mechanism, rows(P, count), seen, rng.random)
        assert ((numbers >= 0) & (numbers < 1)).all()
        assert (respond(mechanism, rows(P, count), numbers) == seen).all()
        found = np.bincount(respond(mechanism, rows(Q, count), numbers), minlength=5)
        assert_follows(found, exact(mechanism.counterfactual_probs, P, Q, int(x)))


def test_rare_outcomes_are_explained_by_noise_of_the_right_law():
    count, p, q = 300, np.array([0.6, 0.399, 0.001]), np.array([0.9985, 0.001, 0.0005])
    numbers = abduct(GumbelMax(), rows(p, count), np.full(count, 2), np.random.default_rng(0).random)
    assert (respond(GumbelMax(), rows(p, count), numbers) == 2).all()
    law = exact(GumbelMax().counterfactual_probs, p, q, 2)
    assert law.max() < 0.8  # something is left to the noise
    assert_follows(np.bincount(respond(GumbelMax(), rows(q, count), numbers), minlength=3), law)


@pytest.mark.parametrize(("rarity", "count"), [(1 / 3, 2000), (1e-2, 300), (1e-5, 5)])
def test_the_effort_is_some_times_one_over_the_probability(rarity, count):
    drawn = []

    def uniforms(size):
        drawn.append(size)
        return np.random.default_rng(len(drawn)).random(size)

    numbers = abduct(GumbelMax(), rows([1 - rarity, rarity], count), np.ones(count, int), uniforms)
    assert (respond(GumbelMax(), rows([1 - rarity, rarity], count), numbers) == 1).all()
    assert len(drawn) * 2**14 < 3 * count / rarity + 4 * 2**14  # a batch is so many tries, full or not


def test_rows_of_very_different_rarity_are_explained_together():
    probs = np.stack([1 - 10.0 ** -np.arange(1, 5), 10.0 ** -np.arange(1, 5)], axis=1)[np.arange(400) % 4]
    x = np.arange(400) // 4 % 2
    numbers = abduct(GumbelMax(), probs, x, np.random.default_rng(0).random)
    assert (respond(GumbelMax(), probs, numbers) == x).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_row_responds_alone_as_it_does_among_others(name):
    mechanism = MECHANISMS[name]()
    rng = np.random.default_rng(0)
    probs, numbers = rng.dirichlet(np.ones(5), 5000), draw(5000, rng.random)
    together = respond(mechanism, probs, numbers)
    for few in (slice(4995, 5000), slice(100), slice(7, 8)):
        assert (respond(mechanism, probs[few], numbers[few]) == together[few]).all()


def test_settings_of_jax_change_nothing():
    probs, numbers = rows(P, 500), draw(500, np.random.default_rng(0).random)
    expected = respond(GumbelMax(), probs, numbers)
    with jax.threefry_partitionable(False), jax.default_prng_impl("rbg"), jax.enable_x64(True):
        assert (respond(GumbelMax(), probs, numbers) == expected).all()


def test_fifteen_digits_of_a_number_are_enough():
    numbers = draw(4096, np.random.default_rng(0).random)
    numbers[0] = 1 - 2.0**-48  # the largest
    written = np.array([float(f"{number:.15g}") for number in numbers])
    assert (written != numbers).any()
    probs = rows(np.full(50, 0.02), 4096)
    assert (respond(GumbelMax(), probs, written) == respond(GumbelMax(), probs, numbers)).all()
    assert len(np.unique(respond(GumbelMax(), probs, numbers))) == 50


def test_outcomes_that_would_take_too_long_are_refused_at_once():
    probs = np.array([[0.5, 0.5, 0], [0.5, 1e-12, 0.5]])
    with pytest.raises(InputError, match=r"about 1e\+12 tries.* row 1 .* probability 1e-12; .* more `smoothing`"):
        abduct(GumbelMax(), probs, np.array([1, 1]), np.random.default_rng(0).random)


def test_a_mechanism_that_never_yields_a_class_is_named():
    class Stubborn(Ours):
        def _respond(self, noise, log_p):
            return jnp.argmax(log_p)

    with pytest.raises(InputError, match="this Stubborn never yielded one of probability 0.25; see what `countermax.t"):
        abduct(Stubborn(), rows(P, 3), np.array([2, 3, 2]), np.random.default_rng(0).random)


@pytest.mark.parametrize("number", [-0.1, 1.0, np.nan])
def test_noise_that_is_no_noise_is_refused(number):
    with pytest.raises(InputError, match=r"must lie in \[0, 1\)"):
        respond(GumbelMax(), rows(P, 2), np.array([0.5, number]))
