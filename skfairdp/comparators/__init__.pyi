from .adversarial import CFAIREncoder, LAFTREncoder
from .covariance import CovarianceConstrainedClassifier
from .ffvae import FFVAEEncoder
from .variational import CFBEncoder, PPVAEEncoder, VFAEEncoder

__all__ = [
    "CFAIREncoder",
    "CFBEncoder",
    "CovarianceConstrainedClassifier",
    "FFVAEEncoder",
    "LAFTREncoder",
    "PPVAEEncoder",
    "VFAEEncoder",
]
