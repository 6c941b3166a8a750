"""Couplings with one fault each in their noise: each is caught by the law that it breaks."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from broken import Healthy, HealthyLine, HealthyScores, assert_caught
from jaxtyping import Array

from countermax import Gadget1, Gadget2, GumbelMax, InverseCDF
from countermax.couplings import AbstractCoupling, AbstractNoiseSampler

KIND = "noise is of the kind that was asked for"
FINE = "noise is fine-grained"
EXPLAINS = "abducted noise explains what was seen"
POSTERIOR = "abducted noise is distributed as noise"
RESPONSES = "pairs and counterfactuals are responses to noise"
UNCHANGED = "where nothing is done nothing changes"
RELAXED = "the relaxation is the softmax of scores"
DRAWS = "draws follow the law (random)"


# Abduction.


class AbductionIgnoresTheObservation(Healthy):
    def _abduct(self, log_p, x, *, key):
        return self.noise(log_p.size, key=key, dtype=log_p.dtype)


class TruncatedAtTheWrongValue(Healthy):
    """The losers stay below the winner's *noise* instead of its score."""

    def _abduct(self, log_p, x, *, key):
        key_best, key_rest = jax.random.split(key)
        best = jax.random.gumbel(key_best, (), log_p.dtype) - log_p[x]
        rest = jax.random.gumbel(key_rest, log_p.shape, log_p.dtype)
        return (-jnp.logaddexp(-best * jnp.ones_like(rest), -rest)).at[x].set(best)


class RareOutcomesAreNotExplained(HealthyScores):
    def _abduct(self, log_p, x, *, key):
        return GumbelMax()._abduct(log_p, jnp.where(log_p[x] < -15, jnp.argmax(log_p), x), key=key)


class OneInAThousandIsNotExplained(Healthy):
    def _abduct(self, log_p, x, *, key):
        fault = jax.random.bernoulli(jax.random.fold_in(key, 1), 1e-3)
        return jnp.where(fault, self.noise(log_p.size, key=key, dtype=log_p.dtype), super()._abduct(log_p, x, key=key))


class NoiseIsUndefined(Healthy):
    """NaN in the noise of an outcome that argmax does not look at."""

    def noise(self, num_outcomes, *, key, dtype=float):
        return jnp.append(GumbelMax().noise(num_outcomes, key=key, dtype=dtype), 0)

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise[:-1], log_p)

    def _abduct(self, log_p, x, *, key):
        return jnp.append(GumbelMax()._abduct(log_p, x, key=key), jnp.nan)


class WinnerOnePercentTooHigh(Healthy):
    """The winner's Gumbel is scaled by 1.01 where that explains the observation as well."""

    def _abduct(self, log_p, x, *, key):
        noise = super()._abduct(log_p, x, key=key)
        return noise.at[x].set(jnp.maximum(noise[x], 1.01 * noise[x]))


class OnePercentOfTheIntervalIsLost(HealthyLine):
    def _abduct(self, log_p, x, *, key):
        upper = jnp.cumsum(jnp.exp(log_p))
        return upper[x] - jnp.exp(log_p[x]) * (0.01 + 0.989 * jax.random.uniform(key, (), log_p.dtype))


class OneExplanationInAHundredIsExtreme(Healthy):
    def _abduct(self, log_p, x, *, key):
        fault = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.01)
        return super()._abduct(log_p, x, key=key).at[x].add(jnp.where(fault, 10, 0))


class OneKeyForWinnerAndLosers(Healthy):
    def _abduct(self, log_p, x, *, key):
        best = jax.random.gumbel(key, log_p.shape, log_p.dtype)[0]
        losers = -jnp.logaddexp(log_p - best, -jax.random.gumbel(key, log_p.shape, log_p.dtype))
        return losers.at[x].set(best - log_p[x])


class AlwaysTheSameExplanation(HealthyLine):
    """The middle of the interval."""

    def _abduct(self, log_p, x, *, key):
        upper = jnp.cumsum(jnp.exp(log_p))
        return upper[x] - jnp.exp(log_p[x]) / 2


