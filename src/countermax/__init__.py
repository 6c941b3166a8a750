"""Counterfactual reasoning about categorical outcomes, exactly."""

# Names are imported when they are first used, so that the command line starts at once; the stub lists them.
import lazy_loader

from countermax._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
