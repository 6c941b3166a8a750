"""Bridges to other libraries, each behind an extra of its own and imported when it is first used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
