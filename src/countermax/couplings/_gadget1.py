"""Gadget 1: Gumbel-max over the cells of a square, read by rows in one world and by columns in the other."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from countermax import race
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax.couplings._base import AbstractArgmaxSampler, AbstractCoupling
from countermax.couplings._fields import check_matrix
from countermax.couplings._gumbel_max import below, top_down
from countermax.couplings.parts import AbstractPart, Perceptron, Started


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
        activation: str = "gelu",
        features: str = "rich",
    ):
        """Draws the parameters.

        Args:
            num_outcomes: The length of the logits.
            key: Random key; consumed once.
            part: Part that learns, in place of a perceptron: any module that turns log-probabilities into [k, k].
            other_part: The same for the other world; needed with `part`, unless `shared`.
            shared: Whether both worlds use one set of parameters instead of one each.
            start: Part that the coupling starts from, added to the perceptrons' output (`Diagonal` is Gumbel-max).
            hidden: Sizes of the perceptrons' hidden layers.
            activation: Activation of the perceptrons: `gelu`, `relu`, `sigmoid` or `tanh`.
            features: Features of p that they see: `rich` or `probabilities`.
        """
        num_outcomes = as_count("`num_outcomes`", num_outcomes)
        if part is not None and (other_part is None) is not shared:
            raise InputError("give `part` and `other_part`, or `part` alone with `shared=True`")

        def perceptron(each: PRNGKeyArray) -> AbstractPart:
            return Perceptron(
                num_outcomes,
                num_outcomes,
                key=each,
                hidden=hidden,
                activation=activation,
                features=features,
                silent=start is not None,
            )

        if part is None:
            key_part, key_other = jax.random.split(key)
            part, other_part = perceptron(key_part), None if shared else perceptron(key_other)

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
        return cls(num_outcomes, key=key, hidden=(1024, 1024), activation="sigmoid", features="probabilities")

    @property
    def num_outcomes(self) -> int:
        """As many as it was built for."""
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
