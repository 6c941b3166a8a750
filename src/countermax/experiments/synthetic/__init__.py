"""The paper's synthetic experiments: Table 1 and both halves of Figure 1."""

from countermax.experiments.synthetic._couplings import Couplings as Couplings
from countermax.experiments.synthetic._maximality import Maximality as Maximality
from countermax.experiments.synthetic._recipes import published_recipe as published_recipe
from countermax.experiments.synthetic.table1 import Table1 as Table1
