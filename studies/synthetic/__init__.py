"""The paper's synthetic experiments: Table 1 and both halves of Figure 1."""

from studies.synthetic._couplings import Couplings as Couplings
from studies.synthetic._maximality import Maximality as Maximality
from studies.synthetic._recipes import published_recipe as published_recipe
from studies.synthetic.table1 import Table1 as Table1
