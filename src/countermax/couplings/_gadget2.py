"""Gadget 2: a latent cause z is drawn first, then Gumbel-max decides among the outcomes that z favours."""

from collections.abc import Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from countermax import race
from countermax._core.quantities import as_amount, as_count
from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings._balancing import CORRECTIONS, Conditionals, balance
from countermax.couplings._base import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism
from countermax.couplings._fields import LARGEST_SCORE, check_choice, check_flag, check_floats, check_matrix
from countermax.couplings._gumbel_max import top_down
from countermax.couplings.parts import AbstractPart, Perceptron, Started

MOST_ROUNDS = 10_000
"""Balancing has long converged by then, or never will; without a limit a file could keep every answer waiting."""


class LatentNoise(NamedTuple):
    """Gumbels for the latent cause, and Gumbels for the outcomes."""

    latent: Float[Array, " z"]
    outcome: Float[Array, " k"]


@final
class Gadget2(AbstractArgmaxSampler[LatentNoise], AbstractMechanism[LatentNoise], AbstractCoupling):
    """The learnable mechanism of Lorberbom et al. (2021), section 5.2, with its exact law.

    A latent cause z, drawn without looking at p, picks a distribution `p(x | z)`; their mixture is p, for every p and
    every value of the parameters. Given z both worlds run Gumbel-max with the same noise. So the joint law is a sum
    over z of closed forms, and learning needs no sampling. One latent is Gumbel-max itself.
    """

    part: AbstractPart
    latent_logits: Float[Array, " z"]
    size: int = eqx.field(static=True)
    learn_latents: bool = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    relaxation: float = eqx.field(static=True)
    momentum: float = eqx.field(static=True)
    correction: str = eqx.field(static=True)

    def __init__(
        self,
        num_outcomes: int,
        num_latents: int = 20,
        *,
        key: PRNGKeyArray,
        part: AbstractPart | None = None,
        start: AbstractPart | None = None,
        hidden: Sequence[int] = (256, 256),
        activation: str = "gelu",
        features: str = "rich",
        learn_latents: bool = True,
        rounds: int = 20,
        relaxation: float = 1.5,
        momentum: float = 0.5,
        correction: str = "round-off",
    ):
        """Draws the parameters.

        Args:
            num_outcomes: The length of the logits.
            num_latents: Number of latent causes z.
            key: Random key; consumed once.
            part: Part that learns, in place of a perceptron: any module that turns log-probabilities into [z, k].
            start: Part that the coupling starts from, added to the perceptron's output: `BinnedInverseCDF`,
                `ReferenceTransport`.
            hidden: Sizes of the perceptron's hidden layers.
            activation: Activation of the perceptron: `gelu`, `relu`, `sigmoid` or `tanh`.
            features: Features of p that it sees: `rich` or `probabilities`.
            learn_latents: Whether the distribution of z is learned; uniform and fixed if not.
            rounds: Rounds of balancing, 10,000 at most. More make the gadget sharper; marginals are exact with any.
            relaxation: Step of the balancing, above 0 and at most 2; 1 is plain Sinkhorn.
            momentum: Heavy ball of the balancing, from 0 to below 1; 0 is plain Sinkhorn.
            correction: Correction that makes the marginals exact: `round-off` or the paper's `accept-reject`.
        """
        num_outcomes, num_latents = as_count("`num_outcomes`", num_outcomes), as_count("`num_latents`", num_latents)
        if part is None:
            part = Perceptron(
                num_latents,
                num_outcomes,
                key=key,
                hidden=hidden,
                activation=activation,
                features=features,
                silent=start is not None,
            )
        self.part = part if start is None else Started(start, part)
        self.latent_logits = jnp.zeros(num_latents)
        self.size, self.learn_latents, self.correction = num_outcomes, learn_latents, correction
        self.rounds = as_count("`rounds`", rounds, least=0, most=MOST_ROUNDS)
        self.relaxation, self.momentum = as_amount("`relaxation`", relaxation), as_amount("`momentum`", momentum)

    def __check_init__(self) -> None:
        as_count("`num_outcomes`", self.size)
        as_count("`rounds`", self.rounds, least=0, most=MOST_ROUNDS)
        as_amount("`relaxation`", self.relaxation, above=0.0, most=2.0)
        as_amount("`momentum`", self.momentum, least=0.0, most=0.999)
        check_flag("learn_latents", self.learn_latents)
        check_choice("correction", self.correction, CORRECTIONS)
        check_floats("latent_logits", self.latent_logits, 1, most=LARGEST_SCORE)
        check_matrix("part", self.part, self.latent_logits.size, self.size)

    @classmethod
    def as_published(cls, num_outcomes: int, num_latents: int = 20, *, key: PRNGKeyArray) -> "Gadget2":
        """The gadget as the paper used it: large sigmoid network on probabilities, 10 plain rounds, accept-reject."""
        return cls(
            num_outcomes,
            num_latents,
            key=key,
            hidden=(1024, 1024),
            activation="sigmoid",
            features="probabilities",
            learn_latents=False,
            rounds=10,
            relaxation=1.0,
            momentum=0.0,
            correction="accept-reject",
        )

    @property
    def num_outcomes(self) -> int:
        """As many as it was built for."""
        return self.size

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> LatentNoise:
        """Gumbels for z and for x."""
        key_latent, key_outcome = jax.random.split(key)
        latent = jax.random.gumbel(key_latent, self.latent_logits.shape, dtype)
        return LatentNoise(latent, jax.random.gumbel(key_outcome, (num_outcomes,), dtype))

    def _scores(self, noise: LatentNoise, log_p: LogProbs) -> LogProbs:
        latent = jnp.argmax(self._log_latents(log_p) + noise.latent)
        return self._conditionals(log_p)[latent] + noise.outcome

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> LatentNoise:
        key_cause, key_latent, key_outcome = jax.random.split(key, 3)
        log_latents, conditionals = self._log_latents(log_p), self._conditionals(log_p)
        latent = jax.random.categorical(key_cause, log_latents + conditionals[:, x])
        return LatentNoise(
            top_down(log_latents, latent, key=key_latent), top_down(conditionals[latent], x, key=key_outcome)
        )

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        laws = jax.vmap(race.joint)(self._conditionals(log_p), self._conditionals(log_q))
        return jnp.tensordot(jnp.exp(self._log_latents(log_p)), laws, axes=1)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        conditionals = self._conditionals(log_p)
        posterior = jax.nn.softmax(self._log_latents(log_p) + conditionals[:, x])
        return posterior @ jax.vmap(race.row, (0, 0, None))(conditionals, self._conditionals(log_q), x)

    def _log_latents(self, log_p: LogProbs) -> Float[Array, " z"]:
        logits = self.latent_logits if self.learn_latents else jax.lax.stop_gradient(self.latent_logits)
        return jax.nn.log_softmax(logits.astype(log_p.dtype))

    def _conditionals(self, log_p: LogProbs) -> Conditionals:
        """Log p(x | z): rows that sum to one and whose mixture over z is p."""
        log_latents = self._log_latents(log_p)
        scores = self.part(log_p).astype(log_p.dtype)
        balanced = balance(
            scores, log_p, log_latents, rounds=self.rounds, relaxation=self.relaxation, momentum=self.momentum
        )
        return CORRECTIONS[self.correction](balanced, log_p, log_latents)
