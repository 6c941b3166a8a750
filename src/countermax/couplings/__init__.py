"""Joint laws of two worlds' outcomes, one file per idea."""

from ._base import AbstractArgmaxMechanism as AbstractArgmaxMechanism
from ._base import AbstractCoupling as AbstractCoupling
from ._base import AbstractMatrixCoupling as AbstractMatrixCoupling
from ._base import AbstractMechanism as AbstractMechanism
from ._base import AbstractSampler as AbstractSampler
from ._gumbel import GumbelMax as GumbelMax
from ._inverse_cdf import InverseCDF as InverseCDF
from ._matrix import Independent as Independent
from ._matrix import Maximal as Maximal
from ._matrix import Optimal as Optimal
