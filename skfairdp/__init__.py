"""Private classifiers, and certificates of what holds for them and between groups."""

from skfairdp.certificate import Certificate, certify
from skfairdp.engine.nets import default_net
from skfairdp.inprocessing import DPSGDClassifier, FairDPClassifier

__all__ = [
    "Certificate",
    "DPSGDClassifier",
    "FairDPClassifier",
    "certify",
    "default_net",
]

__version__ = "0.1.0"
