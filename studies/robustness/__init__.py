"""Are gains called robust gains in truth? Random processes that are known, and policies optimised on estimates."""

from studies.robustness._experiment import Robustness as Robustness
