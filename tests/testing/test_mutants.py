"""Couplings with one fault each: the conformance suite must catch every one of them, by the law that it breaks."""

import jax
import jax.numpy as jnp
import pytest

from countermax import GumbelMax, Independent, InputError
from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractMatrixCoupling, AbstractMechanism
from countermax.testing import check_coupling

NUM_SAMPLES = 100_000  # the mutants are far off


class _Mutant(AbstractMechanism, AbstractCoupling):
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

    @property
    def num_outcomes(self):
        return None

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
    @property
    def num_outcomes(self):
        return None

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


class _LossesAreTransposed(_Mutant):
    def _expected_loss(self, log_p, log_q, loss):
        return (self._joint(log_p, log_q) * loss.T).sum()


class _TheOtherWorldSeesOtherNoise(_Mutant):
    """What a gadget that is read by rows and columns does, and a mechanism must not."""

    def swap(self, noise):
        return noise[::-1]


class _NoiseIsForgottenNowAndThen(_Mutant):
    """One counterfactual in a hundred is answered with noise that explains nothing."""

    def _counterfactual(self, log_p, log_q, x, *, key):
        key_fault, key_fresh, key_answer = jax.random.split(key, 3)
        fresh = self._respond(self.noise(log_p.size, key=key_fresh, dtype=log_p.dtype), log_q)
        return jnp.where(
            jax.random.bernoulli(key_fault, 0.01), fresh, GumbelMax()._counterfactual(log_p, log_q, x, key=key_answer)
        )


class _RowsMoveWithoutACause(_Mutant):
    def _counterfactual_probs(self, log_p, log_q, x):
        return 0.999 * GumbelMax()._counterfactual_probs(log_p, log_q, x) + 0.001 * jnp.exp(log_q)


class _ForFiveOutcomesOnly(_Mutant):
    @property
    def num_outcomes(self):
        return 5


class _AnswersForAnySize(_ForFiveOutcomesOnly):
    def check_size(self, size):
        pass


class _RefusesWithoutAWord(_ForFiveOutcomesOnly):
    def check_size(self, size):
        if size != 5:
            raise InputError


class _CrashesOnOtherSizes(_ForFiveOutcomesOnly):
    def check_size(self, size):
        assert size == 5


class _RefusesThoughItTakesAnyNumber(_Mutant):
    def _joint(self, log_p, log_q):
        if log_p.size != 5:
            raise InputError("this mutant is for 5 outcomes")
        return GumbelMax()._joint(log_p, log_q)


class _DrawsOnlyAreWrongForOtherSizes(AbstractMechanism):
    """Without an exact law, so that only draws can tell."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        return GumbelMax().noise(num_outcomes, key=key, dtype=dtype)

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, log_p if log_p.size == 5 else jnp.zeros_like(log_p))

    def _abduct(self, log_p, x, *, key):
        return GumbelMax()._abduct(log_p, x, key=key)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (_LossesAreTransposed, "an expected loss is the joint's sum"),
        (_TheOtherWorldSeesOtherNoise, "where nothing is done nothing changes"),
        (_NoiseIsForgottenNowAndThen, "where nothing is done nothing changes"),
        (_RowsMoveWithoutACause, "where nothing is done nothing changes"),
        (_AnswersForAnySize, "the number of outcomes is true"),
        (_RefusesWithoutAWord, "the number of outcomes is true"),
        (_CrashesOnOtherSizes, "the number of outcomes is true"),
        (_RefusesThoughItTakesAnyNumber, "the number of outcomes is true"),
        (_DrawsOnlyAreWrongForOtherSizes, "the number of outcomes is true"),
        (_RareRowsAreAnothers, "a counterfactual row is the joint's row"),
        (_RareOutcomesAreNotExplained, "abducted noise explains what was seen"),
        (_NoiseIsUndefined, "abducted noise explains what was seen"),
        (_OtherSizesAreDrawnWrongly, "the number of outcomes is true"),
        (_OtherSizesCrash, "the number of outcomes is true"),
        (_GradientIsUndefined, "gradients are finite, or refused"),
        (_AbductionIgnoresTheObservation, "abducted noise explains what was seen"),
        (_TruncatedAtTheWrongValue, "abducted noise explains what was seen"),
        (_WorldsSwappedInTheLaw, "the joint law has both marginals"),
        (_WorldsSwappedInTheAnswer, "a counterfactual row is the joint's row"),
        (_MarginalOffByOnePercent, "the joint law has both marginals"),
        (_DrawsOffByOnePercent, "draws follow the law (random)"),
        (_DrawsTheImpossible, "draws follow the law (sparse)"),
        (_KnowsTenOutcomes, "the number of outcomes is true"),
    ],
)
def test_the_suite_catches_a_mutant(mutant, law, as_users_call):
    size = 10 if mutant is _KnowsTenOutcomes else 5
    report = check_coupling(mutant(), size, key=jax.random.key(0), num_samples=NUM_SAMPLES, only=law)
    assert report.broken == (law,), str(report)
    assert "BROKEN" in str(report)
    with pytest.raises(AssertionError, match="DOES NOT CONFORM"):
        report.raise_if_broken()


@pytest.mark.parametrize("healthy", [_Mutant, _ForFiveOutcomesOnly])
def test_what_the_mutants_are_made_of_is_healthy(healthy):
    check_coupling(healthy(), 5, key=jax.random.key(0), num_samples=NUM_SAMPLES).raise_if_broken()
