"""Random numbers that any language can draw again: the source behind intervals that a web page and Python share.

NumPy's generators are fast, but to draw the same numbers elsewhere is to rewrite NumPy. Here the n-th uniform number is
a function of the seed and n alone (Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror and Shaw 2011), and everything
else is made of uniform numbers by a few lines of arithmetic. `explorer/index.html` has the same lines in JavaScript.
"""

from math import factorial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.quantities import as_seed

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]

DRAWS = ("numpy", "portable")
"""Sources of the random numbers behind intervals."""

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
# Languages differ in the last digit of a probability. Wherever a number decides how another one is drawn, simple
# fractions are kept off the edge by this much.
_OFF_EDGE = 1e-9
_LARGE = 900 + 1e-6  # variance from which on a binomial number is a rounded normal one, corrected for skewness
_LOG_FACTORIALS = np.log([float(factorial(number)) for number in range(16)])
_NOTHING = 1e-20  # probability below which the rest of a binomial law is rounding


@final
class PortableStream:
    """Draws what intervals need of a generator: method by method as NumPy's, with numbers of its own."""

    def __init__(self, seed: int):
        """Begins at the first number."""
        self._seed, self._used = as_seed("seed", seed), 0

    def uniform(self, low: int | float = 0.0, high: int | float = 1.0, size: Any = None) -> Any:
        """Numbers between two limits, neither of which is reached from 0 to 1."""
        return low + (high - low) * self._block(() if size is None else size)

    def random(self, size: Any = None) -> Any:
        """Numbers between 0 and 1."""
        return self.uniform(size=size)

    def integers(self, high: int, size: Any = None) -> Any:
        """Whole numbers from 0 on and below a limit."""
        return np.floor(high * self._block(() if size is None else size)).astype(np.int64)

    def standard_gamma(self, shape: Any, size: Any = None) -> Floats:
        """Gamma numbers by Marsaglia and Tsang's rejection (2000); each round takes three numbers for each of them."""
        wanted = np.asarray(shape, np.float64) if size is None else np.broadcast_to(np.asarray(shape, np.float64), size)
        small = wanted.ravel() < 1
        boost, last = self._block(wanted.size), np.where(small, wanted.ravel() + 1, wanted.ravel()) - 1 / 3
        found, waiting = np.empty(wanted.size), np.arange(wanted.size)
        while waiting.size:
            first, second, third = (self._block(wanted.size)[waiting] for _ in range(3))
            normal, d = _normal(first, second), last[waiting]
            cube = (1 + normal / np.sqrt(9 * d)) ** 3
            with np.errstate(divide="ignore", invalid="ignore"):
                taken = (cube > 0) & (np.log(third) < normal * normal / 2 + d - d * cube + d * np.log(cube))
            found[waiting[taken]] = (d * cube)[taken]
            waiting = waiting[~taken]
        with np.errstate(divide="ignore"):
            return np.where(small, found * boost ** (1 / wanted.ravel()), found).reshape(wanted.shape)

    def permutation(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values in random order."""
        return values[np.argsort(self._block(len(values)), kind="stable")]

    def binomial(self, n: Any, p: Any) -> NDArray[np.int64]:
        """Binomial numbers, each by one uniform number; from a variance of 900 on rounded normal ones, by two."""
        trials, chance = np.broadcast_arrays(np.asarray(n, np.int64), np.asarray(p, np.float64))
        first, second = self._block(trials.size), self._block(trials.size)
        turned = chance.ravel() > 0.5 + _OFF_EDGE
        rarer = np.where(turned, 1 - chance.ravel(), chance.ravel())
        counted = _binomial(trials.ravel(), rarer, first, second)
        return np.where(turned, trials.ravel() - counted, counted).reshape(trials.shape)

    def multinomial(self, n: Any, pvals: Any) -> NDArray[np.int64]:
        """Multinomial counts over the last axis: one binomial number after the other."""
        probabilities = np.asarray(pvals, np.float64)
        rest = np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1]
        left = np.broadcast_to(np.asarray(n, np.int64), probabilities.shape[:-1])
        counts = np.empty(probabilities.shape, np.int64)
        for place in range(probabilities.shape[-1] - 1):
            some = rest[..., place] > 0
            share = np.where(some, probabilities[..., place] / np.where(some, rest[..., place], 1), 0)
            counts[..., place] = self.binomial(left, np.minimum(share, 1))
            left = left - counts[..., place]
        counts[..., -1] = left
        return counts

    def _block(self, size: Any) -> Floats:
        """The next numbers, in (0, 1)."""
        number = int(np.prod(size))
        places = np.arange(self._used, self._used + number, dtype=np.uint64)
        self._used += number
        high, low = threefry(self._seed, (places >> np.uint64(32)).astype(np.uint32), places.astype(np.uint32))
        digits = (high >> np.uint32(5)).astype(np.float64) * 2**26 + (low >> np.uint32(6)) + 0.5
        return (digits / 2**53).reshape(size)


Stream = np.random.Generator | PortableStream
"""Where random numbers come from."""


def stream_of(draws: str, seed: int) -> Stream:
    """A source of random numbers by its name: `numpy`, or `portable`."""
    if draws not in DRAWS:
        raise InputError(f"`draws` must be one of {', '.join(DRAWS)}, got {draws!r}")
    return PortableStream(seed) if draws == "portable" else np.random.default_rng(seed)


def threefry(seed: int, high: Words, low: Words) -> tuple[Words, Words]:
    """Threefry-2x32 with 20 rounds under the key (0, seed), of counters in two words."""
    keys = [np.uint32(0), np.uint32(seed), np.uint32(_PARITY ^ seed)]
    with np.errstate(over="ignore"):
        high, low = high + keys[0], low + keys[1]
        for group in range(5):
            for rotation in _ROTATIONS[4 * (group % 2) : 4 * (group % 2) + 4]:
                high = high + low
                low = ((low << np.uint32(rotation)) | (low >> np.uint32(32 - rotation))) ^ high
            high, low = high + keys[(group + 1) % 3], low + keys[(group + 2) % 3] + np.uint32(group + 1)
    return high, low


def _normal(first: Floats, second: Floats) -> Floats:
    """Standard normal numbers from two uniform ones (Box and Muller)."""
    return np.asarray(np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second))


def _binomial(trials: NDArray[np.int64], chance: Floats, first: Floats, second: Floats) -> NDArray[np.int64]:
    """Counts for chances up to a half: the law is gone through from its mode, upwards and downwards in turn."""
    size = trials.astype(np.float64)
    variance = size * chance * (1 - chance)
    found = np.zeros(len(size))
    large = variance >= _LARGE
    if large.any():
        normal, spread = _normal(first[large], second[large]), np.sqrt(variance[large])
        skewed = normal + (1 - 2 * chance[large]) * (normal * normal - 1) / (6 * spread)
        found[large] = np.clip(np.floor(size[large] * chance[large] + spread * skewed + 0.5), 0, size[large])
    waiting = np.flatnonzero(~large & (variance > 0))
    n, p = size[waiting], chance[waiting]
    mode, odds = np.floor((n + 1) * p + _OFF_EDGE), p / (1 - p)
    up, down = mode.copy(), mode.copy()
    above = np.exp(_log_choices(n, mode) + mode * np.log(p) + (n - mode) * np.log1p(-p))
    below, rest = above.copy(), first[waiting] - above
    found[waiting] = mode
    while True:
        going = (rest >= 0) & (above + below >= _NOTHING)
        waiting, n, odds, rest = waiting[going], n[going], odds[going], rest[going]
        if not waiting.size:
            return found.astype(np.int64)
        up, above, down, below = up[going] + 1, above[going], down[going] - 1, below[going]
        above = above * (n - up + 1) / up * odds
        rest = rest - above
        risen = rest < 0
        found[waiting[risen]] = up[risen]
        below = below * (down + 1) / ((n - down) * odds)
        rest = rest - np.where(risen, 0, below)
        fallen = ~risen & (rest < 0)
        found[waiting[fallen]] = down[fallen]


def _log_choices(n: Floats, k: Floats) -> Floats:
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)


def _log_factorial(number: Floats) -> Floats:
    """Stirling's series; from a list where it is short of digits."""
    x = np.maximum(number, 16.0)
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    large = x * np.log(x) - x + 0.5 * np.log(2 * np.pi * x) + series
    return np.where(number < 16, _LOG_FACTORIALS[np.minimum(number, 15).astype(np.int64)], large)
