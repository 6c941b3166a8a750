"""What data alone can say, whatever the coupling: over all couplings, and over the counterfactually stable ones."""

from countermax.bounds._questions import Bounds as Bounds
from countermax.bounds._questions import better_bounds as better_bounds
from countermax.bounds._questions import effect_bounds as effect_bounds
from countermax.bounds._questions import outcome_bounds as outcome_bounds
from countermax.bounds._questions import score_bounds as score_bounds
