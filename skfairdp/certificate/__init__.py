"""Certificates: guarantees of one fitted model, bound to its weights by a digest."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
