"""Couplings with one fault each in their exact law, its precision or its gradient: caught by the law that it breaks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broken import Healthy, HealthyLine, HealthyMatrix, assert_caught

from countermax import Gadget2, GumbelMax, Independent, InputError, Maximal
from countermax.couplings import Constant

MARGINALS = "the joint law has both marginals"
ROWS = "a counterfactual row is the joint's row"
LOSS = "an expected loss is the joint's sum"
SIZES = "the number of outcomes is true"
FINITE = "gradients are finite, or refused"
SLOPES = "gradients are those of differences"


def _gumbel_row(log_p, log_q, x):
    return GumbelMax()._counterfactual_probs(log_p, log_q, x)


def _gumbel_joint(log_p, log_q):
    return GumbelMax()._joint(log_p, log_q)


class WorldsSwappedInTheLaw(Healthy):
    def _joint(self, log_p, log_q):
        return _gumbel_joint(log_q, log_p)


class WorldsSwappedInTheAnswer(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        return _gumbel_row(log_q, log_p, x)


class ColumnsForRows(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        joint = _gumbel_joint(log_p, log_q)
        return joint[:, x] / jnp.maximum(joint[:, x].sum(), 1e-30)


class MarginalOffByOnePercent(Healthy):
    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q).at[0].multiply(1.01)
        return law / law.sum()


class LossesAreTransposed(Healthy):
    def _expected_loss(self, log_p, log_q, loss):
        return (self._joint(log_p, log_q) * loss.T).sum()


class LossesForgetTheDiagonal(Healthy):
    def _expected_loss(self, log_p, log_q, loss):
        return (self._joint(log_p, log_q) * loss * (1 - jnp.eye(log_p.size, dtype=loss.dtype))).sum()


class LogitsAreTakenAsTheyAre(HealthyMatrix):
    """Overrides what normalises."""

    def _worlds(self, p, q):
        return jnp.asarray(p) - np.log(np.exp(np.asarray(p) - 7.25).sum()) / 2, jnp.asarray(q)

    def _joint(self, log_p, log_q):
        return Independent()._joint(jax.nn.log_softmax(log_p * jnp.tanh(log_p.max())), jax.nn.log_softmax(log_q))


class AsymmetricMechanism(Healthy):
    """A law of one noise for all worlds cannot depend on which world is called the factual one."""

    def _joint(self, log_p, log_q):
        return jnp.where(log_p[0] > log_q[0], Maximal()._joint(log_p, log_q), _gumbel_joint(log_p, log_q))


class RowsMoveWithoutACause(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        return 0.999 * _gumbel_row(log_p, log_q, x) + 0.001 * jnp.exp(log_q)


# Only in some worlds.


class OneZeroIsEnough(Healthy):
    """Finds the impossible outcome, and forgets that there may be several."""

    def _joint(self, log_p, log_q):
        kept = jnp.maximum(log_p, -20).at[jnp.argmin(log_p)].set(log_p.min())
        return jnp.where(
            (log_p == -jnp.inf).sum() > 1, _gumbel_joint(jax.nn.log_softmax(kept), log_q), _gumbel_joint(log_p, log_q)
        )


class NowhereIsSomewhere(Healthy):
    """0 / 0 taken for a share of one half, with a weight."""

    def _joint(self, log_p, log_q):
        nowhere = (log_p == -jnp.inf) & (log_q == -jnp.inf)
        return _gumbel_joint(log_p, log_q) * jnp.where(nowhere.sum() > 1, 0.5, 1)


class NothingInCommonIsUndefined(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        common = jnp.exp(jnp.minimum(log_p, log_q)).sum()
        return _gumbel_row(log_p, log_q, x) * (common / common)


class RareRowsAreAnothers(Healthy):
    """Where x is rare, the answer is the other world's rarest outcome."""

    def _counterfactual_probs(self, log_p, log_q, x):
        rarest = jax.nn.one_hot(jnp.argmin(jnp.where(log_q > -jnp.inf, log_q, 0)), log_q.size, dtype=log_q.dtype)
        return jnp.where(log_p[x] < -9, rarest, _gumbel_row(log_p, log_q, x))


