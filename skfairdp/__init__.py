"""Private classifiers, and certificates of what holds for them and between groups."""

from skfairdp.aggregation import (
    FairPATEClassifier,
    PATEClassifier,
    PublicRows,
    SFPATEClassifier,
)
from skfairdp.certificate import Certificate, certify
from skfairdp.engine.nets import default_net
from skfairdp.inprocessing import DPSGDClassifier, FairDPClassifier
from skfairdp.postprocessing import AbstainingClassifier
from skfairdp.preprocessing import PrivateThinningClassifier
from skfairdp.privacy import PrivacyLedger

__all__ = [
    "AbstainingClassifier",
    "Certificate",
    "DPSGDClassifier",
    "FairDPClassifier",
    "FairPATEClassifier",
    "PATEClassifier",
    "PrivacyLedger",
    "PrivateThinningClassifier",
    "PublicRows",
    "SFPATEClassifier",
    "certify",
    "default_net",
]

__version__ = "0.1.0"
