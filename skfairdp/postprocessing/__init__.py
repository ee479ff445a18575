"""Decisions on top of a fitted model: abstention under a parity gate, smoothing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
