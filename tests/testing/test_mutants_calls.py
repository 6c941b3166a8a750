"""Couplings that answer by how they are asked: in a batch, compiled, twice, or when they should refuse."""

import jax
import jax.numpy as jnp
import pytest
from broken import Healthy, HealthyLine, HealthyMatrix, assert_caught, caught

from countermax import GumbelMax, InputError

BATCH = "a batch is its members one by one"
COMPILED = "compiled or not, the answer is the same"
AGAIN = "the same question has the same answer"
REFUSED = "what cannot be is refused"
SIZES = "the number of outcomes is true"


def _is_traced(value):
    return isinstance(value, jax.core.Tracer)


# Outside of `jit`, or only within it.


class LossesWrongOutsideOfJit(Healthy):
    def _expected_loss(self, log_p, log_q, loss):
        return (self._joint(log_p, log_q) * (loss if _is_traced(loss) else loss.T)).sum()


class LawWrongOutsideOfJit(Healthy):
    def _joint(self, log_p, log_q):
        return GumbelMax()._joint(log_p, log_q if _is_traced(log_q) else log_p)


class ResponsesWrongOutsideOfJit(Healthy):
    def _respond(self, noise, log_p):
        return GumbelMax()._respond(noise if _is_traced(noise) else -noise, log_p)


class AbductionIsNoDrawOutsideOfJit(HealthyLine):
    def _abduct(self, log_p, x, *, key):
        noise = super()._abduct(log_p, x, key=key)
        return noise if _is_traced(log_p) else jnp.cumsum(jnp.exp(log_p))[x] - jnp.exp(log_p[x]) / 2


class AbductionWrongWithinJit(HealthyLine):
    def _abduct(self, log_p, x, *, key):
        noise = super()._abduct(log_p, x, key=key)
        return jnp.cumsum(jnp.exp(log_p))[x] - jnp.exp(log_p[x]) / 2 if _is_traced(noise) else noise


# In batches.


@jax.custom_batching.custom_vmap
def _uniform(key):
    return jax.random.uniform(jax.random.wrap_key_data(key))


@_uniform.def_vmap
def _first_for_all(axis_size, in_batched, keys):
    return jnp.full(axis_size, jax.random.uniform(jax.random.wrap_key_data(keys[0]))), True


class OneDrawForTheBatch(HealthyLine):
    def noise(self, num_outcomes, *, key, dtype=float):
        return _uniform(jax.random.key_data(key)).astype(dtype)


@jax.custom_batching.custom_vmap
def _same(value):
    return value


@_same.def_vmap
def _neighbours(axis_size, in_batched, values):
    return jnp.roll(values, 1, axis=0), True


class NeighboursAreMixedUp(HealthyMatrix):
    def _joint(self, log_p, log_q):
        return super()._joint(log_p, _same(log_q))


@jax.custom_batching.custom_vmap
def _plain(value):
    return value


@_plain.def_vmap
def _by_place(axis_size, in_batched, values):
    return jnp.where((jnp.arange(axis_size) < 2)[:, None], values, values[:, ::-1]), True


class PlaceInTheBatchMatters(Healthy):
    """Everybody but the first two is read backwards."""

    def _counterfactual_probs(self, log_p, log_q, x):
        return GumbelMax()._counterfactual_probs(log_p, _plain(log_q), x)


# With a memory.


class DrawsCountThemselves(Healthy):
    _calls = []  # noqa: RUF012

    def noise(self, num_outcomes, *, key, dtype=float):
        self._calls.append(1)
        return GumbelMax().noise(num_outcomes, key=jax.random.fold_in(key, len(self._calls)), dtype=dtype)


class RemembersTheFirstRow(Healthy):
    _memory = {}  # noqa: RUF012

    def counterfactual_probs(self, p, q, x):
        if _is_traced(p) or _is_traced(x):
            return super().counterfactual_probs(p, q, x)
        return self._memory.setdefault((len(p), int(x)), super().counterfactual_probs(p, q, x))


class TiresOfAsking(Healthy):
    _asked = []  # noqa: RUF012

    def _expected_loss(self, log_p, log_q, loss):
        self._asked.append(1)
        return super()._expected_loss(log_p, log_q, loss) * (1 + 1e-6 * len(self._asked))


# Where it should refuse.


class AnswersTheImpossible(HealthyMatrix):
    def counterfactual_probs(self, p, q, x):
        return jax.nn.softmax(jnp.asarray(q))


class AnswersNaN(HealthyMatrix):
    def joint(self, p, q):
        return self._joint(jax.nn.log_softmax(jnp.asarray(p)), jax.nn.log_softmax(jnp.asarray(q)))


class ForFiveOutcomesOnly(Healthy):
    @property
    def num_outcomes(self):
        return 5


class AnswersForAnySize(ForFiveOutcomesOnly):
    def check_size(self, size):
        pass


class RefusesWithoutAWord(ForFiveOutcomesOnly):
    def check_size(self, size):
        if size != 5:
            raise InputError


class OtherSizeCrashes(ForFiveOutcomesOnly):
    def check_size(self, size):
        assert size == 5


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (LossesWrongOutsideOfJit, COMPILED),
        (LawWrongOutsideOfJit, COMPILED),
        (ResponsesWrongOutsideOfJit, COMPILED),
        (AbductionIsNoDrawOutsideOfJit, COMPILED),
        (AbductionWrongWithinJit, COMPILED),
        (OneDrawForTheBatch, BATCH),
        (NeighboursAreMixedUp, BATCH),
        (PlaceInTheBatchMatters, BATCH),
        (DrawsCountThemselves, AGAIN),
        (TiresOfAsking, AGAIN),
        (RemembersTheFirstRow, "a counterfactual row is the joint's row"),
        (AnswersTheImpossible, REFUSED),
        (AnswersNaN, REFUSED),
        (AnswersForAnySize, SIZES),
        (RefusesWithoutAWord, SIZES),
        (OtherSizeCrashes, SIZES),
    ],
)
def test_a_mutant_of_asking_is_caught(mutant, law, as_users_call):
    assert_caught(mutant(), law)


def test_a_coupling_for_one_number_of_outcomes_may_refuse_others():
    assert not caught(ForFiveOutcomesOnly(), SIZES, level="thorough")
