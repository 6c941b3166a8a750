"""What data alone can say, whatever the coupling: over all couplings, and over the counterfactually stable ones."""

from countermax.bounds._any import filled as filled
from countermax.bounds._any import filled_mean as filled_mean
from countermax.bounds._better import better_bounds as better_bounds
from countermax.bounds._better import unchecked_better_bounds as unchecked_better_bounds
from countermax.bounds._pieces import MOST_PIECES as MOST_PIECES
from countermax.bounds._pieces import Pieces as Pieces
from countermax.bounds._pieces import largest_worth as largest_worth
from countermax.bounds._pieces import num_pieces as num_pieces
from countermax.bounds._questions import effect_bounds as effect_bounds
from countermax.bounds._questions import outcome_bounds as outcome_bounds
from countermax.bounds._questions import score_bounds as score_bounds
from countermax.bounds._questions import unchecked_outcome_bounds as unchecked_outcome_bounds
from countermax.bounds._questions import unchecked_score_bounds as unchecked_score_bounds
from countermax.bounds._ties import ratio_tie as ratio_tie
from countermax.bounds._value import Bounds as Bounds
