"""Learning a coupling: which pairs, which loss, how to train, and how good the result is."""

from countermax._pairs import FixedPair as FixedPair
from countermax._pairs import ObservedPairs as ObservedPairs
from countermax._pairs import PerturbedPair as PerturbedPair
from countermax._pairs import RandomPairs as RandomPairs
from countermax.learning._evaluate import Evaluation as Evaluation
from countermax.learning._evaluate import evaluate as evaluate
from countermax.learning._fit import Training as Training
from countermax.learning._fit import fit as fit
from countermax.learning._fit import fit_many as fit_many
from countermax.learning._loop import Fit as Fit
from countermax.learning._loop import TrainingError as TrainingError
from countermax.learning._loop import TrainingInterrupted as TrainingInterrupted
from countermax.learning._losses import Disagreement as Disagreement
from countermax.learning._losses import GivenOutcome as GivenOutcome
from countermax.learning._losses import MatrixLoss as MatrixLoss
from countermax.learning._losses import Reinforce as Reinforce
from countermax.learning._losses import Relaxed as Relaxed
from countermax.learning._losses import SquaredDifference as SquaredDifference
