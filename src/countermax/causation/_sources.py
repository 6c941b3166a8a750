"""Whether sources fit together: an experiment and what people chose must be able to come from one population."""

from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax.causation._evidence import Evidence
from countermax.causation._questions import Floats

_ROUNDING = 1e-9
_MOST_NOTES = 3
_ERRORS = 3.5  # standard errors by which two estimates may miss each other


class Strata(NamedTuple):
    """Who was counted."""

    names: tuple[str, ...] | None
    """None where there are no strata."""
    sizes: Floats
    """[strata, 3]: how many people were counted: in the control arm, with the treatment, and observed."""


def check_sources(evidence: Evidence, labels: Labels, arms: tuple[str, str], strata: Strata | None = None) -> list[str]:
    """Refuses sources that contradict each other, with the inequality that is violated; notes misses that chance makes.

    Args:
        evidence: Evidence about one pair of worlds, or about one in each stratum.
        labels: The outcomes.
        arms: Names of the arm without the treatment and of the arm with it.
        strata: Numbers of people counted; None where probabilities are known.
    """
    if evidence.trial is None or evidence.choices is None:
        return []
    if evidence.strata is None:
        return _checked(evidence, labels, arms, None if strata is None else strata.sizes[0], "")
    notes = []
    names = tuple(map(str, range(evidence.strata.shape[-1]))) if strata is None else strata.names
    for place, name in enumerate(names or ()):
        inner = evidence.without_strata(itemgetter(place))
        notes += _checked(inner, labels, arms, None if strata is None else strata.sizes[place], f" in stratum {name!r}")
    return notes[:_MOST_NOTES]


def _checked(evidence: Evidence, labels: Labels, arms: tuple[str, str], sizes: Floats | None, where: str) -> list[str]:
    """The same in one stratum."""
    notes = []
    for place, (arm, whole, seen) in enumerate(zip(arms, evidence.arms, evidence.chosen[:2], strict=True)):
        if evidence.unknown:  # whoever has no outcome in the experiment may have had this one
            whole, seen = whole[:-1] + whole[-1], seen[:-1]
        error: Any = 0.0
        if sizes is not None:
            error = _ERRORS * np.sqrt(_variance(whole, sizes[place]) + _variance(seen, sizes[2]))
        excess = seen - whole
        if (excess > error + _ROUNDING).any():
            outcome = int((excess - error).argmax())
            beyond = "" if sizes is None else ", by more than chance"
            raise InputError(
                f"the sources cannot both be right{where}: P({labels.names[outcome]!r} if {arm}) in the experiment, "
                f"{whole[outcome]:.4g}, must be at least P(chose {arm} and had {labels.names[outcome]!r}) in the "
                f"observations, {seen[outcome]:.4g}, but is less{beyond}; are they the same people, outcomes and arms?"
            )
        if (excess > _ROUNDING).any():
            outcome = int(excess.argmax())
            notes.append(
                f"The two sources miss each other by chance{where}: P({labels.names[outcome]!r} if {arm}) was "
                f"estimated below P(chose {arm} and had {labels.names[outcome]!r}), which cannot be; it was taken as "
                "equal."
            )
    return notes


def _variance(share: Floats, size: float) -> Floats:
    """Of an estimated share, with half a person added so that nothing is certain."""
    smooth = (share * size + 0.5) / (size + 1)
    return np.asarray(smooth * (1 - smooth) / size)
