"""Tables with two predictions for each row: frames, files, folders and Ray Datasets alike."""

from countermax.tables._batches import Answering as Answering
from countermax.tables._batches import Sums as Sums
from countermax.tables._effects import TableEffects as TableEffects
from countermax.tables._probabilities import Predicted as Predicted
from countermax.tables._problem import Rows as Rows
from countermax.tables._refit import Refit as Refit
from countermax.tables._switching import SwitchingTable as SwitchingTable
from countermax.tables._transitions import Transitions as Transitions
from countermax.tables._utilities import Utilities as Utilities
