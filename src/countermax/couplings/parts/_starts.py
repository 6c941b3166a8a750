"""Parts to start Gadget 2 from: fixed couplings that a network then improves on."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax._core.checks import as_floats, is_traced
from countermax._core.errors import InputError
from countermax._core.quantities import as_amount, as_count
from countermax._core.types import LogProbs, Score
from countermax.couplings._fields import LARGEST_SCORE, check_floats, check_permutation
from countermax.couplings.parts._base import AbstractPart


@final
class BinnedInverseCDF(AbstractPart):
    """Starts Gadget 2 at the inverse CDF: latent z owns the z-th part of [0, 1), and the outcomes that meet it."""

    order: Int[Array, " k"]
    num_latents: int = eqx.field(static=True)
    leak: float = eqx.field(static=True)

    def __init__(self, num_latents: int, score: Score, *, leak: float = 1e-5):
        """Sets the line of outcomes.

        Args:
            num_latents: Number of equal parts that [0, 1) is divided into.
            score: One number for each outcome; they stand in its order.
            leak: Weight of an outcome that a latent does not meet; small beside 1 / `num_latents`, and above zero so
                that training can move it.
        """
        numbers = np.asarray(as_floats("score", score, 1))
        if np.isnan(numbers).any():
            raise InputError("`score` must not contain NaN")
        self.order = jnp.asarray(np.argsort(numbers, stable=True), int)
        self.num_latents, self.leak = as_count("`num_latents`", num_latents), as_amount("`leak`", leak)

    def __check_init__(self) -> None:
        check_permutation("order", self.order)
        as_count("`num_latents`", self.num_latents)
        as_amount("`leak`", self.leak, least=1 / LARGEST_SCORE, most=1.0)

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        probs = jnp.exp(log_p)[self.order]
        upper = jnp.cumsum(probs)
        edges = jnp.arange(self.num_latents + 1, dtype=log_p.dtype) / self.num_latents
        meet = jnp.minimum(upper[None, :], edges[1:, None]) - jnp.maximum((upper - probs)[None, :], edges[:-1, None])
        matrix = jnp.log(jnp.maximum(meet, 0) + self.leak)
        return jnp.zeros_like(matrix).at[:, self.order].set(matrix)


@final
class ReferenceTransport(AbstractPart):
    """Starts Gadget 2 at transport from common reference points: latent z prefers outcomes whose score points its way.

    With exact balancing it is the entropic optimal transport plan between p's scores and the points, for every p at
    once; sorted inverse CDF is its sharp one-dimensional case. Points where the scores usually lie serve best, for
    instance the support of their Wasserstein barycenter (`countermax.learning.barycenter`).
    """

    points: Float[Array, "z d"]
    scores: Float[Array, "k d"]
    blur: float = eqx.field(static=True)

    def __init__(self, points: Float[ArrayLike, "z d"], scores: Float[ArrayLike, "k d"], *, blur: float = 0.05):
        """Sets both ends of the transport.

        Args:
            points: One reference point for each latent.
            scores: One vector for each outcome.
            blur: The entropic regularisation, in units of the scores' mean squared norm.
        """
        self.points, self.scores = as_floats("points", points, 2), as_floats("scores", scores, 2)
        self.blur = as_amount("`blur`", blur)

    def __check_init__(self) -> None:
        check_floats("points", self.points, 2)
        check_floats("scores", self.scores, 2)
        as_amount("`blur`", self.blur, above=0.0)
        if self.points.shape[1] != self.scores.shape[1]:
            raise InputError(
                "`points` and `scores` must have the same dimension, "
                f"got {self.points.shape[1]} and {self.scores.shape[1]}"
            )
        if is_traced(self.points) or is_traced(self.scores):
            return
        points, scores = np.abs(np.asarray(self.points)), np.abs(np.asarray(self.scores))
        with np.errstate(all="ignore"):
            unit = scores.dtype.type(self.blur) * (scores**2).sum(axis=1).mean()
            most = (points @ scores.T).max() / unit
        if not (1 / LARGEST_SCORE < unit < LARGEST_SCORE and most < LARGEST_SCORE):
            raise InputError(
                "`scores` must not all be zero, and `points` and `blur` must be of their size: "
                f"they would differ by a factor of {most:g}"
            )

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        scale = (self.scores**2).sum(axis=1).mean()
        return self.points @ self.scores.T / (self.blur * scale) + jnp.where(log_p == -jnp.inf, 0, log_p)[None, :]
