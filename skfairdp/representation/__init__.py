"""Representations that are released: private for each row, fair for predictors from them alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
