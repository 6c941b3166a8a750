"""Counterfactuals of dataframes and files: pandas, polars, Arrow, CSV, Parquet and JSON lines alike."""

from countermax._tables.writing import write_table as write_table
from countermax.tables._causation_rows import causation_of_rows as causation_of_rows
from countermax.tables._counterfactuals import counterfactuals as counterfactuals
from countermax.tables._effect_result import TableEffects as TableEffects
from countermax.tables._effects import effects as effects
from countermax.tables._pairs import frame_pairs as frame_pairs
from countermax.tables._probabilities import Predicted as Predicted
from countermax.tables._ray import counterfactuals_dataset as counterfactuals_dataset
from countermax.tables._ray import effects_dataset as effects_dataset
from countermax.tables._ray import transitions_dataset as transitions_dataset
from countermax.tables._rows import CHUNK_ROWS as CHUNK_ROWS
from countermax.tables._streaming import FileAnswers as FileAnswers
from countermax.tables._streaming import counterfactuals_file as counterfactuals_file
from countermax.tables._streaming import transitions_file as transitions_file
from countermax.tables._transition_result import Transitions as Transitions
from countermax.tables._transitions import transitions as transitions
