"""Section 7.3 of the paper: treatment effects in the sepsis process, as published and repaired."""

from studies.sepsis._queries import DISCOUNT as DISCOUNT
from studies.sepsis._queries import HORIZON as HORIZON
from studies.sepsis._queries import estimated_model as estimated_model
from studies.sepsis._queries import in_the_simulator as in_the_simulator
from studies.sepsis._queries import published_model as published_model
from studies.sepsis._queries import simulated_cohort as simulated_cohort
from studies.sepsis._queries import trials_of as trials_of
from studies.sepsis._study import Sepsis as Sepsis
from studies.sepsis._study import SepsisAsPublished as SepsisAsPublished
from studies.sepsis._study import sepsis_queries as sepsis_queries
