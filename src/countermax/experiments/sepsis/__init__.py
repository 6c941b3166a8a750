"""Section 7.3 of the paper: treatment effects in the sepsis process, as published and repaired."""

from countermax.experiments.sepsis._experiment import FaithfulSepsis as FaithfulSepsis
from countermax.experiments.sepsis._experiment import Sepsis as Sepsis
from countermax.experiments.sepsis._experiment import sepsis_queries as sepsis_queries
from countermax.experiments.sepsis._pipeline import published_model as published_model
