"""The paper's experiments, each a plan of cells whose results are stored one by one and drawn from what is stored."""

from countermax.experiments._registry import EXPERIMENTS as EXPERIMENTS
from countermax.experiments._registry import redraw as redraw
from countermax.experiments._registry import reproduce as reproduce
from countermax.experiments._registry import seal as seal
from countermax.experiments.engine import Interrupted as Interrupted
from countermax.experiments.sepsis import sepsis_queries as sepsis_queries
from countermax.experiments.trajectories import cautious_policy as cautious_policy
from countermax.experiments.trajectories import sepsis_log as sepsis_log
from countermax.experiments.trajectories import true_value as true_value
