"""A mechanism's whole noise as one number in [0, 1), for libraries that keep one column of noise for each variable.

Inverse CDF needs no more than one uniform number. Gumbel-max needs one for each outcome: they are scrambled copies of
the 53 bits of a single number. Each copy is a *permutation* of the 53-bit numbers, so it can be turned round: to
explain an outcome of probability 1e-9, ask for a number whose copy for that outcome is small enough to win, instead of
trying a thousand million of them. What is drawn is checked by letting the mechanism respond.
"""

from abc import ABC, abstractmethod
from typing import Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractSampler, Gadget1, Gadget2, GumbelMax, InverseCDF

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bits = NDArray[np.uint64]


@runtime_checkable
class Uniforms(Protocol):
    """Where random numbers come from: a NumPy generator, or what stands for NumPy's global state."""

    def random(self, size: int) -> Floats:
        """Uniform numbers in [0, 1)."""


class AbstractNoise(ABC):
    """What a mechanism does with one number for each row."""

    @abstractmethod
    def respond(self, probs: Floats, noise: Floats) -> Codes:
        """The outcome of each row: `probs` is [rows, outcomes], `noise` one number for each row."""

    @abstractmethod
    def abduct(self, probs: Floats, x: Codes, uniforms: Uniforms) -> Floats:
        """Draws numbers under which each row has the outcome `x`, which must be possible."""


def noise_of(mechanism: AbstractSampler) -> AbstractNoise:
    """The noise of a mechanism that is one function of noise and logits; others are refused with the reason."""
    if isinstance(mechanism, GumbelMax):
        return RaceNoise(None)
    if isinstance(mechanism, InverseCDF):
        return LineNoise(mechanism)
    if isinstance(mechanism, Gadget2):
        return RaceNoise(mechanism)
    if isinstance(mechanism, Gadget1):
        raise InputError(
            "`mechanism` must be one function of noise and logits for all worlds, and Gadget 1 is not: it reads its "
            "noise by rows in one world and by columns in the other, so that outcomes could change where nothing was "
            "done; train a Gadget2"
        )
    kind = mechanism.__name__ if isinstance(mechanism, type) else type(mechanism).__name__
    raise InputError(
        f"`mechanism` must be GumbelMax(), InverseCDF(...) or a Gadget2, got {kind}: only these are one function of "
        "noise and logits"
    )


@final
class LineNoise(AbstractNoise):
    """Inverse CDF: the number itself points at an outcome."""

    def __init__(self, mechanism: InverseCDF):
        self._order = None if mechanism.order is None else np.asarray(mechanism.order, np.int64)

    def respond(self, probs: Floats, noise: Floats) -> Codes:
        """The outcome in whose interval the number lies."""
        upper, order = self._edges(probs)
        place = (upper <= noise[:, None]).sum(axis=1)
        return order[np.minimum(place, probs.shape[1] - 1)]

    def abduct(self, probs: Floats, x: Codes, uniforms: Uniforms) -> Floats:
        """A number in the outcome's interval, off its edges."""
        upper, order = self._edges(probs)
        place = np.argsort(order)[x]
        rows = np.arange(len(x))
        low, high = np.where(place > 0, upper[rows, place - 1], 0.0), upper[rows, place]
        noise = low + (high - low) * (_MARGIN + (1 - 2 * _MARGIN) * uniforms.random(len(x)))
        return _checked(noise, self.respond(probs, noise) == x)

    def _edges(self, probs: Floats) -> tuple[Floats, Codes]:
        order = np.arange(probs.shape[1]) if self._order is None else self._order
        upper = np.cumsum(probs[:, order], axis=1)
        upper /= upper[:, -1:]
        # Past the last possible outcome every edge is 1, which no number reaches, whatever rounding did before.
        possible = probs[:, order] > 0
        last = probs.shape[1] - 1 - possible[:, ::-1].argmax(axis=1)
        return np.where(np.arange(probs.shape[1]) >= last[:, None], 1.0, upper), order


_MARGIN = 1e-9  # of an interval, or of a race: what is nearer to a tie than that is drawn again
_LONGEST = 37.0  # no race takes longer, but for one in e^37
_TRIES = 16  # for each row at a time
_MOST_ROUNDS = 500
_ROWS, _FEW_ROWS = 4096, 64  # a gadget's tables are made for so many rows at a time


