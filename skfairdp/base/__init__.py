"""Contract of every estimator: fit, predict, certify."""

from skfairdp.base.estimator import PrivateEstimator
from skfairdp.base.predictors import (
    Planned,
    PrivateClassifier,
    PrivatePredictor,
    PrivateRegressor,
)
from skfairdp.protocol import Certifiable

__all__ = [
    "Certifiable",
    "Planned",
    "PrivateClassifier",
    "PrivateEstimator",
    "PrivatePredictor",
    "PrivateRegressor",
]
