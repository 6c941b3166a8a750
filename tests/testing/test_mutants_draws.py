"""Couplings with one fault each in their draws, and samplers of which only draws can tell."""

import jax
import jax.numpy as jnp
import pytest
from broken import Healthy, HealthyMatrix, HealthyScores, assert_caught

from countermax import GumbelMax, Independent, Maximal

RANDOM = "draws follow the law (random)"
ZEROS = "draws follow the law (zeros)"
RARE = "draws follow the law (rare)"
SIZES = "the number of outcomes is true"


class DrawsOffByOnePercent(Healthy):
    """One time in a hundred the first outcome is reported whatever was drawn."""

    def noise(self, num_outcomes, *, key, dtype=float):
        key_fault, key_noise = jax.random.split(key)
        noise = GumbelMax().noise(num_outcomes, key=key_noise, dtype=dtype)
        return noise.at[0].add(jnp.where(jax.random.bernoulli(key_fault, 0.01), 500, 0))


class LikeliestOnePercentTooOften(Healthy):
    """One outcome's probability is 1.01 times what it should be, before all are normalised."""

    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, log_p.at[0].add(0.01))


class DrawsTheImpossible(HealthyMatrix):
    """Smoothing that nobody asked for."""

    def _joint(self, log_p, log_q):
        return Independent()._joint(log_p, jnp.maximum(log_q, -12))

    def _counterfactual_probs(self, log_p, log_q, x):
        return jax.nn.softmax(jnp.maximum(log_q, -12))


class NeverDrawsTheRare(Healthy):
    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, jnp.where(log_p > -6, log_p, -jnp.inf))


class RareFactsAreForgotten(HealthyMatrix):
    """After a rare observation the other world is drawn as if nothing had been seen."""

    def _joint(self, log_p, log_q):
        return Maximal()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return Maximal()._counterfactual_probs(log_p, log_q, x)

    def _counterfactual(self, log_p, log_q, x, *, key):
        row = self._counterfactual_probs(log_p, log_q, x)
        return jax.random.categorical(key, jnp.where(log_p[x] > -9, jnp.log(row), log_q))


class OneKeyForBothWorlds(HealthyMatrix):
    def _pair(self, log_p, log_q, *, key):
        return jax.random.categorical(key, log_p), jax.random.categorical(key, log_q)


class CounterfactualsOfTheWrongWorld(HealthyMatrix):
    def _counterfactual(self, log_p, log_q, x, *, key):
        return jax.random.categorical(key, log_p)


class FactsAreForgottenNowAndThen(HealthyMatrix):
    """Two answers in a hundred."""

    def _joint(self, log_p, log_q):
        return Maximal()._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p, log_q, x):
        return Maximal()._counterfactual_probs(log_p, log_q, x)

    def _counterfactual(self, log_p, log_q, x, *, key):
        key_fault, key_fresh, key_answer = jax.random.split(key, 3)
        fresh, answer = (
            jax.random.categorical(key_fresh, log_q),
            super()._counterfactual(log_p, log_q, x, key=key_answer),
        )
        return jnp.where(jax.random.bernoulli(key_fault, 0.02), fresh, answer)


class NoOutcomeAtAll(HealthyMatrix):
    def _pair(self, log_p, log_q, *, key):
        x, y = super()._pair(log_p, log_q, key=key)
        return x + 1, y


class OtherSizesAreDrawnWrongly(Healthy):
    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise, log_p if log_p.size == 5 else jnp.zeros_like(log_p))


class ManyOutcomesAreDrawnWrongly(HealthyScores):
    """Without an exact law, so that only draws can tell."""

    def _scores(self, noise, log_p):
        return noise + (log_p if log_p.size < 20 else 0.5 * log_p)


class PairsAndCounterfactualsDiffer(HealthyScores):
    """Both have the right marginals."""

    def _counterfactual(self, log_p, log_q, x, *, key):
        return jax.random.categorical(key, log_q)


class WrongInDoublePrecision(HealthyScores):
    def _scores(self, noise, log_p):
        return noise + (log_p if log_p.dtype == jnp.float32 else 1.2 * log_p)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (DrawsOffByOnePercent, RANDOM),
        (OneKeyForBothWorlds, RANDOM),
        (CounterfactualsOfTheWrongWorld, RANDOM),
        (NoOutcomeAtAll, RANDOM),
        (PairsAndCounterfactualsDiffer, RANDOM),
        (FactsAreForgottenNowAndThen, RANDOM),
        (DrawsTheImpossible, ZEROS),
        (NeverDrawsTheRare, "draws follow the law (scarce)"),
        (RareFactsAreForgotten, RARE),
        pytest.param(OtherSizesAreDrawnWrongly, SIZES, marks=pytest.mark.slow),
        (ManyOutcomesAreDrawnWrongly, SIZES),
    ],
)
def test_a_mutant_of_draws_is_caught(mutant, law, as_users_call):
    assert_caught(mutant(), law)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [(LikeliestOnePercentTooOften, RANDOM), (WrongInDoublePrecision, "draws follow the law (random, float64)")],
)
def test_a_mutant_of_draws_that_is_nearly_right_is_caught_by_the_thorough_check(mutant, law, as_users_call):
    assert_caught(mutant(), law, 3, quick=False)
