"""What a gadget learns with: parts that turn log-probabilities into a matrix of scores, and parts to start from.

A part is any Equinox module with `part(log_p) -> [rows, k]`. Gadget 2 reads the rows as latents, Gadget 1 as outcomes.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from countermax._core.checks import as_floats
from countermax._core.errors import InputError
from countermax._core.types import LogProbs, Score

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
}
_SMALLEST_LOG_PROB = -12.0


def _probabilities(log_p: LogProbs) -> Float[Array, " f"]:
    return jnp.exp(log_p)


def _rich(log_p: LogProbs) -> Float[Array, " f"]:
    """Probabilities, their logarithms (where rare outcomes differ) and their sums (where an order shows)."""
    probs = jnp.exp(log_p)
    return jnp.concatenate([probs, jnp.maximum(log_p, _SMALLEST_LOG_PROB) / 8, jnp.cumsum(probs)])


FEATURES: dict[str, tuple[int, Callable[[LogProbs], Array]]] = {
    "probabilities": (1, _probabilities),
    "rich": (3, _rich),
}


class AbstractPart(eqx.Module):
    """Turns log-probabilities into a matrix of scores."""

    @abstractmethod
    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""


@final
class Perceptron(AbstractPart):
    """A multilayer perceptron on features of the distribution."""

    weights: tuple[Float[Array, "o i"], ...]
    biases: tuple[Float[Array, " o"], ...]
    num_rows: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    features: str = eqx.field(static=True)

    def __init__(
        self,
        num_rows: int,
        num_outcomes: int,
        *,
        key: PRNGKeyArray,
        hidden: Sequence[int] = (256, 256),
        activation: str = "gelu",
        features: str = "rich",
        silent: bool = False,
    ):
        """Draws the weights.

        Args:
            num_rows: Rows of the matrix.
            num_outcomes: Columns of the matrix.
            key: Consumed once.
            hidden: Sizes of the hidden layers.
            activation: One of `gelu`, `relu`, `sigmoid`, `tanh`.
            features: `rich` (probabilities, their logarithms and cumulative sums) or `probabilities`.
            silent: Whether the last layer starts at zero, so that training begins at the part to start from.
        """
        _check_choice("activation", activation, ACTIVATIONS)
        _check_choice("features", features, FEATURES)
        if any(size < 1 for size in hidden):
            raise InputError(f"`hidden` must hold positive sizes, got {tuple(hidden)}")
        sizes = [FEATURES[features][0] * num_outcomes, *hidden, num_rows * num_outcomes]
        keys = jax.random.split(key, len(sizes) - 1)
        weights = [
            jax.random.normal(each, (outputs, inputs)) / np.sqrt(inputs)
            for each, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        if silent:
            weights[-1] = jnp.zeros_like(weights[-1])
        self.weights = tuple(weights)
        self.biases = tuple(jnp.zeros(size) for size in sizes[1:])
        self.num_rows, self.activation, self.features = num_rows, activation, features

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        values = FEATURES[self.features][1](log_p).astype(self.weights[0].dtype)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = ACTIVATIONS[self.activation](weight @ values + bias)
        values = self.weights[-1] @ values + self.biases[-1]
        return values.reshape(self.num_rows, log_p.size)


@final
class Constant(AbstractPart):
    """The same scores for every distribution: balancing alone adapts them to p."""

    values: Float[Array, "rows k"]

    def __init__(
        self, num_rows: int, num_outcomes: int, *, key: PRNGKeyArray, silent: bool = False, scale: float = 1.0
    ):
        """Draws normal entries of the given scale, or sets them to zero (`silent`)."""
        self.values = (0.0 if silent else scale) * jax.random.normal(key, (num_rows, num_outcomes))

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        return self.values


@final
class Started(AbstractPart):
    """A part whose output is added to that of a part to start from, which is not trained."""

    start: AbstractPart
    part: AbstractPart

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        fixed = jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, self.start)
        return fixed(log_p) + self.part(log_p)


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
        self.order = jnp.asarray(np.argsort(np.asarray(as_floats("score", score, 1)), stable=True), int)
        self.num_latents, self.leak = num_latents, leak

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
        if self.points.shape[1] != self.scores.shape[1]:
            raise InputError(
                "`points` and `scores` must have the same dimension, "
                f"got {self.points.shape[1]} and {self.scores.shape[1]}"
            )
        if not blur > 0:
            raise InputError(f"`blur` must be positive, got {blur}")
        self.blur = blur

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        scale = (self.scores**2).sum(axis=1).mean()
        return self.points @ self.scores.T / (self.blur * scale) + jnp.where(log_p == -jnp.inf, 0, log_p)[None, :]


@final
class Diagonal(AbstractPart):
    """Starts Gadget 1 near Gumbel-max: every outcome keeps to its own cell."""

    num_outcomes: int = eqx.field(static=True)
    strength: float = eqx.field(static=True, default=4.0)

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        """The matrix for one distribution."""
        return self.strength * jnp.eye(self.num_outcomes, dtype=log_p.dtype)


def _check_choice(name: str, value: str, choices: Mapping[str, object]) -> None:
    if value not in choices:
        raise InputError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}")
