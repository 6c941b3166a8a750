"""Parts of gadgets: modules from log-probabilities to a matrix of scores, those that learn and those to start from."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from countermax._core.checks import as_floats, is_traced
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, as_choice, as_count, shown
from countermax._core.types import LogProbs, Score
from countermax.couplings._fields import LARGEST_SCORE, check_alike, check_floats, check_permutation
from countermax.couplings._inverse_cdf import InverseCDF

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
        what, size = f"{num_rows} x {num_outcomes} scores", BYTES * num_rows * num_outcomes
        check_memory(what, size, "lower the latents or the outcomes")
        self.values = (0.0 if silent else scale) * jax.random.normal(key, (num_rows, num_outcomes))

    def __check_init__(self) -> None:
        check_floats("values", self.values, 2, most=LARGEST_SCORE)

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
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
        still = jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, self.start)
        fixed, learned = still(log_p), self.part(log_p)
        if fixed.shape != learned.shape:
            raise InputError(f"`start` and `part` must yield matrices of one shape, got {fixed.shape}, {learned.shape}")
        return fixed + learned


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
}
_SMALLEST_LOG_PROB = -12.0
_LARGEST_FEATURE = 2.0  # probabilities and their sums are at most one but for rounding, and 12 / 8 is less too
_MOST_LAYERS = 100


def _rich(log_p: LogProbs) -> Float[Array, " f"]:
    """Probabilities, their logarithms (where rare outcomes differ) and their sums (where an order shows)."""
    probs = jnp.exp(log_p)
    return jnp.concatenate([probs, jnp.maximum(log_p, _SMALLEST_LOG_PROB) / 8, jnp.cumsum(probs)])


FEATURES: dict[str, tuple[int, Callable[[LogProbs], Array]]] = {"probabilities": (1, jnp.exp), "rich": (3, _rich)}


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
        """Draws the weights; the last layer is zero if `silent`, so that training begins at the part to start from.

        The activation is `gelu`, `relu`, `sigmoid` or `tanh`, features are `rich` (probabilities, their logarithms and
        cumulative sums) or `probabilities`.
        """
        as_choice("`features`", features, FEATURES)
        num_rows, num_outcomes = as_count("`num_rows`", num_rows), as_count("`num_outcomes`", num_outcomes)
        layers = [as_count("`hidden`", size) for size in hidden]
        if len(layers) > _MOST_LAYERS:
            raise InputError(f"`hidden` must have at most {_MOST_LAYERS} layers, got {len(layers)}")
        sizes = [FEATURES[features][0] * num_outcomes, *layers, num_rows * num_outcomes]
        numbers = sum(inputs * outputs for inputs, outputs in pairwise(sizes))
        check_memory(
            f"a perceptron for {num_rows} x {num_outcomes} scores with hidden layers {shown(tuple(layers))}",
            BYTES * numbers,
            "lower the sizes of the hidden layers, the latents or the outcomes",
        )
        keys = jax.random.split(key, len(sizes) - 1)
        weights = [
            jax.random.normal(each, (outputs, inputs)) / np.sqrt(inputs)
            for each, (inputs, outputs) in zip(keys, pairwise(sizes), strict=True)
        ]
        if silent:
            weights[-1] = jnp.zeros_like(weights[-1])
        self.weights = tuple(weights)
        self.biases = tuple(jnp.zeros(size) for size in sizes[1:])
        self.num_rows, self.activation, self.features = num_rows, activation, features

    def __check_init__(self) -> None:
        as_choice("`activation`", self.activation, ACTIVATIONS)
        as_choice("`features`", self.features, FEATURES)
        as_count("`num_rows`", self.num_rows)
        weights, biases = self.weights, self.biases
        if not isinstance(weights, tuple) or not isinstance(biases, tuple):
            raise InputError("`weights` and `biases` must be tuples of arrays, one for each layer")
        if len(weights) != len(biases) or not 1 <= len(weights) <= _MOST_LAYERS + 1:
            numbers = f"{len(weights)} and {len(biases)}"
            raise InputError(f"`weights` and `biases` must have an array for each layer, got {numbers}")
        for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            check_floats(f"weights[{index}]", weight, 2)
            check_floats(f"biases[{index}]", bias, 1)
        if len({each.dtype for each in (*weights, *biases)}) > 1:
            raise InputError("`weights` and `biases` must be of one precision")
        num_outcomes, rest = divmod(weights[0].shape[1], FEATURES[self.features][0])
        inputs = [weights[0].shape[1], *(bias.size for bias in biases)]
        wanted = list(pairwise(inputs))
        if rest or biases[-1].size != self.num_rows * num_outcomes or [each.shape[::-1] for each in weights] != wanted:
            raise InputError(
                f"`weights` and `biases` must fit each other and {self.num_rows} rows, "
                f"got {[each.shape for each in weights]} and {[each.shape for each in biases]}"
            )
        if not any(map(is_traced, (*weights, *biases))) and not self._largest_score() <= LARGEST_SCORE:
            raise InputError(f"`weights` and `biases` must keep every score below {LARGEST_SCORE:g}")

    def _largest_score(self) -> float:
        """A bound on the scores over all distributions; infinite where a layer might overflow."""
        inputs = np.full(self.weights[0].shape[1], _LARGEST_FEATURE, self.weights[0].dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, bias in zip(self.weights, self.biases, strict=True):
                sums = np.abs(np.asarray(weight)) @ inputs + np.abs(np.asarray(bias))
                if not np.isfinite(sums).all():
                    return np.inf
                inputs = np.maximum(sums, 1)  # no activation is larger than its argument or one
        return float(sums.max())

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
        values = FEATURES[self.features][1](log_p).astype(self.weights[0].dtype)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = ACTIVATIONS[self.activation](weight @ values + bias)
        values = self.weights[-1] @ values + self.biases[-1]
        return values.reshape(self.num_rows, log_p.size)


@final
class BinnedInverseCDF(AbstractPart):
    """Starts Gadget 2 at the inverse CDF: latent z owns the z-th part of [0, 1), and the outcomes that meet it."""

    order: Int[Array, " k"]
    num_latents: int = eqx.field(static=True)
    leak: float = eqx.field(static=True)

    def __init__(self, num_latents: int, score: Score, *, leak: float = 1e-5):
        """Sets the line of outcomes, which stand in the order of their score.

        An outcome that a latent does not meet has the weight `leak`: small beside 1 / `num_latents`, and above zero so
        that training can move it.
        """
        order = InverseCDF.sorted_by(score).order
        assert order is not None
        self.order = order
        self.num_latents, self.leak = as_count("`num_latents`", num_latents), as_amount("`leak`", leak)

    def __check_init__(self) -> None:
        check_permutation("order", self.order)
        as_count("`num_latents`", self.num_latents)
        as_amount("`leak`", self.leak, least=1 / LARGEST_SCORE, most=1.0)

    def __call__(self, log_p: LogProbs) -> Float[Array, "rows k"]:
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
    instance the support of their Wasserstein barycenter, which `VectorQuantile.fit` looks for.
    """

    points: Float[Array, "z d"]
    scores: Float[Array, "k d"]
    blur: float = eqx.field(static=True)

    def __init__(self, points: Float[ArrayLike, "z d"], scores: Float[ArrayLike, "k d"], *, blur: float = 0.05):
        """Sets both ends of the transport: a point for each latent, and a vector of scores for each outcome.

        The entropic regularisation, `blur`, is in units of the scores' mean squared norm.
        """
        self.points, self.scores = as_floats("points", points, 2), as_floats("scores", scores, 2)
        self.blur = as_amount("`blur`", blur)

    def __check_init__(self) -> None:
        check_floats("points", self.points, 2)
        check_floats("scores", self.scores, 2)
        as_amount("`blur`", self.blur, above=0.0)
        check_alike(self.points, self.scores)
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
        scale = (self.scores**2).sum(axis=1).mean()
        return self.points @ self.scores.T / (self.blur * scale) + jnp.where(log_p == -jnp.inf, 0, log_p)[None, :]
