"""Section 7.3 of the paper: treatment effects in the sepsis process, as published and repaired."""

from studies.sepsis._cohort import DISCOUNT as DISCOUNT
from studies.sepsis._cohort import HORIZON as HORIZON
from studies.sepsis._cohort import estimated_model as estimated_model
from studies.sepsis._cohort import in_the_simulator as in_the_simulator
from studies.sepsis._cohort import published_model as published_model
from studies.sepsis._cohort import simulated_cohort as simulated_cohort
from studies.sepsis._experiment import Sepsis as Sepsis
from studies.sepsis._experiment import SepsisAsPublished as SepsisAsPublished
from studies.sepsis._experiment import sepsis_queries as sepsis_queries
from studies.sepsis._trials import trials_of as trials_of
