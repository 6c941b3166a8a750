"""Any mechanism's whole noise as one number in [0, 1), for libraries that keep one column of noise for each variable.

The first 48 bits of the number are the seed of the noise, so a response is a function of logits and number alone, and
fifteen digits of the number are enough, which every CSV file and spreadsheet keeps. To explain an outcome, seeds are
tried until one yields it: a seed that is uniform among those is an exact draw of the noise given the outcome. That
takes one over the outcome's probability tries.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractNoiseSampler

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Mechanism: TypeAlias = AbstractNoiseSampler[Any]

_SEEDS = 2.0**48
_ROWS = (1, 16, 256, 4096)  # computed at once, the last row repeated to fill up: few shapes to compile
_TRIES = 2**14  # seeds at once, shared evenly among the rows; some milliseconds
_MOST_TRIES = 3 * 10**8  # that one call may be expected to take; about a minute
_PATIENCE = 50  # times the expected tries: a mechanism that has its marginals needs more once in e^50 rows


def draw(count: int, uniforms: Callable[[int], Floats]) -> Floats:
    """So many numbers, from a source of uniform numbers in [0, 1)."""
    return np.floor(uniforms(count) * _SEEDS) / _SEEDS


def respond(mechanism: Mechanism, probs: Floats, noise: Floats) -> Codes:
    """The outcome of each row: `probs` is [rows, outcomes], `noise` one number for each row."""
    _check_probabilities(probs)
    if not ((noise >= 0) & (noise < 1)).all():
        raise InputError(f"the noise of a categorical node must lie in [0, 1), got {noise.min()} to {noise.max()}")
    if not len(noise):
        return np.zeros(0, np.int64)
    rows = _fitting(len(noise))
    blocks = [slice(start, start + rows) for start in range(0, len(noise), rows)]
    return np.concatenate([_outcomes(mechanism, probs[block], noise[block, None], rows)[:, 0] for block in blocks])


def abduct(mechanism: Mechanism, probs: Floats, x: Codes, uniforms: Callable[[int], Floats]) -> Floats:
    """Draws numbers under which each row has the outcome `x`, which must be possible.

    Args:
        mechanism: Mechanism that responds.
        probs: Each row's probabilities, [rows, outcomes].
        x: The outcome seen in each row.
        uniforms: Function that draws a given number of uniform numbers in [0, 1).
    """
    _check_probabilities(probs)
    chance = probs[np.arange(len(x)), x]
    _check_effort(chance)
    noise, tried, waiting = np.empty(len(x)), np.zeros(len(x)), np.arange(len(x))
    while len(waiting):
        rows = _fitting(len(waiting))
        rows = min(rows, _fitting(_TRIES * np.median(chance[waiting[:rows]])))  # rare outcomes: fewer rows, more tries
        block, waiting = waiting[:rows], waiting[rows:]
        candidates = draw(len(block) * (_TRIES // rows), uniforms).reshape(len(block), -1)
        hit = _outcomes(mechanism, probs[block], candidates, rows) == x[block, None]
        found = hit.any(axis=1)
        noise[block[found]] = candidates[found, hit[found].argmax(axis=1)]
        tried[block] += candidates.shape[1]
        waiting = np.concatenate([waiting, block[~found]])
        _check_progress(mechanism, block[~found], tried, chance)
    return noise


def _outcomes(mechanism: Mechanism, probs: Floats, noise: Floats, rows: int) -> Codes:
    """What each of a row's numbers [rows, tries] yields; the last row is repeated to reach one of the usual shapes."""
    padding = ((0, rows - len(probs)), (0, 0))
    seeds = np.pad(np.rint(noise * _SEEDS).astype(np.int64), padding, mode="edge")
    with np.errstate(divide="ignore"):
        log_p = np.pad(np.log(probs), padding, mode="edge")
    # In double precision and with one kind of random numbers, whatever the settings of JAX are: noise may be stored.
    with jax.enable_x64(True), jax.threefry_partitionable(True):
        return np.asarray(_responses(mechanism, log_p, seeds), np.int64)[: len(probs)]


@eqx.filter_jit
def _responses(
    mechanism: Mechanism, log_p: Float[ArrayLike, "n k"], seeds: Int[ArrayLike, "n tries"]
) -> Int[Array, "n tries"]:
    # In single precision a gadget rounds differently in blocks of different shapes, by 1e-7.
    double = jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, mechanism)

    def one(log_p: Float[Array, " k"], seed: Int[Array, ""]) -> Int[Array, ""]:
        key = jax.random.key(seed, impl="threefry2x32")
        return double._respond(double.noise(log_p.size, key=key, dtype=log_p.dtype), log_p)

    # Two maps, so that what depends on the logits alone is computed once for all tries of a row.
    return jax.vmap(jax.vmap(one, (None, 0)))(jnp.asarray(log_p), jnp.asarray(seeds))


def _fitting(count: int | np.floating) -> int:
    return next((rows for rows in _ROWS if rows >= count), _ROWS[-1])


def _check_probabilities(probs: Floats) -> None:
    """NaN would pass for the most likely class."""
    bad = ~((probs >= 0) & (probs < np.inf)).all(axis=1)
    if bad.any():
        raise InputError(
            f"the classifier must give probabilities, but gave {probs[bad.argmax()].tolist()} in row {bad.argmax()} "
            "(counted from 0); look at its parents there, or train it again"
        )


def _check_effort(chance: Floats) -> None:
    if (1 / chance).sum() > _MOST_TRIES:
        raise InputError(
            f"explaining what was seen would take about {(1 / chance).sum():.0e} tries, one over its probability for "
            f"each row: row {chance.argmin()} (counted from 0) saw a class of probability {chance.min():.0e}; give the "
            "mechanism more `smoothing` (1e-4, say), or ask for exact probabilities, which need no noise"
        )


def _check_progress(mechanism: Mechanism, unexplained: Codes, tried: Floats, chance: Floats) -> None:
    late = unexplained[tried[unexplained] > _PATIENCE * (1 + 1 / chance[unexplained])]
    if len(late):
        raise InputError(
            f"`mechanism` must yield each class as often as the logits say, but in {tried[late[0]]:.0f} tries this "
            f"{type(mechanism).__name__} never yielded one of probability {chance[late[0]]:.2g}; see what "
            "`countermax.testing.check_coupling` says about it"
        )
