"""Joint laws of two worlds' outcomes, one file per idea."""

from countermax.couplings._base import AbstractArgmaxMechanism as AbstractArgmaxMechanism
from countermax.couplings._base import AbstractCoupling as AbstractCoupling
from countermax.couplings._base import AbstractMatrixCoupling as AbstractMatrixCoupling
from countermax.couplings._base import AbstractMechanism as AbstractMechanism
from countermax.couplings._base import AbstractSampler as AbstractSampler
from countermax.couplings._gadget1 import Gadget1 as Gadget1
from countermax.couplings._gadget2 import Gadget2 as Gadget2
from countermax.couplings._gumbel import GumbelMax as GumbelMax
from countermax.couplings._inverse_cdf import InverseCDF as InverseCDF
from countermax.couplings._matrix import Independent as Independent
from countermax.couplings._matrix import Maximal as Maximal
from countermax.couplings._matrix import Optimal as Optimal
from countermax.couplings._networks import AbstractPart as AbstractPart
from countermax.couplings._networks import BinnedInverseCDF as BinnedInverseCDF
from countermax.couplings._networks import Diagonal as Diagonal
from countermax.couplings._networks import Perceptron as Perceptron
from countermax.couplings._networks import ReferenceTransport as ReferenceTransport
from countermax.couplings._networks import Started as Started
from countermax.couplings._networks import Table as Table
