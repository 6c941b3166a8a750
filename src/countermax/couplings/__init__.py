"""Joint laws of two worlds' outcomes: the contract, the couplings, the parts that gadgets are made of, and files.

Imported when they are first used: what a name says of a coupling is often enough, and JAX takes longer than an answer.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
