"""Fair representations without privacy, to compare private ones with.

Each is a scikit-learn transformer that learns from rows in the open: nothing that it
releases is private, and a certificate says so. They are the comparators of Xie, Wu, Li,
Ding and Letaief (2024), written from the methods' papers; where the published code does
something else than its paper, the pages on theory say what we do.
"""

from __future__ import annotations

from .cfair import CFAIREncoder
from .cfb import CFBEncoder
from .ffvae import FFVAEEncoder
from .laftr import LAFTREncoder
from .ppvae import PPVAEEncoder
from .vfae import VFAEEncoder

__all__ = [
    "CFAIREncoder",
    "CFBEncoder",
    "FFVAEEncoder",
    "LAFTREncoder",
    "PPVAEEncoder",
    "VFAEEncoder",
]
