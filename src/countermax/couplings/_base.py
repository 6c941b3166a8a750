"""The contract: what every coupling can be asked, and what each kind has to supply.

Public methods take unnormalised logits, check them, normalise them and hand over to a hook of the same name with an
underscore. Hooks see normalised log-probabilities of one dtype and possible outcomes, and check nothing, so they can
run inside a scan. A new coupling implements hooks; no concrete method is ever overridden.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, Float, PRNGKeyArray

from countermax._core import checks
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.types import Joint, Logits, LogProbs, Outcome, OutcomeLike, Probs, Scalar

Noise = TypeVar("Noise")

_FEW_OUTCOMES = 1000  # whose joint law fits into any memory


class AbstractSampler(eqx.Module):
    """Draws X ~ p and Y ~ q together: the least that a coupling can do.

    Everywhere `p` and `q` are logits of the factual and of the other world, normalised or not, `x` is an outcome that
    was seen in the factual world, where it must have nonzero probability, and `key` a random key, consumed once.
    """

    _drawn_from: ClassVar[str] = "law"  # or "scores", or one "uniform" number: how rare the seen outcome may be

    @property
    @abstractmethod
    def num_outcomes(self) -> int | None:
        """How many outcomes it is made for; None if it takes any number."""

    def pair(self, p: Logits, q: Logits, *, key: PRNGKeyArray) -> tuple[Outcome, Outcome]:
        """One draw of (X, Y)."""
        drawn = _compiled("_pair", self, *self._worlds(p, q), key=checks.as_key(key))
        return checks.as_drawn(type(self).__name__, drawn)

    def counterfactual(self, p: Logits, q: Logits, x: OutcomeLike, *, key: PRNGKeyArray) -> Outcome:
        """One draw of Y given that X = x was seen."""
        log_p, log_q = self._worlds(p, q)
        drawn = _compiled("_counterfactual", self, log_p, log_q, self._seen(log_p, x), key=checks.as_key(key))
        return checks.as_drawn(type(self).__name__, drawn)

    def check_size(self, size: int) -> None:
        """Raises an error unless it takes that number of outcomes; hooks rely on callers to have asked."""
        if self.num_outcomes not in (None, size):
            name = type(self).__name__
            raise InputError(f"this {name} is for {self.num_outcomes} outcomes, but the logits have {size}")

    def _worlds(self, p: Logits, q: Logits) -> tuple[LogProbs, LogProbs]:
        log_p, log_q = checks.as_log_prob_pair(p, q)
        self._check(log_p)
        return log_p, log_q

    def _check(self, log_p: LogProbs) -> None:
        """Refuses other sizes, and NaN among known parameters: what comes of it would look like an outcome."""
        self.check_size(log_p.size)
        if any(checks.has_nan(leaf) for leaf in jax.tree.leaves(self)):
            name = type(self).__name__
            raise InputError(f"this {name} has NaN among its parameters and cannot answer; train it again")

    def _seen(self, log_p: LogProbs, x: OutcomeLike) -> Outcome:
        """An outcome that draws can start from."""
        if self._drawn_from == "law":
            return checks.as_outcome(log_p, x)
        return checks.as_explained(log_p, x, uniform=self._drawn_from == "uniform")

    @abstractmethod
    def _pair(self, log_p: LogProbs, log_q: LogProbs, *, key: PRNGKeyArray) -> tuple[Outcome, Outcome]: ...

    @abstractmethod
    def _counterfactual(self, log_p: LogProbs, log_q: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> Outcome: ...


class AbstractCoupling(AbstractSampler):
    """A sampler whose law is known exactly: what the rest of the library relies on."""

    def joint(self, p: Logits, q: Logits) -> Joint:
        """Exact P(X=i, Y=j): row sums are the probabilities of `p`, column sums those of `q`."""
        log_p, log_q = self._worlds(p, q)
        _check_square(log_p)
        return checks.as_answer(type(self).__name__, _compiled("_joint", self, log_p, log_q))

    def counterfactual_probs(self, p: Logits, q: Logits, x: OutcomeLike) -> Probs:
        """Exact P(Y=. | X=x): the row of `joint` that belongs to `x`, normalised, found without the matrix."""
        log_p, log_q = self._worlds(p, q)
        return checks.as_answer(
            type(self).__name__, _compiled("_counterfactual_probs", self, log_p, log_q, checks.as_outcome(log_p, x))
        )

    def expected_loss(self, p: Logits, q: Logits, loss: Float[ArrayLike, "k k"]) -> Scalar:
        """Exact E[loss(X, Y)]; `loss[i, j]` is for outcome i of the factual world beside j of the other."""
        log_p, log_q = self._worlds(p, q)
        matrix = checks.as_loss("loss", loss)
        if len(matrix) != log_p.size:
            raise InputError(f"`loss` must be a matrix of {log_p.size} by {log_p.size}, got shape {matrix.shape}")
        _check_square(log_p)
        return checks.as_answer(type(self).__name__, self._expected_loss(log_p, log_q, matrix))

    def _expected_loss(self, log_p: LogProbs, log_q: LogProbs, loss: Float[Array, "k k"]) -> Scalar:
        return (self._joint(log_p, log_q) * loss).sum()

    @abstractmethod
    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint: ...

    @abstractmethod
    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs: ...


class AbstractMatrixCoupling(AbstractCoupling):
    """A coupling known by its joint law alone, tied to one pair (p, q): draws come from the law, not from noise."""

    def _pair(self, log_p: LogProbs, log_q: LogProbs, *, key: PRNGKeyArray) -> tuple[Outcome, Outcome]:
        key_x, key_y = jax.random.split(key)
        x = jax.random.categorical(key_x, log_p)
        return x, self._counterfactual(log_p, log_q, x, key=key_y)

    def _counterfactual(self, log_p: LogProbs, log_q: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> Outcome:
        return checks.draw_from(self._counterfactual_probs(log_p, log_q, x), key)


class AbstractNoiseSampler(AbstractSampler, Generic[Noise]):
    """Both worlds respond to one draw of noise, which the other world may see rearranged.

    The factual world sees `respond(noise, p)`, the other world `respond(swap(noise), q)`. A counterfactual is abduction
    (noise that explains what was seen), action (the other world's logits) and prediction.
    """

    _drawn_from: ClassVar[str] = "scores"

    @abstractmethod
    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> Noise:
        """Draws the noise that all worlds share, for logits of this length."""

    @abstractmethod
    def swap(self, noise: Noise) -> Noise:
        """The noise as the other world sees it; a mechanism changes nothing."""

    def respond(self, noise: Noise, logits: Logits) -> Outcome:
        """The outcome of a world with these logits: no randomness is left."""
        log_p = self._world(logits)
        return self._respond(self._as_noise(noise, log_p), log_p)

    def abduct(self, logits: Logits, x: OutcomeLike, *, key: PRNGKeyArray) -> Noise:
        """Draws noise given that a world with these logits yielded `x`."""
        log_p = self._world(logits)
        return self._abduct(log_p, self._seen(log_p, x), key=checks.as_key(key))

    def _world(self, logits: Logits) -> LogProbs:
        log_p = checks.as_log_probs("logits", logits)
        self._check(log_p)
        return log_p

    def _as_noise(self, noise: Noise, log_p: LogProbs) -> Noise:
        """Noise of the right shapes, without NaN: anything else would yield some outcome, too."""
        like = eqx.filter_eval_shape(lambda: self.noise(log_p.size, key=jax.random.key(0), dtype=log_p.dtype))
        return checks.as_noise(noise, like, uniform=self._drawn_from == "uniform", num_causes=self._num_causes)

    @property
    def _num_causes(self) -> int | None:
        """How many values the integers among its noise can have; None where there are none, or any will do."""
        return None

    @abstractmethod
    def _respond(self, noise: Noise, log_p: LogProbs) -> Outcome: ...

    @abstractmethod
    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> Noise: ...

    def _pair(self, log_p: LogProbs, log_q: LogProbs, *, key: PRNGKeyArray) -> tuple[Outcome, Outcome]:
        noise = self.noise(log_p.size, key=key, dtype=log_p.dtype)
        return self._respond(noise, log_p), self._respond(self.swap(noise), log_q)

    def _counterfactual(self, log_p: LogProbs, log_q: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> Outcome:
        return self._respond(self.swap(self._abduct(log_p, x, key=key)), log_q)


class AbstractMechanism(AbstractNoiseSampler[Noise]):
    """One function of noise and logits, the same for every world, so that it couples all worlds at once.

    Where nothing is done nothing changes: equal logits give equal outcomes.
    """

    def swap(self, noise: Noise) -> Noise:
        return noise


class AbstractArgmaxSampler(AbstractNoiseSampler[Noise]):
    """A response to noise in which the outcome with the highest score wins, so that it can be relaxed."""

    def scores(self, noise: Noise, logits: Logits) -> LogProbs:
        """What each outcome scores; an impossible one scores `-inf`."""
        log_p = self._world(logits)
        return self._scores(self._as_noise(noise, log_p), log_p)

    def relax(self, noise: Noise, logits: Logits, temperature: float | Scalar) -> Probs:
        """A differentiable stand-in for `respond`: the softmax of scores *and* noise over the temperature."""
        scores = self.scores(noise, logits)
        value = checks.as_temperature(temperature, scores.dtype)
        # The largest score becomes zero before the division, so that the least temperature does not overflow.
        return jax.nn.softmax((scores - jax.lax.stop_gradient(scores.max())) / value)

    @abstractmethod
    def _scores(self, noise: Noise, log_p: LogProbs) -> LogProbs: ...

    def _respond(self, noise: Noise, log_p: LogProbs) -> Outcome:
        return jnp.argmax(self._scores(noise, log_p))


def _check_square(log_p: LogProbs) -> None:
    """Refuses a joint law that does not fit into memory."""
    size, advice = log_p.size, "ask for one row with `counterfactual_probs`, which needs no matrix"
    if size > _FEW_OUTCOMES:
        check_memory(f"a joint law of {size} by {size} outcomes", 3.0 * size**2 * log_p.dtype.itemsize, advice)


# What is asked one by one is compiled in one piece: a dozen small programs would take far longer, and a program without
# a check inside it, which would call the host, can be kept from one process to the next.


@eqx.filter_jit
def _compiled(hook: str, sampler: AbstractSampler, *arguments: Array, **key: PRNGKeyArray) -> Any:
    return getattr(sampler, hook)(*arguments, **key)