class RareRowsAreIndependent(Healthy):
    """A floor under a denominator."""

    def _counterfactual_probs(self, log_p, log_q, x):
        row = _gumbel_joint(log_p, log_q)[x] / jnp.maximum(jnp.exp(log_p[x]), 1e-6)
        return row + (1 - row.sum()) * jnp.exp(log_q)


# Only in one precision.


class SinglePrecisionInside(Healthy):
    def _joint(self, log_p, log_q):
        return _gumbel_joint(log_p.astype(jnp.float32), log_q.astype(jnp.float32)).astype(log_p.dtype)


class SmoothingThatSinglePrecisionHides(Healthy):
    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q) + 1e-9 * jnp.exp(log_p)[:, None] * (log_q > -jnp.inf)[None, :]
        return law / law.sum()


class HalfPrecisionInside(Healthy):
    """In single precision only, to save memory."""

    def _counterfactual_probs(self, log_p, log_q, x):
        row = _gumbel_row(log_p, log_q, x)
        return row if row.dtype == jnp.float64 else row.astype(jnp.bfloat16).astype(row.dtype)


class AnotherLawInSinglePrecision(HealthyMatrix):
    """A coupling in either precision, but not the same one."""

    def _joint(self, log_p, log_q):
        return (Maximal() if log_p.dtype == jnp.float32 else Independent())._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return (Maximal() if log_p.dtype == jnp.float32 else Independent())._counterfactual_probs(log_p, log_q, x)


class DoublePrecisionCrashes(Healthy):
    def _joint(self, log_p, log_q):
        start = jnp.zeros(log_p.shape, jnp.float32)
        total, _ = jax.lax.scan(lambda carry, each: (carry + each, None), start, log_p[None])  # dtypes do not match
        return _gumbel_joint(log_p, log_q) + 0 * jnp.where(jnp.isfinite(total), total, 0).sum()


# Only for some numbers of outcomes.


class KnowsTwentyOutcomes(Healthy):
    def _joint(self, log_p, log_q):
        size = min(log_p.size, 20)
        return jnp.zeros((log_p.size, log_p.size)).at[:size, :size].set(_gumbel_joint(log_p, log_q)[:size, :size])


class RowsDriftForManyOutcomes(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        row = _gumbel_row(log_p, log_q, x)
        return row if log_p.size < 100 else 0.99 * row + 0.01 * jnp.exp(log_q)


class OutcomesInSevenBits(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        return _gumbel_row(log_p, log_q, jnp.minimum(x, 127))


class TwoOutcomesAreSpecial(Healthy):
    """A shortcut for a single number, with the worlds mixed up."""

    def _joint(self, log_p, log_q):
        return _gumbel_joint(log_q, log_p) if log_p.size == 2 else _gumbel_joint(log_p, log_q)


class OneOutcomeCrashes(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        if log_p.size == 1:
            raise IndexError("index 1 is out of bounds")
        return _gumbel_row(log_p, log_q, x)


class SteepForManyOutcomes(Healthy):
    """The gradient is right for few outcomes."""

    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q)
        return law if log_p.size < 20 else 2 * law - jax.lax.stop_gradient(law)


class OtherSizesCrash(Healthy):
    def _joint(self, log_p, log_q):
        if log_p.size != 5:
            raise ValueError("operands could not be broadcast together")
        return _gumbel_joint(log_p, log_q)


class TakesAnyNumberButCrashes(Healthy):
    def _joint(self, log_p, log_q):
        if log_p.size != 5:
            raise InputError("this mutant is for 5 outcomes")
        return _gumbel_joint(log_p, log_q)


# Gradients: finite, and wrong.


def _moved(to, by):
    """`to`, with the derivative of `by`."""
    finite = (to > -jnp.inf) & (by > -jnp.inf)
    step = jnp.where(finite, by, 0)
    return jax.lax.stop_gradient(to) + step - jax.lax.stop_gradient(step)


class GradientIsUndefined(Healthy):
    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q)
        return law + 0 * jnp.sqrt(law.sum() * 0)


class GradientIsUndefinedInSinglePrecision(Healthy):
    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q)
        return law if law.dtype == jnp.float64 else law + 0 * jnp.sqrt(law.sum() * 0)


class GradientsAreSwapped(Healthy):
    def _joint(self, log_p, log_q):
        return _gumbel_joint(_moved(log_p, log_q), _moved(log_q, log_p))


