"""Do the intervals hold what they promise? Trials whose truth is known, drawn thousands of times."""

from studies.coverage._experiment import Coverage as Coverage
from studies.coverage._logistic import Logistic as Logistic
from studies.coverage._refitted import probabilities as logistic_truth
from studies.coverage._refitted import sample as logistic_people
from studies.coverage._tables import AGES as AGES
from studies.coverage._tables import LABELS as LABELS

__all__ = ["AGES", "LABELS", "Coverage", "Logistic", "logistic_people", "logistic_truth"]
