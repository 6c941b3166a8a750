"""Tests of counts: exact binomial ones, and a second look before anything is called broken by them.

A law that seems to hold is believed after one look. A suspicion is followed up with fresh draws, four times as many
each time. The looks are independent of each other, so a correct coupling that is under suspicion has to be unlucky
again: that is what makes small deviations visible at a family-wise false alarm of one in a million.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

from countermax.testing._cases import BrokenError

_SUSPICION = 0.05  # a smallest p-value above it, corrected for the number of tests, ends the matter
_NUM_FOLLOW_UPS = 2
_TIMES = 4


class Finding(NamedTuple):
    """The smallest p-value of a look, multiplied by the number of its tests, and what it was seen in."""

    value: float
    what: str


def look_again(
    test: Callable[[int, PRNGKeyArray], Finding],
    num_samples: int,
    glances: tuple[int, ...],
    level: float,
    key: PRNGKeyArray,
) -> str:
    """Condemns with probability `level` at most where the law holds.

    Args:
        test: Function of a number of draws and a key that says what it found.
        num_samples: Draws of the first look that can acquit.
        glances: Draws of looks before it, which can only condemn.
        level: Probability of a false alarm.
        key: Key of the draws, consumed once.
    """
    draws = [each for each in glances if each < num_samples]
    draws += [num_samples * _TIMES**each for each in range(1 + _NUM_FOLLOW_UPS)]
    reached = 1.0  # the probability that a correct coupling gets this far
    finding = Finding(1.0, "")
    for place, number in enumerate(draws):
        finding = test(number, jax.random.fold_in(key, place))
        if finding.value < level / len(draws) / reached:
            raise BrokenError(
                f"{finding.what} does not follow its law in {number:,} draws: p-value {finding.value:.2g}"
            )
        if number < num_samples:
            continue
        if finding.value > _SUSPICION:
            break
        reached *= _SUSPICION
    return f"{number:,} draws, smallest p-value {finding.value:.2g}"


def smallest(tests: Sequence[tuple[str, NDArray[np.floating]]]) -> Finding:
    """The smallest of many p-values, by Bonferroni."""
    number = sum(values.size for _, values in tests)
    least = min(((float(values.min()), what) for what, values in tests if values.size), default=(1.0, "nothing"))
    return Finding(min(1.0, least[0] * max(1, number)), least[1])


def binomial(counts: Any, trials: Any, probs: Any, slack: Any = 0.0) -> NDArray[np.float64]:
    """Two-sided exact p-values of counts out of trials; a probability counts as right if it is so within `slack`."""
    from scipy.stats import binom

    below = binom.cdf(counts, trials, np.clip(np.subtract(probs, slack), 0, 1))
    above = binom.sf(np.subtract(counts, 1), trials, np.clip(np.add(probs, slack), 0, 1))
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def same_share(first: NDArray[np.integer], second: NDArray[np.integer], share: Any = 0.5) -> NDArray[np.float64]:
    """Two-sided p-values of counts in two samples; given their sum, the first's are binomial with its share."""
    return binomial(first, first + second, share)
