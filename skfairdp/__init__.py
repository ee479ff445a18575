"""Private classifiers, and certificates of what holds for them and between groups."""

from skfairdp.additive import DPAdditiveClassifier
from skfairdp.aggregation import FairPATEClassifier, PATEClassifier, PublicRows, SFPATEClassifier
from skfairdp.certificate import Certificate, certify
from skfairdp.comparators.covariance import CovarianceConstrainedClassifier
from skfairdp.engine.nets import default_net
from skfairdp.fairness import certifiable
from skfairdp.inprocessing import (
    DPFermiClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    FairDPClassifier,
    FairPathClassifier,
    FunctionalMechanismClassifier,
    ImportanceSamplingDPSGDClassifier,
    LagrangianDualClassifier,
    RandomizedAttributeClassifier,
    RateConstrainedClassifier,
)
from skfairdp.monitoring import GapMonitor
from skfairdp.postprocessing import AbstainingClassifier, SmoothedClassifier
from skfairdp.preprocessing import PrivateTableEncoder, PrivateThinningClassifier
from skfairdp.privacy import PrivacyLedger
from skfairdp.representation import LaplaceTransformer, PrivateFairEncoder

__all__ = [
    "AbstainingClassifier",
    "Certificate",
    "CovarianceConstrainedClassifier",
    "DPAdditiveClassifier",
    "DPFermiClassifier",
    "DPSGDClassifier",
    "DPSGDFClassifier",
    "FairDPClassifier",
    "FairPATEClassifier",
    "FairPathClassifier",
    "FunctionalMechanismClassifier",
    "ImportanceSamplingDPSGDClassifier",
    "GapMonitor",
    "LagrangianDualClassifier",
    "LaplaceTransformer",
    "PATEClassifier",
    "PrivacyLedger",
    "PrivateFairEncoder",
    "PrivateTableEncoder",
    "PrivateThinningClassifier",
    "PublicRows",
    "RandomizedAttributeClassifier",
    "RateConstrainedClassifier",
    "SFPATEClassifier",
    "SmoothedClassifier",
    "certifiable",
    "certify",
    "default_net",
]

__version__ = "0.1.0"
