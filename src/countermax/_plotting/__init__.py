"""Arrays in, figures out: one style for every picture, and no computation.

Imported when something is drawn: matplotlib takes longer to load than most answers take to compute.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
