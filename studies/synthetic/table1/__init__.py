"""Table 1 of the paper, and a fifth column where no order is optimal."""

from studies.synthetic.table1._experiment import Table1 as Table1
