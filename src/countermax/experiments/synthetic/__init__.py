"""The paper's synthetic experiments: Table 1 and both halves of Figure 1."""

from countermax.experiments.synthetic._couplings import Couplings as Couplings
from countermax.experiments.synthetic._maximality import Maximality as Maximality
from countermax.experiments.synthetic._presets import published as published
from countermax.experiments.synthetic._table1 import Table1 as Table1
