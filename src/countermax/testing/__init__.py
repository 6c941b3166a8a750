"""The laws that every coupling must satisfy, as a function that you can run on your own.

Algebraic laws are checked to rounding. Laws about draws are chi-square tests; together they raise a false alarm with
probability `false_alarm` at most (Bonferroni), and a fixed key makes the verdict repeatable.
"""

from countermax.testing._check import Conformance as Conformance
from countermax.testing._check import check_coupling as check_coupling
