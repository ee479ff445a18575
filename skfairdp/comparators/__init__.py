"""Fair methods without privacy, to compare private ones with: nothing here is the product.

Each learns from rows in the open: nothing that it releases is private, and a certificate
says so. The encoders are the comparators of Xie, Wu, Li,
Ding and Letaief (2024), written from the methods' papers; where the published code does
something else than its paper, the pages on theory say what we do.
"""

from __future__ import annotations

from skfairdp.comparators.cfair import CFAIREncoder
from skfairdp.comparators.cfb import CFBEncoder
from skfairdp.comparators.covariance import CovarianceConstrainedClassifier
from skfairdp.comparators.ffvae import FFVAEEncoder
from skfairdp.comparators.laftr import LAFTREncoder
from skfairdp.comparators.ppvae import PPVAEEncoder
from skfairdp.comparators.vfae import VFAEEncoder

__all__ = [
    "CFAIREncoder",
    "CFBEncoder",
    "CovarianceConstrainedClassifier",
    "FFVAEEncoder",
    "LAFTREncoder",
    "PPVAEEncoder",
    "VFAEEncoder",
]
