"""Distributions of pairs: which worlds (p, q) a coupling is learned for and evaluated on.

A distribution of pairs is any function of a key that returns two vectors of logits. Those below are pytrees, so that
many of one kind can be trained on at once.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from countermax._core.checks import as_floats, as_log_prob_pair
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_amount, as_count
from countermax._core.types import Logits

Pairs = Callable[[PRNGKeyArray], tuple[Float[Array, " k"], Float[Array, " k"]]]

_BYTES = 32  # for each outcome of each pair while it is drawn: both worlds, random bits, logits and log-probabilities


class AbstractPairs(eqx.Module):
    """A distribution of pairs of logits."""

    @abstractmethod
    def __call__(self, key: PRNGKeyArray) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Draws one pair; the key is consumed once."""

    @property
    @abstractmethod
    def num_distinct(self) -> int | None:
        """How many different pairs there are; None for infinitely many."""


@final
class FixedPair(AbstractPairs):
    """The same pair every time."""

    p: Float[Array, " k"]
    q: Float[Array, " k"]
    num_distinct = 1

    def __init__(self, p: Logits, q: Logits):
        self.p, self.q = as_log_prob_pair(p, q)

    def __call__(self, key: PRNGKeyArray) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        return self.p, self.q


@final
class PerturbedPair(AbstractPairs):
    """A pair with independent Gaussian noise on each logit."""

    p: Float[Array, " k"]
    q: Float[Array, " k"]
    scale: Float[Array, ""]
    num_distinct = None  # infinitely many

    def __init__(self, p: Logits, q: Logits, scale: float):
        self.p, self.q = as_log_prob_pair(p, q)
        self.scale = jnp.asarray(as_amount("`scale`", scale, least=0.0), self.p.dtype)

    def __call__(self, key: PRNGKeyArray) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Draws the noise; impossible outcomes stay impossible."""
        noise = self.scale * jax.random.normal(key, (2, self.p.size), self.p.dtype)
        return self.p + noise[0], self.q + noise[1]


@final
class RandomPairs(AbstractPairs):
    """Logits uniform on [0, scale]: q drawn like p, or p in reverse (`mirrored`)."""

    num_outcomes: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    mirrored: bool = eqx.field(static=True)
    num_distinct = None  # infinitely many

    def __init__(self, num_outcomes: int, *, scale: float = 8.0, mirrored: bool = False):
        self.num_outcomes, self.mirrored = as_count("`num_outcomes`", num_outcomes), mirrored
        self.scale = as_amount("`scale`", scale)

    def __call__(self, key: PRNGKeyArray) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        p, q = self.scale * jax.random.uniform(key, (2, self.num_outcomes))
        return p, p[::-1] if self.mirrored else q


@final
class ObservedPairs(AbstractPairs):
    """Observed pairs, one of which is drawn each time, by weight."""

    p: Float[Array, "n k"]
    q: Float[Array, "n k"]
    log_weights: Float[Array, " n"]

    def __init__(
        self, p: Float[ArrayLike, "n k"], q: Float[ArrayLike, "n k"], weights: Float[ArrayLike, " n"] | None = None
    ):
        self.p, self.q = as_floats("p", p, 2), as_floats("q", q, 2)
        if self.p.shape != self.q.shape or self.p.size == 0:
            raise InputError(
                f"`p` and `q` must have the same shape, a row for each pair, got {self.p.shape} and {self.q.shape}"
            )
        for name, logits in (("p", self.p), ("q", self.q)):
            values = np.asarray(logits)
            bad = np.isnan(values).any(axis=1) | (values == np.inf).any(axis=1) | (values == -np.inf).all(axis=1)
            if bad.any():
                raise InputError(
                    f"`{name}` must hold logits: row {int(bad.argmax())} has NaN, +inf or nothing possible"
                )
        amounts = np.ones(len(self.p)) if weights is None else np.asarray(weights, float)
        if (
            amounts.shape != (len(self.p),)
            or not np.isfinite(amounts).all()
            or (amounts < 0).any()
            or amounts.sum() == 0
        ):
            raise InputError("`weights` must be one non-negative number for each pair, not all of them zero")
        with np.errstate(divide="ignore"):
            self.log_weights = jnp.asarray(np.log(amounts / amounts.sum()), self.p.dtype)

    def __call__(self, key: PRNGKeyArray) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        index = jax.random.categorical(key, self.log_weights)
        return self.p[index], self.q[index]

    @property
    def num_distinct(self) -> int:
        """As many as it has rows."""
        return len(self.p)


def num_outcomes_of(pairs: Pairs) -> int:
    """How many outcomes both worlds of every pair have; nothing is drawn."""
    p, q = jax.eval_shape(pairs, jax.random.key(0))
    if p.ndim != 1 or p.shape != q.shape:
        raise InputError(f"`pairs` must give two vectors of logits of one length, got shapes {p.shape} and {q.shape}")
    return p.shape[0]


def draw_pairs(pairs: Pairs, count: int, *, key: PRNGKeyArray) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
    """Normalised log-probabilities of `count` pairs, fewer if there are not so many different ones."""
    count = as_count("`count`", count)
    if isinstance(pairs, AbstractPairs) and pairs.num_distinct == 1:
        count = 1
    elif isinstance(pairs, ObservedPairs) and pairs.num_distinct <= count and bool(jnp.ptp(pairs.log_weights) == 0):
        return jax.nn.log_softmax(pairs.p, axis=1), jax.nn.log_softmax(pairs.q, axis=1)
    size = num_outcomes_of(pairs)
    check_memory(f"drawing {count} pairs of {size} outcomes", _BYTES * count * size, "ask for fewer pairs")
    p, q = jax.vmap(pairs)(jax.random.split(key, count))
    return jax.nn.log_softmax(p, axis=1), jax.nn.log_softmax(q, axis=1)
