"""The conformance suite on every coupling, and on mutants that it must catch."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import countermax
from countermax import (
    AbstractArgmaxSampler,
    AbstractCoupling,
    AbstractMatrixCoupling,
    AbstractMechanism,
    BinnedInverseCDF,
    Gadget1,
    Gadget2,
    GumbelMax,
    Independent,
    InputError,
    InverseCDF,
    Maximal,
    Optimal,
)
from countermax.testing import Conformance, Law, check_coupling

NUM_SAMPLES = 100_000  # the mutants below are far off; finer deviations are the slow test's business

KEY = jax.random.key(7)

COUPLINGS = {
    "Gadget1": lambda size: Gadget1(size, key=KEY, hidden=(8,)),
    "Gadget1 with one set of parameters": lambda size: Gadget1(size, key=KEY, hidden=(8,), shared=True),
    "Gadget2": lambda size: Gadget2(size, 5, key=KEY, hidden=(8,)),
    "Gadget2 at the inverse CDF": lambda size: Gadget2(
        size, 6, key=KEY, start=BinnedInverseCDF(6, np.arange(size) * 1.0)
    ),
    "Gadget2 with accept-reject": lambda size: Gadget2(
        size, 4, key=KEY, hidden=(8,), correction="accept-reject", rounds=2
    ),
    "Independent": lambda size: Independent(),
    "GumbelMax": lambda size: GumbelMax(),
    "InverseCDF": lambda size: InverseCDF(),
    "InverseCDF in another order": lambda size: InverseCDF(np.random.default_rng(0).permutation(size)),
    "Maximal": lambda size: Maximal(),
    "Optimal": lambda size: Optimal(np.random.default_rng(0).normal(size=(size, size))),
}


FIXED = [name for name in COUPLINGS if not name.startswith("Gadget")]
QUICK = [*((name, 7) for name in FIXED), ("GumbelMax", 1), ("InverseCDF", 1), ("Gadget1", 5), ("Gadget2", 5)]


@pytest.mark.parametrize(("name", "size"), QUICK)
def test_every_coupling_obeys_every_law(name, size):
    check_coupling(COUPLINGS[name](size), size, key=jax.random.key(0), num_samples=NUM_SAMPLES).raise_if_broken()


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", [*FIXED, "Gadget2 with accept-reject"])
def test_every_coupling_obeys_every_law_in_double_precision(name):
    check_coupling(COUPLINGS[name](5), 5, key=jax.random.key(1), num_samples=NUM_SAMPLES).raise_if_broken()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 30])
@pytest.mark.parametrize("name", COUPLINGS)
def test_every_coupling_obeys_every_law_with_millions_of_draws(name, size):
    check_coupling(COUPLINGS[name](size), size, key=jax.random.key(2), num_samples=2_000_000).raise_if_broken()


class _Mutant(AbstractMechanism, AbstractCoupling):
    """Gumbel-max by delegation, so that each mutant changes one thing."""

    def noise(self, num_outcomes, *, key, dtype=float):
        return GumbelMax().noise(num_outcomes, key=key, dtype=dtype)

    def swap(self, noise):
        return noise

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, log_p)

    def _abduct(self, log_p, x, *, key):
        return GumbelMax()._abduct(log_p, x, key=key)

    def _joint(self, log_p, log_q):
        return GumbelMax()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return GumbelMax()._counterfactual_probs(log_p, log_q, x)


class _AbductionIgnoresTheObservation(_Mutant):
    def _abduct(self, log_p, x, *, key):
        return self.noise(log_p.size, key=key, dtype=log_p.dtype)


class _TruncatedAtTheWrongValue(_Mutant):
    """The losers stay below the winner's *noise* instead of its score."""

    def _abduct(self, log_p, x, *, key):
        key_best, key_rest = jax.random.split(key)
        best = jax.random.gumbel(key_best, (), log_p.dtype) - log_p[x]
        rest = jax.random.gumbel(key_rest, log_p.shape, log_p.dtype)
        return (-jnp.logaddexp(-best * jnp.ones_like(rest), -rest)).at[x].set(best)


