"""Scorers and reports on fairlearn's metrics, and measures of information."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
