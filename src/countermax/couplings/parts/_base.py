"""What every part is, and those that look at no distribution."""

from abc import abstractmethod
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, as_count, shown
from countermax._core.types import LogProbs
from countermax.couplings._fields import LARGEST_SCORE, check_floats

BYTES = 16
"""For each number while it is drawn: a few copies of four bytes."""


class AbstractPart(eqx.Module):
    """Turns log-probabilities into a matrix of scores."""

    @abstractmethod
    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""


@final
class Constant(AbstractPart):
    """The same scores for every distribution: balancing alone adapts them to p."""

    values: Float[Array, "rows k"]

    def __init__(
        self, num_rows: int, num_outcomes: int, *, key: PRNGKeyArray, silent: bool = False, scale: float = 1.0
    ):
        """Draws normal entries of the given scale, or sets them to zero (`silent`)."""
        num_rows, num_outcomes = as_count("`num_rows`", num_rows), as_count("`num_outcomes`", num_outcomes)
        check_memory(
            f"{num_rows} x {num_outcomes} scores", BYTES * num_rows * num_outcomes, "lower the latents or the outcomes"
        )
        self.values = (0.0 if silent else scale) * jax.random.normal(key, (num_rows, num_outcomes))

    def __check_init__(self) -> None:
        check_floats("values", self.values, 2, most=LARGEST_SCORE)

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        return self.values


@final
class Diagonal(AbstractPart):
    """Starts Gadget 1 near Gumbel-max: every outcome keeps to its own cell."""

    num_outcomes: int = eqx.field(static=True)
    strength: float = eqx.field(static=True, default=4.0)

    def __check_init__(self) -> None:
        as_count("`num_outcomes`", self.num_outcomes)
        as_amount("`strength`", self.strength, least=-LARGEST_SCORE, most=LARGEST_SCORE)

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        return self.strength * jnp.eye(self.num_outcomes, dtype=log_p.dtype)


@final
class Started(AbstractPart):
    """A part whose output is added to that of a part to start from, which is not trained."""

    start: AbstractPart
    part: AbstractPart

    def __check_init__(self) -> None:
        for name, value in (("start", self.start), ("part", self.part)):
            if not callable(value):
                raise InputError(f"`{name}` must be a part, got {shown(value)}")

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        still = jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, self.start)
        fixed, learned = still(log_p), self.part(log_p)
        if fixed.shape != learned.shape:
            raise InputError(f"`start` and `part` must yield matrices of one shape, got {fixed.shape}, {learned.shape}")
        return fixed + learned
