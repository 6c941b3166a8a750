"""Joint laws of two worlds' outcomes: the contract, one file for each coupling, and their names.

What gadgets are made of is in `countermax.couplings.parts`.
"""

from countermax.couplings._barycenter import lloyd as lloyd
from countermax.couplings._base import AbstractArgmaxSampler as AbstractArgmaxSampler
from countermax.couplings._base import AbstractCoupling as AbstractCoupling
from countermax.couplings._base import AbstractMatrixCoupling as AbstractMatrixCoupling
from countermax.couplings._base import AbstractMechanism as AbstractMechanism
from countermax.couplings._base import AbstractNoiseSampler as AbstractNoiseSampler
from countermax.couplings._base import AbstractSampler as AbstractSampler
from countermax.couplings._comonotone import Comonotone as Comonotone
from countermax.couplings._gadget1 import Gadget1 as Gadget1
from countermax.couplings._gadget2 import Gadget2 as Gadget2
from countermax.couplings._gumbel_max import GumbelMax as GumbelMax
from countermax.couplings._gumbel_max import SharedGumbelMax as SharedGumbelMax
from countermax.couplings._gumbel_max import noise_correlation as noise_correlation
from countermax.couplings._independent import Independent as Independent
from countermax.couplings._inverse_cdf import InverseCDF as InverseCDF
from countermax.couplings._maximal import Maximal as Maximal
from countermax.couplings._named import NAMES as NAMES
from countermax.couplings._named import as_coupling as as_coupling
from countermax.couplings._named import as_couplings as as_couplings
from countermax.couplings._named import is_same as is_same
from countermax.couplings._named import name_of as name_of
from countermax.couplings._named import named_couplings as named_couplings
from countermax.couplings._optimal import Optimal as Optimal
from countermax.couplings._scaling import scores_of_loss as scores_of_loss
from countermax.couplings._storage import load as load
from countermax.couplings._storage import save as save
from countermax.couplings._vector_quantile import VectorQuantile as VectorQuantile
