"""Mechanisms that act while a model is trained."""

from skfairdp.inprocessing.covariance import CovarianceConstrainedClassifier
from skfairdp.inprocessing.dpsgd import DPSGDClassifier
from skfairdp.inprocessing.dpsgdf import DPSGDFClassifier
from skfairdp.inprocessing.fairdp import FairDPClassifier
from skfairdp.inprocessing.fermi import DPFermiClassifier
from skfairdp.inprocessing.functional_mechanism import FunctionalMechanismClassifier
from skfairdp.inprocessing.importance_sampling import ImportanceSamplingDPSGDClassifier
from skfairdp.inprocessing.lagrangian_dual import LagrangianDualClassifier
from skfairdp.inprocessing.public_parity import PublicParity
from skfairdp.inprocessing.randomized_attribute import RandomizedAttributeClassifier
from skfairdp.inprocessing.rate_constrained import RateConstrainedClassifier

__all__ = [
    "CovarianceConstrainedClassifier",
    "DPFermiClassifier",
    "DPSGDClassifier",
    "DPSGDFClassifier",
    "FairDPClassifier",
    "FunctionalMechanismClassifier",
    "ImportanceSamplingDPSGDClassifier",
    "LagrangianDualClassifier",
    "PublicParity",
    "RandomizedAttributeClassifier",
    "RateConstrainedClassifier",
]
