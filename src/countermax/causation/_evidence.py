"""What is known: of an experiment, of people who chose, in strata."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from countermax.causation._questions import Floats


class Evidence(NamedTuple):
    """What is known; arrays run over worlds, then outcomes. None where a source is missing."""

    control: Floats | None
    """P(outcome without the treatment) in an experiment."""
    treated: Floats | None
    seen_control: Floats | None
    """P(chose to be without the treatment, and had the outcome)."""
    seen_treated: Floats | None
    elsewhere: Floats | None
    """P(chose something else)."""
    share: float | None
    """P(with the treatment) among units of the trial."""
    strata: Floats | None = None
    """[worlds, strata]: how many are in each stratum; all arrays above then have strata before outcomes."""
    unknown: bool = False
    """Whether the last outcome of an experiment is that none is known."""

    def without_strata(self, one: Callable[[Floats], Floats]) -> "Evidence":
        """What `one` makes of the strata of each array."""
        control, treated, chose_control, chose_treated, elsewhere = (
            None if each is None else np.asarray(one(each)) for each in self[:5]
        )
        return self._replace(
            control=control, treated=treated, seen_control=chose_control, seen_treated=chose_treated,
            elsewhere=elsewhere, strata=None,
        )  # fmt: skip

    @property
    def has_trial(self) -> bool:
        """Whether there was an experiment."""
        return self.control is not None

    @property
    def has_choices(self) -> bool:
        """Whether people who chose were observed."""
        return self.seen_control is not None