class _WorldsSwappedInTheLaw(_Mutant):
    def _joint(self, log_p, log_q):
        return GumbelMax()._joint(log_q, log_p)


class _WorldsSwappedInTheAnswer(_Mutant):
    def _counterfactual_probs(self, log_p, log_q, x):
        return GumbelMax()._counterfactual_probs(log_q, log_p, x)


class _MarginalOffByOnePercent(_Mutant):
    def _joint(self, log_p, log_q):
        law = GumbelMax()._joint(log_p, log_q)
        return (law.at[0].multiply(1.01)) / (law.at[0].multiply(1.01)).sum()


class _DrawsOffByOnePercent(_Mutant):
    """One time in a hundred the first outcome is reported whatever was drawn."""

    def noise(self, num_outcomes, *, key, dtype=float):
        key_fault, key_noise = jax.random.split(key)
        noise = GumbelMax().noise(num_outcomes, key=key_noise, dtype=dtype)
        return noise.at[0].add(jnp.where(jax.random.bernoulli(key_fault, 0.01), 500, 0))


class _DrawsTheImpossible(AbstractMatrixCoupling):
    """Smoothing that nobody asked for."""

    def _joint(self, log_p, log_q):
        return Independent()._joint(log_p, jnp.maximum(log_q, -12))

    def _counterfactual_probs(self, log_p, log_q, x):
        return jax.nn.softmax(jnp.maximum(log_q, -12))


class _KnowsTenOutcomes(_Mutant):
    def _joint(self, log_p, log_q):
        size = min(log_p.size, 10)
        return jnp.zeros((log_p.size, log_p.size)).at[:size, :size].set(GumbelMax()._joint(log_p, log_q)[:size, :size])


class _RareRowsAreAnothers(_Mutant):
    """Where x is rare, the answer is the other world's rarest outcome."""

    def _counterfactual_probs(self, log_p, log_q, x):
        rarest = jax.nn.one_hot(jnp.argmin(jnp.where(log_q > -jnp.inf, log_q, 0)), log_q.size, dtype=log_q.dtype)
        return jnp.where(log_p[x] < -9, rarest, GumbelMax()._counterfactual_probs(log_p, log_q, x))


class _RareOutcomesAreNotExplained(AbstractArgmaxSampler):
    def noise(self, num_outcomes, *, key, dtype=float):
        return GumbelMax().noise(num_outcomes, key=key, dtype=dtype)

    def swap(self, noise):
        return noise

    def _scores(self, noise, log_p):
        return log_p + noise

    def _abduct(self, log_p, x, *, key):
        return GumbelMax()._abduct(log_p, jnp.where(log_p[x] < -15, jnp.argmax(log_p), x), key=key)


class _NoiseIsUndefined(_Mutant):
    """NaN in the noise of an outcome that argmax does not look at."""

    def noise(self, num_outcomes, *, key, dtype=float):
        return jnp.append(GumbelMax().noise(num_outcomes, key=key, dtype=dtype), 0)

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise[:-1], log_p)

    def _abduct(self, log_p, x, *, key):
        return jnp.append(GumbelMax()._abduct(log_p, x, key=key), jnp.nan)


class _OtherSizesAreDrawnWrongly(_Mutant):
    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, log_p if log_p.size == 5 else jnp.zeros_like(log_p))


class _OtherSizesCrash(_Mutant):
    def _joint(self, log_p, log_q):
        if log_p.size != 5:
            raise ValueError("operands could not be broadcast together")
        return GumbelMax()._joint(log_p, log_q)


