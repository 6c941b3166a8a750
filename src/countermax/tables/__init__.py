"""Tables with two predictions for each row: frames, files, folders and Ray Datasets alike."""

from countermax.tables._effects import TableEffects as TableEffects
from countermax.tables._probabilities import Predicted as Predicted
from countermax.tables._problem import Rows as Rows
from countermax.tables._refit import Refit as Refit
from countermax.tables._transitions import Transitions as Transitions
