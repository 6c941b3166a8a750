"""Gadgets: couplings that learn, with exact marginals whatever their parameters are."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from countermax import race
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, as_choice, as_count, as_flag
from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings._base import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism
from countermax.couplings._fields import LARGEST_SCORE, check_floats, check_matrix
from countermax.couplings._gumbel_max import below, top_down
from countermax.couplings._parts import AbstractPart, Perceptron, Started

Conditionals = Float[Array, "z k"]


def balance(
    scores: Float[Array, "z k"],
    log_p: LogProbs,
    log_latents: Float[Array, " z"],
    *,
    rounds: int,
    relaxation: float,
    momentum: float,
) -> Conditionals:
    """Sinkhorn's algorithm on one potential: log p(x | z) with exact rows and columns that approach p.

    Plain Sinkhorn (`relaxation` 1, `momentum` 0) is slow on sharp matrices. Overrelaxed and with a heavy ball it needs
    far fewer rounds; pushed too far it oscillates, which costs sharpness but never the marginals.
    """
    possible = log_p > -jnp.inf
    target = jnp.where(possible, log_p, 0)
    masked = jnp.where(possible[None, :], scores, -jnp.inf)

    def normalised(potential: LogProbs) -> Conditionals:
        return jax.nn.log_softmax(masked + potential[None, :], axis=1)

    def step(state: tuple[LogProbs, LogProbs], _: None) -> tuple[tuple[LogProbs, LogProbs], None]:
        potential, last = state
        conditionals = jnp.where(possible[None, :], normalised(potential), 0)
        columns = jax.nn.logsumexp(conditionals + log_latents[:, None], axis=0)
        move = jnp.where(possible, relaxation * (target - columns), 0) + momentum * last
        return (potential + move, move), None

    nothing = jnp.zeros_like(target)
    (potential, _), _ = jax.lax.scan(step, (nothing, nothing), length=rounds, unroll=min(5, max(1, rounds)))
    return normalised(potential)


def accept_reject(log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]) -> Conditionals:
    """The paper's correction: thin each proposal by its column's ratio to the worst one, and fall back to p."""
    log_lifts, log_columns = _against_p(log_conditionals, log_p, log_latents)
    accepted = jnp.exp(log_lifts + (log_columns.min() - log_columns)[None, :])
    rejected = jnp.maximum(1 - accepted @ jnp.exp(log_p), 0)
    return _log(accepted + rejected[:, None], log_p)


def round_off(log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]) -> Conditionals:
    """Scales down the columns that have too much, and spreads what is missing by the product of the shortfalls.

    It moves only the total-variation error of the columns, where accept-reject scales everything by the worst column.
    """
    log_lifts, log_columns = _against_p(log_conditionals, log_p, log_latents)
    kept = jnp.exp(log_lifts - jnp.maximum(log_columns, 0)[None, :])
    missing = jnp.maximum(1 - kept @ jnp.exp(log_p), 0)
    short = -jnp.expm1(jnp.minimum(log_columns, 0))
    total = jnp.exp(log_latents) @ missing
    # Nothing missing means that rounding alone is left; every latent is then as good a place for it as any other.
    enough = total > np.finfo(log_p.dtype).eps
    share = jnp.where(enough, missing / jnp.where(enough, total, 1), 1)
    return _log(kept + share[:, None] * short[None, :], log_p)


CORRECTIONS: dict[str, Callable[[Conditionals, LogProbs, Float[Array, " z"]], Conditionals]] = {
    "round-off": round_off,
    "accept-reject": accept_reject,
}


def _against_p(
    log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]
) -> tuple[Conditionals, LogProbs]:
    """The logarithms of the lifts p(x | z) / p(x), and of their mixture over z, which ought to be one.

    As multiples of p the parts of an outcome have one size, however rare it is. Those of an impossible outcome are one,
    and stand for nothing.
    """
    possible = log_p > -jnp.inf
    log_lifts = jnp.where(possible[None, :], log_conditionals, 0) - jnp.where(possible, log_p, 0)[None, :]
    return log_lifts, jax.nn.logsumexp(log_lifts + log_latents[:, None], axis=0)


def _log(lifts: Conditionals, log_p: LogProbs) -> Conditionals:
    """Log-probabilities from lifts, normalised along each row; a lift that underflows is an impossible outcome."""
    positive = (lifts > np.finfo(lifts.dtype).tiny) & (log_p > -jnp.inf)[None, :]
    sums = jnp.where(positive, lifts, 0) @ jnp.exp(log_p)
    logs = jnp.log(jnp.where(positive, lifts, 1)) + jnp.where(log_p > -jnp.inf, log_p, 0)[None, :]
    return jnp.where(positive, logs - jnp.log(sums)[:, None], -jnp.inf)


class SquareNoise(eqx.Module):
    """One Gumbel for each cell, and which world reads them."""

    gumbels: Float[Array, "k k"]
    other_world: bool = eqx.field(static=True)


@final
class Gadget1(AbstractArgmaxSampler[SquareNoise], AbstractCoupling):
    """The paper's warm-up gadget (section 5.1), with its exact law.

    Each outcome x divides its probability among K cells (x, z) by a learned rule, and the cell with the highest
    Gumbel-max score wins. The other world sees the Gumbels transposed, so it is an antithetic coupling of two worlds
    rather than a mechanism for all of them: equal logits need not give equal outcomes. A rule that keeps every outcome
    to its own cell is Gumbel-max.
    """

    part: AbstractPart
    other_part: AbstractPart | None
    size: int = eqx.field(static=True)

    def __init__(
        self,
        num_outcomes: int,
        *,
        key: PRNGKeyArray,
        part: AbstractPart | None = None,
        other_part: AbstractPart | None = None,
        shared: bool = False,
        start: AbstractPart | None = None,
        hidden: Sequence[int] = (256, 256),
    ):
        """Draws the parameters.

        What learns is a `Perceptron` with these `hidden` layers, or any module that turns log-probabilities into
        [k, k]: one for each world, or `shared` by both. Its output is added to that of the part that the coupling
        starts from (`Diagonal` is Gumbel-max).
        """
        num_outcomes = as_count("`num_outcomes`", num_outcomes)
        if part is not None and (other_part is None) is not shared:
            raise InputError("give `part` and `other_part`, or `part` alone with `shared=True`")
        if part is None:
            part, other_part = (
                Perceptron(num_outcomes, num_outcomes, key=each, hidden=hidden, silent=start is not None)
                for each in jax.random.split(key)
            )
            other_part = None if shared else other_part

        def started(each: AbstractPart) -> AbstractPart:
            return each if start is None else Started(start, each)

        self.part = started(part)
        self.other_part = None if other_part is None else started(other_part)
        self.size = num_outcomes

    def __check_init__(self) -> None:
        as_count("`num_outcomes`", self.size)
        check_matrix("part", self.part, self.size, self.size)
        if self.other_part is not None:
            check_matrix("other_part", self.other_part, self.size, self.size)

    @classmethod
    def as_published(cls, num_outcomes: int, *, key: PRNGKeyArray) -> "Gadget1":
        """The gadget as the paper used it: two large sigmoid networks on probabilities."""
        part, other_part = (_published(num_outcomes, num_outcomes, each) for each in jax.random.split(key))
        return cls(num_outcomes, key=key, part=part, other_part=other_part)

    @property
    def num_outcomes(self) -> int:
        return self.size

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> SquareNoise:
        """One standard Gumbel for each cell."""
        return SquareNoise(jax.random.gumbel(key, (num_outcomes, num_outcomes), dtype), other_world=False)

    def swap(self, noise: SquareNoise) -> SquareNoise:
        """Transposes the Gumbels for the other world."""
        return SquareNoise(noise.gumbels.T, not noise.other_world)

    def _scores(self, noise: SquareNoise, log_p: LogProbs) -> LogProbs:
        return log_p + (self._split(log_p, noise.other_world) + noise.gumbels).max(axis=1)

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> SquareNoise:
        """Top down in two stages: the best score of each outcome, then the Gumbels of the cells below it."""
        key_best, key_cell, key_rest = jax.random.split(key, 3)
        best = top_down(log_p, x, key=key_best)
        split = self._split(log_p, other_world=False)
        cells = jax.random.categorical(key_cell, split, axis=1)
        keys = jax.random.split(key_rest, log_p.size)
        gumbels = jax.vmap(lambda row, cell, most, each: below(row, cell, most, key=each))(split, cells, best, keys)
        return SquareNoise(gumbels, other_world=False)

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        return jnp.exp(log_p)[:, None] * self._rows(log_p, log_q)

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        return self._rows(log_p, log_q)[x]

    def _rows(self, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
        check_memory(
            f"the law of a Gadget1 of {self.size} outcomes, with numbers for each cell and column,",
            4.0 * self.size**3 * log_p.dtype.itemsize,
            "use a Gadget2",
        )
        # In the other world cell (a, b) is outcome b's cell a.
        cells = (log_q[:, None] + self._split(log_q, other_world=True)).T
        return race.rows_of_cells(log_p, self._split(log_p, other_world=False), cells)

    def _split(self, log_p: LogProbs, other_world: bool) -> Float[Array, "k k"]:
        """Log of how each outcome divides its probability among its cells."""
        part = self.other_part if other_world and self.other_part is not None else self.part
        return jax.nn.log_softmax(part(log_p).astype(log_p.dtype), axis=1)


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
            part: Part that learns, in place of a `Perceptron`: any module that turns log-probabilities into [z, k].
            start: Part that the coupling starts from, added to the perceptron's output: `BinnedInverseCDF`,
                `ReferenceTransport`.
            hidden: Sizes of the perceptron's hidden layers.
            learn_latents: Whether the distribution of z is learned; uniform and fixed if not.
            rounds: Rounds of balancing, 10,000 at most. More make the gadget sharper; marginals are exact with any.
            relaxation: Step of the balancing, above 0 and at most 2; 1 is plain Sinkhorn.
            momentum: Heavy ball of the balancing, from 0 to below 1; 0 is plain Sinkhorn.
            correction: Correction that makes the marginals exact: `round-off` or the paper's `accept-reject`.
        """
        num_outcomes, num_latents = as_count("`num_outcomes`", num_outcomes), as_count("`num_latents`", num_latents)
        if part is None:
            part = Perceptron(num_latents, num_outcomes, key=key, hidden=hidden, silent=start is not None)
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
        as_flag("`learn_latents`", self.learn_latents)
        as_choice("`correction`", self.correction, CORRECTIONS)
        check_floats("latent_logits", self.latent_logits, 1, most=LARGEST_SCORE)
        check_matrix("part", self.part, self.latent_logits.size, self.size)

    @classmethod
    def as_published(cls, num_outcomes: int, num_latents: int = 20, *, key: PRNGKeyArray) -> "Gadget2":
        """The gadget as the paper used it: large sigmoid network on probabilities, 10 plain rounds, accept-reject."""
        return cls(
            num_outcomes,
            num_latents,
            key=key,
            part=_published(num_latents, num_outcomes, key),
            learn_latents=False,
            rounds=10,
            relaxation=1.0,
            momentum=0.0,
            correction="accept-reject",
        )

    @property
    def num_outcomes(self) -> int:
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
        outcome = top_down(conditionals[latent], x, key=key_outcome)
        return LatentNoise(top_down(log_latents, latent, key=key_latent), outcome)

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


def _published(num_rows: int, num_outcomes: int, key: PRNGKeyArray) -> Perceptron:
    """The paper's network."""
    return Perceptron(
        num_rows, num_outcomes, key=key, hidden=(1024, 1024), activation="sigmoid", features="probabilities"
    )
