"""Whole trajectories: published values beside exact ones, estimates beside the truth, a learned coupling."""

from studies.trajectories._experiment import Trajectories as Trajectories
from studies.trajectories._studies import cautious_policy as cautious_policy
from studies.trajectories._studies import sepsis_log as sepsis_log
from studies.trajectories._studies import true_value as true_value
