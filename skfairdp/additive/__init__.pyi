from .classifier import DPAdditiveClassifier
from .regressor import DPAdditiveRegressor

__all__ = ["DPAdditiveClassifier", "DPAdditiveRegressor"]