class LatentsAreNotAbducted(Gadget2):
    """The latent cause is drawn as if nothing had been seen; the outcome is explained all the same."""

    def _abduct(self, log_p, x, *, key):
        key_latent, key_outcome = jax.random.split(key)
        latent = jax.random.gumbel(key_latent, self.latent_logits.shape, log_p.dtype)
        conditionals = self._conditionals(log_p)[jnp.argmax(self._log_latents(log_p) + latent)]
        outcome = GumbelMax()._abduct(conditionals, x, key=key_outcome)
        return super()._abduct(log_p, x, key=key)._replace(latent=latent, outcome=outcome)


# What noise is.


class NoiseOfAnotherKind(Healthy):
    def noise(self, num_outcomes, *, key, dtype=float):
        return GumbelMax().noise(num_outcomes, key=key, dtype=jnp.float32)


class AbductedNoiseOfAnotherShape(HealthyLine):
    def _abduct(self, log_p, x, *, key):
        return super()._abduct(log_p, x, key=key)[None]

    def _respond(self, noise, log_p):
        return super()._respond(noise.reshape(()), log_p)


class AThousandUniforms(HealthyLine):
    def noise(self, num_outcomes, *, key, dtype=float):
        return (jnp.floor(1024 * jax.random.uniform(key, (), dtype)) + 0.5) / 1024


class SixteenBits(Healthy):
    def noise(self, num_outcomes, *, key, dtype=float):
        bits = jax.random.bits(key, (num_outcomes,), jnp.uint16)
        return -jnp.log(-jnp.log((bits.astype(dtype) + 0.5) / 65536))


class SinglePrecisionNoiseInDoublePrecision(Healthy):
    def noise(self, num_outcomes, *, key, dtype=float):
        return jax.random.gumbel(key, (num_outcomes,), jnp.float32).astype(dtype)


class FewSeeds(Healthy):
    """A fresh seed from four digits."""

    def noise(self, num_outcomes, *, key, dtype=float):
        seed = jax.random.randint(key, (), 0, 10_000)
        return GumbelMax().noise(num_outcomes, key=jax.random.fold_in(jax.random.key(0), seed), dtype=dtype)


class AbductionFromFewUniforms(HealthyLine):
    def _abduct(self, log_p, x, *, key):
        upper = jnp.cumsum(jnp.exp(log_p))
        return upper[x] - jnp.exp(log_p[x]) * (1 - jax.random.randint(key, (), 1, 4096).astype(log_p.dtype) / 4096)


# How worlds see it.


class TheOtherWorldSeesOtherNoise(Healthy):
    """What a gadget that is read by rows and columns does, and a mechanism must not."""

    def swap(self, noise):
        return noise[::-1]


class NoiseIsForgottenNowAndThen(Healthy):
    """One counterfactual in a hundred is answered with noise that explains nothing."""

    def _counterfactual(self, log_p, log_q, x, *, key):
        key_fault, key_fresh, key_answer = jax.random.split(key, 3)
        fresh = self._respond(self.noise(log_p.size, key=key_fresh, dtype=log_p.dtype), log_q)
        answer = GumbelMax()._counterfactual(log_p, log_q, x, key=key_answer)
        return jnp.where(jax.random.bernoulli(key_fault, 0.01), fresh, answer)


class PairsShareNothing(Healthy):
    """Two worlds, two draws."""

    def _pair(self, log_p, log_q, *, key):
        first, second = jax.random.split(key)
        return tuple(
            self._respond(self.noise(log_p.size, key=each, dtype=log_p.dtype), logits)
            for each, logits in ((first, log_p), (second, log_q))
        )


class CounterfactualsForgetToSwap(Gadget1):
    def _counterfactual(self, log_p, log_q, x, *, key):
        return self._respond(self._abduct(log_p, x, key=key), log_q)


class NothingIsTransposed(Gadget1):
    def swap(self, noise):
        return type(noise)(noise.gumbels, not noise.other_world)


