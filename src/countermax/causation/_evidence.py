"""What is known: of an experiment, of people who chose, in strata."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from countermax.causation._questions import Floats


class Arms(NamedTuple):
    """An experiment: P(outcome) without the treatment and with it; arrays run over worlds, then outcomes."""

    control: Floats
    treated: Floats


class Choosers(NamedTuple):
    """People who chose."""

    control: Floats
    """P(chose to be without the treatment, and had the outcome)."""
    treated: Floats
    """P(chose the treatment, and had the outcome)."""
    elsewhere: Floats
    """P(chose something else)."""


class Evidence(NamedTuple):
    """What is known; None where a source is missing."""

    trial: Arms | None
    choices: Choosers | None
    share: float | None
    """P(with the treatment) among units of the trial."""
    strata: Floats | None = None
    """[worlds, strata]: how many are in each stratum; arrays of the sources then have strata before outcomes."""
    unknown: bool = False
    """Whether the last outcome of an experiment is that none is known."""

    @property
    def arms(self) -> Arms:
        """The experiment, where there is one."""
        assert self.trial is not None
        return self.trial

    @property
    def chosen(self) -> Choosers:
        """The people who chose, where they were observed."""
        assert self.choices is not None
        return self.choices

    def without_strata(self, one: Callable[[Floats], Floats]) -> "Evidence":
        """What `one` makes of the strata of each array."""
        return self._replace(
            trial=None if self.trial is None else Arms(*(np.asarray(one(each)) for each in self.trial)),
            choices=None if self.choices is None else Choosers(*(np.asarray(one(each)) for each in self.choices)),
            strata=None,
        )
