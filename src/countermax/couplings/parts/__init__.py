"""What a gadget learns with: parts that turn log-probabilities into a matrix of scores, and parts to start from.

A part is any Equinox module with `part(log_p) -> [rows, k]`. Gadget 2 reads the rows as latents, Gadget 1 as outcomes.
"""

from countermax.couplings.parts._base import AbstractPart as AbstractPart
from countermax.couplings.parts._base import Constant as Constant
from countermax.couplings.parts._base import Diagonal as Diagonal
from countermax.couplings.parts._base import Started as Started
from countermax.couplings.parts._perceptron import ACTIVATIONS as ACTIVATIONS
from countermax.couplings.parts._perceptron import FEATURES as FEATURES
from countermax.couplings.parts._perceptron import Perceptron as Perceptron
from countermax.couplings.parts._starts import BinnedInverseCDF as BinnedInverseCDF
from countermax.couplings.parts._starts import ReferenceTransport as ReferenceTransport
