from .attribute.lagrangian_dual import LagrangianDualClassifier
from .attribute.randomized import RandomizedAttributeClassifier
from .dpsgd import DPSGDClassifier, DPSGDRegressor
from .dpsgdf import DPSGDFClassifier
from .fair_numbers.regressor import FairPathRegressor
from .fair_path.classifier import FairPathClassifier
from .fair_path.display import FairPathDisplay
from .fairdp.classifier import FairDPClassifier
from .fermi import DPFermiClassifier
from .functional.classifier import FunctionalMechanismClassifier
from .importance_sampling import ImportanceSamplingDPSGDClassifier
from .many import fit_many
from .public_parity import PublicParity
from .rates.classifier import RateConstrainedClassifier

__all__ = [
    "DPFermiClassifier",
    "DPSGDClassifier",
    "DPSGDRegressor",
    "DPSGDFClassifier",
    "FairDPClassifier",
    "FairPathClassifier",
    "FairPathRegressor",
    "FairPathDisplay",
    "FunctionalMechanismClassifier",
    "ImportanceSamplingDPSGDClassifier",
    "LagrangianDualClassifier",
    "PublicParity",
    "RandomizedAttributeClassifier",
    "RateConstrainedClassifier",
    "fit_many",
]
