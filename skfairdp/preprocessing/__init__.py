"""Preprocessing that learns nothing from the rows, or pays for what it learns."""

import lazy_loader

from skfairdp.deprecation import moved

_here, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(
    __name__,
    "skfairdp.representation",
    ("LaplaceTransformer", "PrivateFairEncoder"),
    otherwise=_here,
)