@final
class RaceNoise(AbstractNoise):
    """Gumbel-max as an exponential race, or the races of a `Gadget2`, of which the noise chooses one.

    With `E_k ~ Exp(1)` the outcome is the first at `E_k / p_k`. In a gadget a latent cause, which does not depend on
    the logits, chooses among several `p`.
    """

    def __init__(self, gadget: Gadget2 | None):
        self._gadget = gadget
        latents = np.ones(1) if gadget is None else np.asarray(jax.nn.softmax(gadget.latent_logits), np.float64)
        self._latents = np.cumsum(latents) / latents.sum()

    def respond(self, probs: Floats, noise: Floats) -> Codes:
        """The winner of each race."""
        winner = np.empty(len(probs), np.int64)
        for rows in _blocks(len(probs)):
            winner[rows] = self._race(self._tables(probs[rows]), _bits(noise[rows])[:, None])[:, 0, 0]
        return winner

    def abduct(self, probs: Floats, x: Codes, uniforms: Uniforms) -> Floats:
        """Numbers under which `x` wins: candidates that give it a chance, until one does."""
        noise = np.empty(len(x))
        for rows in _blocks(len(x)):
            noise[rows] = self._explained(self._tables(probs[rows]), x[rows], uniforms)
        return noise

    def _explained(self, tables: Floats, x: Codes, uniforms: Uniforms) -> Floats:
        found = np.full(len(x), np.nan)
        # If x wins, its E is at most the race's time times its weight, the largest that it has in any table.
        weight = tables[np.arange(len(x)), :, x].max(axis=1)
        chance = np.ceil(-np.expm1(-_LONGEST * weight) * 2.0**53)
        open_rows = np.arange(len(x))
        for _ in range(_MOST_ROUNDS):
            if not len(open_rows):
                return found
            draws = uniforms.random(_TRIES * len(open_rows)).reshape(len(open_rows), _TRIES)
            wanted = (draws * chance[open_rows, None]).astype(np.uint64)
            numbers = _unscrambled(wanted, x[open_rows, None].astype(np.uint64))
            winner, clear = np.moveaxis(self._race(tables[open_rows], numbers), -1, 0)
            good = (winner == x[open_rows, None]) & (clear > 0)
            first = good.argmax(axis=1)
            explained = good.any(axis=1)
            chosen = numbers[np.arange(len(open_rows)), first]
            found[open_rows[explained]] = chosen[explained].astype(np.float64) / 2.0**53
            open_rows = open_rows[~explained]
        return _checked(found, ~np.isnan(found))

    def _race(self, tables: Floats, numbers: Bits) -> NDArray[np.int64]:
        """The winner of each race [rows, tries], and whether it won clearly."""
        num_outcomes = tables.shape[2]
        runners = np.arange(num_outcomes, dtype=np.uint64)
        times = -np.log1p(-_fractions(_scrambled(numbers[..., None], runners)))
        latent = np.zeros(numbers.shape, np.int64)
        if len(self._latents) > 1:
            pointer = _fractions(_scrambled(numbers, np.uint64(num_outcomes)))
            latent = np.minimum(np.searchsorted(self._latents, pointer, side="right"), len(self._latents) - 1)
        weights = tables[np.arange(len(tables))[:, None], latent]
        with np.errstate(divide="ignore"):
            times = times / weights
        winner = times.argmin(axis=-1)
        best = np.take_along_axis(times, winner[..., None], axis=-1)
        clear = (times <= best * (1 + _MARGIN)).sum(axis=-1) == 1
        return np.stack([winner, clear], axis=-1)

    def _tables(self, probs: Floats) -> Floats:
        """Each row's distributions, one for each latent cause: [rows, latents, outcomes]."""
        if self._gadget is None:
            return probs[:, None, :]
        with jax.enable_x64(True), np.errstate(divide="ignore"):
            size = _FEW_ROWS if len(probs) <= _FEW_ROWS else _ROWS  # two shapes to compile, whatever the data
            filled = np.log(np.concatenate([probs, np.repeat(probs[:1], size - len(probs), axis=0)]))
            return np.exp(np.asarray(_conditionals(self._gadget, filled)))[: len(probs)]


@eqx.filter_jit
def _conditionals(gadget: Gadget2, log_probs: Float[ArrayLike, "n k"]) -> Float[Array, "n z k"]:
    return jax.vmap(gadget._conditionals)(jnp.asarray(log_probs))


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + _ROWS) for start in range(0, count, _ROWS)]


def _checked(noise: Floats, explained: NDArray[np.bool_]) -> Floats:
    if not explained.all():
        raise InputError(
            f"row {int((~explained).argmax())} (counted from 0) has an outcome that is too unlikely to be explained: "
            "its probability is below the grid of floating-point numbers; give the mechanism some `smoothing`"
        )
    return noise


_MASK = np.uint64(2**53 - 1)
_STEP = np.uint64(0x1F58B65A9C3E71)  # between the copies; odd
_ROUNDS = (  # a shift of at least half the bits, which undoes itself, and an odd factor with its inverse
    (np.uint64(27), np.uint64(0x19E3779B97F4A7)),
    (np.uint64(29), np.uint64(0x0B5297A4D68E31)),
    (np.uint64(31), np.uint64(0x1B56C4E9D3A2F5)),
    (np.uint64(28), np.uint64(0x14D049BB133111)),
)
_INVERSES = tuple(np.uint64(pow(int(factor), -1, 2**53)) for _, factor in _ROUNDS)


def _scrambled(numbers: Bits, copy: Bits | np.uint64) -> Bits:
    """A permutation of the 53-bit numbers for each copy."""
    bits = (numbers + (copy + np.uint64(1)) * _STEP) & _MASK
    for shift, factor in _ROUNDS:
        bits = ((bits ^ (bits >> shift)) * factor) & _MASK
    return bits ^ (bits >> np.uint64(27))


def _unscrambled(bits: Bits, copy: Bits | np.uint64) -> Bits:
    """The number whose copy this is."""
    bits = bits ^ (bits >> np.uint64(27))
    for (shift, _), inverse in zip(_ROUNDS[::-1], _INVERSES[::-1], strict=True):
        bits = (bits * inverse) & _MASK
        bits = bits ^ (bits >> shift)
    return (bits - (copy + np.uint64(1)) * _STEP) & _MASK


def _fractions(bits: Bits) -> Floats:
    return (bits.astype(np.float64) + 0.5) / 2.0**53


def _bits(noise: Floats) -> Bits:
    return (noise * 2.0**53).astype(np.uint64) & _MASK
