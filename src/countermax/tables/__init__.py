"""Tables with two predictions for each row: frames, files, folders and Ray Datasets alike."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
