"""Do the intervals hold what they promise? Trials whose truth is known, drawn thousands of times."""

from countermax.experiments.coverage._experiment import Coverage as Coverage
from countermax.experiments.coverage._logistic import Logistic as Logistic
from countermax.experiments.coverage._refitted import probabilities as logistic_truth
from countermax.experiments.coverage._refitted import sample as logistic_people
from countermax.experiments.coverage._tables import AGES as AGES
from countermax.experiments.coverage._tables import LABELS as LABELS

__all__ = ["AGES", "LABELS", "Coverage", "Logistic", "logistic_people", "logistic_truth"]
