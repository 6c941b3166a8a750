"""Estimates of up to three samples, without the treatment, with it, and observed, and what they say."""

from collections.abc import Callable

import numpy as np

from countermax.causation._questions import Arms, Choosers, Evidence, Floats
from countermax.intervals._sampling import Sampling, of_counts

Evidences = Callable[[Floats], Evidence]
"""What laws of all samples say, [laws, cells], one sample after the other."""


def of_two_arms(share: float | None, *, unknown: bool = False) -> Evidences:
    """What the two arms of a trial say, of whom a share was treated."""
    return lambda laws: Evidence(Arms(*np.split(laws, 2, axis=-1)), None, share, unknown=unknown)


def two_sources(
    trial: Arms | None, observed: Floats, share: float | None, names: tuple[str, str]
) -> tuple[Sampling, Evidences]:
    """Independent people in up to three samples, by outcome, and what laws of theirs say.

    Args:
        trial: Counts of both arms.
        observed: Counts of those who chose the control, the treatment or neither; a table without the last says that
            there are none.
        share: Share of the treated in the trial.
        names: Names of the two arms.
    """
    size = observed.shape[1]
    seen = np.concatenate([observed[0], observed[1], [observed[2].sum()] if observed[2].any() else []])
    counts = [seen] if trial is None else [*trial, seen]
    sizes = [f"{int(each.sum()):,}" for each in counts]
    words = f"{sizes[-1]} people who chose"
    if trial is not None:
        words = f"{sizes[0]} people in {names[0]}, {sizes[1]} in {names[1]}, and {sizes[2]} who chose"
    sampling = of_counts(counts, words)

    def evidence_of(laws: Floats) -> Evidence:
        *arms, chosen = sampling.split(laws)
        elsewhere = chosen[..., 2 * size :].sum(axis=-1)
        choices = Choosers(chosen[..., :size], chosen[..., size : 2 * size], elsewhere)
        return Evidence(Arms(*arms) if arms else None, choices, share)

    return sampling, evidence_of
