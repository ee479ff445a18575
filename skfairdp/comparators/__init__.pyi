from .cfair import CFAIREncoder
from .cfb import CFBEncoder
from .covariance import CovarianceConstrainedClassifier
from .ffvae import FFVAEEncoder
from .laftr import LAFTREncoder
from .ppvae import PPVAEEncoder
from .vfae import VFAEEncoder

__all__ = [
    "CFAIREncoder",
    "CFBEncoder",
    "CovarianceConstrainedClassifier",
    "FFVAEEncoder",
    "LAFTREncoder",
    "PPVAEEncoder",
    "VFAEEncoder",
]
