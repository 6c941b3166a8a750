"""The part that learns: a network that sees the distribution."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from countermax._core.checks import is_traced
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count, shown
from countermax._core.types import LogProbs
from countermax.couplings._fields import LARGEST_SCORE, check_choice, check_floats
from countermax.couplings.parts._base import BYTES, AbstractPart

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
}
_SMALLEST_LOG_PROB = -12.0
_LARGEST_FEATURE = 2.0  # probabilities and their sums are at most one but for rounding, and 12 / 8 is less too
_MOST_LAYERS = 100


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
            key: Random key; consumed once.
            hidden: Sizes of the hidden layers.
            activation: One of `gelu`, `relu`, `sigmoid`, `tanh`.
            features: `rich` (probabilities, their logarithms and cumulative sums) or `probabilities`.
            silent: Whether the last layer starts at zero, so that training begins at the part to start from.
        """
        check_choice("activation", activation, ACTIVATIONS)
        check_choice("features", features, FEATURES)
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
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("features", self.features, FEATURES)
        as_count("`num_rows`", self.num_rows)
        weights, biases = self.weights, self.biases
        if not isinstance(weights, tuple) or not isinstance(biases, tuple):
            raise InputError("`weights` and `biases` must be tuples of arrays, one for each layer")
        if len(weights) != len(biases) or not 1 <= len(weights) <= _MOST_LAYERS + 1:
            raise InputError(
                f"`weights` and `biases` must have an array for each layer, got {len(weights)} and {len(biases)}"
            )
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
        """The matrix for one distribution."""
        values = FEATURES[self.features][1](log_p).astype(self.weights[0].dtype)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = ACTIVATIONS[self.activation](weight @ values + bias)
        values = self.weights[-1] @ values + self.biases[-1]
        return values.reshape(self.num_rows, log_p.size)
