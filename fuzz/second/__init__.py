"""The second implementation: slow, exact where it can be, and free of the library's formulas.

Numbers are fractions, integrals are summed up piece by piece, tables are read by the standard library. Nothing in here
imports countermax.
"""
