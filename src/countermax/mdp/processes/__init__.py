"""Processes that come with the library."""

from countermax.mdp.processes import icu as icu
from countermax.mdp.processes import sepsis as sepsis
