"""Bulk answers: the same question of many rows, by compiled loops on the CPU, or by JAX in batches of one size.

Couplings with a closed form, and bounds, are answered by compiled loops; everything else by JAX. Either way a row's
numbers are the same to the last bit, whichever rows come with it. Log-probabilities are normalised and outcomes
possible: callers have checked them. Numba is imported with the first question, and JAX with the first of a coupling
that is no `ClosedForm`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
