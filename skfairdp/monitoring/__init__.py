"""Monitors of deployed models: bounds on gaps that hold at all times after the certificate."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
