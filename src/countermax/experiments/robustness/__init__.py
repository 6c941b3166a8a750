"""Are gains called robust gains in truth? Random processes that are known, and policies optimised on estimates."""

from countermax.experiments.robustness._experiment import Robustness as Robustness
