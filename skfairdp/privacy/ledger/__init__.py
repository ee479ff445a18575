"""Ledger of the privacy spent on a data set, across fits, processes and days."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
