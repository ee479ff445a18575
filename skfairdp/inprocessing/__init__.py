"""Mechanisms that act while a model is trained."""

from skfairdp.deprecation import moved
from skfairdp.inprocessing.attribute.lagrangian_dual import LagrangianDualClassifier
from skfairdp.inprocessing.attribute.randomized import RandomizedAttributeClassifier
from skfairdp.inprocessing.dpsgd import DPSGDClassifier
from skfairdp.inprocessing.dpsgdf import DPSGDFClassifier
from skfairdp.inprocessing.fair_path.classifier import FairPathClassifier
from skfairdp.inprocessing.fair_path.display import FairPathDisplay
from skfairdp.inprocessing.fairdp.classifier import FairDPClassifier
from skfairdp.inprocessing.fermi import DPFermiClassifier
from skfairdp.inprocessing.functional.classifier import FunctionalMechanismClassifier
from skfairdp.inprocessing.importance_sampling import ImportanceSamplingDPSGDClassifier
from skfairdp.inprocessing.public_parity import PublicParity
from skfairdp.inprocessing.rates.classifier import RateConstrainedClassifier

__all__ = [
    "DPFermiClassifier",
    "DPSGDClassifier",
    "DPSGDFClassifier",
    "FairDPClassifier",
    "FairPathClassifier",
    "FairPathDisplay",
    "FunctionalMechanismClassifier",
    "ImportanceSamplingDPSGDClassifier",
    "LagrangianDualClassifier",
    "PublicParity",
    "RandomizedAttributeClassifier",
    "RateConstrainedClassifier",
]

__getattr__ = moved(__name__, "skfairdp.comparators", ("CovarianceConstrainedClassifier",))
