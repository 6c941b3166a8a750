"""Whole trajectories: published values beside exact ones, estimates beside the truth, a learned coupling."""

from countermax.experiments.trajectories._experiment import Trajectories as Trajectories
from countermax.experiments.trajectories._studies import cautious_policy as cautious_policy
from countermax.experiments.trajectories._studies import sepsis_log as sepsis_log
from countermax.experiments.trajectories._studies import true_value as true_value
