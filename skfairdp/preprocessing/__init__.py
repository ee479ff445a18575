"""Preprocessing that learns nothing from rows, or learns with differential privacy."""

import lazy_loader

from skfairdp.deprecation import moved

_here, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(
    __name__,
    "skfairdp.representation",
    ("LaplaceTransformer", "PrivateFairEncoder"),
    otherwise=_here,
)
