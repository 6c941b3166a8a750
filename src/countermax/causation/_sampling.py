"""How estimates from several samples would have come out, had the people been drawn again: trial and observations."""

from collections.abc import Callable
from typing import Any, final

import numpy as np

from countermax.causation._limits import groups
from countermax.causation._questions import Arms, Choosers, Evidence, Floats
from countermax.intervals._portable import Stream
from countermax.intervals._sampling import (
    PROPOSED,
    AbstractSampling,
    divergence,
    errors_when_drawn,
    normalised,
    plausible,
    proposals,
)


@final
class SourceSampling(AbstractSampling):
    """Independent people in up to three samples: without the treatment, with it, and observed.

    A world is all samples' probabilities, one after the other; the other world is the same with the arms exchanged, so
    that the two are equal where the treatment does nothing and nobody prefers it.
    """

    def __init__(self, trial: Arms | None, observed: Floats):
        """Takes counts by outcome: in both arms, and of those who chose the control, the treatment or neither."""
        size = observed.shape[1]
        seen = np.concatenate([observed[0], observed[1], [observed[2].sum()]])
        self._size = size
        self._blocks = [seen] if trial is None else [*trial, seen]
        self.sizes = np.array([counts.sum() for counts in self._blocks])
        self._ends = np.cumsum([len(counts) for counts in self._blocks])[:-1]
        mirror = np.concatenate([np.arange(size, 2 * size), np.arange(size), [2 * size]])
        if len(self._blocks) > 1:
            mirror = np.concatenate([np.arange(size, 2 * size), np.arange(size), 2 * size + mirror])
        self._mirror = mirror
        self.p = np.concatenate([counts / counts.sum() for counts in self._blocks])
        self.q, self.weight = self.p[mirror], 0.5

    def evidence(self, worlds: Floats) -> Evidence:
        """What worlds say, [..., cells]."""
        parts = [normalised(each) for each in np.split(worlds, self._ends, axis=-1)]
        size, seen = self._size, parts[-1]
        trial = Arms(parts[0], parts[1]) if len(parts) > 1 else None
        return Evidence(trial, Choosers(seen[..., :size], seen[..., size : 2 * size], seen[..., -1]), None)

    def evidence_with(self, share: float | None) -> Callable[[Floats, Floats], Evidence]:
        """What pairs of worlds say, if a share of the trial was treated; the other world is the same one mirrored."""
        return lambda p, q: self.evidence(p)._replace(share=share)

    def candidates(self, number: int, stream: Stream) -> tuple[Floats, Floats]:
        """Dirichlet draws about the counts, narrow ones and wide ones; moved to where both sources can be right."""
        proposed = PROPOSED * number
        propose = proposals(proposed, stream)
        equal = np.where(stream.random((proposed, 1)) < 0.5, 0, stream.random((proposed, 1)))
        blocks = [propose(counts) for counts in self._blocks]
        if self._blocks[-1][-1] == 0:
            blocks[-1][:, -1] = 0.0  # a table without others says that there are none
        drawn = np.concatenate([normalised(each) for each in blocks], axis=1)
        drawn = (1 - equal) * drawn + equal * (drawn + drawn[:, self._mirror]) / 2
        if len(self._blocks) > 1:
            found = self.evidence(drawn)
            first, second = groups(found)
            drawn = np.concatenate([first[0] + second[0], first[1] + second[1], drawn[:, 2 * self._size :]], axis=1)
        distance = self.distance((self.p, self.q), (drawn, drawn))
        freedom = sum(len(counts) - 1 for counts in self._blocks)
        chosen = plausible(distance, freedom, number, stream)
        return drawn[chosen], drawn[chosen][:, self._mirror]

    def draws(self, p: Floats, q: Floats, number: int, seen: int | None, stream: Stream) -> tuple[Floats, Floats]:
        """Multinomial draws of each sample."""
        del q, seen
        parts = []
        for size, truth in zip(self.sizes, np.split(p, self._ends, axis=1), strict=True):
            truth = normalised(truth)
            again = np.broadcast_to(truth[:, None], (len(truth), number, truth.shape[1]))
            parts.append(stream.multinomial(int(size), again) / size)
        drawn = np.concatenate(parts, axis=2)
        return drawn, drawn[..., self._mirror]

    def distance(self, estimates: tuple[Floats, Floats], truths: tuple[Floats, Floats]) -> Any:
        """Twice the logarithm of the likelihood ratio."""
        total: Any = 0.0
        pairs = (np.split(each[0], self._ends, axis=-1) for each in (estimates, truths))
        for size, estimate, truth in zip(self.sizes, *pairs, strict=True):
            total = total + 2 * size * divergence(normalised(estimate), normalised(truth))
        return total

    def errors_of(self, here: Floats, there: Floats) -> Floats:
        """Those of estimates that are drawn again."""
        return errors_when_drawn(self, here, there)

    def words(self) -> str:
        """How many people in each sample."""
        sizes = [f"{int(size):,}" for size in self.sizes]
        if len(sizes) == 1:
            return f"{sizes[0]} people who chose"
        return f"{sizes[0]} and {sizes[1]} people in the two arms of the experiment and {sizes[2]} who chose"
