"""Couplings that are in order, for mutants to be made of, and how a mutant is caught."""

import jax
import jax.numpy as jnp

from countermax import GumbelMax, Independent, InverseCDF
from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractMatrixCoupling, AbstractMechanism
from countermax.testing import check_coupling


class Healthy(AbstractMechanism, AbstractCoupling):
    """Gumbel-max by delegation, so that each mutant changes one thing."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        return GumbelMax().noise(num_outcomes, key=key, dtype=dtype)

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, log_p)

    def _abduct(self, log_p, x, *, key):
        return GumbelMax()._abduct(log_p, x, key=key)

    def _joint(self, log_p, log_q):
        return GumbelMax()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return GumbelMax()._counterfactual_probs(log_p, log_q, x)


class HealthyScores(AbstractArgmaxSampler, AbstractMechanism):
    """Gumbel-max as scores and noise alone, without an exact law."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        return GumbelMax().noise(num_outcomes, key=key, dtype=dtype)

    def _scores(self, noise, log_p):
        return log_p + noise

    def _abduct(self, log_p, x, *, key):
        return GumbelMax()._abduct(log_p, x, key=key)


class HealthyLine(AbstractMechanism, AbstractCoupling):
    """Inverse CDF by delegation."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        return InverseCDF().noise(num_outcomes, key=key, dtype=dtype)

    def _respond(self, noise, log_p):
        return InverseCDF()._respond(noise, log_p)

    def _abduct(self, log_p, x, *, key):
        return InverseCDF()._abduct(log_p, x, key=key)

    def _joint(self, log_p, log_q):
        return InverseCDF()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return InverseCDF()._counterfactual_probs(log_p, log_q, x)


class HealthyMatrix(AbstractMatrixCoupling):
    """The independent coupling by delegation."""

    @property
    def num_outcomes(self):
        return None

    def _joint(self, log_p, log_q):
        return Independent()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return jnp.exp(log_q)


def caught(mutant, law, size=5, *, level, num_samples=None):
    """Whether one law, checked alone, is broken."""
    report = check_coupling(mutant, size, key=jax.random.key(0), level=level, num_samples=num_samples, only=law)
    (found,) = report.laws
    assert found.name == law
    # A crash breaks a law too; but then it should be the mutant's.
    nan = "must answer with finite numbers" in found.detail  # the contract refuses it before the law can see it
    assert nan or "Error: " not in found.detail or type(mutant).__name__.endswith(("Crash", "Crashes")), found.detail
    return not found.passed


def assert_caught(mutant, law, size=5, *, quick=True):
    """The thorough check catches it by the law that it breaks, and the quick one too unless it is said not to."""
    assert caught(mutant, law, size, level="thorough")
    if quick:
        assert caught(mutant, law, size, level="quick")
