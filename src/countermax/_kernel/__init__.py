"""Bulk answers: the same question of many rows, by compiled loops on the CPU, or by JAX in batches of one size.

Couplings with a closed form, and bounds, are answered by compiled loops; everything else by JAX. Either way a row's
numbers are the same to the last bit, whichever rows come with it. Log-probabilities are normalised and outcomes
possible: callers have checked them. Numba is imported with the first question.
"""

from countermax._kernel._batches import in_batches as in_batches
from countermax._kernel._rows import answer_rows as answer_rows
from countermax._kernel._rows import as_shares as as_shares
from countermax._kernel._rows import choice_tree as choice_tree
from countermax._kernel._rows import has_closed_form as has_closed_form
from countermax._kernel._rows import joint_sums as joint_sums
from countermax._kernel._rows import likeliest as likeliest
from countermax._kernel._rows import mean_worths as mean_worths
from countermax._kernel._rows import needs_no_logarithms as needs_no_logarithms
from countermax._kernel._rows import num_columns as num_columns
from countermax._kernel._rows import row_bounds as row_bounds
from countermax._kernel._rows import row_probabilities as row_probabilities
from countermax._kernel._rows import row_score_bounds as row_score_bounds
