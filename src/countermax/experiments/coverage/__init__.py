"""Do the intervals hold what they promise? Trials whose truth is known, drawn thousands of times."""

from countermax.experiments.coverage._experiment import Coverage as Coverage
