from . import (
    additive,
    aggregation,
    audit,
    certificate,
    comparators,
    datasets,
    fairness,
    inprocessing,
    interchange,
    metrics,
    model_selection,
    monitoring,
    postprocessing,
    preprocessing,
    privacy,
    receipts,
    representation,
)
from .additive import DPAdditiveClassifier, DPAdditiveRegressor
from .aggregation import FairPATEClassifier, PATEClassifier, PublicRows, SFPATEClassifier
from .certificate import Certificate, certify
from .comparators.covariance import CovarianceConstrainedClassifier
from .engine.nets import default_net
from .fairness import certifiable
from .inprocessing import (
    DPFermiClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPathClassifier,
    FairPathRegressor,
    FunctionalMechanismClassifier,
    ImportanceSamplingDPSGDClassifier,
    LagrangianDualClassifier,
    RandomizedAttributeClassifier,
    RateConstrainedClassifier,
    fit_many,
)
from .monitoring import GapMonitor
from .postprocessing import AbstainingClassifier, SmoothedClassifier
from .preprocessing import PrivateTableEncoder, PrivateThinningClassifier
from .privacy import PrivacyLedger
from .receipts import Quote, quote
from .representation import LaplaceTransformer, PrivateFairEncoder

__all__ = [
    "additive",
    "aggregation",
    "audit",
    "certificate",
    "comparators",
    "datasets",
    "fairness",
    "inprocessing",
    "interchange",
    "metrics",
    "model_selection",
    "monitoring",
    "postprocessing",
    "preprocessing",
    "privacy",
    "receipts",
    "representation",
    "AbstainingClassifier",
    "Certificate",
    "CovarianceConstrainedClassifier",
    "DPAdditiveClassifier",
    "DPAdditiveRegressor",
    "DPFermiClassifier",
    "DPSGDClassifier",
    "DPSGDFClassifier",
    "DPSGDRegressor",
    "FairDPClassifier",
    "FairPATEClassifier",
    "FairPathClassifier",
    "FairPathRegressor",
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
    "Quote",
    "RandomizedAttributeClassifier",
    "RateConstrainedClassifier",
    "SFPATEClassifier",
    "SmoothedClassifier",
    "certifiable",
    "certify",
    "default_net",
    "fit_many",
    "quote",
]

__version__: str
