"""How well the laws of several samples are known: estimates, effective sample sizes and covariances."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError

Floats = NDArray[np.float64]

_PRIOR = 0.5  # of a person is added to each outcome where errors are estimated: what nobody had is not without error


@final
@dataclass(frozen=True, eq=False)
class Sampling:
    """Estimated laws of outcomes in several samples, one after the other, and how they err.

    A sample with weights or clusters has an effective size: that of independent people of equal weight whose estimates
    would vary as much.
    """

    laws: Floats
    """[cells]: the probabilities of each sample, which add up to one, sample after sample."""
    cells: tuple[int, ...]
    """Number of cells of each sample."""
    sizes: Floats
    """Effective size of each sample."""
    covariance: Floats
    """[cells, cells]: that of the estimates, with half a person more for each outcome."""
    words: str
    """The sample, for the person who reads the result."""
    freedom: float = np.inf
    """Degrees of freedom of the covariance: finite where clusters were sampled."""
    counts: tuple[Floats, ...] = ()
    """Number of people in each cell of each sample; none with weights, clusters or strata."""

    @cached_property
    def smooth(self) -> Floats:
        """The laws with half a person more for each outcome, so that nothing is impossible."""
        return np.concatenate([_smoothed(each, size) for each, size in zip(self.split(), self.sizes, strict=True)])

    @cached_property
    def sample_of(self) -> NDArray[np.int64]:
        """The sample of each cell."""
        return np.repeat(np.arange(len(self.cells)), self.cells)

    @cached_property
    def covariances(self) -> list[Floats]:
        """The covariance of each sample's estimates."""
        ends = np.cumsum(self.cells)
        return [self.covariance[end - size : end, end - size : end] for end, size in zip(ends, self.cells, strict=True)]

    def split(self, laws: Floats | None = None) -> list[Floats]:
        """The law of each sample, of this or of other laws, [..., cells]."""
        return np.split(self.laws if laws is None else laws, np.cumsum(self.cells)[:-1], axis=-1)


def of_counts(counts: Sequence[Floats], words: str) -> Sampling:
    """Independent people, of whom the outcomes were counted in each sample."""
    sizes = np.array([each.sum() for each in counts])
    parts = [_multinomial(_smoothed(each / size, size)) / size for each, size in zip(counts, sizes, strict=True)]
    laws = np.concatenate([each / size for each, size in zip(counts, sizes, strict=True)])
    return Sampling(laws, tuple(map(len, counts)), sizes, _diagonal(parts), words, counts=tuple(counts))


def of_influences(
    laws: Sequence[Floats], influences: Floats, units: Floats, num_people: Floats, words: str, freedom: float = np.inf
) -> Sampling:
    """Estimates with weights, clusters or strata, whose covariance is that of their influence functions.

    Args:
        laws: Probabilities of each sample.
        influences: [units, cells]: what each unit that was sampled, a person or a cluster, adds to the estimates.
        units: Effective number of units in each sample, Kish's. One more average unit is taken
            to have had each outcome, because a variance from few people is itself uncertain, and from nobody zero.
        num_people: Effective number of people in each sample.
        words: The sample in words.
        freedom: Degrees of freedom of the covariance.
    """
    covariance = influences.T @ influences
    cells = tuple(map(len, laws))
    ends = np.cumsum(cells)
    sizes = []
    for law, end, unit, person in zip(laws, ends, units, num_people, strict=True):
        variance = float(np.diag(covariance)[end - len(law) : end].sum())
        spread = float((law * (1 - law)).sum())
        sizes.append(1 / max((variance + 1 / unit**2) / (spread + 1 / unit), 1 / person))
    added = [
        (_multinomial(_smoothed(law, size)) - _multinomial(law)) / size for law, size in zip(laws, sizes, strict=True)
    ]
    return Sampling(np.concatenate(laws), cells, np.array(sizes), covariance + _diagonal(added), words, freedom)


def as_counts(name: str, counts: Floats) -> Floats:
    """Numbers of people by outcome, at least one in all."""
    if (counts != np.round(counts)).any() or (counts < 0).any():
        wrong = counts[(counts != np.round(counts)) | (counts < 0)][0]
        raise InputError(f"{name} must hold counts, whole numbers from 0 on, got {wrong:g}")
    if not 0 < counts.sum() < 2**53:
        raise InputError(f"{name} must count at least one person, got {counts.sum():g}")
    return counts


def _smoothed(law: Floats, size: float) -> Floats:
    return np.asarray((size * law + _PRIOR) / (size + _PRIOR * len(law)))


def _multinomial(law: Floats) -> Floats:
    """The covariance of one person's outcome."""
    return np.asarray(np.diag(law) - np.outer(law, law))


def _diagonal(parts: Sequence[Floats]) -> Floats:
    """A matrix with smaller ones along its diagonal."""
    ends = np.cumsum([len(each) for each in parts])
    whole = np.zeros((ends[-1], ends[-1]))
    for end, each in zip(ends, parts, strict=True):
        whole[end - len(each) : end, end - len(each) : end] = each
    return whole