class _GradientIsUndefined(_Mutant):
    def _joint(self, log_p, log_q):
        law = GumbelMax()._joint(log_p, log_q)
        return law + 0 * jnp.sqrt(law.sum() * 0)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (_RareRowsAreAnothers, "a counterfactual row is the joint's row"),
        (_RareOutcomesAreNotExplained, "abducted noise explains what was seen"),
        (_NoiseIsUndefined, "abducted noise explains what was seen"),
        (_OtherSizesAreDrawnWrongly, "other sizes work or are refused"),
        (_OtherSizesCrash, "other sizes work or are refused"),
        (_GradientIsUndefined, "gradients are finite, or refused"),
        (_AbductionIgnoresTheObservation, "abducted noise explains what was seen"),
        (_TruncatedAtTheWrongValue, "abducted noise explains what was seen"),
        (_WorldsSwappedInTheLaw, "the joint law has both marginals"),
        (_WorldsSwappedInTheAnswer, "a counterfactual row is the joint's row"),
        (_MarginalOffByOnePercent, "the joint law has both marginals"),
        (_DrawsOffByOnePercent, "draws follow the law (random)"),
        (_DrawsTheImpossible, "draws follow the law (sparse)"),
        (_KnowsTenOutcomes, "other sizes work or are refused"),
    ],
)
def test_the_suite_catches_a_mutant(mutant, law):
    size = 10 if mutant is _KnowsTenOutcomes else 5
    report = check_coupling(mutant(), size, key=jax.random.key(0), num_samples=NUM_SAMPLES, only=law)
    assert report.broken == (law,), str(report)
    assert "BROKEN" in str(report)
    with pytest.raises(AssertionError, match="DOES NOT CONFORM"):
        report.raise_if_broken()


def test_a_mechanism_without_an_exact_law_is_checked_by_its_draws():
    class Sampled(AbstractMechanism):
        def noise(self, num_outcomes, *, key, dtype=float):
            return jax.random.gumbel(key, (num_outcomes,), dtype)

        def swap(self, noise):
            return noise

        def _respond(self, noise, log_p):
            return jnp.argmax(noise + log_p)

        def _abduct(self, log_p, x, *, key):
            return GumbelMax()._abduct(log_p, x, key=key)

    report = check_coupling(Sampled(), 4, key=jax.random.key(0), num_samples=NUM_SAMPLES)
    assert report.passed, str(report)
    assert not any("joint" in law.name for law in report.laws)


def test_a_law_can_be_checked_alone():
    report = check_coupling(Independent(), 7, key=jax.random.key(0), only="marginals")
    assert [law.name for law in report.laws] == ["the joint law has both marginals"]
    with pytest.raises(InputError, match=r"part of a law's name \(the joint law has both marginals; .*got 'gravity'"):
        check_coupling(Independent(), 7, key=jax.random.key(0), only="gravity")


def _all_subclasses(cls):
    return {cls}.union(*(_all_subclasses(each) for each in cls.__subclasses__()))


def test_every_class_is_abstract_or_final_and_overrides_nothing_concrete():
    classes = [each for each in _all_subclasses(countermax.AbstractSampler) if each.__module__.startswith("countermax")]
    assert len(classes) >= 10
    for cls in classes:
        if not cls.__name__.startswith("Abstract"):
            assert getattr(cls, "__final__", False), f"{cls.__name__} is neither abstract nor final"
            assert not getattr(cls, "__abstractmethods__", None)
        inherited = [base for base in cls.__mro__[1:] if issubclass(base, eqx.Module) and base is not eqx.Module]
        for name, method in vars(cls).items():
            if not callable(method) or name.startswith("__"):
                continue
            for base in inherited:
                existing = vars(base).get(name)
                assert existing is None or getattr(existing, "__isabstractmethod__", False), f"{cls.__name__}.{name}"


def test_a_report_shows_brackets_as_they_are_written():
    console = Console(file=io.StringIO(), width=160)
    console.print(Conformance("Mine", 3, (Law("a [law]", False, "Error: [/b] in [red]"),)))
    text = console.file.getvalue()
    assert "a [law]" in text
    assert "[/b] in [red]" in text