class AntitheticInNameOnly(AbstractNoiseSampler, AbstractCoupling):
    """The law of a uniform number read from its other end, which `swap` forgets to turn round."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        return InverseCDF().noise(num_outcomes, key=key, dtype=dtype)

    def swap(self, noise):
        return noise

    def _respond(self, noise, log_p):
        return InverseCDF()._respond(noise, log_p)

    def _abduct(self, log_p, x, *, key):
        return InverseCDF()._abduct(log_p, x, key=key)

    def _joint(self, log_p, log_q):
        return InverseCDF()._joint(log_p, log_q[::-1])[:, ::-1]

    def _counterfactual_probs(self, log_p, log_q, x):
        return InverseCDF()._counterfactual_probs(log_p, log_q[::-1], x)[::-1]


class _Marked(NamedTuple):
    gumbels: Array
    other_world: Array


class TheOtherWorldIsTreatedOtherwise(AbstractNoiseSampler):
    """`swap` says that both worlds are alike but for a mark, and the one that is marked has sharper logits."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        return _Marked(GumbelMax().noise(num_outcomes, key=key, dtype=dtype), jnp.zeros((), bool))

    def swap(self, noise):
        return _Marked(noise.gumbels, ~noise.other_world)

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise.gumbels, jnp.where(noise.other_world, 1.5, 1) * log_p)

    def _abduct(self, log_p, x, *, key):
        return _Marked(GumbelMax()._abduct(log_p, x, key=key), jnp.zeros((), bool))


# Relaxations.


class TemperatureIsIgnored(HealthyScores):
    def relax(self, noise, logits, temperature):
        return jax.nn.softmax(self.scores(noise, logits))


class TemperatureOfTheNoiseAlone(HealthyScores):
    def relax(self, noise, logits, temperature):
        return jax.nn.softmax(self.scores(noise / temperature, logits))


class RelaxedWithoutGradient(HealthyScores):
    def relax(self, noise, logits, temperature):
        return jax.lax.stop_gradient(super().relax(noise, logits, temperature))


class ImpossibleOutcomesHaveWeight(HealthyScores):
    def _scores(self, noise, log_p):
        return jnp.maximum(log_p, -30) + noise


class ScoresOfSomethingElse(HealthyScores):
    def _respond(self, noise, log_p):
        return jnp.argmax(log_p + noise[::-1])


def _gadget(kind, **settings):
    return lambda: kind(5, key=jax.random.key(0), hidden=(4,), **settings)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (AbductionIgnoresTheObservation, EXPLAINS),
        (TruncatedAtTheWrongValue, EXPLAINS),
        (RareOutcomesAreNotExplained, EXPLAINS),
        (OneInAThousandIsNotExplained, EXPLAINS),
        (NoiseIsUndefined, EXPLAINS),
        (OnePercentOfTheIntervalIsLost, POSTERIOR),
        (OneExplanationInAHundredIsExtreme, POSTERIOR),
        (OneKeyForWinnerAndLosers, POSTERIOR),
        (AlwaysTheSameExplanation, POSTERIOR),
        (_gadget(LatentsAreNotAbducted, num_latents=3, rounds=2), POSTERIOR),
        (NoiseOfAnotherKind, KIND),
        (AbductedNoiseOfAnotherShape, KIND),
        (AThousandUniforms, FINE),
        (SixteenBits, FINE),
        (FewSeeds, FINE),
        (AbductionFromFewUniforms, FINE),
        (TheOtherWorldSeesOtherNoise, UNCHANGED),
        (NoiseIsForgottenNowAndThen, UNCHANGED),
        (PairsShareNothing, RESPONSES),
        (_gadget(CounterfactualsForgetToSwap), RESPONSES),
        (_gadget(NothingIsTransposed), DRAWS),
        (AntitheticInNameOnly, DRAWS),
        (TheOtherWorldIsTreatedOtherwise, DRAWS),
        (TemperatureIsIgnored, RELAXED),
        (TemperatureOfTheNoiseAlone, RELAXED),
        (RelaxedWithoutGradient, RELAXED),
        (ImpossibleOutcomesHaveWeight, RELAXED),
        (ScoresOfSomethingElse, RELAXED),
    ],
)
def test_a_mutant_of_noise_is_caught(mutant, law, as_users_call):
    assert_caught(mutant(), law)


def test_noise_without_the_digits_of_double_precision_is_caught_by_the_thorough_check(as_users_call):
    assert_caught(SinglePrecisionNoiseInDoublePrecision(), FINE, quick=False)


@pytest.mark.slow
def test_abduction_that_is_one_percent_off_is_caught_by_the_thorough_check(as_users_call):
    assert_caught(WinnerOnePercentTooHigh(), POSTERIOR, 2, quick=False)