class GradientIsZero(Healthy):
    def _joint(self, log_p, log_q):
        return jax.lax.stop_gradient(_gumbel_joint(log_p, log_q))


class GradientIsDoubled(Healthy):
    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q)
        return 2 * law - jax.lax.stop_gradient(law)


class GradientOfTheRowIsZero(Healthy):
    def _counterfactual_probs(self, log_p, log_q, x):
        return jax.lax.stop_gradient(_gumbel_row(log_p, log_q, x))


class GradientOfTheRowForgetsTheOtherWorld(HealthyLine):
    def _counterfactual_probs(self, log_p, log_q, x):
        return super()._counterfactual_probs(log_p, jax.lax.stop_gradient(log_q), x)


class GradientOfTheLossHasTheWrongSign(Healthy):
    def _expected_loss(self, log_p, log_q, loss):
        value = super()._expected_loss(log_p, log_q, loss)
        return 2 * jax.lax.stop_gradient(value) - value


class GradientOffByOnePercent(Healthy):
    def _joint(self, log_p, log_q):
        law = _gumbel_joint(log_p, log_q)
        return 1.01 * law - 0.01 * jax.lax.stop_gradient(law)


class ParametersAreNotLearned(Gadget2):
    def _log_latents(self, log_p):
        return jax.lax.stop_gradient(super()._log_latents(log_p))


class RefusesSomeGradients(Healthy):
    @staticmethod
    @jax.custom_jvp
    def _held(value):
        return value

    def _counterfactual_probs(self, log_p, log_q, x):
        return _without_gradient(_gumbel_row(log_p, log_q, x))


@jax.custom_jvp
def _without_gradient(value):
    return value


@_without_gradient.defjvp
def _refuse(primals, tangents):
    raise InputError("no gradient here")


def _gadget():
    return ParametersAreNotLearned(5, 3, key=jax.random.key(0), part=Constant(3, 5, key=jax.random.key(1)), rounds=0)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (WorldsSwappedInTheLaw, MARGINALS),
        (MarginalOffByOnePercent, MARGINALS),
        (OneZeroIsEnough, MARGINALS),
        (NowhereIsSomewhere, MARGINALS),
        (SinglePrecisionInside, MARGINALS),
        (SmoothingThatSinglePrecisionHides, MARGINALS),
        (DoublePrecisionCrashes, MARGINALS),
        (WorldsSwappedInTheAnswer, ROWS),
        (ColumnsForRows, ROWS),
        (NothingInCommonIsUndefined, ROWS),
        (RareRowsAreAnothers, ROWS),
        (RareRowsAreIndependent, ROWS),
        (HalfPrecisionInside, ROWS),
        (LossesAreTransposed, LOSS),
        (LossesForgetTheDiagonal, LOSS),
        (LogitsAreTakenAsTheyAre, "logits may be shifted by a constant"),
        (AsymmetricMechanism, "worlds may be exchanged"),
        (RowsMoveWithoutACause, "rows of equal worlds stay as they are"),
        (AnotherLawInSinglePrecision, "single and double precision agree"),
        (GradientIsUndefined, FINITE),
        (GradientIsUndefinedInSinglePrecision, FINITE),
        (RefusesSomeGradients, SLOPES),
        (GradientsAreSwapped, SLOPES),
        (GradientIsZero, SLOPES),
        (GradientIsDoubled, SLOPES),
        (GradientOfTheRowIsZero, SLOPES),
        (GradientOfTheRowForgetsTheOtherWorld, SLOPES),
        (GradientOfTheLossHasTheWrongSign, SLOPES),
        (GradientOffByOnePercent, SLOPES),
        (_gadget, SLOPES),
        (OneOutcomeCrashes, SIZES),
        (OtherSizesCrash, SIZES),
        (TakesAnyNumberButCrashes, SIZES),
        (KnowsTwentyOutcomes, SIZES),
    ],
)
def test_a_mutant_of_the_exact_law_is_caught(mutant, law, as_users_call):
    assert_caught(mutant(), law)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [RowsDriftForManyOutcomes, OutcomesInSevenBits, TwoOutcomesAreSpecial, SteepForManyOutcomes]
)
def test_a_mutant_that_needs_other_numbers_of_outcomes_is_caught_by_the_thorough_check(mutant, as_users_call):
    assert_caught(mutant(), SIZES, quick=False)
