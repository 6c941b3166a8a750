"""Joint laws of two worlds' outcomes: the contract, the couplings, the parts that gadgets are made of, and files."""

from countermax.couplings._base import AbstractArgmaxSampler as AbstractArgmaxSampler
from countermax.couplings._base import AbstractCoupling as AbstractCoupling
from countermax.couplings._base import AbstractMatrixCoupling as AbstractMatrixCoupling
from countermax.couplings._base import AbstractMechanism as AbstractMechanism
from countermax.couplings._base import AbstractNoiseSampler as AbstractNoiseSampler
from countermax.couplings._base import AbstractSampler as AbstractSampler
from countermax.couplings._gadgets import Gadget1 as Gadget1
from countermax.couplings._gadgets import Gadget2 as Gadget2
from countermax.couplings._gumbel_max import GumbelMax as GumbelMax
from countermax.couplings._gumbel_max import SharedGumbelMax as SharedGumbelMax
from countermax.couplings._inverse_cdf import InverseCDF as InverseCDF
from countermax.couplings._matrix import Comonotone as Comonotone
from countermax.couplings._matrix import Independent as Independent
from countermax.couplings._matrix import Maximal as Maximal
from countermax.couplings._matrix import Optimal as Optimal
from countermax.couplings._nested import NestedGumbelMax as NestedGumbelMax
from countermax.couplings._parts import BinnedInverseCDF as BinnedInverseCDF
from countermax.couplings._parts import Constant as Constant
from countermax.couplings._parts import Diagonal as Diagonal
from countermax.couplings._parts import Perceptron as Perceptron
from countermax.couplings._parts import ReferenceTransport as ReferenceTransport
from countermax.couplings._storage import load as load
from countermax.couplings._storage import save as save
from countermax.couplings._vector_quantile import VectorQuantile as VectorQuantile
