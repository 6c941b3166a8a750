"""Processes that come with the library."""

from studies.processes import icu as icu
from studies.processes import sepsis as sepsis
