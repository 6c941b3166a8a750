"""Whole trajectories: published figures beside exact ones, estimates beside the truth, a learned mechanism."""

from countermax.experiments.trajectories._experiment import Trajectories as Trajectories
from countermax.experiments.trajectories._experiment import cautious_policy as cautious_policy
from countermax.experiments.trajectories._experiment import sepsis_log as sepsis_log
